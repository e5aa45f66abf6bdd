//===- ConstantTransforms.h - constants in another layout -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Transposes, slices and tile layouts of constants, on their bytes.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRANSFORMS_CONSTANTTRANSFORMS_H
#define MPC_DIALECT_MPC_TRANSFORMS_CONSTANTTRANSFORMS_H

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

namespace mpc {

/// The key that a constant derived from `attr` gets: the resource's own with
/// `suffix`, or `suffix` where `attr` is no resource.
std::string derivedConstantName(mlir::ElementsAttr attr,
                                llvm::StringRef suffix);

/// The same elements under another shape of as many elements.
mlir::FailureOr<mlir::ElementsAttr>
reshapeConstant(mlir::ElementsAttr attr, mlir::RankedTensorType type);

/// Result dimension i is dimension `permutation[i]`.
mlir::FailureOr<mlir::ElementsAttr>
transposeConstant(mlir::ElementsAttr attr, llvm::ArrayRef<int64_t> permutation);

/// The elements from `offsets` on, `sizes` of them, `steps` apart (not given:
/// neighbours).
mlir::FailureOr<mlir::ElementsAttr>
sliceConstant(mlir::ElementsAttr attr, llvm::ArrayRef<int64_t> offsets,
              llvm::ArrayRef<int64_t> sizes,
              llvm::ArrayRef<int64_t> steps = {});

/// The order along `axes` turned round.
mlir::FailureOr<mlir::ElementsAttr>
reverseConstant(mlir::ElementsAttr attr, llvm::ArrayRef<int64_t> axes);

/// `attrs` joined along `axis`; they agree in the other extents.
mlir::FailureOr<mlir::ElementsAttr>
concatConstants(llvm::ArrayRef<mlir::ElementsAttr> attrs, int64_t axis);

/// Each dimension's `groups` runs of `from` elements become runs of `to`; new
/// places hold `fill`.
mlir::FailureOr<mlir::ElementsAttr> padConstant(mlir::ElementsAttr attr,
                                                llvm::ArrayRef<int64_t> groups,
                                                llvm::ArrayRef<int64_t> from,
                                                llvm::ArrayRef<int64_t> to,
                                                double fill);

/// Where element (group, column, row) of a matrix that is to be packed lies in
/// the constant: at `group * groupStride + column * columnStride +
/// (row % rowSplit) * rowStride + (row / rowSplit) * outerRowStride`.
struct PackSource {
  int64_t groups = 1, columns = 0, rows = 0;
  int64_t groupStride = 0, columnStride = 0, rowStride = 0;
  int64_t rowSplit = 1, outerRowStride = 0;
  /// Rows of a run as `#mpc.packed` describes; 0: all.
  int64_t run = 0;
};

/// Packs into `[groups * ceil(columns / packed.columns), steps, packed.depth *
/// packed.columns]` as `#mpc.packed` describes.
mlir::FailureOr<mlir::ElementsAttr> packConstant(mlir::ElementsAttr attr,
                                                 const PackSource &source,
                                                 PackedAttr packed);

} // namespace mpc

#endif // MPC_DIALECT_MPC_TRANSFORMS_CONSTANTTRANSFORMS_H
