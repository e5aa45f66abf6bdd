//===- ElementEmitterIndexing.cpp - views, index maps and gathers ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each op becomes index arithmetic and a request to its operand. A vector along
// the last dimension stays whole if the op preserves that dimension; otherwise
// it is split into lanes.
//
//===----------------------------------------------------------------------===//

#include "LastDimensionRules.h"

#include "mpc/Dialect/Mpc/IR/IndexChecks.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;
using arith::CmpIPredicate;
using Request = ElementEmitter::Request;

static LaneRange fullRange(Value tensor) {
  ArrayRef<int64_t> shape = shapeOf(tensor);
  return {0, shape.empty() ? 1 : shape.back()};
}

bool mpc::gathersWholeRows(Operation *op) {
  return TypeSwitch<Operation *, bool>(op)
      .Case([](GatherOp gather) {
        return static_cast<int64_t>(gather.getAxis()) + 1 <
               static_cast<int64_t>(shapeOf(gather.getInput()).size());
      })
      .Case([](GatherNdOp gather) {
        int64_t tuple = shapeOf(gather.getIndices()).back();
        return static_cast<int64_t>(gather.getBatchDims()) + tuple <
               static_cast<int64_t>(shapeOf(gather.getInput()).size());
      })
      .Default([](Operation *) { return false; });
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

/// Number of trailing dimensions whose extents agree.
static size_t commonSuffix(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  size_t count = 0;
  while (count < a.size() && count < b.size() &&
         a[a.size() - 1 - count] == b[b.size() - 1 - count])
    ++count;
  return count;
}

static Value emitReshape(ElementEmitter &e, Operation *op, const Request &at) {
  auto reshape = cast<ReshapeOp>(op);
  Value input = reshape.getInput();
  ArrayRef<int64_t> from = shapeOf(input), to = shapeOf(reshape.getResult());
  if (Value memref = e.memoryOf(input)) {
    Value view = e.viewAs(memref, to);
    e.bindView(reshape.getResult(), view);
    return e.load(view, getElementTypeOrSelf(input.getType()), at.indices,
                  at.lanes, at.mask);
  }
  size_t suffix = commonSuffix(from, to);
  bool whole =
      suffix > 0 || (e.startsAtMultiple(at) && to.back() % at.lanes == 0 &&
                     !from.empty() && from.back() % at.lanes == 0);
  if (at.lanes > 1 && !whole)
    return e.valuePerLane(reshape.getResult(), at);
  IndexMath math = e.indexMath();
  Value position = e.index(0);
  for (size_t i = 0; i < to.size() - suffix; ++i)
    position = math.add(math.mul(position, to[i]),
                        to[i] == 1 ? e.index(0) : at.indices[i]);
  SmallVector<Value> indices =
      math.delinearize(position, from.drop_back(suffix));
  for (auto [extent, value] : llvm::zip(from, indices))
    if (extent == 1)
      value = e.index(0);
  llvm::append_range(indices, at.indices.take_back(suffix));
  LaneRange range = suffix > 0 ? at.range : fullRange(input);
  return e.valueIn(input, indices, at.lanes, range, at.mask);
}

//===----------------------------------------------------------------------===//
// Movement in strides
//===----------------------------------------------------------------------===//

static Value emitAccess(ElementEmitter &e, Operation *op,
                        ArrayRef<AccessDim> access, const Request &at) {
  Value input = op->getOperand(0);
  bool keeps = keepsLanes(access, at.indices.size());
  bool isReversed = !access.empty() && keeps && access.back().stride < 0;
  if ((at.lanes > 1 && !keeps) || (at.mask && isReversed))
    return e.valuePerLane(op->getResult(0), at);
  IndexMath math = e.indexMath();
  SmallVector<Value> indices;
  for (const AccessDim &from : access) {
    bool isLast = keeps && &from == &access.back();
    Value position = at.indices[from.dim];
    indices.push_back(
        from.stride < 0
            ? math.sub(e.index(from.offset - (isLast ? at.lanes - 1 : 0)),
                       math.mul(position, -from.stride))
            : math.add(math.mul(position, from.stride), from.offset));
  }
  LaneRange range = keeps ? rangeBehind(access, at.range) : fullRange(input);
  Value value = e.valueIn(input, indices, at.lanes, range, at.mask);
  if (!isReversed || at.lanes == 1)
    return value;
  SmallVector<int64_t> order;
  for (int64_t lane = at.lanes; lane-- > 0;)
    order.push_back(lane);
  return e.math().shuffle(value, value, order);
}

//===----------------------------------------------------------------------===//
// Concat and pad
//===----------------------------------------------------------------------===//

static Value emitConcat(ElementEmitter &e, Operation *op, const Request &at) {
  auto concat = cast<ConcatOp>(op);
  size_t axis = concat.getAxis(), rank = shapeOf(concat.getResult()).size();
  bool last = axis + 1 == rank;
  IndexMath math = e.indexMath();
  SmallVector<int64_t> begins;
  SmallVector<Value> inputs;
  int64_t end = 0;
  for (Value input : concat.getInputs()) {
    if (shapeOf(input)[axis] == 0)
      continue;
    inputs.push_back(input);
    begins.push_back(end);
    end += shapeOf(input)[axis];
  }
  begins.push_back(end);

  auto part = [&](size_t i) {
    SmallVector<Value> indices(at.indices);
    indices[axis] = math.sub(indices[axis], e.index(begins[i]));
    LaneRange range = last ? shift(at.range, -begins[i]) : at.range;
    if (last)
      range = {std::max<int64_t>(range.begin, 0),
               std::min(range.end, begins[i + 1] - begins[i])};
    return e.valueIn(inputs[i], indices, at.lanes, range, at.mask);
  };
  if (last)
    for (size_t i = 0; i + 1 < begins.size(); ++i)
      if (at.range.begin >= begins[i] && at.range.end <= begins[i + 1])
        return part(i);
  bool whole =
      e.startsAtMultiple(at) && llvm::all_of(begins, [&](int64_t begin) {
        return begin % at.lanes == 0;
      });
  if (last && at.lanes > 1 && !whole)
    return e.valuePerLane(concat.getResult(), at);

  // A binary tree of branches over the parts [first, limit).
  Type type = lanesOf(
      carriedType(getElementTypeOrSelf(op->getResult(0).getType())), at.lanes);
  auto choose = [&](auto &&self, size_t first, size_t limit) -> Value {
    if (limit - first == 1)
      return part(first);
    size_t middle = (first + limit) / 2;
    Value below = e.math().compare(CmpIPredicate::ult, at.indices[axis],
                                   e.index(begins[middle]));
    return math.choose(
        below, type, [&] { return Carried{self(self, first, middle)}; },
        [&] { return Carried{self(self, middle, limit)}; })[0];
  };
  return choose(choose, 0, begins.size() - 1);
}

static Value emitPad(ElementEmitter &e, Operation *op, const Request &at) {
  auto pad = cast<PadOp>(op);
  Value input = pad.getInput();
  ArrayRef<int64_t> shape = shapeOf(input);
  IndexMath math = e.indexMath();
  MathExpansion values = e.math();
  SmallVector<Value> indices;
  LaneRange range = fullRange(input);
  Value inside;
  bool never = false;
  auto require = [&](Value condition) {
    inside = inside ? values.bitAnd(inside, condition) : condition;
  };
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    int64_t low = pad.getLow()[dim], extent = shape[dim];
    int64_t interior = pad.getInterior() ? (*pad.getInterior())[dim] : 0;
    int64_t padded = shapeOf(pad.getResult())[dim];
    bool isLast = dim + 1 == shape.size();
    // Requested positions, counted from the input's first element.
    LaneRange asked = isLast ? at.range : LaneRange{0, padded};
    asked = shift(asked, -low);
    Value position = math.sub(at.indices[dim], e.index(low));
    if (interior == 0 && asked.begin >= 0 && asked.end <= extent) {
      indices.push_back(position);
      if (isLast)
        range = asked;
      continue;
    }
    bool constant = pad.getMode() == PadMode::constant;
    if (constant && (extent == 0 || asked.end <= 0 ||
                     asked.begin >= (extent - 1) * (interior + 1) + 1)) {
      never = true;
      break;
    }
    bool whole = e.startsAtMultiple(at) && constant && interior == 0 &&
                 low % at.lanes == 0 && extent % at.lanes == 0;
    if (isLast && at.lanes > 1 && !whole)
      return e.valuePerLane(pad.getResult(), at);
    if (constant) {
      // As unsigned, a negative position is huge.
      Value end = e.index((extent - 1) * (interior + 1) + 1);
      require(values.compare(CmpIPredicate::ult, position, end));
      if (interior > 0) {
        require(values.compare(CmpIPredicate::eq,
                               math.rem(position, interior + 1), e.index(0)));
        position = math.div(position, interior + 1);
      }
      indices.push_back(position);
      continue;
    }
    if (extent == 0)
      return e.fail(pad.getResult(), "repeats elements of an empty dimension",
                    at.lanes);
    Value zero = e.index(0), lastIndex = e.index(extent - 1);
    if (pad.getMode() == PadMode::edge) {
      position = values.minimum(values.maximum(position, zero), lastIndex);
    } else {
      int64_t period = pad.getMode() == PadMode::wrap
                           ? extent
                           : std::max<int64_t>(2 * (extent - 1), 1);
      // Low padding rounded up to whole periods keeps the dividend positive.
      int64_t lift = low > 0 ? (low + period - 1) / period * period : 0;
      position = math.rem(math.add(position, lift), period);
      if (pad.getMode() == PadMode::reflect) {
        Value mirrored = math.sub(e.index(period), position);
        Value far = values.compare(CmpIPredicate::ugt, position, lastIndex);
        position = values.select(far, mirrored, position);
      }
    }
    indices.push_back(position);
  }
  auto padding = [&] {
    return Carried{e.scalarValue(pad.getValue(), {}, at.lanes)};
  };
  auto element = [&] {
    return Carried{e.valueIn(input, indices, at.lanes, range, at.mask)};
  };
  if (never)
    return padding()[0];
  if (!inside)
    return element()[0];
  Type type =
      lanesOf(carriedType(getElementTypeOrSelf(input.getType())), at.lanes);
  return math.choose(inside, type, element, padding)[0];
}

