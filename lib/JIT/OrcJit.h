//===- OrcJit.h - LLVM dialect to machine code ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_ORCJIT_H
#define MPC_LIB_JIT_ORCJIT_H

#include "mpc/Target/CPU/CpuTarget.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <functional>
#include <memory>

namespace llvm::orc {
class LLJIT;
} // namespace llvm::orc

namespace mpc {

/// Machine code in this process, compiled on several threads. The code lives as
/// long as this object. Not thread-safe; the code it makes is.
class OrcJit {
public:
  /// Code is generated for `target`, which the machine must be able to run;
  /// `compileThreads` of 1 or less compiles in the calling thread. Where
  /// `shouldStop` is true before a module, compiling that one fails.
  static llvm::Expected<std::unique_ptr<OrcJit>>
  create(const CpuTarget &target, unsigned compileThreads,
         std::function<bool()> shouldStop = {});
  ~OrcJit();

  /// Compiles every function of `module` (LLVM dialect, see lowerKernels).
  /// Fails where the code calls a function outside of the allow-list, for
  /// example one of libm: generated code never depends on the process it runs
  /// in.
  llvm::Error add(mlir::ModuleOp module);

  /// Address of an external function that was added.
  llvm::Expected<void *> lookup(llvm::StringRef name);

  /// Relocatable objects compiled so far, in no particular order.
  llvm::ArrayRef<std::unique_ptr<llvm::MemoryBuffer>> objects() const;

  /// The undefined symbols that an object may have.
  static llvm::ArrayRef<llvm::StringRef> allowedSymbols();

private:
  struct Impl;
  explicit OrcJit(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

/// Compiles `module` as OrcJit::add does, for a machine that need not be this
/// one, into relocatable objects. The objects and their order depend on the
/// module and the target alone, not on `threads`.
llvm::Expected<llvm::SmallVector<std::unique_ptr<llvm::MemoryBuffer>>>
compileObjects(mlir::ModuleOp module, const CpuTarget &target, unsigned threads,
               const std::function<bool()> &shouldStop = {});

} // namespace mpc

#endif // MPC_LIB_JIT_ORCJIT_H
