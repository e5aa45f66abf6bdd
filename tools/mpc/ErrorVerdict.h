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

namespace mpc::tool {

/// Formats `number` in a table of `tensor`'s errors; "-" for integers, whose
/// distance is meaningless.
std::string errorCell(double number, const reference::Tensor &tensor);

/// Formats the last cell of a row: "ok", "OVER TOLERANCE", or how many integers
/// of `tensor` differ (in capitals if fatal) and how many did in the oracle's
/// storage-rounding mode.
std::string verdict(const reference::OutputError &error,
                    const reference::Tensor &tensor, bool holds);

/// Adds to an output's entry what only floats have (errors relative to the
/// terms of each element) or only integers (the number that differ).
void addErrorFields(Json &entry, const reference::OutputError &error,
                    const reference::Tensor &tensor);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_ERRORVERDICT_H
