//===- AttentionDecode.cpp - decode attention on an unpacked KV cache ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decoding one token reads each key and value once: packing would only add
// traffic. Scores are dot products along a key's row, for as many keys at once
// as a vector has lanes; values are accumulated row by row.
//
//===----------------------------------------------------------------------===//

#include "AttentionEmitter.h"

#include "../Kernel/MathExpansion.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;

/// Horizontal sums of as many vectors as they have lanes, in order: pairwise
/// sums of neighbors, of two vectors into one, until one is left.
static Value sumEach(OpBuilder &b, Location loc, SmallVector<Value> vectors) {
  int64_t lanes = vectors.size();
  SmallVector<int64_t> even, odd;
  for (int64_t i = 0; i < lanes; ++i) {
    even.push_back(2 * i);
    odd.push_back(2 * i + 1);
  }
  while (vectors.size() > 1) {
    SmallVector<Value> pairs;
    for (size_t i = 0; i < vectors.size(); i += 2) {
      Value low = vector::ShuffleOp::create(b, loc, vectors[i], vectors[i + 1],
                                            even),
            high = vector::ShuffleOp::create(b, loc, vectors[i], vectors[i + 1],
                                             odd);
      pairs.push_back(arith::AddFOp::create(b, loc, low, high));
    }
    vectors = std::move(pairs);
  }
  return vectors.front();
}

/// Prefetch distances in bytes. The first values are prefetched while
/// exponentials are computed, which load nothing.
static constexpr int64_t kKeyBytesAhead = 24 << 10, kValueBytesAhead = 64 << 10;

void AttentionEmitter::prepareInPlace() {
  // If rows of several heads are adjacent, as in a decoder's cache, read that
  // many one after another.
  if (blocks.fetchesRows())
    for (auto [rows, numbers, scales] :
         {std::tuple(&keyRows, keyNumbers, keyScales),
          std::tuple(&valueRows, valueNumbers, valueScales)}) {
      std::optional<InPlaceRow> stored = InPlaceRow::of(numbers);
      if (!stored || !stored->paysWhole())
        continue;
      rows->numbers = stored;
      if (scales)
        rows->scales = InPlaceRow::of(scales);
    }
  items = productOf(batchShape) / headsPerItem * parts;
  cyclesPerItem =
      cyclesInPlace(contraction) * double(partPositions * headsPerItem);
  int64_t rows = length * headsPerItem;
  // Padding keeps the scores of all heads at one position, written between
  // reads of a long stream, out of the same few cache sets.
  scorePitch = llvm::alignTo(partPositions, 2 * lanes) + lanes;
  scores = area(rows * scorePitch, sumType);
  inverses = stack(rows);
  tile = stack(rows * width);
  if (parts > 1)
    preparePartials();
}

void AttentionEmitter::emitInPlace(Value item) {
  SmallVector<Value> place =
      math.delinearize(item, {productOf(batchShape) / headsPerItem, parts});
  Range range = wholeRange();
  if (parts > 1) {
    part = place[1];
    range.begin = math.mul(part, partPositions);
    range.end = math.min(math.add(range.begin, partPositions), positions);
  }
  emitHeads(math.mul(place[0], headsPerItem), math.constant(headsPerItem),
            range);
}

