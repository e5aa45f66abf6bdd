//===- LaunchCost.h - what a launch takes by the ceilings -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_LAUNCHCOST_H
#define MPC_TOOLS_MPC_LAUNCHCOST_H

#include "mpc/Runtime/Program.h"
#include "mpc/Target/TargetInfo.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/StringMap.h"

namespace mpc::tool {

/// In which type the contractions multiply, by their names; `function` is after
/// the precision stage.
llvm::StringMap<MathType> multipliedTypes(mlir::func::FuncOp function);

/// Seconds of a launch at the rates of `target`, of a CPU on one core: the
/// longer of its operations and its bytes, and what a launch costs by itself.
/// `target` has ceilings.
double modelledSeconds(const Launch &launch, const TargetInfo &target,
                       const llvm::StringMap<MathType> &multiplied);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_LAUNCHCOST_H
