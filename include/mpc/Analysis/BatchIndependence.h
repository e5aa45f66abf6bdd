//===- BatchIndependence.h - batch independence of results ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A caller may pad a dimension and crop the results if no row of a result along
// it depends on another row of an input, nor on their number. Both are verified
// by comparing two imports of one model with different extents.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_BATCHINDEPENDENCE_H
#define MPC_ANALYSIS_BATCHINDEPENDENCE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cstdint>
#include <optional>
#include <string>

namespace mpc {

/// Location of rows in a value: dimension `dim` contains, in consecutive
/// copies, `width` elements per row. With n rows, its extent is a multiple of n
/// * width.
struct RowLocation {
  unsigned dim = 0;
  int64_t width = 1;
};

/// Result of the analysis.
struct BatchIndependence {
  enum class Outcome {
    /// Each row of a result depends on the same row of the arguments.
    Independent,
    /// Rows are mixed; a diagnostic names the op.
    Mixed,
    /// The two functions are different programs.
    OtherProgram,
  };
  Outcome outcome = Outcome::Mixed;
  /// Row location in each result; nullopt if it has no rows and does not depend
  /// on their number.
  llvm::SmallVector<std::optional<RowLocation>> results;
};

/// Compares `few` and `many`, single-block functions in one context, imported
/// from one model with `fewRows` and `manyRows` in a dimension of some
/// arguments, and tracks the rows through both. If they are independent, the
/// first `fewRows` result rows of `many` equal those of `few`, up to summation
/// order; the other rows are unspecified. Diagnostics name `dimension` and are
/// located at ops of `many`.
BatchIndependence checkBatchIndependence(mlir::func::FuncOp few,
                                         mlir::func::FuncOp many,
                                         int64_t fewRows, int64_t manyRows,
                                         llvm::StringRef dimension);

} // namespace mpc

#endif // MPC_ANALYSIS_BATCHINDEPENDENCE_H
