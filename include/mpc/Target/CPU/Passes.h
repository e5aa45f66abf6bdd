//===- Passes.h - passes of the CPU backend ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CPU_PASSES_H
#define MPC_TARGET_CPU_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mpc {

#define GEN_PASS_DECL
#include "mpc/Target/CPU/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "mpc/Target/CPU/Passes.h.inc"

} // namespace mpc

#endif // MPC_TARGET_CPU_PASSES_H
