//===- CompiledKernel.h - one compiled kernel to call -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TARGET_CPU_COMPILEDKERNEL_H
#define MPC_TEST_UNIT_TARGET_CPU_COMPILEDKERNEL_H

#include "JIT/OrcJit.h"
#include "mpc/Target/CPU/Codegen.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace mpc {

/// A kernel `@k`, which runs on the whole of its buffers; not ok() if it
/// could not be compiled.
class Compiled {
public:
  Compiled(const std::string &text, cpu::CpuTarget target) {
    mlir::DialectRegistry registry;
    cpu::registerCodegenDialects(registry);
    mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
    mlir::OwningOpRef<mlir::ModuleOp> module =
        mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    if (!module)
      return;
    mlir::FailureOr<llvm::SmallVector<cpu::KernelInfo>> infos =
        cpu::lowerKernels(*module, target);
    if (mlir::failed(infos))
      return;
    items = infos->front().items;
    scratch.resize(infos->front().scratchBytes + 64);
    llvm::Expected<std::unique_ptr<OrcJit>> created = OrcJit::create(target, 1);
    jit = llvm::cantFail(std::move(created));
    llvm::cantFail(jit->add(*module));
    function =
        reinterpret_cast<decltype(function)>(llvm::cantFail(jit->lookup("k")));
  }

  bool ok() const { return function != nullptr; }
  void run(std::initializer_list<void *> buffers) {
    std::vector<void *> list(buffers);
    function(list.data(), 0, items, scratch.data());
  }

private:
  std::unique_ptr<OrcJit> jit;
  void (*function)(void *const *, int64_t, int64_t, void *) = nullptr;
  int64_t items = 0;
  std::vector<char> scratch;
};

} // namespace mpc

#endif // MPC_TEST_UNIT_TARGET_CPU_COMPILEDKERNEL_H
