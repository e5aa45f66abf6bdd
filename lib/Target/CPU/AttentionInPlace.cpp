//===- AttentionInPlace.cpp - attention of few rows -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A decoder's one token reads each key and value once: packing them would move
// what is only to be read. Scores are sums along a key's row, of as many keys
// at once as a vector has lanes; values are added row by row.
//
//===----------------------------------------------------------------------===//

#include "AttentionEmitter.h"

#include "../Kernel/MathExpansion.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;

/// Of as many vectors as they have lanes, the sum of each one's lanes, in
/// order: sums of neighbours, of two vectors in one, until one is left.
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

bool AttentionEmitter::pays(const StoredRow &row) const {
  // Few parts, or those of a few lines, processors find as fast by themselves,
  // and caches of few rows, of all layers together, stay near the core.
  constexpr int64_t kFewParts = 2, kFewBytes = 256, kNearBytes = 1 << 18;
  auto type = cast<MemRefType>(row.memory.getType());
  int64_t bytes = row.elements * bytesPerElement(type.getElementType());
  return keyShape.end()[-3] > kFewParts && bytes > kFewBytes &&
         bytes * positions >= kNearBytes;
}

void AttentionEmitter::prepareInPlace() {
  // Where rows of several heads lie side by side, as in a decoder's cache, so
  // many of them are read one after the other. All of a worker's if they are
  // few: what processors fetch ahead of a part of a row is the rest of it.
  constexpr int64_t kMostHeads = 4, kFewHeads = 16;
  keyRow = storedRow(keyNumbers);
  valueRow = storedRow(valueNumbers);
  readsRows = keyRow.memory && valueRow.memory &&
              batchShape.back() <= kFewHeads &&
              (pays(keyRow) || pays(valueRow));
  headsPerItem = readsRows ? 1 : kMostHeads;
  for (StoredRow *row : {&keyRow, &valueRow})
    if (!readsRows || !pays(*row))
      *row = {};
  while (batchShape.back() % headsPerItem != 0)
    --headsPerItem;
  items = productOf(batchShape) / headsPerItem;
  // Of each vector loading, widening and adding; a score's share of the rest.
  cyclesPerItem = (3.0 * double(depth + width) / double(lanes) + 8) *
                  double(length * positions * headsPerItem);
  int64_t rows = length * (readsRows ? batchShape.back() : headsPerItem);
  scorePitch = llvm::alignTo(positions, 2 * lanes);
  scores = area(rows * scorePitch, sumType);
  inverses = stack(rows);
  tile = stack(rows * width);
}

void AttentionEmitter::emitInPlace(Value item) {
  if (!readsRows)
    return emitHeads(math.mul(item, headsPerItem), math.constant(headsPerItem),
                     wholeRange());
  // The first item of a call does what all do: heads of one worker are
  // neighbours in the rows, whoever else reads the others.
  Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, item,
                                        arguments.begin);
  math.branch(
      isFirst,
      [&] {
        int64_t heads = batchShape.back();
        Value begin = arguments.begin, end = arguments.end;
        Value last = math.div(math.add(end, heads - 1), heads);
        math.loop(math.div(begin, heads), last, 1, [&](Value entry) {
          Value from = math.mul(entry, heads);
          Value first = arith::MaxUIOp::create(b, loc, from, begin);
          emitHeads(first,
                    math.sub(math.min(math.add(from, heads), end), first),
                    wholeRange());
        });
      },
      [] {});
}

