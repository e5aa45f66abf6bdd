//===- GemmEpilogueStaging.cpp - GEMM epilogue of a block -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Accumulators are staged through shared memory, after a reduction in the
// scratch buffer with split-K, so that the epilogue accesses whole vectors.
//
//===----------------------------------------------------------------------===//

#include "GemmEmitter.h"
#include "LastArrivingBlock.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;

static constexpr int64_t kLanes = 32;
/// Unrolled rounds of a warp's lanes over its results.
static constexpr int64_t kRoundsTogether = 4;
/// Minimum adjacent lanes whose 128-bit accesses fill two sectors.
static constexpr int64_t kFewestAcross = 4;

/// Each warp stages its accumulators separately.
LogicalResult GemmEmitter::handOver(
    llvm::function_ref<LogicalResult(Value slab, Value firstRow)> take) {
  OpBuilder &b = kernel.builder;
  int64_t rows = tiles.handedRows(problem), perStep = unit->rowsPerStep();
  kernel.barrier();
  Value slab = sharedView(
      kernel, shared, 0, {tiles.warpsM * tiles.warpsN, rows, tiles.warpN() + 8},
      b.getF32Type(), "results");
  LogicalResult result = success();
  unrolled(kernel, tiles.warpM() / rows, "part", [&](Value part) {
    if (rows < tiles.warpM())
      cuda::SyncWarpOp::create(b, kernel.loc);
    unrolled(kernel, rows / perStep, "i", [&](Value i) {
      Value step = math().add(math().mul(part, rows / perStep), i);
      unit->deposit(step, slab, warp, math().mul(i, perStep));
    });
    cuda::SyncWarpOp::create(b, kernel.loc);
    if (failed(take(slab, math().mul(part, rows))))
      result = failure();
  });
  return result;
}

/// Loops with constant trip counts are unrolled without remainder, with
/// addresses that differ by constants.
LogicalResult
GemmEmitter::forRounds(int64_t count,
                       llvm::function_ref<LogicalResult(Value)> body) {
  OpBuilder &b = kernel.builder;
  if (count == 1)
    return body(math().constant(0));
  auto loop = scf::ForOp::create(b, kernel.loc, math().constant(0),
                                 math().constant(count), math().constant(1));
  loop->setAttr(kUnrollAttr,
                b.getI64IntegerAttr(powerOfTwoIn(count, kRoundsTogether)));
  kernel.named(loop.getInductionVar(), "round");
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop.getBody()->getTerminator());
  return body(loop.getInductionVar());
}

LogicalResult
GemmEmitter::forItems(int64_t count,
                      llvm::function_ref<LogicalResult(Value)> body) {
  OpBuilder &b = kernel.builder;
  Value lane = gpu::LaneIdOp::create(b, kernel.loc, IntegerAttr());
  if (count % kLanes == 0)
    return forRounds(count / kLanes, [&](Value round) {
      Value item = math().add(math().mul(round, kLanes), lane);
      return body(named(math(), item, "item"));
    });
  auto loop = scf::ForOp::create(b, kernel.loc, lane, math().constant(count),
                                 math().constant(kLanes));
  kernel.named(loop.getInductionVar(), "item");
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop.getBody()->getTerminator());
  return body(loop.getInductionVar());
}

int64_t GemmEmitter::lanesRead() const {
  // Results with large strides are stored one at a time; their accumulators are
  // contiguous.
  return problem.columnsNearer ? powerOfTwoIn(problem.n, 4) : epilogue.lanes;
}

