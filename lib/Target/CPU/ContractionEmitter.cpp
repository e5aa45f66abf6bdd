//===- ContractionEmitter.cpp - base class of GEMM-like emitters ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ContractionEmitter.h"

#include "EmulatedArithmetic.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

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
  return isLarge ? ValueMath(math.b, math.loc)
                       .select(isLarge, math.constant(ofLarge), others)
                 : others;
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
      values(b, loc), arguments(KernelMemory::of(from.kernel, from.impl)),
      sumType(contraction.sumType), lanes(contraction.lanes),
      columns(blocks.getColumns()),
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
  auto argument = dyn_cast<BlockArgument>(sourceOfReshapes(tensor));
  return argument ? arguments.inputs[argument.getArgNumber()] : Value();
}

ElementEmitter ContractionEmitter::makeEmitter() {
  ElementEmitter emitter(b, loc, elementTarget(contraction.target));
  for (auto [argument, memref] :
       llvm::zip_equal(kernel.getArguments(), arguments.inputs))
    emitter.bindMemory(argument, memref);
  return emitter;
}

Value ContractionEmitter::toSumType(Value value, Type element) {
  if (getElementTypeOrSelf(value.getType()) == sumType)
    return value;
  return isa<FloatType>(sumType)
             ? values.extendFloat(value, sumType)
             : values.extendInt(value, sumType, element.isUnsignedInteger());
}

Value ContractionEmitter::termOf(Value factors) {
  if (terms.count == 1)
    return factors;
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
  return toSumType(elementsOf(tensor, indices, lanes),
                   getElementTypeOrSelf(tensor.getType()));
}

Value ContractionEmitter::elementsOf(Value tensor, ValueRange indices,
                                     int64_t lanes, Value mask) {
  ElementEmitter emitter = makeEmitter();
  Value value = emitter.value(tensor, indices, lanes, mask);
  if (failed(emitter.status()))
    status = failure();
  return value;
}

Value ContractionEmitter::patternsOf(Value factors) {
  if (!isa<FloatType>(sumType))
    return values.truncateInt(factors, contraction.rowType());
  // The values were f16.
  if (contraction.isF16())
    return values.bits(values.truncateFloat(factors, b.getF16Type()));
  return values.truncateInt(values.shiftRight(values.bits(factors), 16),
                            b.getI16Type());
}

Value ContractionEmitter::wordsOf(Value k, int64_t count,
                                  llvm::function_ref<Value(Value)> factors) {
  Value first = factors(k);
  if (!contraction.isPaired())
    return first;
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
  return pairOf(first, count > 1 ? factors(math.add(k, 1)) : Value());
}

Value ContractionEmitter::pairOf(Value first, Value second) {
  Value words = values.shiftRight(values.bits(first), 16);
  if (!second)
    return words;
  return values.bitOr(words,
                      values.bitAnd(values.bits(second), int64_t(0xffff0000)));
}

void ContractionEmitter::store(Value value, Value memory, Value at) {
  Type stored = cast<MemRefType>(memory.getType()).getElementType();
  if (getElementTypeOrSelf(value.getType()) != stored)
    value = patternsOf(value);
  math.store(value, memory, at);
}

