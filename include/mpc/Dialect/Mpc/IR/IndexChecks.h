//===- IndexChecks.h - run-time bounds checks -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A gather clamps an out-of-range index and a scatter drops it. If that is an
// error in the model's framework, importers mark the op (kCheckedIndicesAttr).
// mpc-add-index-checks numbers the marked ops of a function and adds one
// operand to their fusions, a constant of index checks: one word per check, of
// a type that lists them. Kernels store a bad index in its word. The planner
// and the fusion passes treat it as any other constant; the runtime gives each
// run its own words and reads them afterwards. Outputs are checked for
// non-finite values when stored, except for those that the model's constants
// produce (kExemptAttr).
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_INDEXCHECKS_H
#define MPC_DIALECT_MPC_IR_INDEXCHECKS_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

#include <optional>

namespace mpc {

/// Attribute of a gather or scatter: an index out of range is an error. A unit
/// attribute for indices, which may count from the end; kLengths for lengths
/// and positions, which must not be negative.
inline constexpr llvm::StringLiteral kCheckedIndicesAttr = "mpc.checked",
                                     kLengths = "lengths";

/// i64 attribute of such an op in a fusion or kernel: index of its word, or of
/// the first one for index tuples.
inline constexpr llvm::StringLiteral kIndexCheckAttr = "mpc.index_check";

/// i64 attribute of a function result and its exe.result: set of the NonFinite
/// values (Runtime/Program.h) that the model's constants produce there.
inline constexpr llvm::StringLiteral kExemptAttr = "mpc.exempt";

/// One word of the index checks.
struct IndexCheck {
  /// Name of the op in the model.
  llvm::StringRef op;
  /// Valid indices are in [-extent, extent), lengths in [0, extent).
  int64_t extent;
  /// Function argument that holds the indices; -1 if they are computed.
  int64_t argument;
  bool isLength = false;
};

/// Returns tensor<Nxi64, [checks]>.
mlir::RankedTensorType indexChecksType(mlir::MLIRContext *context,
                                       llvm::ArrayRef<IndexCheck> checks);

/// Returns the checks listed in such a type; nullopt for any other type.
std::optional<llvm::SmallVector<IndexCheck>> indexChecksOf(mlir::Type type);

/// Returns the index-checks argument of `block`, a kernel's body, or null.
mlir::BlockArgument indexChecksArgument(mlir::Block &block);

/// Returns true if `op` is marked with kLengths.
bool checksLengths(mlir::Operation *op);

/// Returns the extents of the dimensions that a gather or scatter indexes, one
/// per component of an index; empty for other ops.
llvm::SmallVector<int64_t> indexedExtents(mlir::Operation *op);

} // namespace mpc

#endif // MPC_DIALECT_MPC_IR_INDEXCHECKS_H