LogicalResult GemmEmitter::forPlaces(
    int64_t rows,
    llvm::function_ref<LogicalResult(Value row, Value column)> body) {
  int64_t lanes = lanesRead(), perRow = warpColumns() / lanes;
  // As many lanes per row as divide it, if that fills sectors.
  int64_t across = powerOfTwoIn(perRow, kLanes), together = kLanes / across;
  if (epilogue.rowsFastest || (across < perRow && across < kFewestAcross) ||
      rows % together != 0)
    return forItems(rows * perRow, [&](Value item) {
      Value row = epilogue.rowsFastest ? math().rem(item, rows)
                                       : math().div(item, perRow);
      Value column = epilogue.rowsFastest ? math().div(item, rows)
                                          : math().rem(item, perRow);
      return body(named(math(), row, "resultRow"),
                  named(math(), math().mul(column, lanes), "resultColumn"));
    });
  // Each lane has fixed columns, so per-column values are loop-invariant.
  OpBuilder &b = kernel.builder;
  Value lane = gpu::LaneIdOp::create(b, kernel.loc, IntegerAttr());
  Value nearest = math().mul(math().rem(lane, across), lanes);
  Value first = math().div(lane, across);
  auto forRows = [&](Value column) {
    named(math(), column, "resultColumn");
    return forRounds(rows / together, [&](Value round) {
      Value row = math().add(math().mul(round, together), first);
      return body(named(math(), row, "resultRow"), column);
    });
  };
  if (across == perRow)
    return forRows(nearest);
  auto loop =
      scf::ForOp::create(b, kernel.loc, math().constant(0),
                         math().constant(perRow / across), math().constant(1));
  loop->setAttr(kUnrollAttr, b.getI64IntegerAttr(1));
  kernel.named(loop.getInductionVar(), "run");
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop.getBody()->getTerminator());
  Value begin = math().mul(loop.getInductionVar(), across * lanes);
  return forRows(math().add(begin, nearest));
}

Value GemmEmitter::loadSums(Value array, ValueRange at, int64_t lanes) {
  OpBuilder &b = kernel.builder;
  if (lanes == 1)
    return memref::LoadOp::create(b, kernel.loc, array, at);
  return vector::LoadOp::create(
      b, kernel.loc, VectorType::get({lanes}, b.getF32Type()), array, at);
}

LogicalResult GemmEmitter::finish() {
  operandSums.finish(shared);
  int64_t rows = tiles.handedRows(problem), lanes = lanesRead();
  return handOver([&](Value slab, Value firstRow) {
    return forPlaces(rows, [&](Value row, Value column) {
      return finishElement(
          unit->rowOf(math().add(firstRow, row)), column,
          [&](Value at) { return loadSums(slab, {warp, row, at}, lanes); });
    });
  });
}

