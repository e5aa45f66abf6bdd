//===- Backend.h - code of planned kernels ----------------------*- C++ -*-===//
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

/// How code is made.
struct BackendOptions {
  /// Threads that compile.
  unsigned threads = 1;
  /// Folder that receives code beside the stages' IR; empty: none does.
  std::string dumpDir;
  /// As CompileOptions::shouldStop.
  std::function<bool()> shouldStop;

  bool stops() const { return shouldStop && shouldStop(); }
};

/// Makes code of one program's planned kernels for one target. First `lower`,
/// then one of the others; for one thread.
class Backend {
public:
  using Create = std::unique_ptr<Backend> (*)(const TargetInfo &,
                                              BackendOptions);
  /// Adds the back end of a family that is defined outside of lib/Target
  /// (addTargetFamily). Before any other thread compiles.
  static void add(llvm::StringRef family, Create create);

  /// The one for `target`. Fails, naming the target, where no code is generated
  /// for it.
  static Result<std::unique_ptr<Backend>> create(const TargetInfo &target,
                                                 BackendOptions options);
  virtual ~Backend() = default;

  /// Turns `kernels`, a module of nothing but functions with `mpc.kernel_kind`
  /// and the target, into what the back end has last as IR. On failure a
  /// diagnostic names the kernel, and the module is in no defined state.
  virtual mlir::LogicalResult lower(mlir::ModuleOp kernels) = 0;

  /// Schedules of `kernel`, a planned one, that lie beside `around`, or with
  /// null what the cost model chooses, as neighbouringSchedules
  /// (mpc/Target/CPU/Codegen.h) has them; empty where none is tuned.
  virtual llvm::SmallVector<mlir::Attribute>
  neighbours(mlir::func::FuncOp kernel, mlir::Attribute around) {
    return {};
  }

  /// Gives the launches of `program` their code, for this process or for the
  /// device. `lowered` is what `lower` made.
  virtual Status generate(mlir::ModuleOp lowered, Program &program) = 0;

  /// The same for a file: what is returned is stored beside the program and
  /// loaded where that runs; empty where the program itself holds the code.
  /// Equal modules give equal bytes.
  virtual Result<std::vector<std::byte>> generateFile(mlir::ModuleOp lowered,
                                                      Program &program) = 0;

protected:
  Backend(const TargetInfo &target, BackendOptions options)
      : target(target), options(std::move(options)) {}

  /// Writes kernels on their way to code beside the stages' IR, as
  /// "kernels.NAME.mlir", where there is a folder for them. On failure a
  /// diagnostic at the module says why.
  mlir::LogicalResult dump(mlir::ModuleOp kernels, llvm::StringRef name) const;

  const TargetInfo target;
  const BackendOptions options;
};

/// lib/Target/CPU: LLVM IR, machine code of this process or a shared object.
std::unique_ptr<Backend> createCpuBackend(const TargetInfo &target,
                                          BackendOptions options);
/// lib/Target/CUDA: CUDA C++, and machine code by NVRTC in a file.
std::unique_ptr<Backend> createCudaBackend(const TargetInfo &target,
                                           BackendOptions options);

/// Whether linkObjects() finds its linker.
bool hasLinker();
/// Links `objects` into a shared object that exports their functions. Names of
/// files never get into it. The linker is a process of its own.
Result<std::vector<std::byte>>
linkObjects(llvm::ArrayRef<std::unique_ptr<llvm::MemoryBuffer>> objects);

} // namespace mpc

#endif // MPC_LIB_JIT_BACKEND_H
