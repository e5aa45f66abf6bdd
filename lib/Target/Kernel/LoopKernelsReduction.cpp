//===- LoopKernelsReduction.cpp - vectorization, carried loops, reductions ===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoopKernels.h"

#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;
using arith::CmpIPredicate;

//===----------------------------------------------------------------------===//
// Vectors along a last dimension
//===----------------------------------------------------------------------===//

/// Maximum segments that become loops of their own; otherwise elements select
/// their segment. For a concat without readers in the kernel, each segment
/// contains the code of one operand only.
static constexpr size_t kMaxSegments = 16, kMaxOperandSegments = 64;

/// Maximum branches over segments for one vector, over all lanes: compile time
/// grows faster than their number.
static constexpr int64_t kMostChoices = 64;

/// What a kernel reads and computes along its lanes.
struct LaneValues {
  /// Width of the widest carried type.
  int64_t widestBits = 8;
  bool readsHalf = false, computes = false;
};

static LaneValues laneValues(ElementEmitter &emitter, ArrayRef<Value> tensors) {
  llvm::DenseSet<Value> visited;
  SmallVector<Value> work(tensors);
  LaneValues found;
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (!visited.insert(value).second)
      continue;
    Type element = getElementTypeOrSelf(value.getType());
    bool hasLanes = !shapeOf(value).empty() && shapeOf(value).back() != 1;
    if (hasLanes)
      found.widestBits = std::max<int64_t>(
          found.widestBits, carriedType(element).getIntOrFloatBitWidth());
    Operation *op = value.getDefiningOp();
    found.readsHalf |= hasLanes && element.isF16() && emitter.memoryOf(value);
    found.computes |= op && isa<ElementwiseOpInterface>(op);
    // Do not follow the state of random numbers.
    if (op && !emitter.isBound(value) && !isa<RandomBitsOp>(op))
      llvm::append_range(work, op->getOperands());
  }
  return found;
}

/// Returns the power of two whose vectors cover `size` positions with least
/// work.
static int64_t chooseLanes(int64_t size, int64_t widest) {
  int64_t best = 1, bestCost = std::numeric_limits<int64_t>::max();
  for (int64_t lanes = widest; lanes >= 1; lanes /= 2) {
    if (lanes > size)
      continue;
    // Loop overhead, as the cost of eight lanes.
    int64_t cost = llvm::divideCeil(size, lanes) * (lanes + 8);
    if (cost < bestCost) {
      best = lanes;
      bestCost = cost;
    }
  }
  return best;
}

SmallVector<LaneSegment> mpc::planLanes(ElementEmitter &emitter,
                                        ArrayRef<Value> tensors,
                                        int64_t extent) {
  if (extent == 0)
    return {};
  int64_t cost = 0;
  SmallVector<int64_t> breaks;
  for (Value tensor : tensors) {
    cost += costOf(emitter, tensor);
    llvm::append_range(breaks, breaksOf(emitter, tensor));
  }
  llvm::sort(breaks);
  breaks.erase(llvm::unique(breaks), breaks.end());
  const ElementTarget &target = emitter.getTarget();
  bool hasOperandPieces =
      !target.alignedVectors && llvm::all_of(tensors, [](Value tensor) {
        return isa_and_present<ConcatOp>(tensor.getDefiningOp());
      });
  int64_t gathered = target.lanes;
  if (breaks.size() > (hasOperandPieces ? kMaxOperandSegments : kMaxSegments)) {
    gathered = std::min(
        gathered, std::max<int64_t>(kMostChoices / int64_t(breaks.size()), 1));
    gathered = int64_t(llvm::bit_floor(uint64_t(gathered)));
    breaks.clear();
  }
  breaks.push_back(extent);

  // Several registers in parallel hide latencies, as far as there are
  // registers.
  int64_t registers = target.registers >= 32 || cost <= 8 ? 4 : 2;
  if (target.lanes == 1 || target.alignedVectors)
    registers = 1;
  int64_t widest = target.lanes * registers;
  LaneValues values = laneValues(emitter, tensors);
  if (values.widestBits > 32)
    widest /= 2;

  SmallVector<LaneSegment> segments;
  int64_t begin = 0;
  for (int64_t end : breaks) {
    LaneRange range{begin, end};
    bool whole = llvm::all_of(tensors, [&](Value tensor) {
      return isContiguous(emitter, tensor, range);
    });
    int64_t lanes = 1;
    if (target.alignedVectors)
      // Whole vectors only: the last one may not overlap the previous one.
      while (whole && lanes * 2 <= widest && range.begin % (lanes * 2) == 0 &&
             range.size() % (lanes * 2) == 0)
        lanes *= 2;
    else if (whole)
      lanes = chooseLanes(range.size(), widest);
    else if (cost > 12 || (values.readsHalf && values.computes))
      // Gathering lanes pays for expensive computations, or if an f16 is
      // upconverted: a scalar conversion has a false dependence on its
      // destination register.
      lanes = chooseLanes(range.size(), gathered);
    segments.push_back({range, lanes});
    begin = end;
  }
  return segments;
}

SmallVector<LaneSegment> mpc::planSummedLanes(ElementEmitter &emitter,
                                              ArrayRef<Value> tensors,
                                              int64_t extent) {
  const ElementTarget &target = emitter.getTarget();
  if (!target.canonicalSums || extent == 0)
    return planLanes(emitter, tensors, extent);
  return {{{0, extent}, chooseLanes(extent, target.lanes)}};
}

