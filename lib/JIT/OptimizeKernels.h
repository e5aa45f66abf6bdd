//===- OptimizeKernels.h - LLVM pass pipeline for kernels -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_OPTIMIZEKERNELS_H
#define MPC_LIB_JIT_OPTIMIZEKERNELS_H

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace mpc {

/// Runs LLVM passes over `module` before code generation by `machine`.
void optimizeKernels(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace mpc

#endif // MPC_LIB_JIT_OPTIMIZEKERNELS_H
