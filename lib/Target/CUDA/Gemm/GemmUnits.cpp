//===- GemmUnits.cpp - matrix units of GEMM -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Gemm.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

namespace {

//===----------------------------------------------------------------------===//
// Tensor cores
//===----------------------------------------------------------------------===//

/// mma.sync of each warp separately, or wgmma of four warps from shared memory,
/// asynchronous.
class TensorCoreUnit : public GemmUnit {
public:
  TensorCoreUnit(GpuKernel &kernel, const FusedGemm &problem,
                 const GemmTiles &tiles, const MatrixUnit &unit)
      : kernel(kernel), tiles(tiles), unit(unit),
        mma(kernel, unit, problem.rightType) {}

  void prepare() override {
    int64_t rows = tiles.warpM() / 16, columns = tiles.warpN() / 8;
    sums = mma.sums(rows, columns, "sums");
    partial = tiles.promotes ? mma.sums(rows, columns, "partial") : sums;
    if (tiles.promotes || !unit.isWgmma())
      fill(kernel, sums, 0);
    if (unit.isWgmma())
      return;
    left = mma.leftFragments(tiles.warpM() / 16, "a");
    right = mma.rightFragments(columns, "b");
  }

  void accumulate(const WarpOperand &lhs, const WarpOperand &rhs,
                  Value step) override {
    if (unit.isWgmma()) {
      accumulateAsync(lhs, rhs, step);
    } else {
      if (tiles.promotes)
        fill(kernel, partial, 0);
      mma.accumulate(partial, left, right, lhs, rhs, tiles.k);
    }
    if (tiles.promotes)
      promote();
  }

  void settle(int64_t pending) override {
    OpBuilder &b = kernel.builder;
    if (unit.isWgmma())
      cuda::WarpgroupWaitOp::create(b, kernel.loc,
                                    b.getI64IntegerAttr(pending));
  }

  void deposit(Value step, Value slab, Value warp, Value row) override {
    OpBuilder &b = kernel.builder;
    IndexMath math{b, kernel.loc};
    auto pairType = VectorType::get({2}, b.getF32Type());
    // Addresses differ from the lane's first by constants.
    Value first = math.add(row, mma.group());
    Value own = partFrom(kernel, slab, {warp, first, mma.pair()},
                         {9, tiles.warpN()}, "ownResults");
    unrolled(kernel, tiles.warpN() / 8, "j", [&](Value j) {
      for (int64_t half = 0; half < 2; ++half) {
        SmallVector<Value> words;
        for (int64_t e = 0; e < 2; ++e)
          words.push_back(
              math.load(sums, {step, j, math.constant(2 * half + e)}));
        Value both =
            vector::FromElementsOp::create(b, kernel.loc, pairType, words);
        math.store(both, own, {math.constant(8 * half), math.mul(j, 8)});
      }
    });
  }

  Value rowOf(Value row) override { return row; }

private:
  void accumulateAsync(const WarpOperand &lhs, const WarpOperand &rhs,
                       Value step) {
    OpBuilder &b = kernel.builder;
    IndexMath math{b, kernel.loc};
    Value zero = math.constant(0);
    int64_t rows = unit.m * unit.warps();
    Value row =
        named(math, math.mul(math.div(lhs.row, rows), rows), "groupRow");
    cuda::WarpgroupFenceOp::create(b, kernel.loc);
    unrolled(kernel, tiles.k / mma.depth(), "part", [&](Value part) {
      Value k = named(math, math.mul(part, mma.depth()), "k");
      // The first wgmma overwrites the accumulators.
      Value kept = b.createOrFold<arith::CmpIOp>(
          kernel.loc, arith::CmpIPredicate::ne,
          tiles.promotes ? part : math.add(step, part), zero);
      cuda::WarpgroupMmaOp::create(
          b, kernel.loc, slotOf(kernel, partial, zero), lhs.tile,
          unpermuted(lhs, row, k), rhs.tile, unpermuted(rhs, rhs.row, k), kept,
          !lhs.alongDepth, !rhs.alongDepth, unit.elementType(b.getContext()),
          mma.rightType ? TypeAttr::get(mma.rightType) : TypeAttr());
    });
    cuda::WarpgroupCommitOp::create(b, kernel.loc);
  }

  /// Adds the sums of a step in f32 (DeepSeek-V3, arXiv 2412.19437, 3.3.2).
  void promote() {
    IndexMath math{kernel.builder, kernel.loc};
    settle(0);
    eachElement(kernel, sums, [&](ArrayRef<Value> at) {
      Value sum =
          arith::AddFOp::create(kernel.builder, kernel.loc, math.load(sums, at),
                                math.load(partial, at));
      math.store(sum, sums, at);
    });
  }

  /// The instruction applies the swizzle itself.
  SmallVector<Value> unpermuted(WarpOperand operand, Value row, Value k) {
    operand.places.isPermuted = false;
    return operand.at({kernel.builder, kernel.loc}, row, k);
  }

