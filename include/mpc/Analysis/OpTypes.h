//===- OpTypes.h - type names for reports -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types of ops and values in a graph after Precision, as reports spell them.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_OPTYPES_H
#define MPC_ANALYSIS_OPTYPES_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include <optional>
#include <string>

namespace mpc {

/// The element type's name, "f32"; unsigned integers as the runtime has them.
std::string typeName(mlir::Type type);

/// Type in which the op multiplies or evaluates: "bf16", or its compute mode,
/// "tf32". The op has a result.
std::string computeTypeName(mlir::Operation *op);

/// Accumulator type of a contraction or a reduction.
std::optional<std::string> accumulateTypeName(mlir::Operation *op);

/// Decision recorded by the precision stage; null if there is none.
DecisionAttr decisionOf(mlir::Operation *op);

/// Returns true if the precision stage inserted this cast; the model's own
/// casts carry a decision.
bool isInsertedCast(mlir::Operation *op);

/// Type in which `result` is stored: its own, or the one narrow type to which
/// all readers cast it.
mlir::Type storageType(mlir::Value result);

} // namespace mpc

#endif // MPC_ANALYSIS_OPTYPES_H
