//===- PolicyMeasurements.h - a model under a policy ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_POLICYMEASUREMENTS_H
#define MPC_TOOLS_MPC_POLICYMEASUREMENTS_H

#include <optional>

namespace mpc::tool {

struct PolicyMeasurements {
  /// Error against float64, in the unit of the budget.
  double error = 0;
  /// Bytes that kernels read and write.
  double bytes = 0;
  /// Bytes of constants and of the arena's maximum live size.
  double memory = 0;
  /// Time of one run; absent if not measured.
  std::optional<double> seconds;
};

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_POLICYMEASUREMENTS_H
