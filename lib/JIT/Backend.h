//===- Backend.h - code generation for planned kernels ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_BACKEND_H
#define MPC_LIB_JIT_BACKEND_H

#include "mpc/Runtime/Program.h"
#include "mpc/Target/TargetInfo.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mpc {

/// Options of code generation.
struct BackendOptions {
  /// Compile threads.
  unsigned threads = 1;
  /// Folder for generated code, next to the IR dumps; empty: none.
  std::string dumpDir;
  /// As CompileOptions::shouldStop.
  std::function<bool()> shouldStop;

  bool stops() const { return shouldStop && shouldStop(); }
};

/// Generates code for the planned kernels of one program and one target. Call
/// `lower` first, then `generate` or `generateFile`. Not thread-safe.
class Backend {
public:
  using Create = std::unique_ptr<Backend> (*)(const TargetInfo &,
                                              BackendOptions);
  /// Registers the back end of a target family outside of lib/Target
  /// (addTargetFamily). Call before any other thread compiles.
  static void add(llvm::StringRef family, Create create);

  /// Creates the back end of `target`. Fails, naming the target, if it has no
  /// code generation.
  static Result<std::unique_ptr<Backend>> create(const TargetInfo &target,
                                                 BackendOptions options);
  virtual ~Backend() = default;

  /// Lowers `kernels`, a module that contains only functions with
  /// `mpc.kernel_kind` and the target, to the back end's final IR. On failure a
  /// diagnostic names the kernel, and the module is in an unspecified state.
  virtual mlir::LogicalResult lower(mlir::ModuleOp kernels) = 0;

  /// Returns neighbors of the schedule `around` of the planned kernel `kernel`
  /// in the tuner's search space, or with null the cost model's choice
  /// (neighbouringSchedules in mpc/Target/CPU/Codegen.h); empty if the back end
  /// has no tuning.
  virtual llvm::SmallVector<mlir::Attribute>
  neighbours(mlir::func::FuncOp kernel, mlir::Attribute around) {
    return {};
  }

  /// Attaches code to the launches of `program`, for this process or the
  /// device. `lowered` is the result of `lower`.
  virtual Status generate(mlir::ModuleOp lowered, Program &program) = 0;

  /// The same for a file: returns the object to store next to the program and
  /// to load at run time; empty if the program itself contains the code.
  /// Deterministic.
  virtual Result<std::vector<std::byte>> generateFile(mlir::ModuleOp lowered,
                                                      Program &program) = 0;

protected:
  Backend(const TargetInfo &target, BackendOptions options)
      : target(target), options(std::move(options)) {}

  /// Dumps kernels in an intermediate form as "kernels.NAME.mlir" if there is a
  /// dump folder. On failure emits a diagnostic at the module.
  mlir::LogicalResult dump(mlir::ModuleOp kernels, llvm::StringRef name) const;

  const TargetInfo target;
  const BackendOptions options;
};

/// lib/Target/CPU: LLVM IR, then machine code in this process or a shared
/// object.
std::unique_ptr<Backend> createCpuBackend(const TargetInfo &target,
                                          BackendOptions options);
/// lib/Target/CUDA: CUDA C++, compiled by NVRTC for files.
std::unique_ptr<Backend> createCudaBackend(const TargetInfo &target,
                                           BackendOptions options);

/// Returns true if linkObjects() finds a linker.
bool hasLinker();
/// Links `objects` into a shared object that exports their functions, in a
/// separate linker process. The output contains no file names.
Result<std::vector<std::byte>>
linkObjects(llvm::ArrayRef<std::unique_ptr<llvm::MemoryBuffer>> objects);

} // namespace mpc

#endif // MPC_LIB_JIT_BACKEND_H