void AttentionEmitter::emitHeads(Value firstHead, Value count, Range range) {
  firstPosition = range.begin;
  SmallVector<Value> first = math.delinearize(firstHead, batchShape);
  leadingHead = firstHead;
  head = first;
  auto forHeads = [&](llvm::function_ref<void(Value number)> body) {
    math.loop(math.constant(0), count, 1, [&](Value number) {
      head = first;
      head.back() = math.add(first.back(), number);
      keyHead = head;
      keyHead.back() = keyHeadOf(head.back());
      body(number);
    });
  };
  auto forRows = [&](llvm::function_ref<void(int64_t row, Value local)> body) {
    forHeads([&](Value number) {
      for (int64_t row = 0; row < length; ++row)
        body(row, math.add(math.mul(number, length), row));
    });
  };
  // Ranges start at whole vectors; only the last one ends inside of one.
  auto wholeOf = [&](int64_t step) {
    return math.min(range.end, positions - positions % step);
  };
  Value whole = wholeOf(lanes);
  // Prefetch in memory order while heads compute: each head prefetches its
  // share of some rows.
  auto fetchShare = [&](const FetchedRows &rows, Value from, int64_t extent,
                        Value number) {
    auto shareOf = [&](Value heads) {
      return math.add(from, math.div(math.mul(heads, extent), headsPerItem));
    };
    fetchRows(rows, shareOf(number), shareOf(math.add(number, 1)));
  };
  int64_t keysAhead = rowsAhead(keyRows, kKeyBytesAhead, lanes);
  fetchRows(keyRows, range.begin, math.add(range.begin, keysAhead));
  math.loop(range.begin, whole, lanes, [&](Value at) {
    forHeads([&](Value number) {
      fetchShare(keyRows, math.add(at, keysAhead), lanes, number);
      for (int64_t row = 0; row < length; ++row)
        emitDecodeScores(row, math.add(math.mul(number, length), row), at,
                         lanes);
    });
  });
  math.loop(whole, range.end, 1, [&](Value at) {
    forRows(
        [&](int64_t row, Value local) { emitDecodeScores(row, local, at, 1); });
  });
  int64_t valuesAhead = rowsAhead(valueRows, kValueBytesAhead, kValueBlock);
  forHeads([&](Value number) {
    fetchShare(valueRows, range.begin, valuesAhead, number);
    for (int64_t row = 0; row < length; ++row) {
      Value local = math.add(math.mul(number, length), row);
      emitSoftmax(math.constant(row), local, range);
      math.loop(
          math.constant(0), math.constant(width), lanes, [&](Value column) {
            storeZeros(tile, math.add(math.mul(local, width), column), lanes);
          });
    }
  });
  Value blocked = wholeOf(kValueBlock);
  math.loop(range.begin, blocked, kValueBlock, [&](Value at) {
    forHeads([&](Value number) {
      fetchShare(valueRows, math.add(at, valuesAhead), kValueBlock, number);
      for (int64_t row = 0; row < length; ++row)
        accumulateDecodeValues(math.add(math.mul(number, length), row), at,
                               math.add(at, kValueBlock));
    });
  });
  forRows([&](int64_t, Value local) {
    accumulateDecodeValues(local, blocked, range.end);
    if (parts > 1) {
      storePartialSums(local);
      return;
    }
    Value inverse =
        splatted(memref::LoadOp::create(b, loc, inverses, local), lanes);
    auto type = VectorType::get({lanes}, sumType);
    math.loop(math.constant(0), math.constant(width), lanes, [&](Value column) {
      Value at = math.add(math.mul(local, width), column);
      Value sum = vector::LoadOp::create(b, loc, type, tile, at);
      vector::StoreOp::create(
          b, loc, arith::MulFOp::create(b, loc, sum, inverse), tile, at);
    });
  });
  if (parts > 1)
    return;
  auto indices = [&](Value local) {
    SmallVector<Value> at(first);
    at.back() = math.add(first.back(), math.div(local, length));
    at.push_back(math.rem(local, length));
    return at;
  };
  storeTile(tile, width, math.mul(count, length), indices, first.size() + 1,
            math.constant(0), width);
}

int64_t AttentionEmitter::rowsAhead(const FetchedRows &rows, int64_t bytes,
                                    int64_t block) const {
  if (!rows.numbers)
    return 0;
  auto extent = int64_t(llvm::alignTo(bytes / rows.numbers->bytes(), block));
  return std::min(extent, partPositions);
}

void AttentionEmitter::fetchRows(const FetchedRows &rows, Value begin,
                                 Value end) {
  if (!rows.numbers)
    return;
  math.loop(begin, end, 1, [&](Value position) {
    fetchRow(*rows.numbers, position);
    if (rows.scales)
      fetchRow(*rows.scales, position);
  });
}

