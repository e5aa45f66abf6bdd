//===- ContractionPacking.cpp - packing of operands into panels -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ContractionEmitter.h"

#include "EmulatedArithmetic.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

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
    return vector::ShuffleOp::create(
        b, loc, x, y, llvm::map_to_vector(llvm::seq<int64_t>(0, lanes), lane));
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
    llvm::function_ref<Value(Value, Value, int64_t)> values) {
  auto place = [&](Value row, Value k) {
    return math.add(math.add(offset, math.mul(row, pitch)), k);
  };
  if (rowCount < lanes || extent < lanes)
    return math.loop(extent, [&](Value k) {
      math.loop(rowCount, [&](Value row) {
        store(values(row, k, 1), memory, place(row, k));
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
        lines.push_back(values(row, math.add(k, i), lanes));
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
    Value offset, llvm::function_ref<Value(Value, Value, int64_t)> values,
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
          Value row = values(math.add(n, i), k, square);
          if (depth > 1)
            row = vector::BitCastOp::create(
                b, loc, VectorType::get({lanes}, word), patternsOf(row));
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
        auto factor = [&](Value position) { return values(n, position, 1); };
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
      forPowers(columns - used, 2 * lanes, [&](int64_t n, int64_t run) {
        storeZeros(memory, math.add(base, used + n), run);
      });
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
  auto stored = cast<RankedTensorType>(contraction.rhs().getType());
  Type element = stored.getElementType();
  // Rows of a stored panel.
  int64_t lines = stored.getDimSize(1);
  int64_t depth = contraction.packed.getDepth();
  ValueMath values(b, loc);
  forSteps(count, [&](Value step, Value k, int64_t positions) {
    Value line =
        math.add(math.mul(number, lines), math.div(math.add(first, k), depth));
    for (int64_t column = 0; column < columns; column += lanes) {
      Value at = math.add(math.mul(line, depth * columns), depth * column);
      // A word contains the operands of one step.
      auto words = VectorType::get({lanes}, b.getI32Type());
      auto factors = [&](int64_t position) -> Value {
        if (depth == 1)
          return vector::LoadOp::create(
              b, loc, VectorType::get({lanes}, element), memory,
              math.add(at, position * columns));
        Value pairs = vector::LoadOp::create(
            b, loc, VectorType::get({2 * lanes}, element), memory, at);
        return halfOf(values, position == 1,
                      vector::BitCastOp::create(b, loc, words, pairs));
      };
      Value packed = values.shiftRight(values.bits(termOf(factors(0))), 16);
      if (positions == 2)
        packed =
            values.bitOr(packed, values.bitAnd(values.bits(termOf(factors(1))),
                                               int64_t(0xffff0000)));
      store(packed, panel.memory,
            math.add(math.add(offset, math.mul(step, columns)), column));
    }
  });
}

void ContractionEmitter::fetchLines(Value tensor, ValueRange leading,
                                    Value line, int64_t lines, Value first,
                                    int64_t elements) {
  constexpr int64_t kDistance = 40;
  if (!memoryOf(tensor) || tensor.getType() != stripReshapes(tensor).getType())
    return;
  SmallVector<Value> at(leading);
  at.append({line, first});
  for (int64_t i = 0; i < lines; ++i) {
    at.end()[-2] = math.add(line, kDistance + i);
    fetch(memoryOf(tensor), at, elements);
  }
}