  GpuKernel &kernel;
  GemmTiles tiles;
  const MatrixUnit &unit;
  WarpMma mma;
  /// Accumulators of the kernel, and of the instructions.
  Value sums, partial, left, right;
};

//===----------------------------------------------------------------------===//
// Fused multiply-adds
//===----------------------------------------------------------------------===//

/// FMA unit: 4 x 8 lanes with warpM / 4 by warpN / 8 accumulators each. Reads
/// four positions along k at once.
class FmaUnit : public GemmUnit {
public:
  FmaUnit(GpuKernel &kernel, const FusedGemm &problem, const GemmTiles &tiles)
      : kernel(kernel), tiles(tiles), lhsAlongDepth(problem.lhs->alongDepth),
        rhsAlongDepth(problem.rhs->alongDepth) {}

  void prepare() override {
    Type f32 = kernel.builder.getF32Type();
    sums = kernel.local({rows(), columns()}, f32, "sums");
    left = kernel.local({rows(), 4}, f32, "a");
    right = kernel.local({columns(), 4}, f32, "b");
    fill(kernel, sums, 0);
  }

  void accumulate(const WarpOperand &lhs, const WarpOperand &rhs,
                  Value) override {
    OpBuilder &b = kernel.builder;
    unrolled(kernel, tiles.k / 4, "step", [&](Value step) {
      Value k = named(math(), math().mul(step, 4), "k");
      read(left, lhs, rows(), laneRow(), 4, k);
      read(right, rhs, columns(), laneColumn(), 8, k);
      unrolled(kernel, 4, "s", [&](Value s) {
        unrolled(kernel, rows(), "i", [&](Value i) {
          unrolled(kernel, columns(), "j", [&](Value j) {
            Value sum = math::FmaOp::create(
                b, kernel.loc, math().load(left, {i, s}),
                math().load(right, {j, s}), math().load(sums, {i, j}));
            math().store(sum, sums, {i, j});
          });
        });
      });
    });
  }

  void deposit(Value step, Value slab, Value warp, Value row) override {
    unrolled(kernel, columns(), "j", [&](Value j) {
      Value sum = math().load(sums, {step, j});
      Value column = place(laneColumn(), 8, j, rhsAlongDepth);
      math().store(sum, slab, {warp, math().add(row, laneRow()), column});
    });
  }

  Value rowOf(Value row) override {
    return place(math().rem(row, 4), 4, math().div(row, 4), lhsAlongDepth);
  }

private:
  IndexMath math() { return {kernel.builder, kernel.loc}; }
  int64_t rows() const { return tiles.warpM() / 4; }
  int64_t columns() const { return tiles.warpN() / 8; }
  Value lane() {
    return gpu::LaneIdOp::create(kernel.builder, kernel.loc, IntegerAttr());
  }
  Value laneRow() { return named(math(), math().div(lane(), 8), "laneRow"); }
  Value laneColumn() {
    return named(math(), math().rem(lane(), 8), "laneColumn");
  }

  /// Returns the row (column) of the warp's tile for element `i` of one of
  /// `lanes` lanes in that direction. Groups of four are contiguous if they are
  /// read as vectors.
  Value place(Value lane, int64_t lanes, Value i, bool alongDepth) {
    int64_t rows = lanes == 4 ? tiles.warpM() : tiles.warpN();
    Layout ofLanes = {{lanes, alongDepth ? 1 : 4}};
    Layout tile = Layout{{rows, 1}}.divide(ofLanes);
    return math().add(tile.take(1)(math(), lane), tile.drop(1)(math(), i));
  }

  /// Loads `count` rows at four positions along k, as vectors in the contiguous
  /// direction.
  void read(Value to, const WarpOperand &from, int64_t count, Value lane,
            int64_t lanes, Value k) {
    OpBuilder &b = kernel.builder;
    bool along = from.alongDepth;
    auto load = [&](Value row, Value s) {
      Value at = math().add(from.row, place(lane, lanes, row, along));
      Value vector =
          math().load(from.tile, from.at(math(), at, math().add(k, s)), 4);
      for (int64_t e = 0; e < 4; ++e) {
        Value element = vector::ExtractOp::create(b, kernel.loc, vector, e);
        math().store(element, to,
                     along ? ValueRange{row, math().constant(e)}
                           : ValueRange{math().add(row, e), s});
      }
    };
    if (along)
      return unrolled(kernel, count, "i",
                      [&](Value i) { load(i, math().constant(0)); });
    unrolled(kernel, 4, "s", [&](Value s) {
      unrolled(kernel, count / 4, "i",
               [&](Value i) { load(math().mul(i, 4), s); });
    });
  }

  GpuKernel &kernel;
  GemmTiles tiles;
  bool lhsAlongDepth, rhsAlongDepth;
  Value sums, left, right;
};

} // namespace

std::unique_ptr<GemmUnit> cuda::makeUnit(GpuKernel &kernel,
                                         const FusedGemm &problem,
                                         const GemmTiles &tiles) {
  const MatrixUnit &unit = tiles.unitOf(problem);
  if (unit.isFma())
    return std::make_unique<FmaUnit>(kernel, problem, tiles);
  return std::make_unique<TensorCoreUnit>(kernel, problem, tiles, unit);
}
