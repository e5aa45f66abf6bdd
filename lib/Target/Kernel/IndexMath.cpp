//===- IndexMath.cpp - divisibility analysis of index values --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IndexMath.h"
#include "MathExpansion.h"

#include "mpc/Dialect/Tile/IR/TileOps.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/TypeSwitch.h"

#include <numeric>

using namespace mlir;
using namespace mpc;

/// Maximum length of a chain of index arithmetic to follow.
static constexpr int kMaxDepth = 24;

static int64_t divisorOf(Value index, int depth) {
  if (std::optional<int64_t> constant = getConstantIntValue(index))
    return std::abs(*constant);
  if (depth == 0)
    return 1;
  auto of = [&](Value value) { return divisorOf(value, depth - 1); };
  if (auto argument = dyn_cast<BlockArgument>(index)) {
    Operation *parent = argument.getOwner()->getParentOp();
    if (auto walk = dyn_cast<tile::ItemLoopOp>(parent)) {
      if (argument.getArgNumber() + 1 != walk.getFrom().size())
        return 1;
      // A last vector that overlaps ends with the row.
      auto by = static_cast<int64_t>(walk.getBy());
      int64_t whole = std::gcd(walk.getFrom().back(), by);
      bool overlaps = (walk.getTo().back() - walk.getFrom().back()) % by != 0;
      return overlaps ? std::gcd(whole, walk.getTo().back()) : whole;
    }
    if (auto total = dyn_cast<tile::TotalOp>(parent))
      return argument.getArgNumber() == 0 ? int64_t(total.getBy()) : 1;
    auto loop = dyn_cast<scf::ForOp>(parent);
    if (!loop || argument != loop.getInductionVar())
      return 1;
    return std::gcd(of(loop.getLowerBound()), of(loop.getStep()));
  }
  // A product of divisors is only a hint and must not overflow.
  constexpr int64_t kLargest = int64_t(1) << 20;
  return TypeSwitch<Operation *, int64_t>(index.getDefiningOp())
      .Case<arith::AddIOp, arith::SubIOp, arith::MinUIOp, arith::MaxUIOp,
            arith::MinSIOp, arith::MaxSIOp>(
          [&](auto op) { return std::gcd(of(op.getLhs()), of(op.getRhs())); })
      .Case([&](arith::MulIOp op) {
        return std::min(of(op.getLhs()), kLargest) *
               std::min(of(op.getRhs()), kLargest);
      })
      .Case([&](arith::RemUIOp op) {
        return std::gcd(of(op.getLhs()), of(op.getRhs()));
      })
      .Case([&](arith::DivUIOp op) -> int64_t {
        std::optional<int64_t> divisor = getConstantIntValue(op.getRhs());
        int64_t dividend = of(op.getLhs());
        return divisor && *divisor > 0 && dividend % *divisor == 0
                   ? dividend / *divisor
                   : 1;
      })
      .Case([&](arith::SelectOp op) {
        return std::gcd(of(op.getTrueValue()), of(op.getFalseValue()));
      })
      .Case([&](arith::IndexCastOp op) { return of(op.getIn()); })
      .Default([](Operation *) { return int64_t(1); });
}

int64_t mpc::knownDivisor(Value index) { return divisorOf(index, kMaxDepth); }

//===----------------------------------------------------------------------===//
// Control flow and memory
//===----------------------------------------------------------------------===//

Carried IndexMath::loop(Value begin, Value end, Value step, ValueRange initial,
                        CarriedBody body) const {
  auto op = scf::ForOp::create(b, loc, begin, end, step, initial);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(op.getBody());
  Carried next = body(op.getInductionVar(), op.getRegionIterArgs());
  if (!initial.empty())
    scf::YieldOp::create(b, loc, next);
  return Carried(op.getResults());
}

Carried IndexMath::carry(Value begin, Value end, int64_t step,
                         ValueRange initial, CarriedBody body) const {
  std::optional<int64_t> first = getConstantIntValue(begin),
                         limit = getConstantIntValue(end);
  if (first && limit) {
    if (*first >= *limit)
      return Carried(initial);
    if (*first + step >= *limit)
      return body(begin, initial);
  }
  return loop(begin, end, step, initial, body);
}

