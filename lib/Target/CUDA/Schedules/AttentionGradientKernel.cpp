//===- AttentionGradientKernel.cpp - flash attention backward -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionGradientKernel.h"

#include "Mma.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Counters before those of the key heads: block counter, departed consumers.
static constexpr int64_t kHeadTickets = 0, kHeadArrived = 1, kFirstHead = 2;

AttentionGradientOp cuda::attentionGradientOf(func::FuncOp kernel) {
  return ContractionEpilogue::onlyOf<AttentionGradientOp>(kernel);
}

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

namespace {
/// Grid of a kernel, by role.
struct GradientBlocks {
  GradientBlocks(const AttentionSizes &sizes,
                 ArrayRef<ContractionEpilogue> results, AttentionGradientOp op,
                 int64_t queryRows, int64_t keyRows) {
    auto stores = [&](AttentionResult result) {
      auto number = unsigned(result);
      return !results[number].all().empty() &&
             elementCount(op->getResult(number)) > 0;
    };
    rowTiles = llvm::divideCeil(sizes.length, queryRows);
    keyTiles = llvm::divideCeil(sizes.positions, keyRows);
    keys = stores(AttentionResult::key) || stores(AttentionResult::value)
               ? sizes.sharedHeads * keyTiles
               : 0;
    rows = keys || stores(AttentionResult::query) ? sizes.heads * rowTiles : 0;
  }

  /// Tiles per head, and blocks, of each role.
  int64_t rowTiles, keyTiles, rows, keys;
};
} // namespace

void cuda::placeGradientBlocks(Schedule &schedule, const GradientRoles &roles,
                               func::FuncOp kernel, AttentionGradientOp op) {
  AttentionSizes sizes{AttentionProblem(op)};
  GradientBlocks blocks(sizes, *ContractionEpilogue::ofEach(kernel, op), op,
                        roles.queryRows, roles.keyRows);
  schedule.set(roles);
  schedule.blocks[0] = std::max<int64_t>(blocks.rows + blocks.keys, 1);
  if (blocks.rows && blocks.keys)
    schedule.scratchBytes =
        llvm::alignTo((kFirstHead + sizes.sharedHeads) * sizeof(int32_t), 64) +
        3 * sizes.heads * sizes.length *
            (attentionSumType(op.getQuery()).getIntOrFloatBitWidth() / 8);
}

AttentionGradientKernel::AttentionGradientKernel(GpuKernel &kernel,
                                                 AttentionGradientOp op)
    : AttentionCodegen(kernel, AttentionProblem(op)), op(op),
      roles(kernel.schedule.get<GradientRoles>()),
      results(*ContractionEpilogue::ofEach(kernel.kernel, op)) {
  GradientBlocks blocks(sizes, results, op, roles.queryRows, roles.keyRows);
  rowTiles = blocks.rowTiles;
  keyTiles = blocks.keyTiles;
  rowBlocks = blocks.rows;
  keyBlocks = blocks.keys;
  if (!hasHandOver())
    return;
  int64_t count = kFirstHead + sizes.sharedHeads;
  counters = kernel.named(math.view(kernel.scratch, 0, count, b.getI32Type()),
                          "counters");
  statistics = kernel.named(
      math.view(kernel.scratch, llvm::alignTo(count * sizeof(int32_t), 64),
                3 * sizes.heads * sizes.length, sumType),
      "statistics");
}

bool AttentionGradientKernel::stores(AttentionResult result) const {
  auto number = unsigned(result);
  return !results[number].all().empty() &&
         elementCount(AttentionGradientOp(op)->getResult(number)) > 0;
}

Type AttentionGradientKernel::factorType() const {
  return getElementTypeOrSelf(problem.query.getType());
}

