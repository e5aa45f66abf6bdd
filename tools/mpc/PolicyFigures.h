//===- PolicyFigures.h - what a model does under a policy -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_POLICYFIGURES_H
#define MPC_TOOLS_MPC_POLICYFIGURES_H

#include <optional>

namespace mpc::tool {

struct PolicyFigures {
  /// Against float64, in the unit of the budget.
  double error = 0;
  /// That kernels read and write.
  double bytes = 0;
  /// Of constants, and of the arena where it holds most.
  double memory = 0;
  /// Of one run; nothing where it was not timed.
  std::optional<double> seconds;
};

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_POLICYFIGURES_H
