//===- ConstantTransforms.h - layout transforms of constants ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Transposes, slices and packs the bytes of constants.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRANSFORMS_CONSTANTTRANSFORMS_H
#define MPC_DIALECT_MPC_TRANSFORMS_CONSTANTTRANSFORMS_H

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

namespace mpc {

/// Returns the key of a constant derived from `attr`: the resource's key with
/// `suffix`, or `suffix` if `attr` is not a resource.
std::string derivedConstantName(mlir::ElementsAttr attr,
                                llvm::StringRef suffix);

/// Returns the same elements in another shape.
mlir::FailureOr<mlir::ElementsAttr>
reshapeConstant(mlir::ElementsAttr attr, mlir::RankedTensorType type);

/// Transposes: result dimension i is dimension `permutation[i]`.
mlir::FailureOr<mlir::ElementsAttr>
transposeConstant(mlir::ElementsAttr attr, llvm::ArrayRef<int64_t> permutation);

/// Strided slice; unit steps by default.
mlir::FailureOr<mlir::ElementsAttr>
sliceConstant(mlir::ElementsAttr attr, llvm::ArrayRef<int64_t> offsets,
              llvm::ArrayRef<int64_t> sizes,
              llvm::ArrayRef<int64_t> steps = {});

/// Reverses the order along `axes`.
mlir::FailureOr<mlir::ElementsAttr>
reverseConstant(mlir::ElementsAttr attr, llvm::ArrayRef<int64_t> axes);

/// Concatenates along `axis`; other extents must agree.
mlir::FailureOr<mlir::ElementsAttr>
concatConstants(llvm::ArrayRef<mlir::ElementsAttr> attrs, int64_t axis);

/// Pads each dimension's `groups` runs from `from` to `to` elements with
/// `fill`.
mlir::FailureOr<mlir::ElementsAttr> padConstant(mlir::ElementsAttr attr,
                                                llvm::ArrayRef<int64_t> groups,
                                                llvm::ArrayRef<int64_t> from,
                                                llvm::ArrayRef<int64_t> to,
                                                double fill);

/// Strided view of a matrix to pack. Offset of element (group, column, row):
/// `group * groupStride + column * columnStride + (row % rowSplit) * rowStride
/// + (row / rowSplit) * outerRowStride`.
struct PackSource {
  int64_t groups = 1, columns = 0, rows = 0;
  int64_t groupStride = 0, columnStride = 0, rowStride = 0;
  int64_t rowSplit = 1, outerRowStride = 0;
  /// Rows per run as in `#mpc.packed`; 0: all.
  int64_t run = 0;
};

/// Packs into `[groups * ceil(columns / packed.columns), steps, packed.depth *
/// packed.columns]` as `#mpc.packed` describes.
mlir::FailureOr<mlir::ElementsAttr> packConstant(mlir::ElementsAttr attr,
                                                 const PackSource &source,
                                                 PackedAttr packed);

/// Upconverts f16 or bf16 elements to f32, which is exact.
mlir::FailureOr<mlir::ElementsAttr> widenConstant(mlir::ElementsAttr attr);

/// Returns the result of `op`, which moves or upconverts large constants, by
/// the functions above, which defer it; failure for other ops.
mlir::FailureOr<mlir::ElementsAttr> transformConstant(mlir::Operation *op);

} // namespace mpc

#endif // MPC_DIALECT_MPC_TRANSFORMS_CONSTANTTRANSFORMS_H