void AttentionGradientKernel::emitRoles(llvm::function_ref<void()> rows,
                                        llvm::function_ref<void()> keys) {
  auto asRows = [&](Value number) {
    SmallVector<Value> place =
        math.delinearize(number, {sizes.heads, rowTiles});
    // Causal: later rows have more keys, so launch them first.
    if (problem.causal && rowTiles > 1)
      place[1] = math.sub(math.constant(rowTiles - 1), place[1]);
    firstRow = kernel.named(math.mul(place[1], roles.queryRows), "first_row");
    headNumber = place[0];
    keyHeadNumber = math.div(headNumber, sizes.share());
    placeHead(headNumber);
    rows();
  };
  auto asKeys = [&](Value number) {
    SmallVector<Value> place =
        math.delinearize(number, {sizes.sharedHeads, keyTiles});
    firstKey = kernel.named(math.mul(place[1], roles.keyRows), "first_key");
    keyHeadNumber = headNumber = place[0];
    head = keyHead = headAt(keyHeadNumber, sizes.keyHeads);
    keys();
  };
  if (hasHandOver()) {
    Value ticket = takeBlockIndex();
    math.branch(
        math.less(ticket, rowBlocks), [&] { asRows(ticket); },
        [&] { asKeys(math.sub(ticket, math.constant(rowBlocks))); });
  } else if (rowBlocks) {
    asRows(kernel.block());
  } else if (keyBlocks) {
    asKeys(kernel.block());
  }
}

void AttentionGradientKernel::eachQueryHead(llvm::function_ref<void()> body) {
  int64_t share = sizes.share();
  if (share == 1)
    return body();
  SmallVector<Value> own = keyHead;
  math.loop(math.constant(0), math.constant(share), 1, [&](Value member) {
    headNumber = kernel.named(math.add(math.mul(keyHeadNumber, share), member),
                              "head_number");
    head = headAt(headNumber, sizes.queryHeads);
    body();
  });
  keyHead = own;
}

Value AttentionGradientKernel::firstRowOf(Value firstKey, int64_t tile) {
  if (!problem.causal)
    return math.constant(0);
  // Row s attends to t <= s + T - S.
  Value row = math.subOrZero(math.add(firstKey, sizes.length), sizes.positions);
  return kernel.named(math.mul(math.div(row, tile), tile), "begin");
}

//===----------------------------------------------------------------------===//
// Producer-consumer synchronization
//===----------------------------------------------------------------------===//

/// Atomically adds to a counter and returns the old value.
Value AttentionGradientKernel::count(int64_t number, Value counter) {
  return memref::AtomicRMWOp::create(b, kernel.loc, arith::AtomicRMWKind::addi,
                                     values.integer(b.getI32Type(), number),
                                     counters, counter);
}

Value AttentionGradientKernel::takeBlockIndex() {
  Value ticket = kernel.shared({1}, b.getI32Type(), "ticket");
  Value zero = math.constant(0);
  kernel.within(math.less(thread, 1), [&] {
    store(count(1, math.constant(kHeadTickets)), ticket, zero);
  });
  kernel.barrier();
  return kernel.named(arith::IndexCastOp::create(
                          b, kernel.loc, b.getIndexType(), load(ticket, zero)),
                      "number");
}

Value AttentionGradientKernel::statisticAt(Value which, Value row) {
  Value line = math.add(math.mul(which, sizes.heads), headNumber);
  return math.add(math.mul(line, sizes.length), row);
}

void AttentionGradientKernel::storeStatistics(Value row,
                                              ArrayRef<Value> three) {
  if (!hasHandOver())
    return;
  for (auto [i, value] : llvm::enumerate(three))
    store(value, statistics, statisticAt(math.constant(i), row));
}

void AttentionGradientKernel::publishStatistics() {
  if (!hasHandOver())
    return;
  cuda::FenceOp::create(b, kernel.loc);
  kernel.barrier();
  kernel.within(math.less(thread, 1),
                [&] { count(1, math.add(keyHeadNumber, kFirstHead)); });
}

