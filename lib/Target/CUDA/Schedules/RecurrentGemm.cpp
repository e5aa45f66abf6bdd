//===- RecurrentGemm.cpp - recurrent GEMM of a block -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two variants. On tensor cores weights are the left operand with 16-column
// tiles, and states the right operand with 8 rows, because batches are small.
// Warps split the columns, then the depth; weight fragments stay in registers
// across steps if they fit. Otherwise a thread multiplies one column with all
// rows by f32 fma, upconverting 16-bit states and weights.
//
//===----------------------------------------------------------------------===//

#include "PersistentRecurrence.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;

int64_t PersistentRecurrence::firstColumn(size_t product) const {
  int64_t column = 0;
  for (const RecurrenceShape::Product &before :
       ArrayRef(products).take_front(product))
    column += plan.columnsOf(before);
  return column;
}

Value PersistentRecurrence::sumOf(int64_t number, const Item &item) {
  Value column = math.add(item.blockUnit, number * plan.units);
  Value sum;
  for (int64_t split = 0; split < plan.splits; ++split) {
    Value part = load(sums, {math.constant(split), item.blockRow, column});
    sum = sum ? values.add(sum, part) : part;
  }
  return sum;
}

void PersistentRecurrence::multiply(size_t product) {
  if (plan.usesMatrixUnits)
    multiplyByUnits(product);
  else
    multiplyByThreads(product);
}

//===----------------------------------------------------------------------===//
// Without tensor cores
//===----------------------------------------------------------------------===//

void PersistentRecurrence::multiplyByThreads(size_t product) {
  constexpr int64_t kRows = 8, kLanes = 4;
  int64_t columns = plan.columnsOf(products[product]),
          part = plan.depthOf(products[product]) / plan.splits,
          first = firstColumn(product);
  spread(columns * plan.splits, "item", [&](Value item) {
    Value column = shown(math.rem(item, columns), "column");
    Value split = shown(math.div(item, columns), "split");
    Value begin = math.mul(split, part);
    for (int64_t row = 0; row < plan.rows; row += kRows) {
      int64_t rows = std::min(kRows, plan.rows - row);
      SmallVector<Value> initial(rows, values.constant(f32, 0));
      auto loop = scf::ForOp::create(b, kernel.loc, math.constant(0),
                                     math.constant(part), math.constant(kLanes),
                                     initial);
      {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToStart(loop.getBody());
        Value k = shown(math.add(begin, loop.getInductionVar()), "k");
        SmallVector<Value> weight, next;
        for (int64_t e = 0; e < kLanes; ++e)
          weight.push_back(
              shown(load(weights, {math.add(k, e), math.add(column, first)}),
                    "weight"));
        for (int64_t i = 0; i < rows; ++i) {
          Value state =
              shown(vector::LoadOp::create(
                        b, kernel.loc, VectorType::get({kLanes}, f32), states,
                        ValueRange{math.constant(row + i), k}),
                    "state");
          Value sum = loop.getRegionIterArgs()[i];
          for (int64_t e = 0; e < kLanes; ++e)
            sum = values.fma(vector::ExtractOp::create(b, kernel.loc, state, e),
                             weight[e], sum);
          next.push_back(sum);
        }
        scf::YieldOp::create(b, kernel.loc, next);
      }
      for (int64_t i = 0; i < rows; ++i)
        store(loop.getResult(i), sums, {split, math.constant(row + i), column});
    }
  });
}

//===----------------------------------------------------------------------===//
// Tensor cores
//===----------------------------------------------------------------------===//

cuda::FragmentType PersistentRecurrence::fragmentType() const {
  return plan.shape.narrow.isF16() ? cuda::FragmentType::f16
                                   : cuda::FragmentType::bf16;
}

WarpOperand PersistentRecurrence::weightsOfWarp(size_t product,
                                                Value columnWarp,
                                                int64_t tiles) {
  Value row = math.add(math.mul(columnWarp, 16 * tiles), firstColumn(product));
  return {weights, /*alongDepth=*/true, {}, row};
}

namespace {
/// A warp's share of a GEMM.
struct WarpPart {
  WarpPart(IndexMath math, GpuKernel &kernel, const PersistentRnnPlan &plan,
           const RecurrenceShape::Product &product) {
    int64_t columnWarps = plan.threads / 32 / plan.splits;
    tiles = plan.columnsOf(product) / 16 / columnWarps;
    rowTiles = plan.tileRows() / 8;
    steps = plan.depthOf(product) / 16 / plan.splits;
    Value warp =
        gpu::SubgroupIdOp::create(math.b, kernel.loc, /*upper_bound=*/nullptr);
    columnWarp = named(math, math.rem(warp, columnWarps), "column_warp");
    split = named(math, math.div(warp, columnWarps), "split");
  }

  /// Blocks of 16 columns and of 8 rows, and instructions along the depth.
  int64_t tiles, rowTiles, steps;
  Value columnWarp, split;
};
} // namespace

void PersistentRecurrence::holdFragments() {
  WarpMma mma(kernel, fragmentType());
  for (auto [product, extents] : llvm::enumerate(products)) {
    WarpPart part(math, kernel, plan, extents);
    Value held = kernel.local({part.steps, part.tiles, 4}, b.getI32Type(),
                              "heldWeights");
    WarpOperand from = weightsOfWarp(product, part.columnWarp, part.tiles);
    unrolled(kernel, part.steps, "s", [&](Value s) {
      Value k = math.mul(math.add(math.mul(part.split, part.steps), s), 16);
      mma.loadLeft(slotOf(kernel, held, s), from, k);
    });
    fragments.push_back(held);
  }
}

void PersistentRecurrence::multiplyByUnits(size_t product) {
  WarpMma mma(kernel, fragmentType());
  WarpPart part(math, kernel, plan, products[product]);
  Value left, right = mma.rightFragments(part.rowTiles, "stateFragments"),
              partial = mma.sums(part.tiles, part.rowTiles, "partial");
  mma.fill(partial, 0);
  if (fragments.empty())
    left = mma.leftFragments(part.tiles, "weightFragments");
  WarpOperand from = weightsOfWarp(product, part.columnWarp, part.tiles);
  WarpOperand state = {states, /*alongDepth=*/true, {}, math.constant(0)};
  unrolled(kernel, part.steps, "s", [&](Value s) {
    Value k = named(
        math, math.mul(math.add(math.mul(part.split, part.steps), s), 16), "k");
    if (fragments.empty())
      mma.loadLeft(left, from, k);
    mma.loadRight(right, state, k);
    mma.multiply(partial,
                 fragments.empty() ? left
                                   : slotOf(kernel, fragments[product], s),
                 right);
  });
  Value lane = mma.group(), pair = mma.pair();
  unrolled(kernel, part.tiles, "i", [&](Value i) {
    Value column = math.add(
        math.mul(math.add(math.mul(part.columnWarp, part.tiles), i), 16), lane);
    unrolled(kernel, part.rowTiles, "j", [&](Value j) {
      Value row = math.add(math.mul(j, 8), pair);
      for (int64_t e = 0; e < 4; ++e)
        store(
            load(partial, {i, j, math.constant(e)}), sums,
            {part.split, math.add(row, e % 2), math.add(column, 8 * (e / 2))});
    });
  });
}
