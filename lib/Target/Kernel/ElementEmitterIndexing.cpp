//===- ElementEmitterIndexing.cpp - views, index maps and gathers ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each op becomes index arithmetic and a request to its operand. A vector along
// the last dimension stays whole if the op preserves that dimension; otherwise
// it is split into lanes.
//
//===----------------------------------------------------------------------===//

#include "DequantizedElements.h"
#include "LastDimensionRules.h"

#include "mpc/Dialect/Mpc/IR/IndexChecks.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;
using arith::CmpIPredicate;
using Request = ElementEmitter::Request;
using Result = FailureOr<Value>;

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

static FailureOr<Value> emitReshape(ElementEmitter &e, Operation *op,
                                    const Request &at) {
  OpBuilder &builder = e.getBuilder();
  Location loc = e.getLoc();
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
    return e.emitPerLane(reshape.getResult(), at);
  IndexMath math{builder, loc};
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
  return e.emit(input, Request{indices, at.lanes, at.mask, range});
}

//===----------------------------------------------------------------------===//
// Movement in strides
//===----------------------------------------------------------------------===//

static FailureOr<Value> emitAccess(ElementEmitter &e, Operation *op,
                                   ArrayRef<AccessDim> access,
                                   const Request &at) {
  OpBuilder &builder = e.getBuilder();
  Location loc = e.getLoc();
  Value input = op->getOperand(0);
  bool keeps = keepsLanes(access, at.indices.size());
  bool isReversed = !access.empty() && keeps && access.back().stride < 0;
  if ((at.lanes > 1 && !keeps) || (at.mask && isReversed))
    return e.emitPerLane(op->getResult(0), at);
  IndexMath math{builder, loc};
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
  Result value = e.emit(input, Request{indices, at.lanes, at.mask, range});
  if (failed(value) || !isReversed || at.lanes == 1)
    return value;
  SmallVector<int64_t> order;
  for (int64_t lane = at.lanes; lane-- > 0;)
    order.push_back(lane);
  return Value(vector::ShuffleOp::create(builder, loc, *value, *value, order));
}

//===----------------------------------------------------------------------===//
// Concat and pad
//===----------------------------------------------------------------------===//

