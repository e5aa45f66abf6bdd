//===- MatchUtils.h - shared matchers of the Simplify passes ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_MATCHUTILS_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_MATCHUTILS_H

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <optional>

namespace mpc {

/// Returns true if `actual` is within four ulps of `expected` in the element
/// type of `like`.
bool isNear(double actual, double expected, mlir::Value like);

inline int64_t rankOf(mlir::Value value) { return shapeOf(value).size(); }

/// The value before a broadcast, or `value` itself.
mlir::Value skipBroadcast(mlir::Value value);
/// The value before a reshape, or `value` itself.
mlir::Value skipReshape(mlir::Value value);

/// Non-splat operand and splat value of a binary op; nullopt if `value` is not
/// produced by `OpTy` or neither side is a splat. The other operand has the
/// result's shape.
struct SplatOperand {
  mlir::Value other;
  double splat;
};
template <typename OpTy>
std::optional<SplatOperand> matchWithSplat(mlir::Value value) {
  auto op = value.getDefiningOp<OpTy>();
  if (!op)
    return std::nullopt;
  for (int side = 0; side < 2; ++side) {
    mlir::Value other = op->getOperand(1 - side);
    std::optional<double> splat = splatValue(op->getOperand(side));
    if (splat && other.getType() == value.getType())
      return SplatOperand{other, *splat};
  }
  return std::nullopt;
}

/// Matches x * constant or x / constant and returns the factor.
std::optional<SplatOperand> matchScaled(mlir::Value value);

/// A flattened product: the constants multiplied, all other factors listed.
/// Includes nested products with a single use; small integer powers become
/// repeated factors.
struct Product {
  double constant = 1;
  llvm::SmallVector<mlir::Value, 4> factors;
  /// Ops that form the product.
  llvm::SmallVector<mlir::Operation *, 4> ops;

  /// Removes one occurrence of `value`; false if there is none.
  bool remove(mlir::Value value);
};
Product flattenProduct(mlir::Value root);

/// Matches a reduction with kept dimensions, looking through a broadcast and a
/// reshape: the value's shape is the input's with the reduced extents 1.
template <typename OpTy> OpTy matchKeptReduction(mlir::Value value) {
  mlir::Value inner = skipBroadcast(value);
  auto op = skipReshape(inner).getDefiningOp<OpTy>();
  if (!op)
    return {};
  llvm::SmallVector<int64_t> kept(shapeOf(op.getInput()));
  for (int64_t axis : op.getAxes())
    kept[axis] = 1;
  if (shapeOf(inner) != llvm::ArrayRef<int64_t>(kept))
    return {};
  return op;
}

/// A mean with kept dimensions: reduce_mean, or reduce_sum / count.
struct Mean {
  mlir::Value input;
  llvm::SmallVector<int64_t> axes;
};
std::optional<Mean> matchMean(mlir::Value value);

/// Counts the ops of type `OpTy`.
template <typename OpTy> int64_t countOps(mlir::Operation *root) {
  int64_t count = 0;
  root->walk([&](OpTy) { ++count; });
  return count;
}

/// A pass that applies patterns to a fixpoint, without folding, which would
/// change the ops that they match.
template <typename BaseT, typename... Patterns> struct PatternPass : BaseT {
  using BaseT::BaseT;

  mlir::LogicalResult initialize(mlir::MLIRContext *context) override {
    mlir::RewritePatternSet set(context);
    set.add<Patterns...>(context);
    patterns = std::move(set);
    return mlir::success();
  }

  /// Applies the patterns; fails the pass, naming `what`, if they do not
  /// converge.
  mlir::LogicalResult rewrite(llvm::StringRef what) {
    mlir::Operation *root = this->getOperation();
    if (mlir::succeeded(mlir::applyPatternsGreedily(
            root, patterns, mlir::GreedyRewriteConfig().enableFolding(false))))
      return mlir::success();
    this->signalPassFailure();
    return root->emitError() << what << " does not converge";
  }

  mlir::FrozenRewritePatternSet patterns;
};

/// Copies the layer path of `from` to `to`.
void copyLayer(mlir::Operation *from, mlir::Operation *to);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_MATCHUTILS_H
