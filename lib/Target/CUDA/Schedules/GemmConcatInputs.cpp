//===- GemmConcatInputs.cpp - concat inputs of a GEMM epilogue ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A GEMM that stores its result as one input of a concat also copies the other
// inputs, distributed over its blocks, before their tiles.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "Gemm.h"

#include "Target/Kernel/LoopKernels.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Maximum elements per load, and loads in flight per thread.
static constexpr int64_t kMostLanes = 8, kInFlight = 4;

static ArrayRef<int64_t> shapeOfTensor(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getShape();
}

LogicalResult GemmEpilogue::emitRest(GpuKernel &kernel) const {
  auto results = kernel.kernel.getBody().front().getTerminator()->getOperands();
  for (Value step : steps) {
    auto concat = step.getDefiningOp<ConcatOp>();
    if (!concat)
      continue;
    for (size_t output : outputs) {
      if (!reaches(step, results[output]))
        continue;
      // One value may be concatenated several times.
      int64_t offset = 0;
      for (Value part : concat.getInputs()) {
        if (part != parents.lookup(step) &&
            failed(emitPart(kernel, concat, part, offset, output)))
          return failure();
        offset += shapeOfTensor(part)[concat.getAxis()];
      }
    }
  }
  return success();
}

/// Copies `part` into `output`, at `offset` along the concat's axis.
LogicalResult GemmEpilogue::emitPart(GpuKernel &kernel, ConcatOp concat,
                                     Value part, int64_t offset,
                                     size_t output) const {
  OpBuilder &b = kernel.builder;
  Location loc = kernel.loc;
  IndexMath math{b, loc};
  Value result =
      kernel.kernel.getBody().front().getTerminator()->getOperand(output);
  // Dimension `from[d]` of the part is dimension d of the output.
  SmallVector<int64_t> from =
      llvm::to_vector(llvm::seq<int64_t>(0, shapeOfTensor(part).size()));
  SmallVector<TransposeOp> turns;
  for (Value value = result; value != concat.getResult();
       value = parents.lookup(value))
    if (auto transpose = value.getDefiningOp<TransposeOp>())
      turns.push_back(transpose);
  for (TransposeOp transpose : llvm::reverse(turns)) {
    SmallVector<int64_t> before = from;
    for (auto [to, dim] : llvm::enumerate(transpose.getPermutation()))
      from[to] = before[dim];
  }

  // Each thread reads a vector of the part; adjacent threads write adjacent
  // output elements.
  auto last = static_cast<int64_t>(from.size()) - 1;
  bool staysLast = from.back() == last;
  int64_t lanes = alignedRunOf(part, kMostLanes);
  if (staysLast)
    lanes = std::min(
        lanes, static_cast<int64_t>(concat.getAxis()) == last
                   ? powerOfTwoIn(offset, alignedRunOf(result, kMostLanes))
                   : alignedRunOf(result, kMostLanes));
  SmallVector<int64_t> extents;
  for (int64_t dim : from)
    extents.push_back(shapeOfTensor(part)[dim] / (dim == last ? lanes : 1));
  int64_t items = 1;
  for (int64_t extent : extents)
    items *= extent;

  int64_t threads = kernel.schedule.threads, all = kernel.blocks() * threads;
  Value first = math.add(math.mul(kernel.block(), threads), kernel.thread());
  ElementEmitter emitter(b, anchor->getLoc(), cudaElementTarget());
  for (auto [argument, memref] :
       llvm::zip_equal(kernel.kernel.getArguments(), kernel.inputs))
    emitter.bindMemory(argument, memref);
  auto copy = [&](Value item, ValueRange) -> FailureOr<Carried> {
    kernel.named(item, "itemOfRest");
    SmallVector<Value> places = math.delinearize(item, extents);
    SmallVector<Value> at(from.size());
    for (auto [place, dim] : llvm::zip_equal(places, from))
      at[dim] = dim == last ? math.mul(place, lanes) : place;
    FailureOr<Value> values = emitter.emit(part, at, lanes);
    if (failed(values))
      return failure();
    int64_t width = staysLast ? lanes : 1;
    for (int64_t lane = 0; lane < lanes; lane += width) {
      Value value = *values;
      if (width < lanes)
        value = vector::ExtractOp::create(b, loc, value, lane);
      SmallVector<Value> in = at;
      in[last] = math.add(in[last], lane);
      Value &along = in[concat.getAxis()];
      along = math.add(along, offset);
      Places known = {{concat.getResult(), in}};
      emitter.bindValue(concat.getResult(), value);
      SmallVector<Value> to = placeOf(math, known, result);
      FailureOr<Value> element = emitter.emit(result, to, width);
      if (failed(element))
        return failure();
      emitter.store(*element, kernel.outputs[output], to, width);
      emitter.unbind(concat.getResult());
    }
    return Carried{};
  };
  Block *outside = b.getInsertionBlock();
  FailureOr<Carried> done =
      carryLoop(emitter, first, math.constant(items), all, {},
                [&](Value item, ValueRange carried) -> FailureOr<Carried> {
                  Block *block = b.getInsertionBlock();
                  if (block != outside)
                    block->getParentOp()->setAttr(
                        kUnrollAttr, b.getI64IntegerAttr(kInFlight));
                  return copy(item, carried);
                });
  return success(succeeded(done));
}