static FailureOr<Value> emitConcat(ElementEmitter &e, Operation *op,
                                   const Request &at) {
  OpBuilder &builder = e.getBuilder();
  Location loc = e.getLoc();
  auto concat = cast<ConcatOp>(op);
  size_t axis = concat.getAxis(), rank = shapeOf(concat.getResult()).size();
  bool last = axis + 1 == rank;
  IndexMath math{builder, loc};
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

  auto part = [&](size_t i) -> Result {
    SmallVector<Value> indices(at.indices);
    indices[axis] = math.sub(indices[axis], e.index(begins[i]));
    LaneRange range = last ? shift(at.range, -begins[i]) : at.range;
    if (last)
      range = {std::max<int64_t>(range.begin, 0),
               std::min(range.end, begins[i + 1] - begins[i])};
    return e.emit(inputs[i], Request{indices, at.lanes, at.mask, range});
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
    return e.emitPerLane(concat.getResult(), at);

  // A binary tree of branches over the parts [first, limit).
  Type type = lanesOf(
      carriedType(getElementTypeOrSelf(op->getResult(0).getType())), at.lanes);
  auto choose = [&](auto &&self, size_t first, size_t limit) -> Result {
    if (limit - first == 1)
      return part(first);
    size_t middle = (first + limit) / 2;
    Value below =
        arith::CmpIOp::create(builder, loc, CmpIPredicate::ult,
                              at.indices[axis], e.index(begins[middle]));
    auto branch =
        scf::IfOp::create(builder, loc, TypeRange{type}, below,
                          /*addThenBlock=*/true, /*addElseBlock=*/true);
    OpBuilder::InsertionGuard guard(builder);
    for (bool lower : {true, false}) {
      builder.setInsertionPointToEnd(lower ? branch.thenBlock()
                                           : branch.elseBlock());
      Result value =
          lower ? self(self, first, middle) : self(self, middle, limit);
      if (failed(value))
        return failure();
      scf::YieldOp::create(builder, loc, *value);
    }
    return branch.getResult(0);
  };
  return choose(choose, 0, begins.size() - 1);
}

static FailureOr<Value> emitPad(ElementEmitter &e, Operation *op,
                                const Request &at) {
  OpBuilder &builder = e.getBuilder();
  Location loc = e.getLoc();
  auto pad = cast<PadOp>(op);
  Value input = pad.getInput();
  ArrayRef<int64_t> shape = shapeOf(input);
  IndexMath math{builder, loc};
  ValueMath values(builder, loc);
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
      return e.emitPerLane(pad.getResult(), at);
    if (constant) {
      // As unsigned, a negative position is huge.
      Value end = e.index((extent - 1) * (interior + 1) + 1);
      require(arith::CmpIOp::create(builder, loc, CmpIPredicate::ult, position,
                                    end));
      if (interior > 0) {
        require(arith::CmpIOp::create(builder, loc, CmpIPredicate::eq,
                                      math.rem(position, interior + 1),
                                      e.index(0)));
        position = math.div(position, interior + 1);
      }
      indices.push_back(position);
      continue;
    }
    if (extent == 0)
      return op->emitOpError("repeats elements of an empty dimension"),
             failure();
    Value zero = e.index(0), lastIndex = e.index(extent - 1);
    if (pad.getMode() == PadMode::edge) {
      position = arith::MaxSIOp::create(builder, loc, position, zero);
      position = arith::MinSIOp::create(builder, loc, position, lastIndex);
    } else {
      int64_t period = pad.getMode() == PadMode::wrap
                           ? extent
                           : std::max<int64_t>(2 * (extent - 1), 1);
      // Low padding rounded up to whole periods keeps the dividend positive.
      int64_t lift = low > 0 ? (low + period - 1) / period * period : 0;
      position = math.rem(math.add(position, lift), period);
      if (pad.getMode() == PadMode::reflect) {
        Value mirrored = math.sub(e.index(period), position);
        Value far = arith::CmpIOp::create(builder, loc, CmpIPredicate::ugt,
                                          position, lastIndex);
        position =
            arith::SelectOp::create(builder, loc, far, mirrored, position);
      }
    }
    indices.push_back(position);
  }
  if (never)
    return e.emitScalar(pad.getValue(), {}, at.lanes);
  Request inner{indices, at.lanes, at.mask, range};
  if (!inside)
    return e.emit(input, inner);
  Type type =
      lanesOf(carriedType(getElementTypeOrSelf(input.getType())), at.lanes);
  auto branch = scf::IfOp::create(builder, loc, TypeRange{type}, inside,
                                  /*addThenBlock=*/true,
                                  /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(builder);
  for (bool yes : {true, false}) {
    builder.setInsertionPointToEnd(yes ? branch.thenBlock()
                                       : branch.elseBlock());
    Result value =
        yes ? e.emit(input, inner) : e.emitScalar(pad.getValue(), {}, at.lanes);
    if (failed(value))
      return failure();
    scf::YieldOp::create(builder, loc, *value);
  }
  return branch.getResult(0);
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
  Location loc = emitter.getLoc();
  Type i64 = b.getI64Type();
  if (raw.getType() != i64)
    raw = arith::ExtSIOp::create(b, loc, i64, raw);
  auto constant = [&](int64_t value) {
    return arith::ConstantIntOp::create(b, loc, i64, value);
  };
  int64_t word = first.getInt() + component;
  bool isLength = (*indexChecksOf(words.getType()))[size_t(word)].isLength;
  // -extent <= raw < extent, or 0 <= raw < extent.
  Value shifted =
      isLength ? raw : arith::AddIOp::create(b, loc, raw, constant(extent));
  Value isOutside =
      arith::CmpIOp::create(b, loc, CmpIPredicate::uge, shifted,
                            constant(isLength ? extent : 2 * extent));
  auto branch = scf::IfOp::create(b, loc, isOutside);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenBlock()->getTerminator());
  // The result is independent of the order: the maximum is kept, and none is 0.
  memref::AtomicRMWOp::create(b, loc, arith::AtomicRMWKind::maxu, raw,
                              emitter.memoryOf(words), emitter.index(word));
}