Value mpc::isBefore(ValueMath &math, Value x, Value y, bool largest,
                    bool isUnsigned, bool nanFirst) {
  if (!isa<FloatType>(getElementTypeOrSelf(x.getType())))
    return math.compare(
        isUnsigned ? (largest ? CmpIPredicate::ugt : CmpIPredicate::ult)
                   : (largest ? CmpIPredicate::sgt : CmpIPredicate::slt),
        x, y);
  // "Greater or unordered" also holds for a NaN on the other side: exclude
  // that.
  Value wins =
      math.compare(largest ? CmpFPredicate::UGT : CmpFPredicate::ULT, x, y);
  Value number = largest || nanFirst ? y : x;
  return math.bitAnd(wins, math.compare(CmpFPredicate::ORD, number, number));
}

Value mpc::keepMask(ElementEmitter &emitter, int64_t lanes, int64_t covered) {
  OpBuilder &builder = emitter.getBuilder();
  SmallVector<bool> keep(lanes, true);
  std::fill_n(keep.begin(), covered, false);
  auto type = VectorType::get({lanes}, builder.getI1Type());
  return arith::ConstantOp::create(
      builder, emitter.getLoc(),
      DenseElementsAttr::get(type, ArrayRef<bool>(keep)));
}

Carried
mpc::reduceLanes(ElementEmitter &emitter, ValueRange vectors,
                 llvm::function_ref<Carried(ValueRange, ValueRange)> join) {
  MathExpansion math = emitter.math();
  Carried values(vectors);
  auto type = dyn_cast<VectorType>(values.front().getType());
  if (!type)
    return values;
  for (int64_t lanes = type.getNumElements(); lanes > 1; lanes /= 2) {
    SmallVector<int64_t> low =
        llvm::to_vector(llvm::seq<int64_t>(0, lanes / 2));
    SmallVector<int64_t> high =
        llvm::to_vector(llvm::seq<int64_t>(lanes / 2, lanes));
    Carried lower, upper;
    for (Value value : values) {
      lower.push_back(math.shuffle(value, value, low));
      upper.push_back(math.shuffle(value, value, high));
    }
    values = join(lower, upper);
  }
  for (Value &value : values)
    value = vector::ExtractOp::create(emitter.getBuilder(), emitter.getLoc(),
                                      value, 0);
  return values;
}

Carried
LoopNest::run(ValueRange initial,
              llvm::function_ref<Carried(ArrayRef<Value>, ValueRange, int64_t)>
                  body) const {
  SmallVector<Value> at(from.size());
  auto loop = [&](int64_t begin, int64_t end, int64_t step, ValueRange sums,
                  int64_t terms, CarriedBody inner) {
    Value first = emitter.index(begin), last = emitter.index(end);
    IndexMath index = emitter.indexMath();
    return zeros.empty()
               ? index.carry(first, last, step, sums, inner)
               : index.carrySum(first, last, step, sums, zeros, terms, inner);
  };
  auto walkLine = [&](ValueRange sums) {
    int64_t size = to.back() - from.back(), whole = size / by * by;
    Carried result = loop(from.back(), from.back() + whole, by, sums,
                          /*terms=*/1, [&](Value position, ValueRange carried) {
                            at.back() = position;
                            return body(at, carried, 0);
                          });
    if (whole == size)
      return result;
    at.back() = emitter.index(to.back() - by);
    return body(at, result, by - (size - whole));
  };
  auto nest = [&](auto &&self, size_t depth, ValueRange sums) -> Carried {
    if (depth + 1 == from.size())
      return walkLine(sums);
    // Terms that an iteration adds to each accumulator.
    int64_t terms = llvm::divideCeilSigned(to.back() - from.back(), by);
    for (size_t inner = depth + 1; inner + 1 < from.size(); ++inner)
      terms *= to[inner] - from[inner];
    return loop(from[depth], to[depth], 1, sums, std::max<int64_t>(terms, 1),
                [&](Value position, ValueRange carried) {
                  at[depth] = position;
                  return self(self, depth + 1, carried);
                });
  };
  return from.empty() ? body(at, initial, 0) : nest(nest, 0, initial);
}

Carried Reducer::run(ElementEmitter &emitter, ArrayRef<int64_t> shape,
                     ArrayRef<int64_t> axes, ValueRange indices, int64_t lanes,
                     LaneRange range, ArrayRef<LaneSegment> segments) const {
  bool horizontal =
      llvm::is_contained(axes, static_cast<int64_t>(shape.size()) - 1);
  bool inParts =
      joining == tile::NamedReduction::sum && emitter.getTarget().lanes > 1;
  // Reduces one segment, or all positions if the last dimension is not reduced.
  auto reduce = [&](const LaneSegment &segment) {
    Carried zeros;
    for (Value value : initial)
      zeros.push_back(emitter.math().splat(value, segment.lanes));
    LoopNest nest{emitter, {}, {}};
    for (int64_t axis : axes) {
      nest.from.push_back(0);
      nest.to.push_back(shape[axis]);
    }
    if (horizontal) {
      nest.from.back() = segment.range.begin;
      nest.to.back() = segment.range.end;
      nest.by = segment.lanes;
    }
    if (inParts)
      nest.zeros = zeros;
    SmallVector<Value> at(indices);
    return nest.run(zeros, [&](ArrayRef<Value> positions, ValueRange carried,
                               int64_t covered) {
      for (auto [axis, position] : llvm::zip(axes, positions))
        at[axis] = position;
      Value keep =
          covered ? keepMask(emitter, segment.lanes, covered) : Value();
      return body({at, segment.lanes, segment.range, keep}, carried);
    });
  };
  if (!horizontal)
    return reduce({range, lanes});
  Carried total = initial;
  for (const LaneSegment &segment : segments) {
    Carried sums = reduce(segment);
    if (initial.empty())
      continue;
    Carried joined = reduceLanes(emitter, sums, join);
    total = segments.size() == 1 ? joined : join(total, joined);
  }
  return total;
}
