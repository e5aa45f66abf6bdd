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

/// In-process machine code, compiled on several threads. The code lives as long
/// as this object. Not thread-safe; the generated code is.
class OrcJit {
public:
  /// Generates code for `target`, which this machine must support;
  /// `compileThreads` of 1 or less compiles in the calling thread. Compiling a
  /// module fails if `shouldStop` returns true before it.
  static llvm::Expected<std::unique_ptr<OrcJit>>
  create(const cpu::CpuTarget &target, unsigned compileThreads,
         std::function<bool()> shouldStop = {});
  ~OrcJit();

  /// Compiles every function of `module` (LLVM dialect, see lowerKernels).
  /// Fails if the code calls a function outside of the allow-list, for example
  /// of libm: generated code never depends on the host process.
  llvm::Error add(mlir::ModuleOp module);

  /// Returns the address of an external function that was added.
  llvm::Expected<void *> lookup(llvm::StringRef name);

  /// Relocatable objects compiled so far, in unspecified order.
  llvm::ArrayRef<std::unique_ptr<llvm::MemoryBuffer>> objects() const;

  /// Undefined symbols that an object may have.
  static llvm::ArrayRef<llvm::StringRef> allowedSymbols();

private:
  struct Impl;
  explicit OrcJit(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

/// Cross-compiles `module`, as OrcJit::add does, to relocatable objects.
/// Objects and their order depend on the module and the target only, not on
/// `threads`.
llvm::Expected<llvm::SmallVector<std::unique_ptr<llvm::MemoryBuffer>>>
compileObjects(mlir::ModuleOp module, const cpu::CpuTarget &target,
               unsigned threads, const std::function<bool()> &shouldStop = {});

} // namespace mpc

#endif // MPC_LIB_JIT_ORCJIT_H
