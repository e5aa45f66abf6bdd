//===- ElementEmitterAnalysis.cpp - contiguity and cost of elements ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Analyses for choosing vector widths in loop kernels: breaks of a last
// dimension, contiguity of its vectors, cost of an element.
//
//===----------------------------------------------------------------------===//

#include "LastDimensionRules.h"

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;

namespace {
/// Collects the breaks of a tensor's last dimension.
class BreakFinder {
public:
  explicit BreakFinder(const ElementEmitter &emitter) : emitter(emitter) {}

  /// Adds the breaks of `tensor`, whose position p is at p * sign + offset.
  void visit(Value tensor, int64_t offset, int64_t sign,
             llvm::SmallSet<int64_t, 8> &breaks) {
    if (emitter.isBound(tensor) ||
        !visited.insert({tensor, offset * 2 + (sign > 0)}).second)
      return;
    Operation *op = tensor.getDefiningOp();
    if (!op || shapeOf(tensor).empty())
      return;
    int64_t extent = shapeOf(tensor).back(), rank = shapeOf(tensor).size();
    auto mark = [&](int64_t position) {
      if (position > 0 && position < extent)
        breaks.insert(position * sign + offset);
    };
    auto operand = [&](Value value, int64_t shift = 0) {
      if (!shapeOf(value).empty() && shapeOf(value).back() != 1)
        visit(value, offset + shift * sign, sign, breaks);
    };
    if (auto concat = dyn_cast<ConcatOp>(op)) {
      int64_t begin = 0;
      for (Value input : concat.getInputs()) {
        operand(input, begin);
        if (static_cast<int64_t>(concat.getAxis()) + 1 == rank)
          mark(begin += shapeOf(input).back());
      }
    } else if (auto pad = dyn_cast<PadOp>(op)) {
      int64_t low = pad.getLow().back();
      mark(low);
      mark(low + shapeOf(pad.getInput()).back());
      operand(pad.getInput(), low);
    } else if (std::optional<Access> access = accessOf(op)) {
      if (access->empty() || !keepsLanes(*access, rank))
        return;
      int64_t begin = access->back().offset;
      if (access->back().stride > 0)
        operand(op->getOperand(0), -begin);
      else
        visit(op->getOperand(0), offset + (begin + 1) * sign, -sign, breaks);
    } else if (isa<GatherOp, GatherNdOp>(op)) {
      if (gathersWholeRows(op))
        operand(op->getOperand(0));
    } else if (isa<ReductionOpInterface, ReshapeOp>(op) ||
               fusionClassOf(op) == FusionClass::Elementwise ||
               fusionClassOf(op) == FusionClass::Pool) {
      for (Value value : op->getOperands())
        if (!shapeOf(value).empty() && shapeOf(value).back() == extent)
          operand(value);
    }
  }

private:
  const ElementEmitter &emitter;
  llvm::DenseSet<std::pair<Value, int64_t>> visited;
};
} // namespace

SmallVector<int64_t> mpc::breaksOf(const ElementEmitter &emitter,
                                   Value tensor) {
  llvm::SmallSet<int64_t, 8> breaks;
  BreakFinder(emitter).visit(tensor, 0, 1, breaks);
  ArrayRef<int64_t> shape = shapeOf(tensor);
  SmallVector<int64_t> sorted;
  for (int64_t position : breaks)
    if (position > 0 && position < shape.back())
      sorted.push_back(position);
  llvm::sort(sorted);
  return sorted;
}