//===----------------------------------------------------------------------===//
// Gathers and positions
//===----------------------------------------------------------------------===//

void mpc::emitIndexCheck(ElementEmitter &emitter, Operation *op, Value raw,
                         int64_t extent, int64_t component) {
  auto first = op->getAttrOfType<IntegerAttr>(kIndexCheckAttr);
  BlockArgument words =
      first ? indexChecksArgument(*op->getBlock()) : BlockArgument();
  if (!words)
    return;
  OpBuilder &b = emitter.getBuilder();
  MathExpansion math = emitter.math();
  if (raw.getType() != b.getI64Type())
    raw = math.extendSigned(raw, b.getI64Type());
  int64_t word = first.getInt() + component;
  bool isLength = (*indexChecksOf(words.getType()))[size_t(word)].isLength;
  // -extent <= raw < extent, or 0 <= raw < extent.
  Value shifted =
      isLength ? raw : math.add(raw, math.integer(raw.getType(), extent));
  Value isOutside =
      math.compare(CmpIPredicate::uge, shifted, isLength ? extent : 2 * extent);
  emitter.indexMath().branch(isOutside, [&] {
    // The result is independent of the order: the maximum is kept, and none is
    // 0.
    memref::AtomicRMWOp::create(b, emitter.getLoc(), arith::AtomicRMWKind::maxu,
                                raw, emitter.memoryOf(words),
                                emitter.index(word));
  });
}

