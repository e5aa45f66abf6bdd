//===- RegionAnalysis.h - recognition of comparator regions -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Regions that only compare and select are identified by evaluation: the result
// depends only on the order of the arguments among themselves and relative to
// constants, and a few sample numbers cover all orders.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_STABLEHLO_REGIONANALYSIS_H
#define MPC_LIB_IMPORT_STABLEHLO_REGIONANALYSIS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Region.h"

#include <optional>

namespace mpc::hlo {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Returns true if a region of (value, position) pairs selects the largest
/// value, false for the smallest, with the first position of equal values and
/// NaN before all; nullopt for other regions.
std::optional<bool> findsExtremum(mlir::Region &region, mlir::ModuleOp module);

/// Sort order of a comparator.
struct SortOrder {
  /// Index of the operand that is compared.
  unsigned key = 0;
  bool descending = false;
};
/// Returns the order of a comparator; nullopt unless it compares one operand,
/// with NaN last (first if descending).
std::optional<SortOrder> sortOrder(mlir::Region &region, mlir::ModuleOp module);

} // namespace mpc::hlo

#endif // MPC_LIB_IMPORT_STABLEHLO_REGIONANALYSIS_H
