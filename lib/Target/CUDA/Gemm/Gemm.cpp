//===- Gemm.cpp - GEMM kernels --------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Plan/LastArrivingBlock.h"
#include "GemmOperandSums.h"
#include "GemmPipeline.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Row tiles per group in the grouped tile order (like Triton's GROUP_SIZE_M),
/// whose blocks share columns in L2.
static constexpr int64_t kTileGroup = 8;
static constexpr int64_t kLanes = 32;
/// Unrolled rounds of a warp's lanes over its results.
static constexpr int64_t kRoundsTogether = 4;
/// Minimum adjacent lanes whose 128-bit accesses fill two sectors.
static constexpr int64_t kFewestAcross = 4;

namespace {
/// Generates the body of one kernel. A block computes one tile of the result.
/// Tiles of both operands are prefetched into shared memory several stages
/// ahead of the warps that multiply them. Accumulators are staged through
/// shared memory, after a reduction in the scratch buffer with split-K, so that
/// the epilogue accesses whole vectors.
class GemmEmitter {
public:
  GemmEmitter(GpuKernel &kernel, const FusedGemm &problem,
              const GemmEpilogue &epilogue)
      : kernel(kernel), problem(problem), epilogue(epilogue),
        tiles(kernel.schedule.get<GemmTiles>()),
        operandSums(kernel, problem, tiles) {}

  LogicalResult emit();

private:
  void placeBlock();
  LogicalResult multiply();

  /// Epilogue of a block that has reduced all of k.
  LogicalResult finish();
  /// Split-K: reduces over the blocks of a tile first.
  LogicalResult finishSplit();
  /// Stages the warp's accumulators in shared memory, slice by slice: `take`
  /// gets the shared array and the slice's first row.
  LogicalResult
  handOver(llvm::function_ref<LogicalResult(Value slab, Value firstRow)> take);
  /// for (round = 0; round < count; ++round) body(round), partly unrolled.
  LogicalResult forRounds(int64_t count,
                          llvm::function_ref<LogicalResult(Value)> body);
  /// for (item = lane; item < count; item += 32) body(item).
  LogicalResult forItems(int64_t count,
                         llvm::function_ref<LogicalResult(Value)> body);
  /// Applies the epilogue to lanesRead() columns of a row of the warp's tile;
  /// `read` returns the accumulators from a column of the tile on.
  LogicalResult finishElement(Value warpTileRow, Value warpTileColumn,
                              llvm::function_ref<Value(Value column)> read);
  /// Columns that are read together for the epilogue, which may split them.
  int64_t lanesRead() const;
  /// Columns of the result in a warp's tile.
  int64_t warpColumns() const {
    return problem.pair ? tiles.warpN() / 2 : tiles.warpN();
  }
  /// Distributes an array of `rows` by warpColumns() over the lanes,
  /// lanesRead() columns at a time.
  LogicalResult
  forPlaces(int64_t rows,
            llvm::function_ref<LogicalResult(Value row, Value column)> body);

  IndexMath math() { return {kernel.builder, kernel.loc}; }

  GpuKernel &kernel;
  const FusedGemm &problem;
  const GemmEpilogue &epilogue;
  GemmTiles tiles;
  GemmOperandSums operandSums;
  std::unique_ptr<GemmUnit> unit;
  Value shared;
  /// Tile indices of block and warp.
  SmallVector<Value> batch;
  Value rowBegin, columnBegin, warp, warpRow, warpColumn;
  /// With split-K: the tile, and the block's index within it.
  Value tileNumber, split;
};
} // namespace

