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

/// Accumulators in the lane layout of mma.sync.
class MatrixUnit : public GemmUnit {
public:
  MatrixUnit(GpuKernel &kernel, const GemmTiles &tiles, cuda::FragmentType type)
      : kernel(kernel), tiles(tiles), mma(kernel, type) {}

  void prepare() override {
    sums = mma.sums(tiles.warpM() / 16, tiles.warpN() / 8, "sums");
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
          words.push_back(memref::LoadOp::create(
              b, kernel.loc, sums,
              ValueRange{step, j, math.constant(2 * half + e)}));
        Value both =
            vector::FromElementsOp::create(b, kernel.loc, pairType, words);
        vector::StoreOp::create(
            b, kernel.loc, both, own,
            ValueRange{math.constant(8 * half), math.mul(j, 8)});
      }
    });
  }

  int64_t rowsPerStep() const override { return 16; }
  Value rowOf(Value row) override { return row; }

protected:
  GpuKernel &kernel;
  GemmTiles tiles;
  WarpMma mma;
  Value sums;
};

/// mma.sync: each warp separately.
class MmaUnit : public MatrixUnit {
public:
  using MatrixUnit::MatrixUnit;

  void prepare() override {
    MatrixUnit::prepare();
    left = mma.leftFragments(tiles.warpM() / 16, "a");
    right = mma.rightFragments(tiles.warpN() / 8, "b");
    mma.fill(sums, 0);
  }

  void accumulate(const WarpOperand &lhs, const WarpOperand &rhs,
                  Value) override {
    mma.accumulate(sums, left, right, lhs, rhs, tiles.k);
  }

private:
  Value left, right;
};

/// wgmma: four warps, from shared memory, asynchronous.
class WarpgroupUnit : public MatrixUnit {
public:
  WarpgroupUnit(GpuKernel &kernel, const GemmTiles &tiles,
                cuda::FragmentType type)
      : MatrixUnit(kernel, tiles, type), type(type) {}

  void accumulate(const WarpOperand &lhs, const WarpOperand &rhs,
                  Value step) override {
    OpBuilder &b = kernel.builder;
    IndexMath math{b, kernel.loc};
    Value zero = math.constant(0);
    Value row =
        named(math, math.mul(math.div(lhs.row, kRows), kRows), "groupRow");
    cuda::WarpgroupFenceOp::create(b, kernel.loc);
    unrolled(kernel, tiles.k / mma.depth(), "part", [&](Value part) {
      Value k = named(math, math.mul(part, mma.depth()), "k");
      // The first wgmma overwrites the accumulators.
      Value kept = b.createOrFold<arith::CmpIOp>(
          kernel.loc, arith::CmpIPredicate::ne, math.add(step, part), zero);
      cuda::WarpgroupMmaOp::create(b, kernel.loc, slotOf(kernel, sums, zero),
                                   lhs.tile, unpermuted(lhs, row, k), rhs.tile,
                                   unpermuted(rhs, rhs.row, k), kept,
                                   !lhs.alongDepth, !rhs.alongDepth, type);
    });
    cuda::WarpgroupCommitOp::create(b, kernel.loc);
  }

  void settle(int64_t pending) override {
    OpBuilder &b = kernel.builder;
    cuda::WarpgroupWaitOp::create(b, kernel.loc, b.getI64IntegerAttr(pending));
  }

private:
  static constexpr int64_t kRows = 64;

  /// The instruction applies the swizzle itself.
  SmallVector<Value> unpermuted(WarpOperand operand, Value row, Value k) {
    operand.places.isPermuted = false;
    return operand.at({kernel.builder, kernel.loc}, row, k);
  }

