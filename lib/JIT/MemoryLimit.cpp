//===- MemoryLimit.cpp - memory limit of a compile ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CompileOptions::maxMemory, or this machine's memory, checked on file sizes
// before reading, on types before constants are copied, folded or packed, and
// again after memory planning.
//
//===----------------------------------------------------------------------===//

#include "Compiler.h"

#include "Runtime/Environment.h"

#include "mpc/Dialect/Exe/IR/ExeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Import/ExternalFiles.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mpc;

static constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

/// Returns the size of a tensor in bytes, kEndless on overflow.
static int64_t bytesOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  std::optional<ElementType> element =
      tensor ? runtimeElement(tensor.getElementType()) : std::nullopt;
  int64_t bytes = 0;
  if (!element ||
      llvm::MulOverflow(elementCount(tensor), elementBytes(*element), bytes))
    return kEndless;
  return bytes;
}

static int64_t sum(int64_t lhs, int64_t rhs) {
  int64_t result = 0;
  return llvm::AddOverflow(lhs, rhs, result) ? kEndless : result;
}

static constexpr const char *kRemedy =
    " are allowed; allow more memory or compile for smaller extents";

int64_t mpc::memoryLimit(const CompileOptions &options) {
  return options.maxMemory > 0 ? options.maxMemory
                               : mpc::detail::machineMemory();
}

Status mpc::checkFileMemory(const ModelSource &model, int64_t most) {
  uint64_t size = 0;
  if (!model.isFile() || llvm::sys::fs::file_size(model.name(), size) ||
      size <= uint64_t(most))
    return {};
  return Status(StatusCode::ResourceExhausted, model.name(),
                "has " + std::to_string(size) + " bytes, but at most " +
                    std::to_string(most) + kRemedy);
}

Status mpc::checkExternalMemory(const ModelSource &model,
                                const SourceBytes &bytes, int64_t most) {
  auto files = onnxExternalFiles(
      {reinterpret_cast<const char *>(bytes.bytes.data()), bytes.bytes.size()});
  // The importer refuses invalid models.
  if (!files)
    return {};
  int64_t needed = 0;
  for (const OnnxExternalFile &file : *files)
    needed = sum(needed, file.bytes());
  if (needed <= most)
    return {};
  return Status(StatusCode::ResourceExhausted, model.name(),
                "has tensors of " + std::to_string(needed) +
                    " bytes in other files, but at most " +
                    std::to_string(most) + kRemedy);
}

LogicalResult mpc::checkImportedMemory(ModuleOp module, int64_t most) {
  func::FuncOp function = Compiler::entry(module);
  int64_t kept = 0;
  for (Type type : llvm::concat<const Type>(function.getArgumentTypes(),
                                            function.getResultTypes()))
    kept = sum(kept, bytesOf(type));
  WalkResult result = function.walk([&](Operation *op) {
    for (Type type : op->getResultTypes()) {
      int64_t bytes = bytesOf(type);
      if (bytes > most) {
        op->emitError() << type << " takes " << bytes << " bytes, but at most "
                        << most << kRemedy;
        return WalkResult::interrupt();
      }
      if (isa<mpc::ConstantOp>(op))
        kept = sum(kept, bytes);
    }
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  if (kept <= most)
    return success();
  return function.emitError()
         << "constants, arguments and results take " << kept
         << " bytes, but at most " << most << kRemedy;
}

LogicalResult mpc::checkPlannedMemory(ModuleOp module, int64_t most) {
  for (auto program : module.getOps<exe::ProgramOp>()) {
    int64_t constants = 0, ports = 0, arena = program.getArenaBytes();
    for (exe::ConstantOp constant : program.getProgramConstants())
      constants = sum(constants, bytesOf(constant.getTensorType()));
    for (exe::ArgumentOp argument : program.getProgramArguments())
      ports = sum(ports, bytesOf(argument.getTensorType()));
    for (exe::ResultOp result : program.getProgramResults())
      if (!result.getAliasAttr())
        ports = sum(ports, bytesOf(result.getTensorType()));
    int64_t needed = sum(sum(constants, ports), arena);
    if (needed > most)
      return program.emitError()
             << "the program needs " << needed << " bytes (constants "
             << constants << ", intermediate memory " << arena
             << ", arguments and results " << ports << "), but at most " << most
             << kRemedy;
  }
  return success();
}