void ContractionEmitter::storeNumbers(int64_t number, Value memory, Value at,
                                      int64_t lanes) {
  Type stored = cast<MemRefType>(memory.getType()).getElementType();
  store(values.constant(lanesOf(stored, lanes),
                        isa<IntegerType>(stored) ? double(number) : 0),
        memory, at);
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

//===----------------------------------------------------------------------===//
// Packing of operands into panels
//===----------------------------------------------------------------------===//

void ContractionEmitter::packRows(Value tensor, Indices indices, Value rowCount,
                                  Value first, int64_t extent, Value memory,
                                  Value offset, int64_t pitch) {
  math.loop(math.constant(0), rowCount, 1, [&](Value row) {
    SmallVector<Value> at = indices(row);
    at.emplace_back();
    Value base = math.add(offset, math.mul(row, pitch));
    forRuns(extent, 4 * lanes, [&](Value column, int64_t count) {
      at.back() = math.add(first, column);
      copyRun(tensor, at, count, memory, math.add(base, column));
    });
  });
}

/// Transposes first inside lanes of 128 bits, then whole 128-bit lanes: the
/// instructions for both have their permutations as immediates, whereas
/// permutations in registers would stay live through the following loops and
/// displace accumulators.
SmallVector<Value> ContractionEmitter::transposed(ValueRange vectors) {
  auto type = cast<VectorType>(vectors.front().getType());
  int64_t lanes = vectors.size();
  int64_t part = std::min<int64_t>(lanes, 128 / type.getElementTypeBitWidth());
  auto shuffle = [&](Value x, Value y,
                     llvm::function_ref<int64_t(int64_t)> lane) {
    return values.shuffle(
        x, y, llvm::map_to_vector(llvm::seq<int64_t>(0, lanes), lane));
  };
  SmallVector<Value> now(vectors);
  // Interleave runs of `run` elements of two vectors: those of the lower halves
  // of 128-bit lanes in one result, those of the upper halves in the other.
  for (int64_t run = 1; run < part; run *= 2)
    for (int64_t i = 0; i < lanes; ++i) {
      if (i & run)
        continue;
      Value x = now[i], y = now[i + run];
      auto half = [&](int64_t first) {
        return shuffle(x, y, [&](int64_t lane) {
          int64_t inPart = lane % part, turn = inPart / run;
          return lane - inPart + first + turn / 2 * run + inPart % run +
                 turn % 2 * lanes;
        });
      };
      now[i] = half(0);
      now[i + run] = half(part / 2);
    }
  // Now vector g * part + p has, per 128-bit lane, element bit-reversed p of
  // the rows from g * part on.
  int64_t groups = lanes / part;
  SmallVector<Value> result(lanes);
  for (int64_t p = 0; p < part; ++p) {
    SmallVector<Value> blocks;
    for (int64_t g = 0; g < groups; ++g)
      blocks.push_back(now[g * part + p]);
    for (int64_t stage = 1; stage < groups; stage *= 2) {
      SmallVector<Value> next(groups);
      for (int64_t i = 0; i < groups / 2; ++i)
        for (int64_t odd = 0; odd < 2; ++odd)
          next[i + odd * groups / 2] =
              shuffle(blocks[2 * i], blocks[2 * i + 1], [&](int64_t lane) {
                return (2 * (lane / part) + odd) * part + lane % part;
              });
      blocks = std::move(next);
    }
    int64_t column = 0;
    for (int64_t bit = 1; bit < part; bit *= 2)
      column = 2 * column + ((p & bit) != 0);
    for (int64_t g = 0; g < groups; ++g)
      result[g * part + column] = blocks[g];
  }
  return result;
}

void ContractionEmitter::packRowsAcross(
    int64_t rowCount, int64_t extent, Value memory, Value offset, int64_t pitch,
    llvm::function_ref<Value(Value, Value, int64_t)> elements) {
  auto place = [&](Value row, Value k) {
    return math.add(math.add(offset, math.mul(row, pitch)), k);
  };
  if (rowCount < lanes || extent < lanes)
    return math.loop(extent, [&](Value k) {
      math.loop(rowCount, [&](Value row) {
        store(elements(row, k, 1), memory, place(row, k));
      });
    });
  // Square blocks; the last ones overlap if extents are no multiples.
  auto squares = [&](int64_t count, llvm::function_ref<void(Value)> body) {
    math.loop(llvm::divideCeil(count, lanes), [&](Value number) {
      body(math.min(math.mul(number, lanes), count - lanes));
    });
  };
  squares(extent, [&](Value k) {
    squares(rowCount, [&](Value row) {
      SmallVector<Value> lines;
      for (int64_t i = 0; i < lanes; ++i)
        lines.push_back(elements(row, math.add(k, i), lanes));
      for (auto [i, line] : llvm::enumerate(transposed(lines)))
        store(line, memory, place(math.add(row, i), k));
    });
  });
}

void ContractionEmitter::forSteps(
    int64_t count, llvm::function_ref<void(Value, Value, int64_t)> body) {
  int64_t depth = contraction.depthOfStep(), whole = count / depth;
  math.loop(whole,
            [&](Value step) { body(step, math.mul(step, depth), depth); });
  if (count % depth)
    body(math.constant(whole), math.constant(whole * depth), count % depth);
}

void ContractionEmitter::packColumns(
    int64_t columns, int64_t count, int64_t depth, bool asVectors, Value memory,
    Value offset, llvm::function_ref<Value(Value, Value, int64_t)> elements,
    llvm::function_ref<Value(Value)> place) {
  auto target = [&](Value n, Value step) {
    return math.add(math.add(offset, n), math.mul(place(step), columns));
  };
  Type word = cast<MemRefType>(memory.getType()).getElementType();
  // Blocks of words are transposed in registers.
  int64_t square = depth * lanes;
  int64_t whole = asVectors ? count - count % square : 0;
  if (whole)
    math.loop(math.constant(0), math.constant(whole), square, [&](Value k) {
      math.loop(math.constant(0), math.constant(columns), lanes, [&](Value n) {
        SmallVector<Value> rows;
        for (int64_t i = 0; i < lanes; ++i) {
          Value row = elements(math.add(n, i), k, square);
          if (depth > 1)
            row = values.reinterpret(patternsOf(row), word);
          rows.push_back(row);
        }
        Value step = math.div(k, depth);
        for (auto [i, row] : llvm::enumerate(transposed(rows)))
          store(row, memory, target(n, math.add(step, i)));
      });
    });
  // `rest` steps from position `whole` on.
  auto packRest = [&](int64_t from, int64_t rest, int64_t positions) {
    math.loop(math.constant(0), math.constant(rest), 1, [&](Value local) {
      Value step = math.add(local, from / depth);
      Value k = math.mul(step, depth);
      math.loop(columns, [&](Value n) {
        auto factor = [&](Value position) { return elements(n, position, 1); };
        Value word = depth > 1 ? wordsOf(k, positions, factor) : factor(k);
        store(word, memory, target(n, step));
      });
    });
  };
  int64_t rest = (count - whole) / depth;
  if (rest)
    packRest(whole, rest, depth);
  if (count % depth)
    packRest(whole + rest * depth, 1, count % depth);
}

void ContractionEmitter::packPanel(Value tensor, ValueRange leading,
                                   bool transposed, Value number,
                                   int64_t columns, Value from, int64_t count,
                                   Value memory, Value offset) {
  auto shape = cast<RankedTensorType>(tensor.getType()).getShape();
  int64_t width = shape[shape.size() - (transposed ? 2 : 1)];
  Value first = math.mul(number, columns);
  SmallVector<Value> at(leading);
  if (transposed) {
    // Missing columns repeat the last one: their accumulators are dropped.
    packColumns(
        columns, count, contraction.depthOfStep(), /*asVectors=*/true, memory,
        offset,
        [&](Value n, Value k, int64_t lanes) {
          at.truncate(leading.size());
          at.append(
              {math.min(math.add(first, n), width - 1), math.add(from, k)});
          return load(tensor, at, lanes);
        },
        [](Value step) { return step; });
    return;
  }
  withColumns(number, width, columns, [&](int64_t used) {
    forSteps(count, [&](Value step, Value k, int64_t positions) {
      Value base = math.add(offset, math.mul(step, columns));
      fetchLines(tensor, leading, math.add(from, k), positions, first, used);
      forPowers(used, 2 * lanes, [&](int64_t n, int64_t run) {
        auto line = [&](Value position) {
          at.truncate(leading.size());
          at.append({math.add(from, position), math.add(first, n)});
          return load(tensor, at, run);
        };
        store(wordsOf(k, positions, line), memory, math.add(base, n));
      });
      // Accumulators of missing columns are dropped; zeros keep them from being
      // NaN.
      clear(memory, base, used, columns, 2 * lanes);
    });
  });
}

void ContractionEmitter::packPanels(Value tensor, ValueRange leading,
                                    Range numbers, Value first, int64_t count,
                                    Value memory, Value offset, int64_t steps,
                                    bool inOrder) {
  bool isTransposed = contraction.transposeRhs;
  bool isStored =
      contraction.packed && contraction.form != ContractionForm::Packing;
  auto packAll = [&](Value step, Value k, int64_t length) {
    math.loop(numbers.begin, numbers.end, 1, [&](Value number) {
      Value local = math.sub(number, numbers.begin);
      Value to =
          math.add(math.mul(local, steps * columns), math.mul(step, columns));
      to = math.add(offset, to);
      Value from = math.add(first, k);
      if (contraction.dequantizesPanels())
        return dequantizePanel(number, to);
      if (isStored)
        return packStoredPanel(number, from, length, to);
      packPanel(tensor, leading, isTransposed, number, columns, from, length,
                memory, to);
    });
  };
  if (inOrder && !isTransposed)
    forSteps(count, packAll);
  else
    packAll(math.constant(0), math.constant(0), count);
}

void ContractionEmitter::packStoredPanel(Value number, Value first,
                                         int64_t count, Value offset) {
  Value memory = math.flatten(memoryOf(contraction.rhs()));
  // Rows of a stored panel.
  int64_t lines =
      cast<RankedTensorType>(contraction.rhs().getType()).getDimSize(1);
  int64_t depth = contraction.packed.getDepth();
  forSteps(count, [&](Value step, Value k, int64_t positions) {
    Value line =
        math.add(math.mul(number, lines), math.div(math.add(first, k), depth));
    for (int64_t column = 0; column < columns; column += lanes) {
      Value at = math.add(math.mul(line, depth * columns), depth * column);
      // A word contains the operands of one step.
      auto factors = [&](int64_t position) -> Value {
        if (depth == 1)
          return math.load(memory, math.add(at, position * columns), lanes);
        return halfOf(values, position == 1,
                      values.reinterpret(math.load(memory, at, 2 * lanes),
                                         b.getI32Type()));
      };
      Value first = termOf(factors(0));
      store(pairOf(first, positions == 2 ? termOf(factors(1)) : Value()),
            panel.memory,
            math.add(math.add(offset, math.mul(step, columns)), column));
    }
  });
}

Value ContractionEmitter::numbersOfByte(Value words, int64_t byte, Value zeros,
                                        Value scale) {
  DequantizeOp narrow = contraction.narrow;
  Value number;
  if (!zeros && narrow.getCommonZero() == 128 && !narrow.getNibbles()) {
    // Without its zero point, such a byte is the signed one of the other sign
    // bit.
    Value bytes = values.bitXor(words, int64_t(0x80808080));
    number =
        values.shiftRightSigned(values.shiftLeft(bytes, 24 - 8 * byte), 24);
  } else {
    number = values.bitAnd(values.shiftRight(words, 8 * byte), 0xff);
    number = zeros ? values.sub(number, zeros)
                   : values.sub(number, double(narrow.getCommonZero()));
  }
  return values.mul(values.toFloat(number, sumType), scale);
}

void ContractionEmitter::dequantizePanel(Value number, Value offset) {
  DequantizeOp narrow = contraction.narrow;
  Value memory = math.flatten(memoryOf(narrow.getValues()));
  Type i32 = b.getI32Type();
  // A line has a word per column: the bytes of four positions or, as nibbles,
  // of eight.
  int64_t bytes = narrow.getDepth(), nibbles = narrow.getNibbles() ? 2 : 1;
  int64_t linesOfGroup = narrow.getGroup() / (bytes * nibbles);
  int64_t groups = contraction.product.depth / narrow.getGroup();
  int64_t vectors = columns / lanes;
  panel.number = number;
  auto pack = [&](Value group, Value line, ArrayRef<Value> scales,
                  ArrayRef<Value> zeros) {
    line = math.add(math.mul(group, linesOfGroup), line);
    Value from =
        math.mul(math.add(math.mul(number, groups * linesOfGroup), line),
                 bytes * columns);
    Value to = math.add(offset, math.mul(line, bytes * nibbles / 2 * columns));
    for (int64_t v = 0; v < vectors; ++v) {
      Value words = values.reinterpret(
          math.load(memory, math.add(from, v * lanes * bytes), bytes * lanes),
          i32);
      for (int64_t half = 0; half < nibbles; ++half) {
        Value part = words;
        if (nibbles > 1)
          part = values.bitAnd(half ? values.shiftRight(words, 4) : words,
                               0x0f0f0f0f);
        for (int64_t byte = 0; byte < bytes; byte += 2) {
          // Exact in bf16 by construction.
          auto numbersOf = [&](int64_t byte) {
            return numbersOfByte(part, byte, zeros.empty() ? Value() : zeros[v],
                                 scales[v]);
          };
          Value first = numbersOf(byte);
          Value pair = pairOf(first, numbersOf(byte + 1));
          store(pair, panel.memory,
                math.add(to, (half * bytes + byte) / 2 * columns + v * lanes));
        }
      }
    }
  };
  math.loop(math.constant(0), math.constant(groups), 1, [&](Value group) {
    SmallVector<Value> scales =
        loadOfGroup(narrow.getScale(), group, vectors, sumType);
    SmallVector<Value> zeros;
    if (narrow.getZero())
      zeros = loadOfGroup(narrow.getZero(), group, vectors, i32);
    math.loop(math.constant(0), math.constant(linesOfGroup), 1,
              [&](Value line) { pack(group, line, scales, zeros); });
  });
}

void ContractionEmitter::fetchLines(Value tensor, ValueRange leading,
                                    Value line, int64_t lines, Value first,
                                    int64_t elements) {
  constexpr int64_t kDistance = 40;
  if (!memoryOf(tensor) ||
      tensor.getType() != sourceOfReshapes(tensor).getType())
    return;
  SmallVector<Value> at(leading);
  at.append({line, first});
  for (int64_t i = 0; i < lines; ++i) {
    at.end()[-2] = math.add(line, kDistance + i);
    fetch(memoryOf(tensor), at, elements);
  }
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

void ContractionEmitter::prepareSums(int64_t elements, int64_t tiles) {
  tileElements = elements;
  if (terms.count > 1)
    spare = stack(2 * elements);
  if (!storesAccumulators()) {
    sums = stack(elements);
    return;
  }
  sumElements = tiles * elements;
  sumsStart = scratchBytes;
  sums = area(sumElements, sumType);
}

void ContractionEmitter::clearSums() {
  math.loop(math.constant(0), math.constant(sumElements), lanes,
            [&](Value at) { storeZeros(sums, at, lanes); });
}

Value ContractionEmitter::plainResult() const {
  Operation *op = contraction.op;
  auto yields =
      func::FuncOp(kernel).getBody().front().getTerminator()->getOperands();
  if (yields.size() != 1 || yields.front() != op->getResult(0))
    return {};
  Value memory = arguments.outputs.front();
  auto type = cast<MemRefType>(memory.getType());
  return type.getElementType() == sumType ? memory : Value();
}

void ContractionEmitter::multiply(ArrayRef<int64_t> rowOffsets, int64_t vectors,
                                  Value memory, Value base,
                                  ArrayRef<KLoop> loops, Value offset,
                                  const RowPrefetch &ahead) {
  RegisterBlock block = blockOf(rowOffsets, vectors);
  if (tiles)
    return emitTileKernel(b, loc, *tiles, block, memory, base, panel, loops,
                          {sums, offset, columns}, /*add=*/storesAccumulators(),
                          spare);
  if (storesAccumulators())
    for (int64_t r = 0; r < block.rows(); ++r)
      fetch(sums, math.add(offset, r * columns), vectors * lanes);
  if (std::optional<DepthSplits> parts = partsOfDepth(block, loops))
    return multiplyParts(block, memory, base, loops, *parts, offset, ahead);
  cpu::storeSums(
      b, loc, block,
      emitMicroKernel(b, loc, block, memory, base, panel, loops, ahead), sums,
      columns, offset, /*add=*/storesAccumulators());
}

std::optional<DepthSplits>
ContractionEmitter::partsOfDepth(const RegisterBlock &block,
                                 ArrayRef<KLoop> loops) const {
  // Narrow operands are less accurate than any summation order; a quantized
  // panel's are as accurate as others. A canonical order is that of all forms.
  bool canonical = contraction.target.isReproducible;
  bool isExact =
      panel.form == PanelForm::Plain || contraction.narrow || canonical;
  if (block.unit != ArithmeticUnit::MultiplyAdd || !sumType.isF32() || !isExact)
    return std::nullopt;
  if (!panel.isScaled())
    return partsOf(loops, kSegmentSteps, canonical);
  // A split has one scale. For int4 it starts at a whole byte.
  int64_t group = contraction.narrow.getGroup();
  std::optional<DepthSplits> parts =
      partsOf(loops, std::min(group, kSegmentSteps), canonical);
  if (!parts)
    return DepthSplits{0, loops.front().extent};
  int64_t steps = parts->size * panelSteps(loops.drop_front(parts->loop));
  if (panel.form == PanelForm::Nibbles && steps % 2)
    parts->size = kSegmentSteps;
  return parts;
}

Value ContractionEmitter::narrowGroupOf(Value k) const {
  DequantizeOp narrow = contraction.narrow;
  int64_t group = narrow.getGroup();
  bool isOnly = narrow.getResult().getType().getDimSize(1) == group;
  return isOnly ? math.constant(0) : math.div(k, group);
}

SmallVector<Value> ContractionEmitter::loadOfGroup(Value tensor, Value group,
                                                   int64_t vectors, Type type) {
  if (auto integers = tensor.getDefiningOp<DequantizeOp>()) {
    // Scales that share a factor.
    SmallVector<Value> found =
        loadOfGroup(integers.getValues(), group, vectors, type);
    SmallVector<Value> factors =
        loadOfGroup(integers.getScale(), math.div(group, integers.getGroup()),
                    vectors, type);
    for (auto [number, factor] : llvm::zip_equal(found, factors))
      number = values.mul(number, factor);
    return found;
  }
  int64_t groups = cast<RankedTensorType>(tensor.getType()).getDimSize(1);
  Value line = math.add(math.mul(panel.number, groups), group);
  Value memory = math.flatten(memoryOf(tensor));
  Type element = cast<MemRefType>(memory.getType()).getElementType();
  SmallVector<Value> found;
  for (int64_t v = 0; v < vectors; ++v) {
    Value loaded =
        math.load(memory, math.add(math.mul(line, columns), v * lanes), lanes);
    if (isa<IntegerType>(type))
      loaded = values.extendUnsigned(loaded, type);
    else if (isa<IntegerType>(element))
      loaded = values.toFloat(loaded, type, /*isUnsigned=*/true);
    else if (element != type)
      loaded = extendHalves(b, loc, VectorType::get({lanes}, type), loaded);
    found.push_back(loaded);
  }
  return found;
}

void ContractionEmitter::multiplyParts(const RegisterBlock &block, Value memory,
                                       Value base, ArrayRef<KLoop> loops,
                                       DepthSplits parts, Value offset,
                                       const RowPrefetch &ahead) {
  if (!storesAccumulators()) {
    Value zero = values.constant(VectorType::get({lanes}, sumType), 0);
    cpu::storeSums(b, loc, block,
                   SmallVector<Value>(block.rows() * block.vectors, zero), sums,
                   columns, offset);
  }
  Value start = panel.offset;
  // Adds the products of `extent` positions of loop `parts.loop`, from `first`
  // on; `position` is that of K.
  auto add = [&](Value row, Value column, Value first, Value position,
                 int64_t extent) {
    SmallVector<KLoop> part(loops.drop_front(parts.loop));
    part.front().extent = extent;
    part.front().begin = part.front().end = {};
    panel.offset = column;
    RowPrefetch next = ahead;
    if (next.begin)
      next.begin = math.add(next.begin, math.mul(first, ahead.stride));
    DequantizeOp narrow = contraction.narrow;
    if (narrow && narrow.getZero())
      panel.zeros = loadOfGroup(narrow.getZero(), narrowGroupOf(position),
                                block.vectors, sumType);
    SmallVector<Value> scales;
    auto loadScales = [&] {
      scales = loadOfGroup(narrow.getScale(), narrowGroupOf(position),
                           block.vectors, sumType);
    };
    bool hasOffset = narrow && narrow.getOffset();
    if (hasOffset) {
      loadScales();
      panel.scales = scales;
      panel.offsets = loadOfGroup(narrow.getOffset(), narrowGroupOf(position),
                                  block.vectors, sumType);
    }
    SmallVector<Value> products =
        emitMicroKernel(b, loc, block, memory, row, panel, part, next);
    if (narrow && narrow.getScale() && !hasOffset) {
      loadScales();
      for (auto [index, product] : llvm::enumerate(products))
        product = values.mul(product, scales[index % block.vectors]);
    }
    cpu::storeSums(b, loc, block, products, sums, columns, offset,
                   /*add=*/true);
  };
  auto walk = [&](auto &&self, size_t depth, Value row, Value column,
                  Value position) -> void {
    const KLoop &loop = loops[depth];
    int64_t steps = panelSteps(loops.drop_front(depth));
    auto at = [&](Value k, auto &&body) {
      body(math.add(row, math.mul(k, loop.rowStride)),
           math.add(column, math.mul(k, panel.stepPitch() * steps)),
           math.add(position, math.mul(k, steps)));
    };
    if (depth < parts.loop)
      return forEachStep(math, loop, [&](Value k) {
        at(k,
           [&](Value r, Value c, Value p) { self(self, depth + 1, r, c, p); });
      });
    auto addAt = [&](Value k, int64_t extent) {
      at(k, [&](Value r, Value c, Value p) { add(r, c, k, p, extent); });
    };
    if (loop.begin)
      return forEachStep(math, loop, [&](Value k) { addAt(k, 1); });
    int64_t whole = loop.extent / parts.size * parts.size;
    math.loop(math.constant(0), math.constant(whole), parts.size,
              [&](Value k) { addAt(k, parts.size); });
    if (whole < loop.extent)
      addAt(math.constant(whole), loop.extent - whole);
  };
  walk(walk, 0, base, start, math.constant(0));
  panel.offset = start;
}

void ContractionEmitter::fetch(Value memory, ValueRange at, int64_t elements,
                               Cache into) {
  SmallVector<Value> position(at);
  Type element = cast<MemRefType>(memory.getType()).getElementType();
  int64_t line = kLineBytes / bytesPerElement(element);
  for (int64_t first = 0; first < elements; first += line) {
    position.back() = math.add(at.back(), first);
    math.prefetch(memory, position, unsigned(into));
  }
}

void ContractionEmitter::prefetchResiduals(Value rowCount, Indices indices,
                                           Value column, int64_t used) {
  if (!blocks.fetchesResiduals())
    return;
  math.loop(math.constant(0), rowCount, 1, [&](Value row) {
    SmallVector<Value> at = indices(row);
    at.push_back(column);
    for (BlockArgument residual : contraction.residuals())
      fetch(memoryOf(residual), at, used);
  });
}

void ContractionEmitter::storeSums(Value offset, Value rowCount,
                                   Indices indices, unsigned columnDim,
                                   Value column, int64_t used) {
  Value tile = sums;
  if (storesAccumulators()) {
    Value start =
        math.add(math.mul(offset, bytesPerElement(sumType)), sumsStart);
    tile =
        memref::ViewOp::create(b, loc, MemRefType::get({tileElements}, sumType),
                               arguments.scratch, start, ValueRange{});
  }
  storeTile(tile, columns, rowCount, indices, columnDim, column, used);
}

void ContractionEmitter::recomputeOverflowed(Value tile, Value first,
                                             int64_t used, Indices positionOf) {
  DequantizeOp narrow = contraction.narrow;
  if (!narrow || !narrow.getScale() || narrow.getOffset() ||
      narrow.getDepth() > 1)
    return;
  // 0, except for infinities and NaNs, which give NaN.
  Value zeros = values.constant(VectorType::get({lanes}, sumType), 0);
  for (int64_t at = 0; at < used; at += lanes)
    zeros = values.fma(math.load(tile, math.add(first, at), lanes), 0.0, zeros);
  auto isNaN = [&](Value value) {
    return values.compare(arith::CmpFPredicate::UNO, value, value);
  };
  math.branch(values.any(isNaN(zeros)), [&] {
    math.loop(used, [&](Value offset) {
      Value at = math.add(first, offset);
      Value sum = math.load(tile, at);
      math.branch(isNaN(values.sub(sum, sum)), [&] {
        math.store(
            elementsOf(contraction.op->getResult(0), positionOf(offset), 1),
            tile, at);
      });
    });
  });
}

void ContractionEmitter::storeTile(Value tile, int64_t pitch, Value rowCount,
                                   Indices indices, unsigned columnDim,
                                   Value column, int64_t used) {
  auto type = cast<RankedTensorType>(contraction.op->getResult(0).getType());
  bool vectors = columnDim + 1 == type.getRank();
  auto load = [&](Value row, Value offset, int64_t lanes) {
    return math.load(tile, math.add(math.mul(row, pitch), offset), lanes);
  };
  auto positionOf = [&](Value row, Value place) {
    SmallVector<Value> position = indices(row);
    position.insert(position.begin() + columnDim, place);
    return position;
  };
  auto storeValues = [&](ArrayRef<Value> sums, Value row, Value place,
                         int64_t lanes, Value mask) {
    SmallVector<Value> position = positionOf(row, place);
    ElementEmitter emitter = makeEmitter();
    if (failed(stored.store(emitter, arguments.outputs, sums, position, lanes,
                            mask)))
      status = failure();
  };
  auto storeRun = [&](Value row, Value offset, int64_t lanes, Value mask) {
    storeValues(load(row, offset, lanes), row, math.add(column, offset), lanes,
                mask);
  };
  auto recompute = [&](Value row) {
    recomputeOverflowed(tile, math.mul(row, pitch), used, [&](Value offset) {
      return positionOf(row, math.add(column, offset));
    });
  };
  if (contraction.pair) {
    // Panels are whole blocks, and so are both halves.
    const GatedMatmulColumns &pair = *contraction.pair;
    Value first = math.div(column, 2);
    int64_t most = std::min(2 * lanes, pair.block);
    return math.loop(math.constant(0), rowCount, 1, [&](Value row) {
      recompute(row);
      forPowers(used / 2, most, [&](int64_t at, int64_t run) {
        SmallVector<Value, 2> halves;
        for (int64_t half : {0, 1})
          halves.push_back(
              load(row, math.constant(pair.placeOf(at, half)), run));
        storeValues(halves, row, math.add(first, at), run, Value());
      });
    });
  }
  math.loop(math.constant(0), rowCount, 1, [&](Value row) {
    recompute(row);
    if (!vectors) {
      math.loop(used, [&](Value offset) { storeRun(row, offset, 1, Value()); });
      return;
    }
    // The last vector is masked if masked stores are cheap.
    bool masks = contraction.target.hasAvx512();
    int64_t most = 2 * lanes, whole = masks ? used - used % most : used;
    forPowers(whole, most, [&](int64_t at, int64_t run) {
      storeRun(row, math.constant(at), run, Value());
    });
    if (int64_t rest = used - whole) {
      int64_t run = llvm::PowerOf2Ceil(rest);
      Value mask;
      if (rest < run)
        mask = vector::ConstantMaskOp::create(
            b, loc, VectorType::get({run}, b.getI1Type()),
            ArrayRef<int64_t>{rest});
      storeRun(row, math.constant(whole), run, mask);
    }
  });
}
