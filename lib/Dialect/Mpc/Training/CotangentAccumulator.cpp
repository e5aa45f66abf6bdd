//===- CotangentAccumulator.cpp - accumulation of cotangents --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CotangentAccumulator.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

using namespace mlir;
using namespace mpc;

/// Copies only the layer attribute of a forward op to its derivative.
static void keepLayer(Value value, Operation *origin) {
  Operation *made = value.getDefiningOp();
  if (!made || isa<mpc::ConstantOp>(made))
    return;
  Attribute layer = origin->getDiscardableAttr(MpcDialect::kLayerAttr);
  made->setDiscardableAttrs(ArrayRef<NamedAttribute>());
  if (layer)
    made->setDiscardableAttr(MpcDialect::kLayerAttr, layer);
}

/// Returns the axis that a unit-stride slice restricts, if there is only one.
static std::optional<int64_t> cutAxis(SliceOp slice) {
  ArrayRef<int64_t> whole = shapeOf(slice.getInput()), sizes = slice.getSizes();
  std::optional<int64_t> axis;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (slice.getStrideValues()[i] != 1 || (axis && whole[i] != sizes[i]))
      return std::nullopt;
    if (whole[i] != sizes[i])
      axis = i;
  }
  return axis;
}

/// Returns the constant index of a gather of one element, or nullopt.
static std::optional<int64_t> onlyPosition(GatherOp gather) {
  ElementsAttr constant = constantOf(gather.getIndices());
  if (!constant || constant.getNumElements() != 1)
    return std::nullopt;
  int64_t extent = shapeOf(gather.getInput())[gather.getAxis()];
  int64_t index = integerElements(constant)->front();
  return std::clamp<int64_t>(index < 0 ? index + extent : index, 0, extent - 1);
}

bool CotangentAccumulator::addSlice(Operation *op, ArrayRef<Value> results) {
  Part part{0, 0, 0, results.front(), op};
  if (auto slice = dyn_cast<SliceOp>(op)) {
    std::optional<int64_t> axis = cutAxis(slice);
    if (!axis)
      return false;
    part.axis = *axis;
    part.begin = slice.getOffsets()[*axis];
  } else if (auto gather = dyn_cast<GatherOp>(op)) {
    std::optional<int64_t> position = onlyPosition(gather);
    if (!position)
      return false;
    part.axis = gather.getAxis();
    part.begin = *position;
    SmallVector<int64_t> shape(shapeOf(gather.getInput()));
    shape[part.axis] = 1;
    part.cotangent = OpEmitter(builder, op).reshape(part.cotangent, shape);
    if (part.cotangent != results.front())
      keepLayer(part.cotangent, op);
  } else {
    return false;
  }
  SmallVector<Part> &parts = pending[op->getOperand(0)].parts;
  part.number = parts.size();
  parts.push_back(part);
  return true;
}

Value CotangentAccumulator::join(Value value, ArrayRef<Part> parts) {
  OpEmitter emit(builder, parts.front().origin);
  int64_t axis = parts.front().axis, extent = shapeOf(value)[axis];
  Type element = getElementTypeOrSelf(value);
  SmallVector<Value> pieces;
  int64_t reached = 0;
  auto fillTo = [&](int64_t place) {
    if (place == reached)
      return;
    SmallVector<int64_t> gap(shapeOf(value));
    gap[axis] = place - reached;
    pieces.push_back(emit.splat(gap, element, 0.0));
  };
  if (parts.size() == 1) {
    SmallVector<int64_t> low(shapeOf(value).size(), 0), high(low), none(low);
    low[axis] = parts.front().begin;
    high[axis] = extent - low[axis] - shapeOf(parts.front().cotangent)[axis];
    return emit.pad(parts.front().cotangent, low, high, none);
  }
  for (const Part &part : parts) {
    fillTo(part.begin);
    pieces.push_back(part.cotangent);
    reached = part.begin + shapeOf(part.cotangent)[axis];
  }
  fillTo(extent);
  return emit.concat(pieces, axis);
}

//===----------------------------------------------------------------------===//
// Sums of GEMMs
//===----------------------------------------------------------------------===//

/// Minimum number of terms for which merging pays off.
static constexpr size_t kFewestTerms = 3;

