//===- MpcShapes.h - shape rules of inference and verifiers -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to this folder.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_IR_MPCSHAPES_H
#define MPC_LIB_DIALECT_MPC_IR_MPCSHAPES_H

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include <optional>

namespace mpc::shapes {

using Shape = llvm::SmallVector<int64_t>;

/// Emits `'op' message` at `loc` where there is a location; always fails.
template <typename... Args>
llvm::LogicalResult fail(std::optional<mlir::Location> loc, llvm::StringRef op,
                         Args &&...args) {
  return mlir::emitOptionalError(loc, "'", op, "' ",
                                 std::forward<Args>(args)...);
}

inline mlir::RankedTensorType tensor(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

/// "2x3xf32" as a diagnostic shows a shape.
std::string toString(llvm::ArrayRef<int64_t> shape);

/// NumPy's broadcast of two shapes; nullopt where they do not fit. A dynamic
/// extent against 1 or another dynamic one stays dynamic.
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

/// Fails where the element types of `values` differ.
llvm::LogicalResult requireSameElementType(std::optional<mlir::Location> loc,
                                           llvm::StringRef op,
                                           mlir::ValueRange values);

/// What norms over the axes from `axis` on need: an axis inside the rank,
/// scales (null ones left out) that broadcast to the normalised extents, a
/// finite epsilon that is not negative, one element type for all operands.
llvm::LogicalResult requireTrailingNorm(mlir::Operation *op,
                                        mlir::RankedTensorType input,
                                        int64_t axis, mlir::ValueRange scales,
                                        const llvm::APFloat &epsilon);

/// What norms per channel (axis 1) need: scales `[channels]`, and the last two
/// of requireTrailingNorm.
llvm::LogicalResult requireChannelNorm(mlir::Operation *op,
                                       mlir::RankedTensorType input,
                                       mlir::ValueRange scales,
                                       const llvm::APFloat &epsilon);

/// Whether `actual` is `inferred` up to a wider float element type.
bool isSameOrWider(mlir::TypeRange inferred, mlir::TypeRange actual);

/// A sliding window over the spatial dimensions of an image.
struct Window {
  llvm::ArrayRef<int64_t> size, strides, padLow, padHigh, dilations;
  bool ceilMode = false;
};

/// Result extents of the spatial dimensions; checks C1 of pooling, C2 and C4 of
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
