//===- MachineCode.cpp - machine code of compiled kernels -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MachineCode.h"

#include "JIT/OrcJit.h"
#include "mpc/Target/CPU/Codegen.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm-c/Disassembler.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/TargetSelect.h"

using namespace mpc;
using namespace mpc::cpu;

std::vector<std::string> mpc::machineCode(const std::string &text,
                                          const CpuTarget &target) {
  mlir::DialectRegistry registry;
  registerCodegenDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module || mlir::failed(lowerKernels(*module, target)))
    return {};
  auto objects = llvm::cantFail(compileObjects(*module, target, 1));
  llvm::InitializeNativeTargetDisassembler();
  LLVMDisasmContextRef disassembler = LLVMCreateDisasmCPUFeatures(
      "x86_64-unknown-linux-gnu", target.llvmCpu().c_str(),
      target.llvmFeatures().c_str(), nullptr, 0, nullptr, nullptr);
  std::vector<std::string> lines;
  for (auto &buffer : objects) {
    auto object = llvm::cantFail(
        llvm::object::ObjectFile::createObjectFile(buffer->getMemBufferRef()));
    for (llvm::object::SectionRef section : object->sections()) {
      if (!section.isText())
        continue;
      llvm::StringRef code = llvm::cantFail(section.getContents());
      for (size_t at = 0; at < code.size();) {
        char line[256];
        size_t bytes = LLVMDisasmInstruction(
            disassembler,
            reinterpret_cast<uint8_t *>(const_cast<char *>(code.data())) + at,
            code.size() - at, at, line, sizeof(line));
        lines.push_back(bytes ? line : "?");
        at += std::max<size_t>(bytes, 1);
      }
    }
  }
  LLVMDisasmDispose(disassembler);
  return lines;
}

int64_t mpc::count(const std::vector<std::string> &lines,
                   const std::string &name) {
  return llvm::count_if(lines, [&](llvm::StringRef line) {
    line = line.ltrim();
    // A prefix of instructions that also have an EVEX encoding.
    line.consume_front("{vex}");
    return line.ltrim().split('\t').first.split(' ').first == name;
  });
}