static Value emitGather(ElementEmitter &e, Operation *op, const Request &at) {
  Value input = op->getOperand(0), table = op->getOperand(1);
  ArrayRef<int64_t> shape = shapeOf(input);
  if (productOf(shape) == 0)
    return e.fail(op->getResult(0), "takes elements of an empty tensor",
                  at.lanes);
  bool whole = gathersWholeRows(op);
  if (at.lanes > 1 && !whole)
    return e.valuePerLane(op->getResult(0), at);
  ValueRange out = at.indices;
  SmallVector<Value> indices;
  auto position = [&](ValueRange tableIndices, int64_t extent,
                      int64_t component = 0) {
    Value raw = e.scalarValue(table, tableIndices, 1);
    emitIndexCheck(e, op, raw, extent, component);
    return e.normalizeIndex(raw, extent, /*clamp=*/true);
  };
  if (auto gather = dyn_cast<GatherOp>(op)) {
    size_t axis = gather.getAxis(), count = shapeOf(table).size();
    Value chosen = position(out.slice(axis, count), shape[axis]);
    llvm::append_range(indices, out.take_front(axis));
    indices.push_back(chosen);
    llvm::append_range(indices, out.drop_front(axis + count));
  } else if (auto gather = dyn_cast<GatherElementsOp>(op)) {
    llvm::append_range(indices, out);
    indices[gather.getAxis()] = position(out, shape[gather.getAxis()]);
  } else {
    auto gatherNd = cast<GatherNdOp>(op);
    size_t outer = shapeOf(table).size() - 1, batch = gatherNd.getBatchDims();
    int64_t tuple = shapeOf(table).back();
    llvm::append_range(indices, out.take_front(batch));
    SmallVector<Value> tableIndices(out.take_front(outer));
    tableIndices.push_back({});
    for (int64_t i = 0; i < tuple; ++i) {
      tableIndices.back() = e.index(i);
      indices.push_back(position(tableIndices, shape[batch + i], i));
    }
    llvm::append_range(indices, out.drop_front(outer));
  }
  LaneRange range = whole ? at.range : fullRange(input);
  return e.valueIn(input, indices, at.lanes, range, at.mask);
}