SmallVector<int64_t, 4> mpc::partsOfSum(int64_t steps) {
  // Minimum steps for summation in parts, minimum part, and parts of a part.
  constexpr int64_t kLongSum = 96, kLeastPart = 32, kParts = 8;
  if (steps < kLongSum)
    return {};
  int64_t length = kLeastPart;
  while (4 * length * length <= steps)
    length *= 2;
  SmallVector<int64_t, 4> lengths;
  for (; length < steps; length *= kParts)
    lengths.insert(lengths.begin(), length);
  return lengths;
}

/// Sums [begin, end) hierarchically in parts of `lengths` steps. If every part
/// is whole, `lengths` divide each other and the steps.
static Carried addParts(IndexMath index, Value begin, Value end, bool isWhole,
                        int64_t step, ArrayRef<int64_t> lengths,
                        ValueRange sums, ValueRange zeros, CarriedBody body) {
  if (lengths.empty())
    return index.carry(begin, end, step, sums, body);
  int64_t length = lengths.front();
  auto sumOfPart = [&](Value from) {
    if (length == 1)
      return body(from, zeros);
    Value to = index.add(from, length * step);
    if (!isWhole)
      to = index.min(to, end);
    return addParts(index, from, to, isWhole, step, lengths.drop_front(), zeros,
                    zeros, body);
  };
  return index.carry(
      begin, end, length * step, sums, [&](Value from, ValueRange before) {
        Carried total;
        for (auto [sum, added] : llvm::zip(before, sumOfPart(from)))
          total.push_back(ValueMath(index.b, index.loc).add(sum, added));
        return total;
      });
}

Carried IndexMath::carrySum(Value begin, Value end, int64_t step,
                            ValueRange sums, ValueRange zeros, int64_t terms,
                            CarriedBody body) const {
  std::optional<int64_t> first = getConstantIntValue(begin),
                         limit = getConstantIntValue(end);
  int64_t steps =
      first && limit ? llvm::divideCeilSigned(*limit - *first, step) : 0;
  // A step with as many terms as a part is one.
  SmallVector<int64_t, 4> lengths;
  for (int64_t part : partsOfSum(steps * terms)) {
    int64_t length = std::max<int64_t>(1, part / terms);
    if (length < steps && (lengths.empty() || length < lengths.back()))
      lengths.push_back(length);
  }
  bool isWhole = true;
  int64_t outer = steps;
  for (int64_t length : lengths) {
    isWhole &= outer % length == 0;
    outer = length;
  }
  return addParts(*this, begin, end, isWhole, step, lengths, sums, zeros, body);
}

void IndexMath::branch(Value condition, llvm::function_ref<void()> yes,
                       llvm::function_ref<void()> no) const {
  auto op = scf::IfOp::create(b, loc, condition, /*withElseRegion=*/bool(no));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(op.thenBlock()->getTerminator());
  yes();
  if (!no)
    return;
  b.setInsertionPoint(op.elseBlock()->getTerminator());
  no();
}

Carried IndexMath::choose(Value condition, TypeRange types,
                          llvm::function_ref<Carried()> yes,
                          llvm::function_ref<Carried()> no) const {
  if (!condition)
    return yes();
  if (types.empty()) {
    branch(condition, [&] { yes(); });
    return {};
  }
  auto op = scf::IfOp::create(b, loc, types, condition, /*addThenBlock=*/true,
                              /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(op.thenBlock());
  scf::YieldOp::create(b, loc, yes());
  b.setInsertionPointToEnd(op.elseBlock());
  scf::YieldOp::create(b, loc, no());
  return Carried(op.getResults());
}

Value IndexMath::load(Value memory, ValueRange at, VectorType type) const {
  return vector::LoadOp::create(b, loc, type, memory, at);
}

Value IndexMath::load(Value memory, ValueRange at, int64_t lanes) const {
  if (lanes == 1)
    return memref::LoadOp::create(b, loc, memory, at);
  Type element = cast<MemRefType>(memory.getType()).getElementType();
  return load(memory, at, VectorType::get({lanes}, element));
}

void IndexMath::store(Value value, Value memory, ValueRange at) const {
  if (isa<VectorType>(value.getType()))
    vector::StoreOp::create(b, loc, value, memory, at);
  else
    memref::StoreOp::create(b, loc, value, memory, at);
}

void IndexMath::prefetch(Value memory, ValueRange at, unsigned locality) const {
  memref::PrefetchOp::create(b, loc, memory, at, /*isWrite=*/false, locality,
                             /*isDataCache=*/true);
}
