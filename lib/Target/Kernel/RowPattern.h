//===- RowPattern.h - pattern of row kernels --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to this folder.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_ROWPATTERN_H
#define MPC_LIB_TARGET_KERNEL_ROWPATTERN_H

#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"

#include "LoopKernels.h"

namespace mpc {

/// Returns true if `value` depends on an op that satisfies `is`.
bool dependsOn(mlir::Value value,
               llvm::function_ref<bool(mlir::Operation *)> is);

/// The row structure of a kernel body.
struct RowPattern {
  llvm::SmallVector<int64_t> shape, axes;
  /// The reducing ops, operands first.
  llvm::SmallVector<mlir::Operation *> ops;
  /// Reshapes of values that exist once per row.
  llvm::SmallVector<ReshapeOp> reshapes;
  /// Values that depend on a reducing op: true where there is one per element.
  llvm::DenseMap<mlir::Value, bool> dependent;
  /// Whether argmax and argmin count as reducing ops; set before `analyze`.
  bool takesPositions = false;

  bool isVertical() const {
    return !llvm::is_contained(axes, static_cast<int64_t>(shape.size()) - 1);
  }
  bool isAxis(size_t dim) const {
    return llvm::is_contained(axes, static_cast<int64_t>(dim));
  }
  /// Elements per row, and number of rows.
  int64_t length() const {
    int64_t product = 1;
    for (int64_t axis : axes)
      product *= shape[axis];
    return product;
  }
  int64_t rows() const { return productOf(rowShape(/*keepDims=*/false)); }
  /// The shape of one number per row, with extent 1 for (without) the axes.
  llvm::SmallVector<int64_t> rowShape(bool keepDims) const {
    llvm::SmallVector<int64_t> result;
    for (auto [dim, extent] : llvm::enumerate(shape))
      if (!isAxis(dim))
        result.push_back(extent);
      else if (keepDims)
        result.push_back(1);
    return result;
  }

  /// Returns true if one loop can reduce for all ops: they are reductions, and
  /// none reads another's result.
  bool fitsOneWalk() const {
    return llvm::all_of(ops, [&](mlir::Operation *op) {
      return op->hasTrait<ReducesRows>() &&
             !dependent.contains(op->getOperand(0));
    });
  }
  /// Returns true if a tensor depends on a reducing op and has one value per
  /// row.
  bool isPerRow(mlir::Value tensor) const {
    auto found = dependent.find(tensor);
    return found != dependent.end() && !found->second;
  }
  /// Indices of a per-row value of `shape`, in the row of the full-rank indices
  /// `at` (entries at the axes are ignored).
  llvm::SmallVector<mlir::Value>
  rowIndices(ElementEmitter &emitter, mlir::ValueRange at,
             llvm::ArrayRef<int64_t> shape) const;

  /// Matches the ops that `roots` need; fails if they have another form.
  mlir::LogicalResult analyze(const ElementEmitter &emitter,
                              llvm::ArrayRef<Root> roots);

private:
  mlir::LogicalResult addRowOp(mlir::Operation *op);
  mlir::LogicalResult addDependent(mlir::Operation *op);
  /// Returns true if a per-row operand broadcasts to the full shape along its
  /// rows.
  bool alignsWithRows(llvm::ArrayRef<int64_t> operand) const;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_ROWPATTERN_H
