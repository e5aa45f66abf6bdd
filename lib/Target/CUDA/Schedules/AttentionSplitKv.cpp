//===- AttentionSplitKv.cpp - split-KV attention (flash-decoding) ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionSplitKv.h"

#include "LastArrivingBlock.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Minimum keys per block, and maximum parts, which the last block reduces in
/// the time of one part.
static constexpr int64_t kFewestKeys = 128, kMostParts = 32;

/// Elements after a row's accumulators, for maximum and total; keeps alignment.
static constexpr int64_t kBehindSums = 4;

static int64_t counterBytes(int64_t tiles) {
  return llvm::alignTo(tiles * int64_t(sizeof(int32_t)), 64);
}

void cuda::splitKv(Schedule &schedule, AttentionSchedule parameters,
                   const AttentionSizes &sizes, Type sumType,
                   const CudaTarget &target) {
  int64_t rows = parameters.rows, columns = parameters.columns,
          pair = 2 * parameters.keys, tiles = schedule.blocks[0];
  int64_t parts = 1, partKeys = sizes.positions;
  if (sizes.groupRows() <= rows && 2 * tiles <= target.multiprocessors()) {
    int64_t wanted = std::min({kMostParts, 2 * target.multiprocessors() / tiles,
                               sizes.positions / kFewestKeys});
    if (wanted > 1) {
      partKeys = llvm::alignTo(llvm::divideCeil(sizes.positions, wanted), pair);
      parts = llvm::divideCeil(sizes.positions, partKeys);
    }
  }
  parameters.parts = parts;
  parameters.partKeys = partKeys;
  schedule.set(parameters);
  if (parts == 1)
    return;
  schedule.blocks[0] = tiles * parts;
  schedule.scratchBytes = counterBytes(tiles) + tiles * parts * rows *
                                                    (columns + kBehindSums) *
                                                    bytesPerElement(sumType);
}

SplitKvPart::SplitKvPart(AttentionKernel &attention)
    : a(attention), rows(a.parameters.rows), columns(a.parameters.columns),
      parts(a.parameters.parts), partKeys(a.parameters.partKeys) {
  first = a.math.constant(0);
  if (!isShared())
    return;
  first = a.kernel.named(a.math.mul(a.part, partKeys), "part_begin");
  int64_t tiles = a.kernel.schedule.blocks[0] / parts;
  partials = a.kernel.named(
      a.math.view(a.kernel.scratch, counterBytes(tiles),
                  tiles * parts * rows * (columns + kBehindSums), a.sumType),
      "partials");
}

Value SplitKvPart::endBefore(Value end) const {
  return isShared()
             ? a.kernel.named(a.math.min(end, a.math.add(first, partKeys)),
                              "part_end")
             : end;
}

Value SplitKvPart::rowAt(Value part, Value row) const {
  Value block = a.math.add(a.math.mul(a.tile, parts), part);
  return a.math.mul(a.math.add(a.math.mul(block, rows), row),
                    columns + kBehindSums);
}

Value SplitKvPart::loadAt(Value place, int64_t lanes) const {
  if (lanes == 1)
    return a.load(partials, place);
  return vector::LoadOp::create(
      a.b, a.kernel.loc, VectorType::get({lanes}, a.sumType), partials, place);
}

void SplitKvPart::leave(Value sums, Value row, Value column) {
  Value place = a.math.add(rowAt(a.part, row), column);
  if (isa<VectorType>(sums.getType()))
    vector::StoreOp::create(a.b, a.kernel.loc, sums, partials, place);
  else
    a.store(sums, partials, ValueRange(place));
}

void SplitKvPart::storePartialRow(Value row, Value largest, Value total) {
  Value place = a.math.add(rowAt(a.part, row), columns);
  a.store(largest, partials, ValueRange(place));
  a.store(total, partials, ValueRange(a.math.add(place, 1)));
}

LogicalResult SplitKvPart::join() {
  OpBuilder &b = a.b;
  Location loc = a.kernel.loc;
  IndexMath &math = a.math;
  MathExpansion &v = a.values;
  int64_t lanes = a.storeLanes(4);
  int64_t perRow = columns / lanes;
  int64_t tiles = a.kernel.schedule.blocks[0] / parts;
  // Loops over all parts with `body`, and returns its last values.
  auto eachPart =
      [&](ValueRange from,
          llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
        auto loop =
            scf::ForOp::create(b, loc, math.constant(0), math.constant(parts),
                               math.constant(1), from);
        OpBuilder::InsertionGuard inside(b);
        b.setInsertionPointToEnd(loop.getBody());
        a.kernel.named(loop.getInductionVar(), "other");
        scf::YieldOp::create(
            b, loc, body(loop.getInductionVar(), loop.getRegionIterArgs()));
        return loop.getResults();
      };
  auto constantFloats = [&](Value part, Value row) {
    return math.add(rowAt(part, row), columns);
  };
  LogicalResult status = success();
  return inLastBlock(
      a.kernel, math.view(a.kernel.scratch, 0, tiles, b.getI32Type()), a.tile,
      parts, [&]() -> LogicalResult {
        math.loop(
            a.thread, math.constant(a.sizes.groupRows() * perRow),
            a.kernel.schedule.threads, [&](Value chunk) {
              Value row = a.kernel.named(math.div(chunk, perRow), "row");
              Value column = a.kernel.named(
                  math.mul(math.rem(chunk, perRow), lanes), "column");
              Value inside;
              if (a.sizes.width % columns)
                inside =
                    math.less(math.add(a.firstColumn, column), a.sizes.width);
              a.kernel.within(inside, [&] {
                Value none = v.constant(
                    a.sumType, -std::numeric_limits<double>::infinity());
                Value largest = eachPart(none, [&](Value part,
                                                   ValueRange best) {
                  return SmallVector<Value>{a.formula.larger(
                      best[0], a.load(partials, constantFloats(part, row)))};
                })[0];
                Value shift = a.kernel.named(a.formula.shift(largest), "shift");
                Type type = lanes == 1
                                ? a.sumType
                                : Type(VectorType::get({lanes}, a.sumType));
                Value zero = v.constant(a.sumType, 0.0);
                SmallVector<Value> from = {zero, v.constant(type, 0.0)};
                ValueRange sums = eachPart(from, [&](Value part,
                                                     ValueRange sum) {
                  Value numbers = constantFloats(part, row);
                  Value weight = a.kernel.named(
                      a.formula.power(a.load(partials, numbers), shift),
                      "weight");
                  Value total = v.add(
                      sum[0],
                      v.mul(a.load(partials, math.add(numbers, 1)), weight));
                  Value own = loadAt(math.add(rowAt(part, row), column), lanes);
                  Value spread = lanes == 1 ? weight
                                            : Value(vector::BroadcastOp::create(
                                                  b, loc, type, weight));
                  return SmallVector<Value>{total,
                                            v.add(sum[1], v.mul(own, spread))};
                });
                Value inverse = a.kernel.named(
                    a.formula.inverse(sums[0], largest), "inverse");
                if (lanes > 1)
                  inverse = vector::BroadcastOp::create(b, loc, type, inverse);
                if (failed(a.store(v.mul(sums[1], inverse), row,
                                   math.add(a.firstColumn, column), lanes)))
                  status = failure();
              });
            });
        return status;
      });
}
