//===- FuseGatedMatmuls.cpp - fuse gated layers (SwiGLU) into one GEMM ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Merges two matmuls with a common left-hand side whose results are combined by
// elementwise ops (GLU/SwiGLU). Weight columns are interleaved in blocks, so
// one kernel holds both accumulators of an element. Legal because the columns
// of a matmul are independent. Runs after mpc-assign-layout, which would sink
// the slices, and before mpc-pack-constants.
//
//===----------------------------------------------------------------------===//

#include "MergedMatmuls.h"
#include "OpEmitter.h"

#include "mpc/Analysis/GatedMatmulColumns.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/Transforms/ConstantTransforms.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

namespace mpc {
#define GEN_PASS_DEF_FUSEGATEDMATMULSPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

/// Maximum number of ops between the matmuls and the op that combines them:
/// enough for any activation, few enough to fuse into one kernel.
constexpr int64_t kMostSteps = 16;

/// Returns true if `op` is elementwise with one result, operands for which
/// `isKnown` holds have its shape, and all others are constants.
bool isStep(Operation *op, llvm::function_ref<bool(Value)> isKnown) {
  return isa<ElementwiseOpInterface>(op) && op->getNumResults() == 1 &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return isKnown(operand)
                      ? shapeOf(operand) == shapeOf(op->getResult(0))
                      : constantOf(operand) != nullptr;
         });
}

/// Returns the earlier of the two values' producers.
Operation *firstOf(Value a, Value b) {
  Operation *first = a.getDefiningOp(), *other = b.getDefiningOp();
  return other->isBeforeInBlock(first) ? other : first;
}

/// Returns true if the elementwise chains of both values have no other readers
/// and end in an op that combines them, so that neither needs to be stored.
bool meet(Value a, Value b) {
  llvm::SmallDenseMap<Value, unsigned> sides = {{a, 1}, {b, 2}};
  Operation *first = firstOf(a, b);
  bool met = false;
  int64_t steps = 0;
  for (Operation &op :
       llvm::make_range(first->getIterator(), first->getBlock()->end())) {
    unsigned side = 0;
    for (Value operand : op.getOperands())
      side |= sides.lookup(operand);
    if (side == 0)
      continue;
    auto isKnown = [&](Value value) { return sides.contains(value); };
    if (!isStep(&op, isKnown) || ++steps > kMostSteps)
      return false;
    if (side == 3)
      met = true;
    else if (op.use_empty())
      return false;
    else
      sides[op.getResult(0)] = side;
  }
  return met;
}

/// Interleaves `[..., 2, n * block]` as `[..., n, 2, block]`; `axis` is the
/// column axis of the concatenated matrix.
FailureOr<ElementsAttr> interleave(ElementsAttr joint, int64_t axis,
                                   int64_t block) {
  auto type = cast<RankedTensorType>(joint.getType());
  SmallVector<int64_t> split(type.getShape()), permutation;
  int64_t blocks = split[axis] / 2 / block;
  split[axis] = 2;
  split.insert(split.begin() + axis + 1, {blocks, block});
  permutation = llvm::to_vector(llvm::seq<int64_t>(split.size()));
  std::swap(permutation[axis], permutation[axis + 1]);
  FailureOr<ElementsAttr> parts = reshapeConstant(joint, type.clone(split));
  if (succeeded(parts))
    parts = transposeConstant(*parts, permutation);
  return failed(parts) ? parts : reshapeConstant(*parts, type);
}

/// Returns the column axis of a matmul's right-hand side.
int64_t columnAxis(MatmulOp product) {
  return static_cast<int64_t>(shapeOf(product.getRhs()).size()) -
         (product.getTransposeRhs() ? 2 : 1);
}

/// Two halves that can become one GEMM: two matmuls, or slices of one.
struct Pair {
  /// One or two matmuls.
  SmallVector<MatmulOp, 2> products;
  /// Inputs of the elementwise ops, one per half.
  std::array<Value, 2> halves;
  /// Elementwise ops, with per-column constants, between a matmul and its
  /// slices.
  SmallVector<Operation *> chain;
};

/// Returns true if `operand` is a scalar constant or a constant with one value
/// for each of `columns`.
bool isPerColumn(Value operand, int64_t columns) {
  return constantOf(operand) &&
         (elementCount(operand) == 1 ||
          (shapeOf(operand).back() == columns &&
           productOf(shapeOf(operand).drop_back()) == 1));
}

/// Returns true if the right-hand side is a constant with no other reader, so
/// that its bytes are not duplicated.
bool hasOwnWeight(MatmulOp product) {
  return !product.getPacked() && GatedMatmulColumns::hasTypes(product) &&
         constantOf(product.getRhs()) && product.getRhs().hasOneUse() &&
         shapeOf(product.getResult()).size() >= 2;
}

/// Returns the pair formed by slices of `product`; nullopt if it has other
/// readers.
std::optional<Pair> slicesOf(MatmulOp product) {
  Pair pair;
  pair.products = {product};
  Value joint = product.getResult();
  ArrayRef<int64_t> shape = shapeOf(joint);
  int64_t columns = shape.back();
  while (joint.hasOneUse()) {
    Operation *step = *joint.user_begin();
    if (!isa<ElementwiseOpInterface>(step) || step->getNumResults() != 1 ||
        shapeOf(step->getResult(0)) != shape ||
        !llvm::all_of(step->getOperands(), [&](Value operand) {
          return operand == joint || isPerColumn(operand, columns);
        }))
      return std::nullopt;
    pair.chain.push_back(step);
    joint = step->getResult(0);
  }
  for (Operation *user : joint.getUsers()) {
    auto slice = dyn_cast<SliceOp>(user);
    if (!slice || 2 * slice.getSizes().back() != columns ||
        slice.getSizes().drop_back() != shape.drop_back() ||
        slice.getStrideValues().back() != 1)
      return std::nullopt;
    Value &half = pair.halves[slice.getOffsets().back() != 0];
    int64_t offset = slice.getOffsets().back();
    if (half || (offset != 0 && 2 * offset != columns))
      return std::nullopt;
    half = slice.getResult();
  }
  return pair.halves[0] && pair.halves[1] ? std::optional(pair) : std::nullopt;
}