void AttentionGradientKernel::waitForStatistics() {
  if (!hasHandOver())
    return;
  auto number = [&](int64_t value) {
    return values.integer(b.getI32Type(), value);
  };
  Value arrived = kernel.shared({1}, b.getI32Type(), "arrived");
  Value zero = math.constant(0);
  kernel.within(math.less(thread, 1), [&] {
    Value own = math.add(keyHeadNumber, kFirstHead);
    auto wait = scf::WhileOp::create(b, kernel.loc, TypeRange(), ValueRange());
    // Polling threads leave issue slots to the producers.
    wait->setAttr("mpc.pause", b.getUnitAttr());
    {
      OpBuilder::InsertionGuard guard(b);
      b.createBlock(&wait.getBefore());
      // Only atomics reliably observe the arrivals of other blocks.
      Value published = kernel.named(count(0, own), "published");
      Value isOpen =
          arith::CmpIOp::create(b, kernel.loc, arith::CmpIPredicate::slt,
                                published, number(sizes.share() * rowTiles));
      scf::ConditionOp::create(b, kernel.loc, isOpen, ValueRange());
      b.createBlock(&wait.getAfter());
      scf::YieldOp::create(b, kernel.loc);
    }
    cuda::FenceOp::create(b, kernel.loc);
    store(count(1, math.constant(kHeadArrived)), arrived, zero);
  });
  kernel.barrier();
  cuda::FenceOp::create(b, kernel.loc);
  // The last consumer to arrive resets all counters.
  Value before = kernel.named(load(arrived, zero), "before");
  Value isLast = arith::CmpIOp::create(b, kernel.loc, arith::CmpIPredicate::eq,
                                       before, number(keyBlocks - 1));
  kernel.within(isLast, [&] {
    math.loop(thread, math.constant(kFirstHead + sizes.sharedHeads),
              kernel.schedule.threads,
              [&](Value counter) { store(number(0), counters, counter); });
  });
}

void AttentionGradientKernel::loadStatistics(Value firstRow, int64_t rows,
                                             Value memory, bool isAsync) {
  // No rows role, no statistics.
  if (!hasHandOver())
    return;
  int64_t threads = kernel.schedule.threads, all = 3 * rows;
  unrolled(kernel, llvm::divideCeil(all, threads), "i", [&](Value i) {
    Value place = math.add(math.mul(i, threads), thread);
    auto copy = [&] {
      Value which = math.div(place, rows), offset = math.rem(place, rows);
      Value row = math.add(firstRow, offset);
      if (isAsync) {
        int64_t bytes = sumType.getIntOrFloatBitWidth() / 8;
        Type i32 = b.getI32Type();
        Value valid =
            values.select(math.less(row, sizes.length),
                          values.integer(i32, bytes), values.integer(i32, 0));
        cuda::CopyAsyncOp::create(
            b, kernel.loc, memory, ValueRange{which, offset}, statistics,
            statisticAt(which, math.min(row, sizes.length - 1)), valid, bytes);
        return;
      }
      Value read =
          kernel.orElse(math.less(row, sizes.length), sumType, [&]() -> Value {
            return load(statistics, statisticAt(which, row));
          });
      store(read, memory, {which, offset});
    };
    kernel.within(all % threads ? math.less(place, all) : Value(), copy);
  });
}

//===----------------------------------------------------------------------===//
// Scores and results
//===----------------------------------------------------------------------===//

Value AttentionGradientKernel::boundedInside(Value score, Value row,
                                             Value column) {
  return values.select(math.less(row, sizes.length),
                       bounded(score, row, column), constant(-kInfinity));
}

void AttentionGradientKernel::store(AttentionResult result, Value sums,
                                    Value row, Value column) {
  SmallVector<Value> at(result == AttentionResult::query ? head : keyHead);
  at.append({row, column});
  AttentionCodegen::store(results[unsigned(result)], sums, at);
}

int64_t AttentionGradientKernel::storeLanes(AttentionResult result) {
  auto number = unsigned(result);
  return AttentionCodegen::storeLanes(results[number], op->getResult(number));
}
