//===- GemmOperandSums.cpp - operand sums of GEMM (bias gradient) ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmOperandSums.h"
#include "../Plan/LastArrivingBlock.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

//===----------------------------------------------------------------------===//
// Distribution over threads
//===----------------------------------------------------------------------===//

static const GemmOperand &summedOperand(const FusedGemm &problem) {
  return problem.sumsLeft ? *problem.lhs : *problem.rhs;
}

GemmOperandSums::Shares::Shares(const FusedGemm &problem,
                                const GemmTiles &tiles)
    : rows(problem.sumsLeft ? tiles.m : tiles.n), depth(tiles.k) {
  int64_t bytes = problem.tileType.getIntOrFloatBitWidth() / 8;
  lanes = summedOperand(problem).alongDepth
              ? 1
              : powerOfTwoIn(rows, kVectorBytes / bytes);
  groups = rows / lanes;
  parts = std::clamp<int64_t>(tiles.threads() / groups, 1, depth);
  while (depth % parts != 0)
    --parts;
}

GemmOperandSums::GemmOperandSums(GpuKernel &kernel, const FusedGemm &problem,
                                 const GemmTiles &tiles)
    : kernel(kernel), problem(problem), tiles(tiles), shares(problem, tiles) {}

bool GemmOperandSums::fits(const FusedGemm &problem, const GemmTiles &tiles) {
  return problem.sums.empty() ||
         Shares(problem, tiles).groups <= tiles.threads();
}

int64_t GemmOperandSums::sharedBytes(const FusedGemm &problem,
                                     const GemmTiles &tiles) {
  if (problem.sums.empty())
    return 0;
  Shares shares(problem, tiles);
  return shares.parts * shares.rows * 4;
}

/// Returns the operand's rows, padded to whole tiles.
static int64_t paddedRows(const FusedGemm &problem, int64_t tileRows) {
  return llvm::alignTo(summedOperand(problem).rows, tileRows);
}

int64_t GemmOperandSums::scratchBytes(const FusedGemm &problem,
                                      const GemmTiles &tiles) {
  if (problem.sums.empty() || tiles.splits == 1)
    return 0;
  return 4 * tiles.splits *
         paddedRows(problem, problem.sumsLeft ? tiles.m : tiles.n);
}

void GemmOperandSums::byThreads(int64_t count,
                                llvm::function_ref<void(Value)> body) {
  assert(count <= tiles.threads() && "a thread sums one group of rows");
  OpBuilder &b = kernel.builder;
  Value thread = named(math(), kernel.thread(), "thread"),
        condition = isSumming;
  if (count < tiles.threads()) {
    Value takesPart = math().less(thread, count);
    condition = condition ? b.createOrFold<arith::AndIOp>(kernel.loc, condition,
                                                          takesPart)
                          : takesPart;
  }
  kernel.within(condition, [&] { body(thread); });
}

void GemmOperandSums::byRows(llvm::function_ref<void(Value)> body) {
  int64_t threads = tiles.threads();
  byThreads(std::min(threads, shares.rows), [&](Value thread) {
    unrolled(kernel, llvm::divideCeil(shares.rows, threads), "i", [&](Value i) {
      body(named(math(), math().add(math().mul(i, threads), thread),
                 "rowOfTile"));
    });
  });
}

//===----------------------------------------------------------------------===//
// Accumulation
//===----------------------------------------------------------------------===//

void GemmOperandSums::prepare(Value rowBegin, Value columnBegin) {
  if (problem.sums.empty())
    return;
  begin = problem.sumsLeft ? rowBegin : columnBegin;
  bool hasOtherTiles =
      problem.sumsLeft ? problem.n > tiles.n : problem.m > tiles.m;
  if (hasOtherTiles)
    isSumming =
        named(math(), math().less(problem.sumsLeft ? columnBegin : rowBegin, 1),
              "isSumming");
  sums =
      kernel.local({shares.lanes}, kernel.builder.getF32Type(), "operandSums");
  fill(kernel, sums, 0);
}

