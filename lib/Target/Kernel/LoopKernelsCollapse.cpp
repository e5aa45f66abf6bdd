//===- LoopKernelsCollapse.cpp - collapsing of dimensions -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collapses adjacent dimensions that every op treats alike, so that loops are
// long and few. Arguments and results are contiguous, so their types may
// change.
//
//===----------------------------------------------------------------------===//

#include "KernelComponents.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcOptimizerOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpc;

namespace {
class Collapser {
public:
  Collapser(func::FuncOp kernel, const KernelComponent &part)
      : kernel(kernel), values(part.values) {}
  void run();

private:
  bool collect();
  /// Makes reductions keep their dimensions, so that all shapes stay aligned.
  bool keepDimensions();
  /// Returns true if dimension `dim + 1` may join the group from `first` to
  /// `dim`.
  bool mergeable(size_t first, size_t dim) const;
  int64_t extentOf(Value value, size_t dim) const;
  void rewrite();

  func::FuncOp kernel;
  llvm::SetVector<Value> values;
  SmallVector<Operation *> ops, reducing;
  SmallVector<int64_t> full;
  /// New dimension of each old one.
  SmallVector<size_t> group;
};
} // namespace

static bool isReduce(Operation *op) { return op->hasTrait<ReducesRows>(); }

bool Collapser::collect() {
  auto isOurs = [&](Value value) { return values.contains(value); };
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (!llvm::any_of(op.getOperands(), isOurs) &&
        !llvm::any_of(op.getResults(), isOurs))
      continue;
    // A random element depends only on its row-major position.
    if (isShapeless(&op))
      continue;
    if (!isa<ElementwiseOpInterface, BroadcastOp, ConstantOp>(op) &&
        !op.hasTrait<MapsRows>() && !isReduce(&op))
      return false;
    if (isa<ReductionOpInterface>(op))
      reducing.push_back(&op);
    ops.push_back(&op);
  }
  // The state of random numbers and the record of a check stay unchanged.
  for (Value value : values) {
    Operation *op = value.getDefiningOp();
    bool isRecord = op && isa<AllFiniteOp>(op);
    bool isState = llvm::any_of(value.getUsers(), [](Operation *user) {
      return isa<RandomBitsOp>(user);
    });
    if (isRecord || isState)
      return false;
  }
  return keepDimensions();
}

bool Collapser::keepDimensions() {
  // A scalar is aligned with every shape.
  SmallVector<Operation *> dropping;
  for (Operation *op : reducing) {
    size_t rank = shapeOf(op->getResult(0)).size();
    if (isReduce(op) && rank != 0 && rank != shapeOf(op->getOperand(0)).size())
      dropping.push_back(op);
  }
  if (dropping.empty())
    return true;
  // Only if every value has the input's shape, the reduced shape or one
  // element.
  ArrayRef<int64_t> shape = shapeOf(dropping.front()->getOperand(0));
  SmallVector<int64_t> dropped(shapeOf(dropping.front()->getResult(0)));
  SmallVector<int64_t> kept(shape);
  SmallVector<int64_t> axes =
      cast<ReductionOpInterface>(dropping.front()).getReductionAxes();
  for (int64_t axis : axes)
    kept[axis] = 1;
  for (Operation *op : dropping)
    if (shapeOf(op->getOperand(0)) != shape ||
        cast<ReductionOpInterface>(op).getReductionAxes() != axes)
      return false;
  // Values of the reduced shape may depend on each other only elementwise.
  if (ArrayRef<int64_t>(dropped) == shape)
    return false;
  for (Value value : values) {
    ArrayRef<int64_t> own = shapeOf(value);
    if (own == shape || own == ArrayRef<int64_t>(dropped) || own.empty())
      continue;
    return false;
  }
  for (Operation *op : ops) {
    bool hasDropped = false, hasFull = false;
    auto look = [&](Value value) {
      hasDropped |= shapeOf(value) == ArrayRef<int64_t>(dropped);
      hasFull |= shapeOf(value) == shape;
    };
    llvm::for_each(op->getOperands(), look);
    llvm::for_each(op->getResults(), look);
    if (hasDropped && hasFull && !llvm::is_contained(dropping, op))
      return false;
    if (isa<ConstantOp>(op) && hasDropped)
      return false;
  }
  for (Value value : values)
    if (shapeOf(value) == ArrayRef<int64_t>(dropped))
      value.setType(cast<RankedTensorType>(value.getType()).clone(kept));
  for (Operation *op : dropping)
    op->setAttr("keep_dims", UnitAttr::get(op->getContext()));
  return true;
}