void AttentionEmitter::emitHeads(Value firstHead, Value count, Range range) {
  firstPosition = range.begin;
  SmallVector<Value> first = math.delinearize(firstHead, batchShape);
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
  // While a block is worked on, each head asks for its share of the rows of the
  // next one, in the order of memory.
  auto fetchShare = [&](const StoredRow &row, Value next, int64_t block,
                        Value number) {
    if (!row.memory)
      return;
    auto shareOf = [&](Value heads) {
      return Value(
          arith::DivUIOp::create(b, loc, math.mul(heads, block), count));
    };
    Value last = math.add(first.back(), math.sub(count, math.constant(1)));
    Range heads{keyHeadOf(first.back()), math.add(keyHeadOf(last), 1)};
    math.loop(shareOf(number), shareOf(math.add(number, 1)), 1,
              [&](Value line) { fetchRow(row, heads, math.add(next, line)); });
  };
  // Ranges begin at whole vectors, and only the last one ends within.
  auto wholeOf = [&](int64_t step) {
    return math.min(range.end, positions - positions % step);
  };
  Value whole = wholeOf(lanes);
  math.loop(range.begin, whole, lanes, [&](Value at) {
    forHeads([&](Value number) {
      fetchShare(keyRow, math.add(at, lanes), lanes, number);
      for (int64_t row = 0; row < length; ++row)
        scoreInPlace(row, math.add(math.mul(number, length), row), at, lanes);
    });
  });
  math.loop(whole, range.end, 1, [&](Value at) {
    forRows([&](int64_t row, Value local) { scoreInPlace(row, local, at, 1); });
  });
  forRows([&](int64_t row, Value local) {
    emitSoftmax(math.constant(row), local, range);
    math.loop(math.constant(0), math.constant(width), lanes, [&](Value column) {
      storeZeros(tile, math.add(math.mul(local, width), column), lanes);
    });
  });
  constexpr int64_t kBlock = 16;
  Value blocked = wholeOf(kBlock);
  math.loop(range.begin, blocked, kBlock, [&](Value at) {
    forHeads([&](Value number) {
      Value next = math.add(at, kBlock);
      fetchShare(valueRow, next, kBlock, number);
      for (int64_t row = 0; row < length; ++row)
        weighInPlace(math.add(math.mul(number, length), row), at, next);
    });
  });
  forRows([&](int64_t, Value local) {
    weighInPlace(local, blocked, range.end);
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
  auto indices = [&](Value local) {
    SmallVector<Value> at(first);
    at.back() = math.add(first.back(), math.div(local, length));
    at.push_back(math.rem(local, length));
    return at;
  };
  storeTile(tile, width, math.mul(count, length), indices, first.size() + 1,
            math.constant(0), width);
}

AttentionEmitter::StoredRow AttentionEmitter::storedRow(Value tensor) const {
  int64_t rank = shapeOf(tensor).size();
  // Where the dimensions of `tensor` stand in what it is read from.
  SmallVector<int64_t> places = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  while (Operation *from = tensor.getDefiningOp()) {
    if (auto transpose = dyn_cast<TransposeOp>(from)) {
      SmallVector<int64_t> moved;
      for (int64_t place : places)
        moved.push_back(transpose.getPermutation()[place]);
      places = moved;
    } else if (!isa<ElementwiseOpInterface>(from) ||
               shapeOf(from->getOperand(0)) != shapeOf(tensor)) {
      return {};
    }
    tensor = from->getOperand(0);
  }
  bool isWhole = rank >= 3 && places.end()[-2] < rank - 2 &&
                 places.end()[-3] == rank - 2 && places.back() == rank - 1;
  Value memory = memoryOf(tensor);
  if (!isWhole || !memory ||
      tensor.getType() != stripReshapes(tensor).getType() ||
      !cast<MemRefType>(memory.getType()).getLayout().isIdentity())
    return {};
  StoredRow row;
  row.memory = memory;
  row.dimension = places.end()[-2];
  for (int64_t dim = 0; dim < rank - 3; ++dim)
    row.batch.push_back({dim, places[dim]});
  row.elements = productOf(shapeOf(tensor).take_back(2));
  return row;
}

void AttentionEmitter::fetchRow(const StoredRow &row, Range heads,
                                Value position) {
  auto type = cast<MemRefType>(row.memory.getType());
  int64_t size = type.getShape().back();
  int64_t line = kLineBytes / bytesPerElement(type.getElementType());
  SmallVector<Value> at(type.getRank(), math.constant(0));
  for (auto [dim, place] : row.batch)
    at[place] = head[dim];
  at[row.dimension] = position;
  Value end = math.mul(heads.end, size);
  math.loop(math.mul(heads.begin, size), end, line, [&](Value element) {
    at.end()[-2] = math.div(element, size);
    at.back() = math.rem(element, size);
    memref::PrefetchOp::create(b, loc, row.memory, at, /*isWrite=*/false,
                               /*localityHint=*/3, /*isDataCache=*/true);
  });
}

void AttentionEmitter::scoreInPlace(int64_t row, Value local, Value first,
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
      sum = sum ? Value(vector::FMAOp::create(b, loc, key, factor, sum))
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

void AttentionEmitter::weighInPlace(Value local, Value first, Value last) {
  // Sums of so many vectors stay in registers.
  constexpr int64_t kMostVectors = 8;
  auto type = VectorType::get({lanes}, sumType);
  for (int64_t column = 0; column < width; column += kMostVectors * lanes) {
    int64_t vectors = std::min(kMostVectors, (width - column) / lanes);
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
        sums.push_back(vector::FMAOp::create(b, loc, value, weight,
                                             loop.getRegionIterArg(v)));
      }
      scf::YieldOp::create(b, loc, sums);
    }
    for (int64_t v = 0; v < vectors; ++v)
      vector::StoreOp::create(b, loc, loop.getResult(v), tile, places[v]);
  }
}
