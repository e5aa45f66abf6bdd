//===- ContractionEmitter.cpp - base class of GEMM-like emitters ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ContractionEmitter.h"

#include "../Kernel/MathExpansion.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Blocks and panels
//===----------------------------------------------------------------------===//

BlockRows::BlockRows(const IndexMath &math, const RowSplit &split, Value block)
    : math(math), split(split),
      firstRow(
          math.add(math.mul(block, split.rows), math.min(block, split.larger))),
      isLarge(split.larger ? math.less(block, split.larger) : Value()) {}

Value BlockRows::choose(int64_t ofLarge, int64_t ofOthers) const {
  Value others = math.constant(ofOthers);
  if (!isLarge)
    return others;
  return arith::SelectOp::create(math.b, math.loc, isLarge,
                                 math.constant(ofLarge), others);
}

void BlockRows::with(llvm::function_ref<void(int64_t)> body) const {
  if (isLarge)
    math.branch(
        isLarge, [&] { body(split.rows + 1); }, [&] { body(split.rows); });
  else
    body(split.rows);
}

ContractionEmitter::Range ContractionEmitter::groupOf(Value group, int64_t each,
                                                      int64_t all) {
  Value begin = math.mul(group, each);
  return {begin, math.min(math.add(begin, each), all)};
}

Value ContractionEmitter::firstColumn(Value number) const {
  return math.add(math.mul(groupOfPanel(number), contraction.width()),
                  math.mul(math.rem(number, panelsOfGroup), columns));
}

void ContractionEmitter::withColumns(
    Value number, llvm::function_ref<void(int64_t)> body) const {
  withColumns(panels == panelsOfGroup ? number
                                      : math.rem(number, panelsOfGroup),
              contraction.width(), columns, body);
}