static bool contiguous(const ElementEmitter &emitter, Value tensor,
                       LaneRange range,
                       llvm::DenseSet<std::pair<Value, int64_t>> &visited) {
  ArrayRef<int64_t> shape = shapeOf(tensor);
  if (shape.empty() || shape.back() == 1 || emitter.isBound(tensor) ||
      !visited.insert({tensor, range.begin}).second)
    return true;
  Operation *op = tensor.getDefiningOp();
  if (!op || isa<ConstantOp, IotaOp, RandomBitsOp>(op))
    return true;
  int64_t rank = shape.size();
  auto operand = [&](Value value, LaneRange at) {
    return contiguous(emitter, value, at, visited);
  };
  if (std::optional<Access> access = accessOf(op)) {
    bool isRepeated = access->empty() || access->back().dim < 0;
    return isRepeated ||
           (keepsLanes(*access, rank) &&
            operand(op->getOperand(0), rangeBehind(*access, range)));
  }
  return TypeSwitch<Operation *, bool>(op)
      .Case([&](ReshapeOp reshape) {
        if (emitter.memoryOf(reshape.getInput()))
          return true;
        ArrayRef<int64_t> from = shapeOf(reshape.getInput());
        return !from.empty() && from.back() == shape.back() &&
               operand(reshape.getInput(), range);
      })
      .Case([&](ConcatOp concat) {
        if (static_cast<int64_t>(concat.getAxis()) + 1 < rank)
          return llvm::all_of(concat.getInputs(),
                              [&](Value v) { return operand(v, range); });
        int64_t begin = 0;
        for (Value input : concat.getInputs()) {
          int64_t end = begin + shapeOf(input).back();
          if (range.begin >= begin && range.end <= end)
            return operand(input, shift(range, -begin));
          begin = end;
        }
        return false;
      })
      .Case([&](PadOp pad) {
        int64_t low = pad.getLow().back(),
                extent = shapeOf(pad.getInput()).back();
        LaneRange asked = shift(range, -low);
        bool interior = pad.getInterior() && pad.getInterior()->back() > 0;
        if (!interior && asked.begin >= 0 && asked.end <= extent)
          return operand(pad.getInput(), asked);
        return pad.getMode() == PadMode::constant && !interior &&
               (asked.end <= 0 || asked.begin >= extent);
      })
      .Case<GatherOp, GatherNdOp>([&](auto gather) {
        return gathersWholeRows(gather) && operand(gather.getInput(), range);
      })
      .Case([&](OneHotOp oneHot) {
        return static_cast<int64_t>(oneHot.getAxis()) == rank - 1 ||
               operand(oneHot.getIndices(), range);
      })
      .Case<MaxPoolOp, AvgPoolOp>([&](auto pool) {
        return pool.getLayout() == ImageLayout::channels_last &&
               operand(pool.getInput(), range);
      })
      .Case<MaxPoolGradientOp, AvgPoolGradientOp>([&](auto pool) {
        return pool.getLayout() == ImageLayout::channels_last &&
               llvm::all_of(op->getOperands(),
                            [&](Value v) { return operand(v, range); });
      })
      .Case<ElementwiseOpInterface, BatchNormOp>([&](auto) {
        return llvm::all_of(op->getOperands(),
                            [&](Value v) { return operand(v, range); });
      })
      .Case([&](ReductionOpInterface reduction) {
        int64_t last = shapeOf(op->getOperand(0)).size() - 1;
        return !llvm::is_contained(reduction.getReductionAxes(), last) &&
               operand(op->getOperand(0), range);
      })
      .Default([](Operation *) { return false; });
}

bool mpc::isContiguous(const ElementEmitter &emitter, Value tensor,
                       LaneRange range) {
  llvm::DenseSet<std::pair<Value, int64_t>> visited;
  return contiguous(emitter, tensor, range, visited);
}

/// Operations per element for bf16 as bit patterns: to upconvert, and to round
/// with and without an instruction for that.
static constexpr int64_t kWidenCost = 2, kRoundCost = 11, kUnitRoundCost = 4;

int64_t mpc::costOf(const ElementEmitter &emitter, Value tensor) {
  const ElementTarget &target = emitter.getTarget();
  llvm::DenseSet<Value> visited;
  SmallVector<Value> work = {tensor};
  int64_t cost = 0;
  auto isPattern = [&](Value value) {
    return getElementTypeOrSelf(value.getType()).isBF16() &&
           !target.has16BitTypes;
  };
  while (!work.empty()) {
    Value value = work.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!visited.insert(value).second)
      continue;
    if (!op || emitter.isBound(value) || isa<ConstantOp>(op)) {
      if (isPattern(value))
        cost += kWidenCost;
      continue;
    }
    if (isPattern(value))
      cost += target.roundsToBf16 ? kUnitRoundCost : kRoundCost;
    auto elementwise = dyn_cast<ElementwiseOpInterface>(op);
    cost += elementwise ? std::max<int64_t>(elementwise.getFlopsPerElement(), 1)
                        : 2;
    if (auto reduction = dyn_cast<ReductionOpInterface>(op))
      cost += 2 * reduction.getReductionSize();
    else if (fusionClassOf(op) == FusionClass::Pool || isa<RandomBitsOp>(op))
      cost += cast<CostOpInterface>(op).getFlops() /
              std::max<int64_t>(elementCount(op->getResult(0)), 1);
    llvm::append_range(work, op->getOperands());
  }
  return cost;
}