  cuda::FragmentType type;
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
    OpBuilder &b = kernel.builder;
    Type f32 = b.getF32Type();
    sums = kernel.local({rows(), columns()}, f32, "sums");
    left = kernel.local({rows(), 4}, f32, "a");
    right = kernel.local({columns(), 4}, f32, "b");
    Value zero = arith::ConstantOp::create(b, kernel.loc, b.getF32FloatAttr(0));
    unrolled(kernel, rows(), "i", [&](Value i) {
      unrolled(kernel, columns(), "j", [&](Value j) {
        memref::StoreOp::create(b, kernel.loc, zero, sums, ValueRange{i, j});
      });
    });
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
            auto load = [&](Value from, Value x, Value y) -> Value {
              return memref::LoadOp::create(b, kernel.loc, from,
                                            ValueRange{x, y});
            };
            Value sum =
                math::FmaOp::create(b, kernel.loc, load(left, i, s),
                                    load(right, j, s), load(sums, i, j));
            memref::StoreOp::create(b, kernel.loc, sum, sums, ValueRange{i, j});
          });
        });
      });
    });
  }

  void deposit(Value step, Value slab, Value warp, Value row) override {
    OpBuilder &b = kernel.builder;
    unrolled(kernel, columns(), "j", [&](Value j) {
      Value sum =
          memref::LoadOp::create(b, kernel.loc, sums, ValueRange{step, j});
      Value column = place(laneColumn(), 8, j, rhsAlongDepth);
      memref::StoreOp::create(
          b, kernel.loc, sum, slab,
          ValueRange{warp, math().add(row, laneRow()), column});
    });
  }

  int64_t rowsPerStep() const override { return 4; }
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
    if (alongDepth)
      return math().add(lane, math().mul(i, lanes));
    Value group = math().mul(math().div(i, 4), 4 * lanes);
    return math().add(math().add(group, math().mul(lane, 4)), math().rem(i, 4));
  }

  void read(Value to, const WarpOperand &from, int64_t count, Value lane,
            int64_t lanes, Value k) {
    OpBuilder &b = kernel.builder;
    auto type = VectorType::get({4}, b.getF32Type());
    auto spread = [&](Value vector, llvm::function_ref<Value(int64_t)> row,
                      llvm::function_ref<Value(int64_t)> step) {
      for (int64_t e = 0; e < 4; ++e) {
        Value element = vector::ExtractOp::create(b, kernel.loc, vector, e);
        memref::StoreOp::create(b, kernel.loc, element, to,
                                ValueRange{row(e), step(e)});
      }
    };
    if (from.alongDepth) {
      unrolled(kernel, count, "i", [&](Value i) {
        SmallVector<Value> at(from.leading);
        at.append({math().add(from.row, place(lane, lanes, i, true)), k});
        Value vector =
            vector::LoadOp::create(b, kernel.loc, type, from.tile, at);
        spread(
            vector, [&](int64_t) { return i; },
            [&](int64_t e) { return math().constant(e); });
      });
      return;
    }
    unrolled(kernel, 4, "s", [&](Value s) {
      unrolled(kernel, count / 4, "i", [&](Value i) {
        SmallVector<Value> at(from.leading);
        Value first = math().mul(i, 4);
        at.append({math().add(k, s),
                   math().add(from.row, place(lane, lanes, first, false))});
        Value vector =
            vector::LoadOp::create(b, kernel.loc, type, from.tile, at);
        spread(
            vector, [&](int64_t e) { return math().add(first, e); },
            [&](int64_t) { return s; });
      });
    });
  }

  GpuKernel &kernel;
  GemmTiles tiles;
  bool lhsAlongDepth, rhsAlongDepth;
  Value sums, left, right;
};

} // namespace

std::unique_ptr<GemmUnit> cuda::makeMmaUnit(GpuKernel &kernel,
                                            const GemmTiles &tiles,
                                            cuda::FragmentType type) {
  return std::make_unique<MmaUnit>(kernel, tiles, type);
}

std::unique_ptr<GemmUnit> cuda::makeWarpgroupUnit(GpuKernel &kernel,
                                                  const GemmTiles &tiles,
                                                  cuda::FragmentType type) {
  return std::make_unique<WarpgroupUnit>(kernel, tiles, type);
}

std::unique_ptr<GemmUnit> cuda::makeFmaUnit(GpuKernel &kernel,
                                            const FusedGemm &problem,
                                            const GemmTiles &tiles) {
  return std::make_unique<FmaUnit>(kernel, problem, tiles);
}
