//===- Gemm.cpp - matrix products on the matrix units ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block computes one tile of the result. Tiles of both operands travel to
// shared memory some stages ahead of the warps that multiply them; afterwards
// the warps hand their sums to the epilogue through the same memory, so that
// it reads and writes whole vectors.
//
//===----------------------------------------------------------------------===//

#include "GemmPipeline.h"
#include "GemmSums.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Rows of tiles that blocks walk together, so that they share columns in the
/// second-level cache.
static constexpr int64_t kTileGroup = 8;

namespace {
class GemmEmitter {
public:
  GemmEmitter(GpuKernel &kernel, const GemmProblem &problem,
              const GemmEpilogue &epilogue)
      : kernel(kernel), problem(problem), epilogue(epilogue),
        tiles(GemmTiles::of(kernel.schedule)),
        operandSums(kernel, problem, tiles) {}

  LogicalResult emit();

private:
  void placeBlock();
  LogicalResult multiply();
  LogicalResult finish();
  LogicalResult finishSplit();
  /// Hands the warp's sums over, part by part: `take` gets the shared array and
  /// the part's first row.
  LogicalResult
  handOver(llvm::function_ref<LogicalResult(Value slab, Value firstRow)> take);
  /// for (item = lane; item < count; item += 32) body(item).
  LogicalResult forItems(int64_t count,
                         llvm::function_ref<LogicalResult(Value)> body);
  /// Takes the sums of lanesRead() columns of a row of the warp's tile, which
  /// `read` gives, through the epilogue.
  LogicalResult finishElement(Value warpTileRow, Value warpTileColumn,
                              llvm::function_ref<Value()> read);
  /// Columns that are read together on their way to the epilogue, which takes
  /// as many at once as it can.
  int64_t lanesRead() const;
  /// Row and column of an item of an array of `rows` by warpN.
  std::pair<Value, Value> placeOf(Value item, int64_t rows);
  Value loadSums(Value array, ValueRange at, int64_t lanes);
  IndexMath math() { return {kernel.builder, kernel.loc}; }