void GemmEmitter::placeBlock() {
  int64_t tilesM = llvm::divideCeil(problem.m, tiles.m),
          tilesN = llvm::divideCeil(problem.n, tiles.n);
  Value block = kernel.named(kernel.block(), "block");
  if (tiles.splits > 1) {
    split = named(math(), math().rem(block, tiles.splits), "split");
    block = named(math(), math().div(block, tiles.splits), "tile");
  }
  tileNumber = block;
  Value tile = math().rem(block, tilesM * tilesN);
  if (problem.batches == 1)
    tile = block;
  else
    batch = math().delinearize(math().div(block, tilesM * tilesN),
                               problem.batchShape);
  if (batch.empty())
    batch.assign(problem.batchShape.size(), math().constant(0));
  int64_t group = std::min(tilesM, kTileGroup);
  while (tilesM % group != 0)
    --group;
  Value tileM = math().add(math().mul(math().div(tile, group * tilesN), group),
                           math().rem(tile, group));
  Value tileN = math().rem(math().div(tile, group), tilesN);
  rowBegin = kernel.named(math().mul(tileM, tiles.m), "rowBegin");
  columnBegin = kernel.named(math().mul(tileN, tiles.n), "columnBegin");
  warp = kernel.named(
      gpu::SubgroupIdOp::create(kernel.builder, kernel.loc, IntegerAttr()),
      "warp");
  warpRow = kernel.named(
      math().mul(math().div(warp, tiles.warpsN), tiles.warpM()), "warpRow");
  warpColumn = kernel.named(
      math().mul(math().rem(warp, tiles.warpsN), tiles.warpN()), "warpColumn");
}

LogicalResult GemmEmitter::emit() {
  shared = dynamicShared(kernel);
  placeBlock();
  unit = makeUnit(kernel, problem, tiles);
  if (failed(multiply()))
    return failure();
  unit->settle(0);
  return tiles.splits > 1 ? finishSplit() : finish();
}

LogicalResult GemmEmitter::multiply() {
  OpBuilder &b = kernel.builder;
  auto view = [&](const GemmOperand &operand, int64_t stages, int64_t rows,
                  int64_t offset, StringRef name) {
    SmallVector<int64_t> shape = tiles.shapeOf(problem, operand, rows);
    shape.insert(shape.begin(), stages);
    return sharedView(kernel, shared, offset, shape,
                      problem.tileTypeOf(operand), name);
  };
  int64_t lhsStages = tiles.lhsStages(problem);
  Value lhsTiles = view(*problem.lhs, lhsStages, tiles.m, 0, "lhsTiles");
  TileLoader lhs(kernel, problem, *problem.lhs, tiles, lhsTiles, tiles.m);
  TileLoader rhs(kernel, problem, *problem.rhs, tiles,
                 view(*problem.rhs, tiles.stages, tiles.n,
                      lhsStages * tiles.lhsBytes(problem), "rhsTiles"),
                 tiles.n);
  bool async = lhs.isAsync() || rhs.isAsync();
  // The row prologue needs the registers before accumulators do.
  if (!problem.rows)
    unit->prepare();
  operandSums.prepare(rowBegin, columnBegin);
  int64_t steps = llvm::divideCeil(problem.k, tiles.k) / tiles.splits;
  Value begin;
  if (split)
    begin = named(math(), math().mul(split, steps * tiles.k), "kBegin");
  int64_t ahead = tiles.ahead();
  LogicalResult result = success();
  auto load = [&](Value step) {
    Value k = math().mul(step, tiles.k);
    if (begin)
      k = math().add(begin, k);
    named(math(), k, "k");
    Value stage = named(math(), math().rem(step, tiles.stages), "stage");
    if ((!problem.rows && failed(lhs.load(batch, rowBegin, k, stage))) ||
        failed(rhs.load(batch, columnBegin, k, stage)))
      result = failure();
  };
  auto commit = [&] {
    if (async)
      cuda::CommitCopiesOp::create(b, kernel.loc);
  };
  auto multiplyStep = [&](Value step) {
    Value stage = named(math(), math().rem(step, tiles.stages), "stage");
    unit->accumulate(lhs.operandAt(problem.rows ? step : stage, warpRow),
                     rhs.operandAt(stage, warpColumn), step);
    Value first = math().constant(0);
    operandSums.accumulate(lhs.operandAt(stage, first),
                           rhs.operandAt(stage, first));
  };

  math().loop(std::max<int64_t>(ahead, 1), [&](Value step) {
    if (ahead > 1)
      kernel.named(step, "step");
    load(step);
    commit();
  });
  // Overlaps with the asynchronous copies of the right-hand side.
  if (problem.rows) {
    if (failed(
            problem.rows->emit(kernel, tiles, rowBegin, columnBegin, lhsTiles)))
      return failure();
    unit->prepare();
  }
  auto wait = [&](int64_t pending) {
    if (async)
      cuda::WaitCopiesOp::create(b, kernel.loc, b.getI64IntegerAttr(pending));
    if (tiles.warpgroups)
      cuda::FenceSharedOp::create(b, kernel.loc);
    kernel.barrier();
  };
  if (steps == 1) {
    wait(0);
    multiplyStep(math().constant(0));
    return result;
  }
  math().loop(steps, [&](Value step) {
    kernel.named(step, "step");
    // Unrolling would move accumulators between registers, which wgmma in
    // flight does not allow.
    if (tiles.warpgroups)
      step.getParentBlock()->getParentOp()->setAttr(kUnrollAttr,
                                                    b.getI64IntegerAttr(1));
    unit->settle(tiles.behind());
    wait(ahead - 1);
    // The stage read by the last step (or the one before, with a wgmma in
    // flight) is free now.
    Value next = named(math(), math().add(step, ahead), "next");
    kernel.within(math().less(next, steps), [&] { load(next); });
    commit();
    multiplyStep(step);
  });
  return result;
}