/// The positions along dimension `axis` of a vector's elements, as i64.
static Value positionsAlong(ElementEmitter &e, size_t axis, const Request &at) {
  MathExpansion math = e.math();
  Value first = math.castIndex(at.indices[axis], e.getBuilder().getI64Type());
  return axis + 1 == at.indices.size() ? math.countFrom(first, at.lanes)
                                       : e.splat(first, at.lanes);
}

static Value emitOneHot(ElementEmitter &e, Operation *op, const Request &at) {
  auto oneHot = cast<OneHotOp>(op);
  size_t axis = oneHot.getAxis();
  bool last = axis + 1 == at.indices.size();
  SmallVector<Value> indices(at.indices);
  indices.erase(indices.begin() + axis);
  Value table = oneHot.getIndices();
  // Along the new axis the lanes share one index, elsewhere one position.
  Value chosen = last ? e.scalarValue(table, indices, 1)
                      : e.valueIn(table, indices, at.lanes, at.range, at.mask);
  MathExpansion math = e.math();
  if (!getElementTypeOrSelf(chosen.getType()).isInteger(64))
    chosen = math.extendSigned(chosen, e.getBuilder().getI64Type());
  chosen = e.splat(chosen, at.lanes);
  Value negative = math.compare(CmpIPredicate::slt, chosen, 0);
  chosen = math.select(negative, math.add(chosen, oneHot.getDepth()), chosen);
  Value hit =
      math.compare(CmpIPredicate::eq, chosen, positionsAlong(e, axis, at));
  Value on = e.scalarValue(oneHot.getOn(), {}, at.lanes);
  Value off = e.scalarValue(oneHot.getOff(), {}, at.lanes);
  return math.select(hit, on, off);
}

static Value emitIota(ElementEmitter &e, IotaOp iota, const Request &at) {
  Value place = positionsAlong(e, iota.getAxis(), at);
  Type elementType = getElementTypeOrSelf(iota.getResult().getType());
  Type type = carriedType(elementType);
  MathExpansion math = e.math();
  if (isa<FloatType>(type))
    return e.round(math.toFloat(place, type), elementType);
  return type.isInteger(64) ? place : math.truncateInt(place, type);
}

//===----------------------------------------------------------------------===//
// Dispatch
//===----------------------------------------------------------------------===//

Value mpc::emitIndexing(ElementEmitter &e, Operation *op, const Request &at) {
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return e.operandValue(broadcast.getInput(), at);
  if (std::optional<Access> access = accessOf(op))
    return emitAccess(e, op, *access, at);
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](ReshapeOp) { return emitReshape(e, op, at); })
      .Case([&](ConcatOp) { return emitConcat(e, op, at); })
      .Case([&](PadOp) { return emitPad(e, op, at); })
      .Case<GatherOp, GatherElementsOp, GatherNdOp>(
          [&](auto) { return emitGather(e, op, at); })
      .Case([&](OneHotOp) { return emitOneHot(e, op, at); })
      .Case([&](IotaOp iota) { return emitIota(e, iota, at); })
      .Case([&](DequantizeOp) { return emitDequantized(e, op, at); })
      .Default([&](Operation *) { return emitComputed(e, op, at); });
}