void ContractionEmitter::withColumns(
    Value number, int64_t extent, int64_t columns,
    llvm::function_ref<void(int64_t)> body) const {
  int64_t panels = llvm::divideCeil(extent, columns);
  int64_t rest = extent - (panels - 1) * columns;
  if (panels == 1 || rest == columns)
    body(rest);
  else
    math.branch(
        math.less(number, panels - 1), [&] { body(columns); },
        [&] { body(rest); });
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

ContractionEmitter::ContractionEmitter(const ContractionKernel &from)
    : contraction(from.contraction), blocks(from.blocks),
      loc(contraction.op->getLoc()),
      b(from.impl->getRegion(0).front().getTerminator()), math{b, loc},
      arguments(from.kernel, from.impl), sumType(contraction.sumType),
      lanes(contraction.lanes), columns(blocks.getColumns()),
      panelsOfGroup(contraction.panelsOfGroup(columns)),
      panels(contraction.groups() * panelsOfGroup),
      panelsPerItem(perItem(blocks.getPanelsPerItem(), panels)),
      panelGroups(llvm::divideCeil(panels, panelsPerItem)),
      terms(contraction.terms), kernel(from.kernel), impl(from.impl),
      stored(from.kernel, contraction.op) {
  panel.columns = columns;
  panel.form = contraction.panelForm;
  if (DequantizeOp narrow = contraction.narrow) {
    panel.areSigned =
        !getElementTypeOrSelf(narrow.getValues().getType()).isUnsignedInteger();
    panel.commonZero = narrow.getCommonZero();
  }
  if (isTiled(contraction.unit))
    tiles.emplace(b, from.impl, contraction.target.emulatesUnits());
}

FailureOr<int64_t> ContractionEmitter::run() {
  if (failed(stored.check()))
    return failure();
  prepare();
  auto own = tile::ForEachOp::create(b, loc, items, cyclesPerItem,
                                     /*inOrder=*/false);
  b.setInsertionPoint(own.getBody().front().getTerminator());
  emitItem(own.getItem());
  if (laterItems > 0) {
    b.setInsertionPointAfter(own);
    // Negligible compared with the items before.
    auto later = tile::ForEachOp::create(b, loc, laterItems, /*cycles=*/1.0,
                                         /*inOrder=*/true);
    b.setInsertionPoint(later.getBody().front().getTerminator());
    emitLaterItem(later.getItem());
  }
  if (tiles)
    tiles->finish();
  if (failed(status))
    return failure();
  return scratchBytes;
}

Value ContractionEmitter::memoryOf(Value tensor) const {
  auto argument = dyn_cast<BlockArgument>(stripReshapes(tensor));
  return argument ? arguments.inputs()[argument.getArgNumber()] : Value();
}

ElementEmitter ContractionEmitter::makeEmitter() {
  ElementEmitter emitter(b, loc, elementTarget(contraction.target));
  for (auto [argument, memref] :
       llvm::zip_equal(kernel.getArguments(), arguments.inputs()))
    emitter.bindMemory(argument, memref);
  return emitter;
}

Value ContractionEmitter::toSumType(Value value, Type element) {
  if (getElementTypeOrSelf(value.getType()) == sumType)
    return value;
  Type type = sumType;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    type = vector.clone(sumType);
  if (isa<FloatType>(sumType))
    return arith::ExtFOp::create(b, loc, type, value);
  if (element.isUnsignedInteger())
    return arith::ExtUIOp::create(b, loc, type, value);
  return arith::ExtSIOp::create(b, loc, type, value);
}

Value ContractionEmitter::termOf(Value factors) {
  if (terms.count == 1)
    return factors;
  ValueMath values(b, loc);
  auto next = [&](Value from) {
    if (!terms.areAll)
      return values.roundToBf16(from);
    // Truncating any operand leaves no remainder after the last bf16 term.
    Value upper = values.bitAnd(values.bits(from), int64_t(0xffff0000));
    return values.fromBits(upper, from.getType());
  };
  for (int64_t before = 0; before < term; ++before)
    factors = values.sub(factors, next(factors));
  return next(factors);
}

void ContractionEmitter::forTerms(int64_t plane,
                                  llvm::function_ref<void(Value)> body) {
  for (term = 0; term < terms.count; ++term)
    body(math.constant(term * plane));
  term = 0;
}

Value ContractionEmitter::load(Value tensor, ValueRange indices,
                               int64_t lanes) {
  return termOf(loadWhole(tensor, indices, lanes));
}

Value ContractionEmitter::loadWhole(Value tensor, ValueRange indices,
                                    int64_t lanes) {
  FailureOr<Value> value = makeEmitter().emit(tensor, indices, lanes);
  if (succeeded(value))
    return toSumType(*value, getElementTypeOrSelf(tensor.getType()));
  status = failure();
  return arith::ConstantOp::create(b, loc,
                                   b.getZeroAttr(lanesOf(sumType, lanes)));
}

Value ContractionEmitter::patternsOf(Value values) {
  ValueMath math(b, loc);
  if (!isa<FloatType>(sumType))
    return math.truncateInt(values, contraction.rowType());
  // The values were f16.
  if (contraction.isF16())
    return math.bits(math.truncateFloat(values, b.getF16Type()));
  return math.truncateInt(math.shiftRight(math.bits(values), 16),
                          b.getI16Type());
}

Value ContractionEmitter::wordsOf(Value k, int64_t count,
                                  llvm::function_ref<Value(Value)> factors) {
  Value first = factors(k);
  if (!contraction.isPaired())
    return first;
  ValueMath values(b, loc);
  if (!isa<FloatType>(sumType)) {
    int64_t bits = 32 / contraction.depthOfStep();
    Value words = values.bitAnd(first, (int64_t(1) << bits) - 1);
    for (int64_t at = 1; at < count; ++at) {
      Value next =
          values.bitAnd(factors(math.add(k, at)), (int64_t(1) << bits) - 1);
      words = values.bitOr(words, values.shiftLeft(next, at * bits));
    }
    return words;
  }
  if (contraction.isF16()) {
    auto half = [&](Value factor) {
      return values.extendUnsigned(patternsOf(factor), b.getI32Type());
    };
    Value words = half(first);
    if (count == 1)
      return words;
    Value second = half(factors(math.add(k, 1)));
    return values.bitOr(words, values.shiftLeft(second, 16));
  }
  Value words = values.shiftRight(values.bits(first), 16);
  if (count == 1)
    return words;
  Value second = values.bits(factors(math.add(k, 1)));
  return values.bitOr(words, values.bitAnd(second, int64_t(0xffff0000)));
}

void ContractionEmitter::store(Value value, Value memory, Value at) {
  Type stored = cast<MemRefType>(memory.getType()).getElementType();
  if (getElementTypeOrSelf(value.getType()) != stored)
    value = patternsOf(value);
  if (isa<VectorType>(value.getType()))
    vector::StoreOp::create(b, loc, value, memory, at);
  else
    memref::StoreOp::create(b, loc, value, memory, at);
}

void ContractionEmitter::storeNumbers(int64_t number, Value memory, Value at,
                                      int64_t lanes) {
  Type stored = cast<MemRefType>(memory.getType()).getElementType();
  Type type = lanesOf(stored, lanes);
  TypedAttr value = cast<TypedAttr>(b.getZeroAttr(type));
  if (number) {
    // As bits: a ui8 attribute is no i8.
    unsigned width = stored.getIntOrFloatBitWidth();
    value = b.getIntegerAttr(stored, APInt(width, number, /*isSigned=*/true,
                                           /*implicitTrunc=*/true));
    if (auto vector = dyn_cast<VectorType>(type))
      value = DenseElementsAttr::get(vector, Attribute(value));
  }
  store(arith::ConstantOp::create(b, loc, value), memory, at);
}

void ContractionEmitter::forPowers(
    int64_t count, int64_t most,
    llvm::function_ref<void(int64_t, int64_t)> body) {
  int64_t at = 0;
  for (int64_t lanes = most; lanes >= 1; lanes /= 2)
    for (; count - at >= lanes; at += lanes)
      body(at, lanes);
}

void ContractionEmitter::forRuns(
    int64_t count, int64_t most,
    llvm::function_ref<void(Value, int64_t)> body) {
  int64_t whole = count - count % most;
  if (whole)
    math.loop(math.constant(0), math.constant(whole), most,
              [&](Value at) { body(at, most); });
  forPowers(count - whole, most, [&](int64_t at, int64_t lanes) {
    body(math.constant(whole + at), lanes);
  });
}

Value ContractionEmitter::area(int64_t elements, Type type) {
  elements = std::max<int64_t>(elements, 1);
  Value view = math.view(arguments.scratch, scratchBytes, elements, type);
  scratchBytes += llvm::alignTo(elements * bytesPerElement(type), 64);
  return view;
}

Value ContractionEmitter::sharedArea(int64_t elements) {
  // Insert before the item range and scratch memory.
  unsigned place = impl.getNumArguments() - 3;
  auto type = MemRefType::get({elements}, sumType);
  if (failed(impl.insertArgument(place, type, {}, loc)))
    status = failure();
  auto apart = cast<DenseBoolArrayAttr>(impl->getAttr(kNoAliasAttr));
  SmallVector<bool> buffers(apart.asArrayRef());
  buffers.push_back(true);
  impl->setAttr(kNoAliasAttr, b.getDenseBoolArrayAttr(buffers));
  impl->setAttr(kSharedBytesAttr,
                b.getI64IntegerAttr(elements * bytesPerElement(sumType)));
  return impl.getArgument(place);
}

Value ContractionEmitter::asBits(Value memory, Type type) {
  Value flat = math.flatten(memory);
  auto stored = cast<MemRefType>(flat.getType());
  if (!contraction.isPaired() || stored.getElementType() == type)
    return flat;
  // One-dimensional memrefs of any type lower to the same pointer, and this
  // cast to nothing.
  int64_t count = stored.getNumElements() *
                  bytesPerElement(stored.getElementType()) /
                  bytesPerElement(type);
  return UnrealizedConversionCastOp::create(
             b, loc, MemRefType::get({count}, type), flat)
      .getResult(0);
}

Value ContractionEmitter::stack(int64_t elements) {
  return memref::AllocaOp::create(b, loc, MemRefType::get({elements}, sumType),
                                  b.getI64IntegerAttr(64));
}