//===----------------------------------------------------------------------===//
// Epilogue
//===----------------------------------------------------------------------===//

/// Each warp stages its accumulators separately.
LogicalResult GemmEmitter::handOver(
    llvm::function_ref<LogicalResult(Value slab, Value firstRow)> take) {
  OpBuilder &b = kernel.builder;
  int64_t rows = tiles.handedRows(problem), perStep = tiles.unitOf(problem).m;
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
  LogicalResult result = success();
  unrolled(
      kernel, count, "round", [&](Value round) { result = body(round); },
      powerOfTwoIn(count, kRoundsTogether));
  return result;
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
  LogicalResult result = success();
  math().loop(lane, math().constant(count), kLanes,
              [&](Value item) { result = body(kernel.named(item, "item")); });
  return result;
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
  LogicalResult result = success();
  unrolled(
      kernel, perRow / across, "run",
      [&](Value run) {
        Value begin = math().mul(run, across * lanes);
        result = forRows(math().add(begin, nearest));
      },
      /*factor=*/1);
  return result;
}

LogicalResult GemmEmitter::finish() {
  operandSums.finish(shared);
  int64_t rows = tiles.handedRows(problem), lanes = lanesRead();
  return handOver([&](Value slab, Value firstRow) {
    return forPlaces(rows, [&](Value row, Value column) {
      return finishElement(
          unit->rowOf(math().add(firstRow, row)), column,
          [&](Value at) { return math().load(slab, {warp, row, at}, lanes); });
    });
  });
}

/// Split-K reduction: every block stores its partial tile in the scratch buffer
/// and arrives at a counter; the last-arriving block of a tile reduces in order
/// of k (deterministic) and resets the counter for the next launch.
LogicalResult GemmEmitter::finishSplit() {
  OpBuilder &b = kernel.builder;
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
          Value sums = math().load(slab, {warp, row, column}, 4);
          Value to = math().add(
              math().mul(math().add(firstRow, row), tiles.warpN()), column);
          math().store(sums, partials, math().add(begin, to));
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
                return addParts(kernel, tiles.splits, [&](Value part) {
                  Value at = math().add(from, math().mul(part, blockElements));
                  return math().load(partials, at, lanes);
                });
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
  LogicalResult result = success();
  kernel.within(inside, [&] {
    if (problem.pair) {
      // A vector of columns is in one block of the pair.
      int64_t block = problem.pair->block;
      Value number = math().div(warpTileColumn, block);
      Value first = math().add(math().mul(number, 2 * block),
                               math().rem(warpTileColumn, block));
      Value left = read(first), right = read(math().add(first, block));
      result = epilogue.emit(kernel, {left, right},
                             problem.resultIndices(math(), batch, row, column));
      return;
    }
    Value sums = read(warpTileColumn);
    int64_t lanes = lanesRead(), parts = lanes / epilogue.lanes;
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
  });
  return result;
}

LogicalResult GemmPlan::emit(GpuKernel &gpuKernel) const {
  // Copy the concat's other inputs before waiting for own operands.
  if (failed(epilogue.emitRest(gpuKernel)))
    return failure();
  return GemmEmitter(gpuKernel, problem, epilogue).emit();
}
