//===- OptimizeKernels.h - LLVM passes over kernels -------------*- C++ -*-===//
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

/// Runs LLVM's passes over `module`, after which `machine` generates its code.
void optimizeKernels(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace mpc

#endif // MPC_LIB_JIT_OPTIMIZEKERNELS_H