void GemmOperandSums::accumulate(const WarpOperand &lhs,
                                 const WarpOperand &rhs) {
  if (problem.sums.empty())
    return;
  OpBuilder &b = kernel.builder;
  Location loc = kernel.loc;
  const WarpOperand &from = problem.sumsLeft ? lhs : rhs;
  int64_t lanes = shares.lanes;
  byThreads(shares.groups * shares.parts, [&](Value thread) {
    Value row = named(
        math(), math().mul(math().rem(thread, shares.groups), lanes), "row");
    Value part = named(math(), math().div(thread, shares.groups), "part");
    unrolled(kernel, shares.depth / shares.parts, "i", [&](Value i) {
      Value k = math().add(math().mul(i, shares.parts), part);
      Value elements = math().load(from.tile, from.at(math(), row, k), lanes);
      if (!problem.tileType.isF32())
        elements = arith::ExtFOp::create(b, loc, lanesOf(b.getF32Type(), lanes),
                                         elements);
      unrolled(kernel, lanes, "e", [&](Value e) {
        Value element = elements;
        if (lanes > 1)
          element = vector::ExtractOp::create(b, loc, elements, e);
        Value before = math().load(sums, e);
        math().store(arith::AddFOp::create(b, loc, before, element), sums, e);
      });
    });
  });
}

void GemmOperandSums::join(
    Value shared, llvm::function_ref<void(Value sum, Value row)> take) {
  // Warps may still be multiplying the last tiles.
  kernel.barrier();
  Value ofThreads = sharedView(kernel, shared, 0, {shares.parts, shares.rows},
                               kernel.builder.getF32Type(), "sumsOfThreads");
  byThreads(shares.groups * shares.parts, [&](Value thread) {
    Value row = math().mul(math().rem(thread, shares.groups), shares.lanes);
    Value part = math().div(thread, shares.groups);
    unrolled(kernel, shares.lanes, "e", [&](Value e) {
      math().store(math().load(sums, e), ofThreads, {part, math().add(row, e)});
    });
  });
  kernel.barrier();
  byRows([&](Value row) {
    Value sum = addParts(kernel, shares.parts, [&](Value part) {
      return math().load(ofThreads, {part, row});
    });
    take(sum, row);
  });
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

void GemmOperandSums::store(Value sum, Value row) {
  OpBuilder &b = kernel.builder;
  ElementEmitter emitter(b, kernel.loc, cudaElementTarget());
  int64_t rows = summedOperand(problem).rows;
  Value place = named(math(), math().add(begin, row), "summedRow");
  for (const GemmOperandSum &result : problem.sums) {
    Value memory = kernel.outputs[result.output], at = place;
    // As unsigned, rows before the range exceed the extent.
    if (result.begin != 0)
      at = math().sub(at, math().constant(result.begin));
    bool mayExceed = result.extent != rows || rows % shares.rows != 0;
    Type type = cast<MemRefType>(memory.getType()).getElementType();
    kernel.within(mayExceed ? math().less(at, result.extent) : Value(), [&] {
      emitter.store(emitter.round(sum, type), memory, at, 1);
    });
  }
}

void GemmOperandSums::finish(Value shared) {
  if (!problem.sums.empty())
    join(shared, [&](Value sum, Value row) { store(sum, row); });
}

Value GemmOperandSums::partials(int64_t offset) {
  return kernel.named(math().view(kernel.scratch, offset,
                                  scratchBytes(problem, tiles) / 4,
                                  kernel.builder.getF32Type()),
                      "sumsOfBlocks");
}

void GemmOperandSums::leave(Value shared, Value split, int64_t offset) {
  if (problem.sums.empty())
    return;
  Value array = partials(offset);
  Value first = named(math(),
                      math().add(math().mul(begin, tiles.splits),
                                 math().mul(split, shares.rows)),
                      "sumsBegin");
  join(shared, [&](Value sum, Value row) {
    math().store(sum, array, math().add(first, row));
  });
}

void GemmOperandSums::addUp(int64_t offset) {
  if (problem.sums.empty())
    return;
  Value array = partials(offset);
  byRows([&](Value row) {
    Value first = math().add(math().mul(begin, tiles.splits), row);
    Value sum = addParts(kernel, tiles.splits, [&](Value part) {
      return math().load(array,
                         math().add(first, math().mul(part, shares.rows)));
    });
    store(sum, row);
  });
}