/// Extents are aligned at the last dimension; missing leading ones are 1.
int64_t Collapser::extentOf(Value value, size_t dim) const {
  ArrayRef<int64_t> shape = shapeOf(value);
  size_t missing = full.size() - shape.size();
  return dim < missing ? 1 : shape[dim - missing];
}

bool Collapser::mergeable(size_t first, size_t dim) const {
  for (Operation *op : reducing) {
    SmallVector<int64_t> axes =
        cast<ReductionOpInterface>(op).getReductionAxes();
    size_t missing = full.size() - shapeOf(op->getOperand(0)).size();
    auto reduced = [&](size_t d) {
      return d >= missing &&
             llvm::is_contained(axes, static_cast<int64_t>(d - missing));
    };
    if (reduced(dim) != reduced(dim + 1))
      return false;
  }
  // A value must either cover the whole group or be broadcast along all of it;
  // checking adjacent pairs is not enough, because an extent of 1 is both.
  return llvm::all_of(values, [&](Value value) {
    bool whole = true, broadcast = true;
    for (size_t d = first; d <= dim + 1; ++d) {
      whole &= extentOf(value, d) == full[d];
      broadcast &= extentOf(value, d) == 1;
    }
    return whole || broadcast;
  });
}

static void setAxis(Operation *op, StringRef name, int64_t axis) {
  op->setAttr(name,
              IntegerAttr::get(IntegerType::get(op->getContext(), 64), axis));
}

void Collapser::rewrite() {
  size_t rank = group.back() + 1;
  // Attributes first: they refer to the old ranks.
  for (Operation *op : reducing) {
    size_t missing = full.size() - shapeOf(op->getOperand(0)).size();
    auto moved = [&](int64_t axis) {
      return static_cast<int64_t>(group[axis + missing] - group[missing]);
    };
    if (isReduce(op)) {
      llvm::SetVector<int64_t> axes;
      for (int64_t axis : cast<ReductionOpInterface>(op).getReductionAxes())
        axes.insert(moved(axis));
      op->setAttr("axes",
                  DenseI64ArrayAttr::get(op->getContext(), axes.getArrayRef()));
    } else {
      setAxis(op, "axis",
              moved(cast<ReductionOpInterface>(op).getReductionAxes().front()));
    }
  }
  for (Value value : values) {
    auto type = cast<RankedTensorType>(value.getType());
    size_t missing = full.size() - type.getRank();
    if (type.getRank() == 0)
      continue;
    SmallVector<int64_t> shape(rank - group[missing], 1);
    for (size_t dim = missing; dim < full.size(); ++dim)
      shape[group[dim] - group[missing]] *= extentOf(value, dim);
    auto newType = cast<RankedTensorType>(type.clone(shape));
    if (auto constant = value.getDefiningOp<ConstantOp>()) {
      ElementsAttr attr = constant.getValue();
      if (auto dense = dyn_cast<DenseElementsAttr>(attr))
        constant.setValueAttr(dense.reshape(newType));
      else if (auto resource = dyn_cast<DenseResourceElementsAttr>(attr))
        constant.setValueAttr(
            DenseResourceElementsAttr::get(newType, resource.getRawHandle()));
      else
        continue;
    }
    value.setType(newType);
  }
}

void Collapser::run() {
  if (!collect())
    return;
  for (Value value : values) {
    ArrayRef<int64_t> shape = shapeOf(value);
    if (shape.size() > full.size())
      full.insert(full.begin(), shape.size() - full.size(), 1);
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t &extent = full[full.size() - shape.size() + i];
      // Extent 0 overrides 1, anything overrides 1.
      if (extent == 1)
        extent = shape[i];
    }
  }
  if (full.size() < 2)
    return;
  group.push_back(0);
  size_t first = 0;
  for (size_t dim = 0; dim + 1 < full.size(); ++dim) {
    bool joins = mergeable(first, dim);
    group.push_back(group.back() + (joins ? 0 : 1));
    if (!joins)
      first = dim + 1;
  }
  if (group.back() + 1 < full.size())
    rewrite();
}

