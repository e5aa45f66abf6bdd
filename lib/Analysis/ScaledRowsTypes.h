//===- ScaledRowsTypes.h - types of attention on 8 bits ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_SCALEDROWSTYPES_H
#define MPC_LIB_ANALYSIS_SCALEDROWSTYPES_H

namespace mpc {

class PlanBuilder;

/// After every op has its plan: where the target takes them as they are, lets
/// attention read 8-bit numbers times a scale of their row without rounding the
/// products again.
void settleScaledRows(PlanBuilder &builder);

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_SCALEDROWSTYPES_H