/// Split-K reduction: every block stores its partial tile in the scratch buffer
/// and arrives at a counter; the last-arriving block of a tile reduces in order
/// of k (deterministic) and resets the counter for the next launch.
LogicalResult GemmEmitter::finishSplit() {
  OpBuilder &b = kernel.builder;
  Location loc = kernel.loc;
  int64_t rows = tiles.handedRows(problem), lanes = lanesRead();
  int64_t warpElements = tiles.warpM() * tiles.warpN();
  int64_t blockElements = tiles.m * tiles.n;
  int64_t sumsOffset =
      tiles.counterBytes(problem) + tiles.partialBytes(problem);
  operandSums.leave(shared, split, sumsOffset);
  Value partials = kernel.named(
      math().view(kernel.scratch, tiles.counterBytes(problem),
                  tiles.tileCount(problem) * tiles.splits * blockElements,
                  b.getF32Type()),
      "partials");
  Value warpBegin = math().mul(warp, warpElements);
  Value blockBegin = math().mul(
      math().add(math().mul(tileNumber, tiles.splits), split), blockElements);
  Value begin =
      named(math(), math().add(blockBegin, warpBegin), "partialBegin");
  if (failed(handOver([&](Value slab, Value firstRow) {
        return forItems(rows * tiles.warpN() / 4, [&](Value item) {
          int64_t perRow = tiles.warpN() / 4;
          Value row = math().div(item, perRow);
          Value column = math().mul(math().rem(item, perRow), 4);
          Value sums = loadSums(slab, {warp, row, column}, 4);
          Value to = math().add(
              math().mul(math().add(firstRow, row), tiles.warpN()), column);
          vector::StoreOp::create(b, loc, sums, partials,
                                  ValueRange{math().add(begin, to)});
          return success();
        });
      })))
    return failure();

  Value counters =
      math().view(kernel.scratch, 0, tiles.tileCount(problem), b.getI32Type());
  return inLastBlock(
      kernel, counters, tileNumber, tiles.splits, [&]() -> LogicalResult {
        Value tileBegin = math().add(
            math().mul(tileNumber, tiles.splits * blockElements), warpBegin);
        named(math(), tileBegin, "tileBegin");
        LogicalResult result = forPlaces(
            tiles.warpM(), [&](Value row, Value column) -> LogicalResult {
              auto addUp = [&](Value place) -> Value {
                Value from = math().add(
                    tileBegin,
                    math().add(math().mul(row, tiles.warpN()), place));
                Value first = loadSums(partials, from, lanes);
                auto loop = scf::ForOp::create(b, loc, math().constant(1),
                                               math().constant(tiles.splits),
                                               math().constant(1), first);
                kernel.named(loop.getInductionVar(), "part");
                kernel.named(loop.getRegionIterArg(0), "sum");
                OpBuilder::InsertionGuard inside(b);
                b.setInsertionPointToEnd(loop.getBody());
                Value at = math().add(
                    from, math().mul(loop.getInductionVar(), blockElements));
                Value sum =
                    arith::AddFOp::create(b, loc, loop.getRegionIterArg(0),
                                          loadSums(partials, at, lanes));
                scf::YieldOp::create(b, loc, sum);
                return loop.getResult(0);
              };
              return finishElement(unit->rowOf(row), column, addUp);
            });
        operandSums.addUp(sumsOffset);
        return result;
      });
}

LogicalResult
GemmEmitter::finishElement(Value warpTileRow, Value warpTileColumn,
                           llvm::function_ref<Value(Value)> read) {
  OpBuilder &b = kernel.builder;
  Value row = math().add(math().add(rowBegin, warpRow), warpTileRow);
  Value begin = math().add(columnBegin, warpColumn);
  if (problem.pair)
    begin = math().div(begin, 2);
  Value column = math().add(begin, warpTileColumn);
  named(math(), row, "row");
  named(math(), column, "column");
  Value inside;
  if (problem.m % tiles.m != 0)
    inside = math().less(row, problem.m);
  if (problem.n % tiles.n != 0) {
    Value fits = math().less(column, problem.resultColumns());
    inside =
        inside ? b.createOrFold<arith::AndIOp>(kernel.loc, inside, fits) : fits;
  }
  OpBuilder::InsertionGuard guard(b);
  if (inside) {
    auto branch = scf::IfOp::create(b, kernel.loc, inside);
    b.setInsertionPoint(branch.thenBlock()->getTerminator());
  }
  if (problem.pair) {
    // A vector of columns is in one block of the pair.
    int64_t block = problem.pair->block;
    Value number = math().div(warpTileColumn, block);
    Value first = math().add(math().mul(number, 2 * block),
                             math().rem(warpTileColumn, block));
    Value left = read(first), right = read(math().add(first, block));
    return epilogue.emit(kernel, {left, right},
                         problem.resultIndices(math(), batch, row, column));
  }
  Value sums = read(warpTileColumn);
  int64_t lanes = lanesRead(), parts = lanes / epilogue.lanes;
  LogicalResult result = success();
  unrolled(kernel, parts, "part", [&](Value part) {
    Value some = sums, at = column;
    if (parts > 1) {
      some = vector::ExtractOp::create(b, kernel.loc, sums, part);
      at = math().add(column, part);
    }
    if (failed(epilogue.emit(kernel, some,
                             problem.resultIndices(math(), batch, row, at))))
      result = failure();
  });
  return result;
}
