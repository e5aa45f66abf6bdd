//===- MatchUtils.h - shared matchers of the Simplify passes ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_MATCHUTILS_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_MATCHUTILS_H

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/MpcOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <optional>

namespace mpc {

/// The value of every element of a constant whose elements are equal.
std::optional<double> splatOf(mlir::Value value);

/// Whether `actual` agrees with `expected` to four units in the last place of
/// the element type of `like`.
bool isNear(double actual, double expected, mlir::Value like);

inline int64_t rankOf(mlir::Value value) { return shapeOf(value).size(); }

/// The value before a broadcast, or `value` itself.
mlir::Value skipBroadcast(mlir::Value value);

/// The operand of a binary op that is no splat constant, and the splat; nullopt
/// where `value` is not made by `OpTy` or neither side is a splat. The other
/// operand has the result's shape.
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
    std::optional<double> splat = splatOf(op->getOperand(side));
    if (splat && other.getType() == value.getType())
      return SplatOperand{other, *splat};
  }
  return std::nullopt;
}

/// x * constant or x / constant, with the factor; nullopt otherwise.
std::optional<SplatOperand> matchScaled(mlir::Value value);

/// A product taken apart: constants multiplied, everything else listed. Inner
/// products are taken apart where only the product reads them; small integer
/// powers become repeated factors.
struct Product {
  double constant = 1;
  llvm::SmallVector<mlir::Value, 4> factors;
  /// The ops that the product consists of.
  llvm::SmallVector<mlir::Operation *, 4> ops;

  /// Removes one occurrence of `value`; false where there is none.
  bool remove(mlir::Value value);
};
Product takeProduct(mlir::Value root);

/// Looks through a broadcast and a reshape for a reduction that keeps its axes
/// as extent 1: the value's shape is the input's with the reduced extents 1.
template <typename OpTy> OpTy matchKeptReduction(mlir::Value value) {
  mlir::Value inner = skipBroadcast(value);
  mlir::Value reduced = inner;
  if (auto reshape = inner.getDefiningOp<ReshapeOp>())
    reduced = reshape.getInput();
  auto op = reduced.getDefiningOp<OpTy>();
  if (!op)
    return {};
  llvm::SmallVector<int64_t> kept(shapeOf(op.getInput()));
  for (int64_t axis : op.getAxes())
    kept[axis] = 1;
  if (shapeOf(inner) != llvm::ArrayRef<int64_t>(kept))
    return {};
  return op;
}

/// The mean of a value, kept as extent 1: reduce_mean, or reduce_sum over the
/// count.
struct Mean {
  mlir::Value input;
  llvm::SmallVector<int64_t> axes;
};
std::optional<Mean> matchMean(mlir::Value value);

/// Number of ops of a kind in a function.
template <typename OpTy> int64_t countOps(mlir::Operation *root) {
  int64_t count = 0;
  root->walk([&](OpTy) { ++count; });
  return count;
}

/// A pass that applies patterns until none matches. Nothing is folded: what
/// they look for would change under them.
template <typename BaseT, typename... Patterns> struct PatternPass : BaseT {
  mlir::LogicalResult initialize(mlir::MLIRContext *context) override {
    mlir::RewritePatternSet set(context);
    set.add<Patterns...>(context);
    patterns = std::move(set);
    return mlir::success();
  }

  /// Fails the pass, in words about `what`, where there is no end.
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
