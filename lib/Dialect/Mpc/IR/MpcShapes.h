//===- MpcShapes.h - shape rules of inference and verifiers -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to this directory.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_IR_MPCSHAPES_H
#define MPC_LIB_DIALECT_MPC_IR_MPCSHAPES_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include <optional>

namespace mpc::shapes {

using Shape = llvm::SmallVector<int64_t>;

/// Emits "'op' message" at `loc` if given; always returns failure.
template <typename... Args>
llvm::LogicalResult fail(std::optional<mlir::Location> loc, llvm::StringRef op,
                         Args &&...args) {
  return mlir::emitOptionalError(loc, "'", op, "' ",
                                 std::forward<Args>(args)...);
}

inline mlir::RankedTensorType tensor(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

/// Formats a shape for diagnostics.
std::string toString(llvm::ArrayRef<int64_t> shape);

/// NumPy broadcast of two shapes; nullopt if incompatible. A dynamic extent
/// against 1 or another dynamic extent stays dynamic.
std::optional<Shape> broadcast(llvm::ArrayRef<int64_t> a,
                               llvm::ArrayRef<int64_t> b);

/// Fails unless `values` is a static shape.
llvm::LogicalResult requireStatic(std::optional<mlir::Location> loc,
                                  llvm::StringRef op, mlir::ValueRange values);

/// Fails unless 0 <= axis < rank.
llvm::LogicalResult requireAxis(std::optional<mlir::Location> loc,
                                llvm::StringRef op, int64_t axis, int64_t rank);

/// Fails unless axes are ascending, unique and inside the rank.
llvm::LogicalResult requireAxes(std::optional<mlir::Location> loc,
                                llvm::StringRef op,
                                llvm::ArrayRef<int64_t> axes, int64_t rank);

/// Fails if the element types of `values` differ.
llvm::LogicalResult requireSameElementType(std::optional<mlir::Location> loc,
                                           llvm::StringRef op,
                                           mlir::ValueRange values);

/// Checks a norm over the axes from `axis` on: an axis inside the rank, scales
/// (null ones skipped) that broadcast to the normalized extents, a finite,
/// nonnegative epsilon, one element type for all operands.
llvm::LogicalResult requireTrailingNorm(mlir::Operation *op,
                                        mlir::RankedTensorType input,
                                        int64_t axis, mlir::ValueRange scales,
                                        const llvm::APFloat &epsilon);

/// Checks a norm per channel (axis 1): scales `[channels]`, and epsilon and
/// types as in requireTrailingNorm.
llvm::LogicalResult requireChannelNorm(mlir::Operation *op,
                                       mlir::RankedTensorType input,
                                       mlir::ValueRange scales,
                                       const llvm::APFloat &epsilon);

/// Returns true if `actual` equals `inferred` up to a wider float element type.
bool isSameOrWider(mlir::TypeRange inferred, mlir::TypeRange actual);

/// A sliding window over the spatial dimensions of an image.
struct Window {
  llvm::ArrayRef<int64_t> size, strides, padLow, padHigh, dilations;
  bool ceilMode = false;
};

/// Computes the spatial result extents; checks C1 of pooling, C2 and C4 of
/// convolutions.
llvm::FailureOr<Shape> slide(std::optional<mlir::Location> loc,
                             llvm::StringRef op,
                             llvm::ArrayRef<int64_t> spatial,
                             const Window &window);

/// Splits an image's shape into batch, channels and spatial extents.
struct Image {
  int64_t batch, channels;
  Shape spatial;
  Image(llvm::ArrayRef<int64_t> shape, ImageLayout layout);
  static Shape join(int64_t batch, int64_t channels,
                    llvm::ArrayRef<int64_t> spatial, ImageLayout layout);
};

} // namespace mpc::shapes

#endif // MPC_LIB_DIALECT_MPC_IR_MPCSHAPES_H