void mpc::collapseDimensions(func::FuncOp kernel) {
  for (const KernelComponent &part : partsOf(kernel))
    Collapser(kernel, part).run();
}

void mpc::flattenReducedDimensions(func::FuncOp kernel) {
  SmallVector<Operation *> ops;
  kernel.walk([&](Operation *op) {
    if (isReduce(op) && !op->hasTrait<Exact>())
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    Value input = op->getOperand(0);
    ArrayRef<int64_t> shape = shapeOf(input);
    SmallVector<int64_t> old =
        cast<ReductionOpInterface>(op).getReductionAxes();
    SmallVector<int64_t> flat, axes, left;
    for (auto [dim, extent] : llvm::enumerate(shape)) {
      bool reduced = llvm::is_contained(old, static_cast<int64_t>(dim));
      if (reduced && dim > 0 &&
          llvm::is_contained(old, static_cast<int64_t>(dim) - 1)) {
        flat.back() *= extent;
        continue;
      }
      if (reduced)
        axes.push_back(static_cast<int64_t>(flat.size()));
      else
        left.push_back(extent);
      flat.push_back(extent);
    }
    if (flat.size() == shape.size())
      continue;
    OpBuilder b(op);
    Value result = op->getResult(0);
    auto type = cast<RankedTensorType>(result.getType());
    auto flatType = cast<RankedTensorType>(input.getType()).clone(flat);
    op->setOperand(0, ReshapeOp::create(b, op->getLoc(), flatType, input));
    op->setAttr("axes", b.getDenseI64ArrayAttr(axes));
    if (!op->hasAttr("keep_dims"))
      continue;
    op->removeAttr("keep_dims");
    result.setType(type.clone(left));
    b.setInsertionPointAfter(op);
    Value back = ReshapeOp::create(b, op->getLoc(), type, result);
    result.replaceAllUsesExcept(back, back.getDefiningOp());
  }
}

//===----------------------------------------------------------------------===//
// group_norm and instance_norm
//===----------------------------------------------------------------------===//

template <typename OpTy> static void expandNorm(OpTy op, int64_t groups) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  auto type = cast<RankedTensorType>(op.getInput().getType());
  ArrayRef<int64_t> shape = type.getShape();
  int64_t pixels = productOf(shape.drop_front(2));
  auto grouped = cast<RankedTensorType>(type.clone(
      {shape[0], groups, shape[1] / std::max<int64_t>(groups, 1) * pixels}));
  Value lines = ReshapeOp::create(b, loc, grouped, op.getInput());
  auto scalarType = RankedTensorType::get({}, type.getElementType());
  Value one = ConstantOp::create(
      b, loc,
      DenseElementsAttr::get(scalarType,
                             b.getFloatAttr(type.getElementType(), 1.0)));
  Value normal =
      LayerNormOp::create(b, loc, grouped, lines, one, /*bias=*/Value(),
                          b.getI64IntegerAttr(2), op.getEpsilonAttr());
  Value back = ReshapeOp::create(b, loc, type, normal);
  SmallVector<int64_t> channelShape(shape.size() - 1, 1);
  channelShape.front() = shape[1];
  auto channelType = cast<RankedTensorType>(type.clone(channelShape));
  Value scale = ReshapeOp::create(b, loc, channelType, op.getScale());
  Value bias = ReshapeOp::create(b, loc, channelType, op.getBias());
  Value scaled = MulOp::create(b, loc, type, back, scale);
  op.getResult().replaceAllUsesWith(AddOp::create(b, loc, type, scaled, bias));
  op.erase();
}

void mpc::expandGroupedNorms(func::FuncOp kernel) {
  SmallVector<Operation *> ops;
  kernel.walk([&](Operation *op) {
    if (isa<GroupNormOp, InstanceNormOp>(op))
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    if (auto norm = dyn_cast<GroupNormOp>(op))
      expandNorm(norm, norm.getGroups());
    else
      expandNorm(cast<InstanceNormOp>(op), shapeOf(op->getOperand(0))[1]);
  }
}