  GpuKernel &kernel;
  const GemmProblem &problem;
  const GemmEpilogue &epilogue;
  GemmTiles tiles;
  GemmSums operandSums;
  std::unique_ptr<GemmUnit> unit;
  Value shared;
  /// Where the block and the warp stand.
  SmallVector<Value> batch;
  Value rowBegin, columnBegin, warp, warpRow, warpColumn;
  /// Of a split product: the tile and the block's number among those that share
  /// it.
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
  switch (problem.unit) {
  case GemmUnitKind::Mma16:
    unit = makeMmaUnit(kernel, tiles,
                       problem.tileType.isF16() ? cuda::FragmentType::f16
                                                : cuda::FragmentType::bf16);
    break;
  case GemmUnitKind::MmaTf32:
    unit = makeMmaUnit(kernel, tiles, cuda::FragmentType::tf32);
    break;
  case GemmUnitKind::Fma:
    unit = makeFmaUnit(kernel, problem, tiles);
    break;
  }
  if (failed(multiply()))
    return failure();
  return tiles.splits > 1 ? finishSplit() : finish();
}

LogicalResult GemmEmitter::multiply() {
  OpBuilder &b = kernel.builder;
  auto view = [&](const GemmOperand &operand, int64_t rows, int64_t offset,
                  StringRef name) {
    int64_t lines = operand.alongDepth ? rows : tiles.k;
    int64_t pitch = GemmTiles::pitch(problem, operand, rows, tiles.k);
    return sharedView(kernel, shared, offset, {tiles.stages, lines, pitch},
                      problem.tileType, name);
  };
  TileLoader lhs(kernel, problem, *problem.lhs,
                 view(*problem.lhs, tiles.m, 0, "lhsTiles"), tiles.m, tiles.k);
  TileLoader rhs(kernel, problem, *problem.rhs,
                 view(*problem.rhs, tiles.n,
                      tiles.stages * tiles.lhsBytes(problem), "rhsTiles"),
                 tiles.n, tiles.k);
  bool async = lhs.isAsync() || rhs.isAsync();
  unit->prepare();
  operandSums.prepare(rowBegin, columnBegin);
  int64_t steps = llvm::divideCeil(problem.k, tiles.k) / tiles.splits;
  Value begin;
  if (split)
    begin = named(math(), math().mul(split, steps * tiles.k), "kBegin");
  int64_t ahead = tiles.stages - 1;
  LogicalResult result = success();
  auto load = [&](Value step) {
    Value k = math().mul(step, tiles.k);
    if (begin)
      k = math().add(begin, k);
    named(math(), k, "k");
    Value stage = named(math(), math().rem(step, tiles.stages), "stage");
    if (failed(lhs.load(batch, rowBegin, k, stage)) ||
        failed(rhs.load(batch, columnBegin, k, stage)))
      result = failure();
  };
  auto commit = [&] {
    if (async)
      cuda::CommitCopiesOp::create(b, kernel.loc);
  };
  auto multiplyStep = [&](Value step) {
    Value stage = named(math(), math().rem(step, tiles.stages), "stage");
    unit->accumulate(lhs.operandAt(stage, warpRow),
                     rhs.operandAt(stage, warpColumn));
    Value first = math().constant(0);
    operandSums.accumulate(lhs.operandAt(stage, first),
                           rhs.operandAt(stage, first));
  };

  auto first = [&](Value step) {
    load(step);
    commit();
  };
  int64_t early = std::max<int64_t>(ahead, 1);
  if (early == 1) {
    first(math().constant(0));
  } else {
    auto loop = scf::ForOp::create(b, kernel.loc, math().constant(0),
                                   math().constant(early), math().constant(1));
    kernel.named(loop.getInductionVar(), "step");
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(loop.getBody()->getTerminator());
    first(loop.getInductionVar());
  }
  auto wait = [&](int64_t pending) {
    if (async)
      cuda::WaitCopiesOp::create(b, kernel.loc, b.getI64IntegerAttr(pending));
    kernel.barrier();
  };
  if (steps == 1) {
    wait(0);
    multiplyStep(math().constant(0));
    return result;
  }
  auto loop = scf::ForOp::create(b, kernel.loc, math().constant(0),
                                 math().constant(steps), math().constant(1));
  kernel.named(loop.getInductionVar(), "step");
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop.getBody()->getTerminator());
  Value step = loop.getInductionVar();
  wait(ahead - 1);
  // The stage that the last step has read is free now.
  Value next = named(math(), math().add(step, ahead), "next");
  {
    auto more = scf::IfOp::create(b, kernel.loc, math().less(next, steps));
    OpBuilder::InsertionGuard inside(b);
    b.setInsertionPoint(more.thenBlock()->getTerminator());
    load(next);
  }
  commit();
  multiplyStep(step);
  return result;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// Sums go through shared memory, a warp on its own, and leave in vectors.
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

LogicalResult
GemmEmitter::forItems(int64_t count,
                      llvm::function_ref<LogicalResult(Value)> body) {
  OpBuilder &b = kernel.builder;
  Value lane = gpu::LaneIdOp::create(b, kernel.loc, IntegerAttr());
  auto loop = scf::ForOp::create(b, kernel.loc, lane, math().constant(count),
                                 math().constant(32));
  kernel.named(loop.getInductionVar(), "item");
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop.getBody()->getTerminator());
  return body(loop.getInductionVar());
}

int64_t GemmEmitter::lanesRead() const {
  // Results apart in memory are stored one by one; their sums are neighbours.
  return problem.columnsNearer ? powerOfTwoIn(problem.n, 4) : epilogue.lanes;
}

std::pair<Value, Value> GemmEmitter::placeOf(Value item, int64_t rows) {
  int64_t lanes = lanesRead(), perRow = tiles.warpN() / lanes;
  Value row, column;
  if (epilogue.rowsFastest) {
    row = math().rem(item, rows);
    column = math().mul(math().div(item, rows), lanes);
  } else {
    row = math().div(item, perRow);
    column = math().mul(math().rem(item, perRow), lanes);
  }
  return {named(math(), row, "resultRow"),
          named(math(), column, "resultColumn")};
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
    return forItems(rows * tiles.warpN() / lanes, [&](Value item) {
      auto [row, column] = placeOf(item, rows);
      return finishElement(unit->rowOf(math().add(firstRow, row)), column,
                           [&, row = row, column = column] {
                             return loadSums(slab, {warp, row, column}, lanes);
                           });
    });
  });
}

