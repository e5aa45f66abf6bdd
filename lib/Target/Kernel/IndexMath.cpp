//===- IndexMath.cpp - divisibility analysis of index values --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IndexMath.h"

#include "mpc/Dialect/Tile/IR/TileOps.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
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

Carried
IndexMath::loop(Value begin, Value end, Value step, ValueRange initial,
                llvm::function_ref<Carried(Value, ValueRange)> body) const {
  auto op = scf::ForOp::create(b, loc, begin, end, step, initial);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(op.getBody());
  Carried next = body(op.getInductionVar(), op.getRegionIterArgs());
  if (!initial.empty())
    scf::YieldOp::create(b, loc, next);
  return Carried(op.getResults());
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
