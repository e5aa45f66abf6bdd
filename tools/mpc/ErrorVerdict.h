//===- ErrorVerdict.h - check results in reports ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Floats have errors and a tolerance. Integers are classes, indices or
// booleans: a report counts how many differ.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_ERRORVERDICT_H
#define MPC_TOOLS_MPC_ERRORVERDICT_H

#include "Reporter.h"

#include "mpc/Reference/Compare.h"

#include <string>
#include <vector>

namespace mpc::tool {

/// Returns the heading of a table of errors: `first`, the rms error beside the
/// tolerance that it is compared with, the largest absolute error, the verdict.
std::vector<std::string> headingOf(std::vector<std::string> first);

/// Returns the row of `tensor` in that table. Errors of integers, whose
/// distance is meaningless, are "-". The verdict is "ok", "OVER TOLERANCE", or
/// how many integers differ (in capitals if fatal) and how many did in the
/// oracle's storage-rounding mode.
std::vector<std::string> rowOf(std::vector<std::string> first,
                               const reference::OutputError &error,
                               const reference::Tensor &tensor, bool holds);

/// Adds to an output's entry what only floats have (errors relative to the
/// terms of each element) or only integers (the number that differ).
void addErrorFields(Json &entry, const reference::OutputError &error,
                    const reference::Tensor &tensor);

/// Returns a sentence, without its subject, about a tolerance that accepts
/// wrong values: zeros, or a single element that is off by all of its terms.
/// Empty if the tolerance is smaller.
std::string describeWeakTolerance(const reference::OutputError &error,
                                  const reference::Tensor &tensor);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_ERRORVERDICT_H