static FailureOr<Value> emitGather(ElementEmitter &e, Operation *op,
                                   const Request &at) {
  Value input = op->getOperand(0), table = op->getOperand(1);
  ArrayRef<int64_t> shape = shapeOf(input);
  if (productOf(shape) == 0)
    return op->emitOpError()
               << "takes elements of an empty tensor " << input.getType(),
           failure();
  bool whole = gathersWholeRows(op);
  if (at.lanes > 1 && !whole)
    return e.emitPerLane(op->getResult(0), at);
  ValueRange out = at.indices;
  SmallVector<Value> indices;
  auto position = [&](ValueRange tableIndices, int64_t extent,
                      int64_t component = 0) -> Result {
    Result raw = e.emitScalar(table, tableIndices, 1);
    if (failed(raw))
      return failure();
    emitIndexCheck(e, op, *raw, extent, component);
    return e.normalizeIndex(*raw, extent, /*clamp=*/true);
  };
  if (auto gather = dyn_cast<GatherOp>(op)) {
    size_t axis = gather.getAxis(), count = shapeOf(table).size();
    Result chosen = position(out.slice(axis, count), shape[axis]);
    if (failed(chosen))
      return failure();
    llvm::append_range(indices, out.take_front(axis));
    indices.push_back(*chosen);
    llvm::append_range(indices, out.drop_front(axis + count));
  } else if (auto gather = dyn_cast<GatherElementsOp>(op)) {
    Result chosen = position(out, shape[gather.getAxis()]);
    if (failed(chosen))
      return failure();
    llvm::append_range(indices, out);
    indices[gather.getAxis()] = *chosen;
  } else {
    auto gatherNd = cast<GatherNdOp>(op);
    size_t outer = shapeOf(table).size() - 1, batch = gatherNd.getBatchDims();
    int64_t tuple = shapeOf(table).back();
    llvm::append_range(indices, out.take_front(batch));
    SmallVector<Value> tableIndices(out.take_front(outer));
    tableIndices.push_back({});
    for (int64_t i = 0; i < tuple; ++i) {
      tableIndices.back() = e.index(i);
      Result chosen = position(tableIndices, shape[batch + i], i);
      if (failed(chosen))
        return failure();
      indices.push_back(*chosen);
    }
    llvm::append_range(indices, out.drop_front(outer));
  }
  LaneRange range = whole ? at.range : fullRange(input);
  return e.emit(input, Request{indices, at.lanes, at.mask, range});
}

/// start, start + 1, ... as i64 lanes (a scalar for one lane).
static Value positions(OpBuilder &builder, Location loc, Value start,
                       int64_t lanes) {
  Value first =
      arith::IndexCastOp::create(builder, loc, builder.getI64Type(), start);
  if (lanes == 1)
    return first;
  auto type = VectorType::get({lanes}, builder.getI64Type());
  SmallVector<int64_t> steps = llvm::to_vector(llvm::seq<int64_t>(0, lanes));
  Value step = arith::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(type, ArrayRef<int64_t>(steps)));
  Value base = vector::BroadcastOp::create(builder, loc, type, first);
  return arith::AddIOp::create(builder, loc, base, step);
}

