//===- Gemm.cpp - GEMM kernel family and main loop ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernel family of GEMMs; tile indices and main loop of a kernel.
//
//===----------------------------------------------------------------------===//

#include "GemmEmitter.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Row tiles per group in the grouped tile order (like Triton's GROUP_SIZE_M),
/// whose blocks share columns in L2.
static constexpr int64_t kTileGroup = 8;

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
  int64_t group = tiles.group ? tiles.group : std::min(tilesM, kTileGroup);
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
  case GemmUnitKind::Mma16: {
    auto type = problem.tileType.isF16() ? cuda::FragmentType::f16
                                         : cuda::FragmentType::bf16;
    unit = tiles.warpgroups ? makeWarpgroupUnit(kernel, tiles, type)
                            : makeMmaUnit(kernel, tiles, type);
    break;
  }
  case GemmUnitKind::MmaTf32:
    unit = makeMmaUnit(kernel, tiles, cuda::FragmentType::tf32);
    break;
  case GemmUnitKind::Fma:
    unit = makeFmaUnit(kernel, problem, tiles);
    break;
  }
  if (failed(multiply()))
    return failure();
  unit->settle(0);
  return tiles.splits > 1 ? finishSplit() : finish();
}

void GemmEmitter::bringHalos(TileLoader &lhs, TileLoader &rhs, Value k) {
  int64_t offset = tiles.pipelineBytes(problem), from = offset;
  auto bring = [&](TileLoader &loader, const GemmOperand &operand, Value row,
                   StringRef name) {
    int64_t elements = tiles.haloElements(problem, operand);
    if (elements == 0)
      return;
    loader.bringHalo(sharedView(kernel, shared, offset, {elements},
                                getElementTypeOrSelf(operand.halo.getType()),
                                name),
                     row, k);
    offset += tiles.haloBytes(problem, operand);
  };
  bring(lhs, *problem.lhs, rowBegin, "lhsHalo");
  bring(rhs, *problem.rhs, columnBegin, "rhsHalo");
  if (offset == from)
    return;
  OpBuilder &b = kernel.builder;
  cuda::CommitCopiesOp::create(b, kernel.loc);
  cuda::WaitCopiesOp::create(b, kernel.loc, b.getI64IntegerAttr(0));
  kernel.barrier();
}

LogicalResult GemmEmitter::multiply() {
  OpBuilder &b = kernel.builder;
  auto view = [&](const GemmOperand &operand, int64_t stages, int64_t rows,
                  int64_t offset, StringRef name) {
    SmallVector<int64_t> shape = tiles.shapeOf(problem, operand, rows);
    shape.insert(shape.begin(), stages);
    return sharedView(kernel, shared, offset, shape, problem.tileType, name);
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
  bringHalos(lhs, rhs, begin ? begin : math().constant(0));
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
  auto loop = scf::ForOp::create(b, kernel.loc, math().constant(0),
                                 math().constant(steps), math().constant(1));
  kernel.named(loop.getInductionVar(), "step");
  // Unrolling would move accumulators between registers, which wgmma in flight
  // does not allow.
  if (tiles.warpgroups)
    loop->setAttr(kUnrollAttr, b.getI64IntegerAttr(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop.getBody()->getTerminator());
  Value step = loop.getInductionVar();
  unit->settle(tiles.behind());
  wait(ahead - 1);
  // The stage read by the last step (or the one before, with a wgmma in flight)
  // is free now.
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

LogicalResult mpc::emitGemm(GpuKernel &kernel, const FusedGemm &problem) {
  std::optional<GemmEpilogue> epilogue =
      GemmEpilogue::of(kernel.kernel, problem);
  // Copy the concat's other inputs before waiting for own operands.
  if (!epilogue || failed(epilogue->emitRest(kernel)))
    return failure();
  return GemmEmitter(kernel, problem, *epilogue).emit();
}

namespace {
class GemmFamily : public KernelFamily {
public:
  StringRef name() const override { return "gemm"; }
  std::optional<Schedule> schedule(func::FuncOp kernel,
                                   const CudaTarget &target) const override {
    std::optional<FusedGemm> problem = FusedGemm::matmul(kernel, target);
    if (!problem)
      return std::nullopt;
    return scheduleGemm(kernel, *problem, GemmTiles::choose(*problem, target));
  }
  std::optional<Schedule> scheduleAs(func::FuncOp kernel,
                                     const CudaTarget &target,
                                     const Schedule &given) const override {
    std::optional<FusedGemm> problem = FusedGemm::matmul(kernel, target);
    if (!problem)
      return std::nullopt;
    return scheduleGemmAs(kernel, *problem, target, given);
  }
  LogicalResult emit(GpuKernel &kernel) const override {
    std::optional<FusedGemm> problem =
        FusedGemm::matmul(kernel.kernel, kernel.target);
    if (!problem)
      return failure();
    return emitGemm(kernel, *problem);
  }
};
} // namespace

std::unique_ptr<KernelFamily> mpc::createGemmFamily() {
  return std::make_unique<GemmFamily>();
}
