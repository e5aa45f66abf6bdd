//===- ScalarBody.h - what a region of scalars decides ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Regions that only compare and select are told by what they do: their result
// follows from how their arguments are ordered among themselves and around the
// constants in them, and few numbers have every order.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_STABLEHLO_SCALARBODY_H
#define MPC_LIB_IMPORT_STABLEHLO_SCALARBODY_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Region.h"

#include <optional>

namespace mpc::hlo {

/// Whether a region of (value, position) pairs gives the pair of the largest
/// (true) or smallest (false) value, of equal ones the first, NaN before all;
/// nullopt where it does neither.
std::optional<bool> findsExtremum(mlir::Region &region, mlir::ModuleOp module);

/// How a comparator of a sort orders.
struct SortOrder {
  /// The operand that decides.
  unsigned key = 0;
  bool descending = false;
};
/// What a comparator orders by; nullopt where that is not one operand's
/// numbers, NaN last (first where it descends).
std::optional<SortOrder> sortOrder(mlir::Region &region, mlir::ModuleOp module);

} // namespace mpc::hlo

#endif // MPC_LIB_IMPORT_STABLEHLO_SCALARBODY_H