struct FuseGatedMatmulsPass
    : mpc::impl::FuseGatedMatmulsPassBase<FuseGatedMatmulsPass> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    if (block >= 1 && block <= 512)
      return success();
    return emitError(UnknownLoc::get(context))
           << "mpc-fuse-gated-matmuls: block must be from 1 to 512, found "
           << block.getValue();
  }

  void runOnOperation() override {
    for (Block &body : getOperation().getBody()) {
      using Key = std::tuple<Value, Attribute, Type, Type>;
      llvm::MapVector<Key, SmallVector<MatmulOp>> groups;
      SmallVector<Pair> pairs;
      for (auto product : body.getOps<MatmulOp>()) {
        if (!hasOwnWeight(product))
          continue;
        if (std::optional<Pair> pair = slicesOf(product);
            pair && isLegal(*pair))
          pairs.push_back(*pair);
        else
          groups[{product.getLhs(), product->getPropertiesAsAttribute(),
                  product.getRhs().getType(), product.getResult().getType()}]
              .push_back(product);
      }
      for (auto &[key, products] : groups)
        addPairs(products, pairs);
      for (const Pair &pair : pairs)
        if (succeeded(join(pair)))
          ++numPaired;
    }
  }

private:
  bool isLegal(const Pair &pair) const {
    return shapeOf(pair.halves[0]).back() % block == 0 &&
           elementCount(pair.halves[0]) > 0 &&
           meet(pair.halves[0], pair.halves[1]);
  }

  /// Adds pairs of matmuls with a common left-hand side; each pairs with the
  /// first legal partner.
  void addPairs(ArrayRef<MatmulOp> products, SmallVector<Pair> &pairs) const {
    llvm::SmallPtrSet<Operation *, 4> taken;
    for (size_t index = 0; index < products.size(); ++index)
      for (MatmulOp second : products.drop_front(index + 1)) {
        MatmulOp first = products[index];
        Pair pair{{first, second}, {first.getResult(), second.getResult()}, {}};
        if (taken.contains(first) || taken.contains(second) || !isLegal(pair))
          continue;
        taken.insert({first, second});
        pairs.push_back(pair);
      }
  }

  /// Concatenates and interleaves the weights of both halves.
  FailureOr<ElementsAttr> weightOf(const Pair &pair, int64_t axis) const {
    SmallVector<ElementsAttr> weights;
    for (MatmulOp product : pair.products)
      weights.push_back(constantOf(Value(MatmulOp(product).getRhs())));
    FailureOr<ElementsAttr> joint = weights.front();
    if (weights.size() > 1)
      joint = concatConstants(weights, axis);
    return failed(joint) ? joint : interleave(*joint, axis, block);
  }

  LogicalResult join(const Pair &pair) {
    MatmulOp first = pair.products.front();
    int64_t axis = columnAxis(first);
    FailureOr<ElementsAttr> weight = weightOf(pair, axis);
    if (failed(weight))
      return failure();
    // Insertion point at which all inputs of both halves are defined.
    OpBuilder builder(firstOf(pair.halves[0], pair.halves[1]));
    OpEmitter emit(builder, first);
    SmallVector<Location> locations;
    for (MatmulOp product : pair.products)
      locations.push_back(product.getLoc());
    emit.loc = FusedLoc::get(&getContext(), locations);

    auto half = cast<RankedTensorType>(pair.halves[0].getType());
    int64_t width = half.getShape().back(), rank = half.getRank();
    SmallVector<int64_t> shape(half.getShape());
    shape.back() = 2 * width;
    Value pairs = emit.constant(*weight);
    auto joint = cast<MatmulOp>(builder.clone(*first));
    joint->setLoc(emit.loc);
    setMergedAttributes(joint, pair.products);
    joint.getRhsMutable().assign(pairs);
    joint.getResult().setType(first.getResult().getType().clone(shape));

    shape.back() = width / block;
    shape.append({2, block});
    Value blocks = emit.reshape(joint.getResult(), shape);
    for (int64_t number : {0, 1}) {
      Value value = emit.reshape(emit.sliceAxis(blocks, rank, number, 1),
                                 half.getShape());
      Value chained = first.getResult();
      for (Operation *step : pair.chain) {
        IRMapping map;
        for (Value operand : step->getOperands())
          map.map(operand,
                  operand == chained ? value
                  : elementCount(operand) == 1
                      ? operand
                      : emit.sliceAxis(operand, shapeOf(operand).size() - 1,
                                       number * width, width));
        Operation *copy = builder.clone(*step, map);
        copy->getResult(0).setType(half.clone(
            half.getShape(), getElementTypeOrSelf(copy->getResult(0))));
        chained = step->getResult(0);
        value = copy->getResult(0);
      }
      Value(pair.halves[number]).replaceAllUsesWith(value);
    }
    erase(pair);
    return success();
  }

  static void erase(const Pair &pair) {
    for (Value half : pair.halves)
      if (half.getDefiningOp<SliceOp>())
        half.getDefiningOp()->erase();
    for (Operation *step : llvm::reverse(pair.chain))
      step->erase();
    for (MatmulOp product : pair.products) {
      Operation *weight = product.getRhs().getDefiningOp();
      product.erase();
      weight->erase();
    }
  }
};

} // namespace
