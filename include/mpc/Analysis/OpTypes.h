//===- OpTypes.h - types of ops and values, in words ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a graph after Precision says about types, as reports spell it.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_OPTYPES_H
#define MPC_ANALYSIS_OPTYPES_H

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include <optional>
#include <string>

namespace mpc {

/// The element type's name, "f32"; unsigned integers are spelled as the runtime
/// does.
std::string typeName(mlir::Type type);

/// What the op multiplies or evaluates in: "bf16", or its compute mode,
/// "tf32". The op has a result.
std::string computeTypeName(mlir::Operation *op);

/// The type of a contraction's or a reduction's running sum.
std::optional<std::string> accumulateTypeName(mlir::Operation *op);

/// What the precision stage recorded about the op; null where it did nothing.
DecisionAttr decisionOf(mlir::Operation *op);

/// Whether the precision stage made this cast; the model's own carry a
/// decision.
bool isInsertedCast(mlir::Operation *op);

/// The type in which memory holds `result`: its own, or the one narrow type to
/// which all readers cast it.
mlir::Type storageType(mlir::Value result);

} // namespace mpc

#endif // MPC_ANALYSIS_OPTYPES_H