void AttentionEmitter::fetchRow(const InPlaceRow &row, Value position) {
  Value memory = memoryOf(row.argument);
  auto type = cast<MemRefType>(memory.getType());
  int64_t size = type.getShape().back();
  int64_t line = kLineBytes / bytesPerElement(type.getElementType());
  SmallVector<Value> at(type.getRank(), math.constant(0));
  for (auto [dim, place] : row.batch)
    at[place] = head[dim];
  at[row.dimension] = position;
  math.loop(math.constant(0), math.constant(row.elements), line,
            [&](Value element) {
              at.end()[-2] = math.div(element, size);
              at.back() = math.rem(element, size);
              memref::PrefetchOp::create(b, loc, memory, at, /*isWrite=*/false,
                                         unsigned(Cache::Second),
                                         /*isDataCache=*/true);
            });
}

void AttentionEmitter::emitDecodeScores(int64_t row, Value local, Value first,
                                        int64_t count) {
  SmallVector<Value> query;
  for (int64_t d = 0; d < depth; d += lanes) {
    SmallVector<Value> at(head);
    at.append({math.constant(row), math.constant(d)});
    query.push_back(loadWhole(op.getQuery(), at, lanes));
  }
  SmallVector<Value> sums;
  for (int64_t i = 0; i < count; ++i) {
    Value sum;
    for (auto [part, factor] : llvm::enumerate(query)) {
      SmallVector<Value> at(keyHead);
      at.append({math.add(first, i), math.constant(int64_t(part) * lanes)});
      Value key = loadWhole(keyNumbers, at, lanes);
      sum = sum ? Value(math::FmaOp::create(b, loc, key, factor, sum))
                : Value(arith::MulFOp::create(b, loc, key, factor));
    }
    if (keyScales)
      sum = arith::MulFOp::create(
          b, loc, sum, splatted(scaleAt(keyScales, math.add(first, i)), lanes));
    sums.push_back(sum);
  }
  Value at = scoreAt(local, first);
  if (count == 1)
    memref::StoreOp::create(
        b, loc,
        vector::ReductionOp::create(b, loc, vector::CombiningKind::ADD,
                                    sums.front()),
        scores, at);
  else
    vector::StoreOp::create(b, loc, sumEach(b, loc, std::move(sums)), scores,
                            at);
}

void AttentionEmitter::accumulateDecodeValues(Value local, Value first,
                                              Value last) {
  auto type = VectorType::get({lanes}, sumType);
  for (int64_t column = 0; column < width; column += kSumVectors * lanes) {
    int64_t vectors = std::min(kSumVectors, (width - column) / lanes);
    SmallVector<Value> places, before;
    for (int64_t v = 0; v < vectors; ++v) {
      places.push_back(math.add(math.mul(local, width), column + v * lanes));
      before.push_back(
          vector::LoadOp::create(b, loc, type, tile, places.back()));
    }
    auto loop =
        scf::ForOp::create(b, loc, first, last, math.constant(1), before);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      Value position = loop.getInductionVar();
      Value weight =
          memref::LoadOp::create(b, loc, scores, scoreAt(local, position));
      if (valueScales)
        weight = arith::MulFOp::create(b, loc, weight,
                                       scaleAt(valueScales, position));
      weight = splatted(weight, lanes);
      SmallVector<Value> sums;
      for (int64_t v = 0; v < vectors; ++v) {
        SmallVector<Value> at(keyHead);
        at.append({position, math.constant(column + v * lanes)});
        Value value = loadWhole(valueNumbers, at, lanes);
        sums.push_back(math::FmaOp::create(b, loc, value, weight,
                                           loop.getRegionIterArg(v)));
      }
      scf::YieldOp::create(b, loc, sums);
    }
    for (int64_t v = 0; v < vectors; ++v)
      vector::StoreOp::create(b, loc, loop.getResult(v), tile, places[v]);
  }
}