static FailureOr<Value> emitOneHot(ElementEmitter &e, Operation *op,
                                   const Request &at) {
  OpBuilder &builder = e.getBuilder();
  Location loc = e.getLoc();
  auto oneHot = cast<OneHotOp>(op);
  size_t axis = oneHot.getAxis();
  bool last = axis + 1 == at.indices.size();
  SmallVector<Value> indices(at.indices);
  indices.erase(indices.begin() + axis);
  Value table = oneHot.getIndices();
  // Along the new axis the lanes share one index, elsewhere one position.
  Result raw =
      last ? e.emitScalar(table, indices, 1)
           : e.emit(table, Request{indices, at.lanes, at.mask, at.range});
  if (failed(raw))
    return failure();
  ValueMath math(builder, loc);
  Value chosen = *raw;
  if (!getElementTypeOrSelf(chosen.getType()).isInteger(64))
    chosen = math.extendSigned(chosen, builder.getI64Type());
  chosen = e.splat(chosen, at.lanes);
  Value negative = math.compare(CmpIPredicate::slt, chosen,
                                math.integer(chosen.getType(), 0));
  chosen =
      math.select(negative, math.addInt(chosen, oneHot.getDepth()), chosen);
  Value place =
      last ? positions(builder, loc, at.indices[axis], at.lanes)
           : e.splat(positions(builder, loc, at.indices[axis], 1), at.lanes);
  Value hit = math.compare(CmpIPredicate::eq, chosen, place);
  Result on = e.emitScalar(oneHot.getOn(), {}, at.lanes);
  Result off = e.emitScalar(oneHot.getOff(), {}, at.lanes);
  if (failed(on) || failed(off))
    return failure();
  return math.select(hit, *on, *off);
}

static FailureOr<Value> emitIota(ElementEmitter &e, Operation *op,
                                 const Request &at) {
  OpBuilder &builder = e.getBuilder();
  Location loc = e.getLoc();
  auto iota = cast<IotaOp>(op);
  size_t axis = iota.getAxis();
  bool last = axis + 1 == at.indices.size();
  Value place =
      last ? positions(builder, loc, at.indices[axis], at.lanes)
           : e.splat(positions(builder, loc, at.indices[axis], 1), at.lanes);
  Type elementType = getElementTypeOrSelf(iota.getResult().getType());
  Type type = carriedType(elementType);
  ValueMath math(builder, loc);
  if (isa<FloatType>(type)) {
    Value value = arith::SIToFPOp::create(
        builder, loc, ValueMath::withElement(place.getType(), type), place);
    return e.round(value, elementType);
  }
  return type.isInteger(64) ? place : math.truncateInt(place, type);
}

//===----------------------------------------------------------------------===//
// Dispatch
//===----------------------------------------------------------------------===//

FailureOr<Value> mpc::emitIndexing(ElementEmitter &e, Operation *op,
                                   const Request &at) {
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return e.emitOperand(broadcast.getInput(), at);
  if (std::optional<Access> access = accessOf(op))
    return emitAccess(e, op, *access, at);
  return TypeSwitch<Operation *, Result>(op)
      .Case([&](ReshapeOp) { return emitReshape(e, op, at); })
      .Case([&](ConcatOp) { return emitConcat(e, op, at); })
      .Case([&](PadOp) { return emitPad(e, op, at); })
      .Case<GatherOp, GatherElementsOp, GatherNdOp>(
          [&](auto) { return emitGather(e, op, at); })
      .Case([&](OneHotOp) { return emitOneHot(e, op, at); })
      .Case([&](IotaOp) { return emitIota(e, op, at); })
      .Case([&](DequantizeOp narrow) -> Result {
        bool isWhole = !at.mask && e.startsAtMultiple(at) &&
                       narrow.getGroup() % at.lanes == 0;
        if (at.lanes > 1 && !isWhole)
          return e.emitPerLane(narrow.getResult(), at);
        Result value = emitDequantized(e, narrow, at.indices, at.lanes);
        // The stored numbers are exact in this type by construction.
        Type element = getElementTypeOrSelf(narrow.getResult().getType());
        if (succeeded(value) && !element.isF32())
          e.markRounded(*value, element);
        return value;
      })
      .Default([&](Operation *) { return emitComputed(e, op, at); });
}
