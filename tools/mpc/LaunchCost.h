//===- LaunchCost.h - roofline model of a launch ----------------*- C++ -*-===//
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

/// Returns the compute types of contractions, by name; `function` is after the
/// precision stage.
llvm::StringMap<MathType> multipliedTypes(mlir::func::FuncOp function);

/// Returns the modeled time of a launch on `target` in seconds, on a CPU for
/// one core: the maximum of compute and memory time, plus launch overhead.
/// `target` must have peak rates.
double modelledSeconds(const Launch &launch, const TargetInfo &target,
                       const llvm::StringMap<MathType> &multiplied);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_LAUNCHCOST_H