/// Every block leaves its sums in the scratch buffer and counts itself; the
/// last one of a tile adds them up, in the order of k whichever it is, and
/// leaves the counter at zero for the next launch.
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

  cuda::FenceOp::create(b, loc);
  kernel.barrier();
  Type i32 = b.getI32Type();
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value));
  };
  Value counters = kernel.named(
      math().view(kernel.scratch, 0, tiles.tileCount(problem), i32),
      "counters");
  Value before = kernel.shared({1}, i32, "blocksBefore");
  auto byFirstThread = [&](llvm::function_ref<void()> body) {
    Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                          kernel.thread(), math().constant(0));
    auto branch = scf::IfOp::create(b, loc, isFirst);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.thenBlock()->getTerminator());
    body();
  };
  byFirstThread([&] {
    Value count = memref::AtomicRMWOp::create(
        b, loc, arith::AtomicRMWKind::addi, number(1), counters, tileNumber);
    memref::StoreOp::create(b, loc, count, before, math().constant(0));
  });
  kernel.barrier();
  Value count = memref::LoadOp::create(b, loc, before, math().constant(0));
  Value isLast = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, count,
                                       number(tiles.splits - 1));
  auto branch = scf::IfOp::create(b, loc, isLast);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenBlock()->getTerminator());
  cuda::FenceOp::create(b, loc);
  Value tileBegin = math().add(
      math().mul(tileNumber, tiles.splits * blockElements), warpBegin);
  named(math(), tileBegin, "tileBegin");
  LogicalResult result =
      forItems(warpElements / lanes, [&](Value item) -> LogicalResult {
        auto [row, column] = placeOf(item, tiles.warpM());
        Value from = math().add(
            tileBegin, math().add(math().mul(row, tiles.warpN()), column));
        auto addUp = [&]() -> Value {
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
          Value sum = arith::AddFOp::create(b, loc, loop.getRegionIterArg(0),
                                            loadSums(partials, at, lanes));
          scf::YieldOp::create(b, loc, sum);
          return loop.getResult(0);
        };
        return finishElement(unit->rowOf(row), column, addUp);
      });
  operandSums.addUp(sumsOffset);
  byFirstThread([&] {
    memref::StoreOp::create(b, loc, number(0), counters, tileNumber);
  });
  return result;
}

LogicalResult GemmEmitter::finishElement(Value warpTileRow,
                                         Value warpTileColumn,
                                         llvm::function_ref<Value()> read) {
  OpBuilder &b = kernel.builder;
  Value row = math().add(math().add(rowBegin, warpRow), warpTileRow);
  Value column =
      math().add(math().add(columnBegin, warpColumn), warpTileColumn);
  named(math(), row, "row");
  named(math(), column, "column");
  Value inside;
  if (problem.m % tiles.m != 0)
    inside = math().less(row, problem.m);
  if (problem.n % tiles.n != 0) {
    Value fits = math().less(column, problem.n);
    inside =
        inside ? b.createOrFold<arith::AndIOp>(kernel.loc, inside, fits) : fits;
  }
  OpBuilder::InsertionGuard guard(b);
  if (inside) {
    auto branch = scf::IfOp::create(b, kernel.loc, inside);
    b.setInsertionPoint(branch.thenBlock()->getTerminator());
  }
  Value sums = read();
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

LogicalResult mpc::emitGemm(GpuKernel &kernel, const GemmProblem &problem) {
  std::optional<GemmEpilogue> epilogue =
      GemmEpilogue::of(kernel.kernel, problem);
  if (!epilogue)
    return failure();
  return GemmEmitter(kernel, problem, *epilogue).emit();
}

namespace {
class GemmFamily : public KernelFamily {
public:
  StringRef name() const override { return "gemm"; }
  std::optional<Schedule> schedule(func::FuncOp kernel,
                                   const CudaTarget &target) const override {
    std::optional<GemmProblem> problem = GemmProblem::matmul(kernel, target);
    if (!problem)
      return std::nullopt;
    return scheduleGemm(kernel, *problem, GemmTiles::choose(*problem, target));
  }
  LogicalResult emit(GpuKernel &kernel) const override {
    std::optional<GemmProblem> problem =
        GemmProblem::matmul(kernel.kernel, kernel.target);
    if (!problem)
      return failure();
    return emitGemm(kernel, *problem);
  }
};
} // namespace

std::unique_ptr<KernelFamily> mpc::createGemmFamily() {
  return std::make_unique<GemmFamily>();
}
