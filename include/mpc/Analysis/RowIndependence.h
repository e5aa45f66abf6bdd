//===- RowIndependence.h - rows that do not know each other -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A dimension may be padded by a caller, and the results cut, where no row of a
// result along it depends on another row of an input, nor on how many there
// are. Both are told from one model imported twice, with different extents.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_ROWINDEPENDENCE_H
#define MPC_ANALYSIS_ROWINDEPENDENCE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cstdint>
#include <optional>
#include <string>

namespace mpc {

/// Where rows stand in a value: dimension `dim` holds, several times one after
/// the other, each row as `width` elements. With n rows, its extent is a
/// multiple of n * width.
struct RowPlace {
  unsigned dim = 0;
  int64_t width = 1;
};

/// What is known of the rows of a function.
struct RowIndependence {
  enum class Outcome {
    /// Each row of a result depends on the same row of the arguments.
    Independent,
    /// Rows are mixed, as a diagnostic says at the op that does it.
    Mixed,
    /// The two functions are different programs.
    OtherProgram,
  };
  Outcome outcome = Outcome::Mixed;
  /// Of each result, where its rows are; nullopt where it has none and is the
  /// same for any number of them.
  llvm::SmallVector<std::optional<RowPlace>> results;
};

/// Compares `few` and `many`, functions of one block and one context that were
/// imported from one model with `fewRows` and with `manyRows` in a dimension of
/// some arguments, and follows the rows through both. Where they are
/// independent, `many` gives for the first `fewRows` rows what `few` gives, up
/// to the order in which a kernel adds; the other rows may hold anything.
/// Diagnostics speak of `dimension` and stand at ops of `many`.
RowIndependence followRows(mlir::func::FuncOp few, mlir::func::FuncOp many,
                           int64_t fewRows, int64_t manyRows,
                           llvm::StringRef dimension);

} // namespace mpc

#endif // MPC_ANALYSIS_ROWINDEPENDENCE_H