/// Returns true for lhs^T * rhs, a GEMM over rows: a weight gradient.
static bool isRowProduct(Operation *op) {
  auto product = dyn_cast<MatmulOp>(op);
  return product && product.getTransposeLhs() && !product.getTransposeRhs() &&
         shapeOf(product.getLhs()).size() == 2 &&
         shapeOf(product.getRhs()).size() == 2;
}

/// Returns true for a sum over rows: a bias gradient.
static bool isRowSum(Operation *op) {
  auto sum = dyn_cast<ReduceSumOp>(op);
  return sum && sum.getAxes() == ArrayRef<int64_t>({0}) && !sum.getKeepDims();
}

/// Returns true if two such terms differ only in operands and row count.
static bool isAlike(Operation *a, Operation *b) {
  if (a->getName() != b->getName() ||
      a->getAttrDictionary() != b->getAttrDictionary() ||
      a->getResultTypes() != b->getResultTypes())
    return false;
  return llvm::all_of(
      llvm::zip_equal(a->getOperands(), b->getOperands()), [](auto pair) {
        auto [x, y] = pair;
        return getElementTypeOrSelf(x) == getElementTypeOrSelf(y) &&
               shapeOf(x).drop_front() == shapeOf(y).drop_front();
      });
}

/// Merges the gradients of a weight over the steps of an unrolled recurrence:
/// one GEMM (or sum) over the rows of all steps instead of one per step and
/// their sum. Terms may have other uses; dead ones are erased at the end.
static void joinRows(OpBuilder &builder, SmallVectorImpl<Value> &terms) {
  SmallVector<Value> left;
  SmallVector<SmallVector<Operation *>> groups;
  for (Value term : terms) {
    Operation *op = term.getDefiningOp();
    if (!op || !term.use_empty() || llvm::count(terms, term) != 1 ||
        !(isRowProduct(op) || isRowSum(op))) {
      left.push_back(term);
      continue;
    }
    auto group = llvm::find_if(groups, [&](ArrayRef<Operation *> group) {
      return isAlike(group.front(), op);
    });
    if (group == groups.end())
      groups.push_back({op});
    else
      group->push_back(op);
  }
  for (ArrayRef<Operation *> group : groups) {
    if (group.size() < kFewestTerms) {
      for (Operation *op : group)
        left.push_back(op->getResult(0));
      continue;
    }
    OpEmitter emit(builder, group.front());
    Operation *joined = builder.clone(*group.front());
    for (OpOperand &operand : joined->getOpOperands()) {
      SmallVector<Value> rows;
      for (Operation *op : group)
        rows.push_back(op->getOperand(operand.getOperandNumber()));
      operand.set(emit.concat(rows, 0));
      operand.get().getDefiningOp()->moveBefore(joined);
    }
    left.push_back(joined->getResult(0));
  }
  terms = std::move(left);
}

Value CotangentAccumulator::take(Value value) {
  auto found = pending.find(value);
  if (found == pending.end())
    return nullptr;
  Pending all = std::move(found->second);
  pending.erase(found);

  // Groups non-overlapping parts along one axis.
  llvm::sort(all.parts, [](const Part &a, const Part &b) {
    return std::tie(a.axis, a.begin, a.number) <
           std::tie(b.axis, b.begin, b.number);
  });
  SmallVector<SmallVector<Part>> runs;
  for (const Part &part : all.parts) {
    auto fits = [&](ArrayRef<Part> run) {
      const Part &last = run.back();
      return last.axis == part.axis &&
             last.begin + shapeOf(last.cotangent)[last.axis] <= part.begin;
    };
    auto run = llvm::find_if(runs, fits);
    if (run != runs.end())
      run->push_back(part);
    else
      runs.push_back({part});
  }
  SmallVector<Value> terms = std::move(all.whole);
  for (ArrayRef<Part> run : runs) {
    terms.push_back(join(value, run));
    if (terms.back() != run.front().cotangent)
      keepLayer(terms.back(), run.front().origin);
  }
  joinRows(builder, terms);
  Value total = terms.front();
  for (Value term : ArrayRef<Value>(terms).drop_front())
    total = AddOp::create(builder, term.getLoc(), total, term);
  return total;
}
