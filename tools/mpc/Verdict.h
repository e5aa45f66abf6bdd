//===- Verdict.h - how reports show a judgement -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Floats have errors and a tolerance. Integers name classes, positions or
// truth: of them a report says how many differ.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_VERDICT_H
#define MPC_TOOLS_MPC_VERDICT_H

#include "Reporter.h"

#include "mpc/Reference/Compare.h"

namespace mpc::tool {

/// `number` for a table of `tensor`'s errors; "-" for integers, whose distance
/// says nothing.
std::string errorCell(double number, const reference::Tensor &tensor);

/// The last cell of a row: "ok", "OVER TOLERANCE", or how many of the integers
/// of `tensor` differ (in capitals where that is fatal) and how many did in the
/// oracle's storage-rounding mode.
std::string verdict(const reference::OutputError &error,
                    const reference::Tensor &tensor, bool holds);

/// Adds to an output's entry what only floats have (errors relative to the
/// terms of each element) or only integers (how many differ).
void addErrorFields(Json &entry, const reference::OutputError &error,
                    const reference::Tensor &tensor);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_VERDICT_H
