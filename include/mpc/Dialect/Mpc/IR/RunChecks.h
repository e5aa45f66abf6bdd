//===- RunChecks.h - conditions that runs check -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// By itself a gather clamps an index that is out of range and a scatter drops
// it. Where the model's framework calls that an error, importers mark the op
// (kCheckedIndicesAttr). mpc-attach-index-checks numbers the marked ops of a
// function and lets their fusions read one constant, the index checks: a word
// for each, of a type that lists them. Kernels leave a bad index in its word.
// The planner, the fuser and horizontal fusion move the constant as any other;
// the runtime gives each run words of its own and reads them afterwards.
// Outputs in which infinities belong are marked too (kInfiniteAttr); others are
// watched as they are stored.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_RUNCHECKS_H
#define MPC_DIALECT_MPC_IR_RUNCHECKS_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

#include <optional>

namespace mpc {

/// Unit attribute of a gather or scatter: an index out of range is an error.
inline constexpr llvm::StringLiteral kCheckedIndicesAttr = "mpc.checked";

/// i64 attribute of such an op in a fusion or kernel: the number of its word,
/// or, where tuples index several dimensions, of its first one.
inline constexpr llvm::StringLiteral kIndexCheckAttr = "mpc.index_check";

/// Unit attribute of a function's result and of its exe.result: the model
/// itself has infinities or NaNs there.
inline constexpr llvm::StringLiteral kInfiniteAttr = "mpc.infinite";

/// One word of the index checks.
struct IndexCheck {
  /// Name of the op in the model.
  llvm::StringRef op;
  /// Indices lie in [-extent, extent).
  int64_t extent;
  /// Number of the function's argument that holds the indices; -1 where they
  /// are computed.
  int64_t argument;
};

/// tensor<Nxi64, [checks]>.
mlir::RankedTensorType indexChecksType(mlir::MLIRContext *context,
                                       llvm::ArrayRef<IndexCheck> checks);

/// The checks that such a type lists; nullopt for any other type.
std::optional<llvm::SmallVector<IndexCheck>> indexChecksOf(mlir::Type type);

/// The argument of `block`, a kernel's body, that is the index checks, or null.
mlir::BlockArgument indexChecksArgument(mlir::Block &block);

/// Extents of the dimensions that a gather or scatter indexes, one for each
/// number of an index; empty for other ops.
llvm::SmallVector<int64_t> indexedExtents(mlir::Operation *op);

} // namespace mpc

#endif // MPC_DIALECT_MPC_IR_RUNCHECKS_H
