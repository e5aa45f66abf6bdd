//===- DepthwisePooling.cpp - depthwise convolution, global pooling ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A depthwise convolution fused with the sum or mean over each image of its
// result, as in squeeze-and-excitation. A thread loops over pixels for fixed
// channels; partial sums are reduced in a fixed order over the threads of a
// block and, by the last-arriving block, over the blocks of an image
// (deterministic).
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"

#include "../MultiprocessorModel.h"
#include "../Plan/LastArrivingBlock.h"
#include "ConvolutionDepthwise.h"

#include "Target/Kernel/LoopKernels.h"
#include "Target/Kernel/MathExpansion.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Maximum partial sums per image, and blocks per multiprocessor; beyond these
/// threads process more pixels each.
static constexpr int64_t kMostLines = 128, kBlocks = 8;

namespace {
/// Distribution of an image over threads: `columns` adjacent vectors of
/// channels by `rows` pixels, `steps` times; `chunks` blocks of pixels by
/// `parts` of the channels.
struct Shares {
  Shares(const ConvolutionShape &shape, int64_t lanes)
      : lanes(lanes), runs(shape.outputs / lanes),
        parts(llvm::divideCeil(runs, kDepthwiseThreads)),
        columns(llvm::divideCeil(runs, parts)),
        rows(kDepthwiseThreads / columns),
        pixels(shape.pixels() / shape.batch) {}
  void setSteps(int64_t count) {
    steps = count;
    chunks = llvm::divideCeil(pixels, rows * steps);
  }
  /// Channels per block.
  int64_t width() const { return columns * lanes; }
  int64_t counterBytes(int64_t batch) const {
    return llvm::alignTo(batch * parts * sizeof(int32_t), 16);
  }

  int64_t lanes, runs, parts, columns, rows, pixels, steps = 1, chunks = 1;
};

class DepthwisePoolingEmitter {
public:
  DepthwisePoolingEmitter(GpuKernel &kernel, const FusedGemm &problem,
                          const ConvolutionShape &shape,
                          const GemmEpilogue &epilogue)
      : kernel(kernel), problem(problem), shape(shape), epilogue(epilogue),
        shares(shape, epilogue.lanes),
        emitter(kernel.builder, kernel.loc, cudaElementTarget()),
        math(kernel.builder, kernel.loc), index{kernel.builder, kernel.loc} {
    shares.setSteps(kernel.schedule.get<DepthwiseSchedule>().steps);
  }
  LogicalResult run();

private:
  FailureOr<Value> sumPixels();
  FailureOr<Value> emitPixel(Value number);
  Value addLines(Value array, Value begin, Value first, int64_t count,
                 int64_t step);
  void joinThreads(Value sum);
  LogicalResult store(Value sum);
  Value zero() {
    return math.constant(lanesOf(kernel.builder.getF32Type(), shares.lanes), 0);
  }

  GpuKernel &kernel;
  const FusedGemm &problem;
  const ConvolutionShape &shape;
  const GemmEpilogue &epilogue;
  Shares shares;
  ElementEmitter emitter;
  ValueMath math;
  IndexMath index;
  /// Block indices: image, part of the channels, chunk of the pixels; the
  /// thread's row, its first channel in the block and in total, and whether the
  /// channel exists (null: always).
  Value image, part, chunk, row, place, channel, exists;
  /// Partial sums of the block, channels for each row of threads.
  Value shared;
};
} // namespace

void cuda::schedulePooled(const ConvolutionShape &shape,
                          const CudaTarget &target,
                          DepthwiseSchedule &parameters, Schedule &schedule) {
  Shares shares(shape, parameters.lanes);
  int64_t lines = llvm::divideCeil(shares.pixels, shares.rows),
          enough = kBlocks *
                   MultiprocessorModel::of(target.target()).multiprocessors;
  int64_t steps =
      std::max({int64_t(1), int64_t(llvm::divideCeil(lines, kMostLines)),
                lines * shares.parts * shape.batch / enough});
  shares.setSteps(steps);
  parameters.steps = steps;
  schedule.blocks[0] = shape.batch * shares.parts * shares.chunks;
  if (shares.chunks > 1)
    schedule.scratchBytes = shares.counterBytes(shape.batch) +
                            schedule.blocks[0] * shares.width() * 4;
}

LogicalResult cuda::emitPooled(GpuKernel &kernel, const FusedGemm &problem,
                               const ConvolutionShape &shape,
                               const GemmEpilogue &epilogue) {
  return DepthwisePoolingEmitter(kernel, problem, shape, epilogue).run();
}

//===----------------------------------------------------------------------===//
// Sum per thread
//===----------------------------------------------------------------------===//

/// Computes the result at pixel `number` of the image.
FailureOr<Value> DepthwisePoolingEmitter::emitPixel(Value number) {
  SmallVector<Value> pixel = {image};
  llvm::append_range(pixel, index.delinearize(number, shape.out));
  auto op = cast<ConvOp>(problem.anchor);
  FailureOr<Value> result =
      sumDepthwise(kernel, op, shape, pixel, channel, shares.lanes);
  if (failed(result))
    return failure();
  return epilogue.emitWith(
      kernel, *result,
      shape.indices(image, ArrayRef(pixel).drop_front(), channel),
      problem.pool.op->getOperand(0));
}

FailureOr<Value> DepthwisePoolingEmitter::sumPixels() {
  LogicalResult result = success();
  auto addPixel = [&](Value step, ValueRange carried) {
    Value line = index.add(index.mul(chunk, shares.steps), step);
    Value number =
        kernel.named(index.add(index.mul(line, shares.rows), row), "pixel");
    Value inside = exists;
    if (shares.chunks * shares.steps * shares.rows != shares.pixels) {
      Value isPixel = index.less(number, shares.pixels);
      inside = inside ? math.bitAnd(inside, isPixel) : isPixel;
    }
    Carried before(carried);
    return index.choose(
        inside, carried.getTypes(),
        [&] {
          FailureOr<Value> value = emitPixel(number);
          if (succeeded(value))
            return Carried{math.add(before[0], *value)};
          result = failure();
          return before;
        },
        [&] { return before; });
  };
  Value total = index.carry(index.constant(0), index.constant(shares.steps), 1,
                            zero(), addPixel)[0];
  return failed(result) ? FailureOr<Value>() : total;
}

//===----------------------------------------------------------------------===//
// Reduction over threads and blocks
//===----------------------------------------------------------------------===//

/// Adds every `step`th of `count` rows of `array`, starting at row `first`; row
/// 0 is at `begin`.
Value DepthwisePoolingEmitter::addLines(Value array, Value begin, Value first,
                                        int64_t count, int64_t step) {
  return index
      .carry(first, index.constant(count), step, zero(),
             [&](Value line, ValueRange carried) {
               Value at = index.add(begin, index.mul(line, shares.width()));
               Value next = emitter.load(array, kernel.builder.getF32Type(), at,
                                         shares.lanes);
               return Carried{math.add(carried.front(), next)};
             })
      .front();
}

/// Stores `sum` at the thread's position of the block's partial sums.
void DepthwisePoolingEmitter::joinThreads(Value sum) {
  kernel.within(exists, [&] {
    emitter.store(sum, shared, index.add(index.mul(row, shares.width()), place),
                  shares.lanes);
  });
  kernel.barrier();
}

/// Applies the elementwise ops after the pooling and stores the results.
LogicalResult DepthwisePoolingEmitter::store(Value sum) {
  Operation *op = problem.pool.op;
  emitter.bindValue(op->getResult(0), finishReduction(emitter, op, sum));
  auto results = kernel.kernel.getBody().front().getTerminator()->getOperands();
  SmallVector<Value> at(
      cast<RankedTensorType>(op->getResult(0).getType()).getRank(),
      index.constant(0));
  at.front() = image;
  at.back() = channel;
  for (size_t number : problem.pool.outputs) {
    FailureOr<Value> value = emitter.emit(results[number], at, shares.lanes);
    if (failed(value))
      return failure();
    emitter.store(*value, kernel.outputs[number], at, shares.lanes);
  }
  return success();
}

LogicalResult DepthwisePoolingEmitter::run() {
  kernel.bindInputs(emitter);
  SmallVector<Value> block = index.delinearize(
      kernel.block(), {shape.batch, shares.parts, shares.chunks});
  image = kernel.named(block[0], "image");
  part = block[1];
  chunk = kernel.named(block[2], "chunk");
  Value thread = kernel.thread();
  row = kernel.named(index.div(thread, shares.columns), "row");
  Value column = index.rem(thread, shares.columns),
        run = index.add(index.mul(part, shares.columns), column);
  place = index.mul(column, shares.lanes);
  channel = kernel.named(index.mul(run, shares.lanes), "channel");
  Value hasRun = shares.parts * shares.columns == shares.runs
                     ? Value()
                     : index.less(run, shares.runs);
  exists = hasRun;
  if (shares.rows * shares.columns != kDepthwiseThreads) {
    Value hasRow = index.less(row, shares.rows);
    exists = exists ? math.bitAnd(exists, hasRow) : hasRow;
  }

  FailureOr<Value> sum = sumPixels();
  if (failed(sum))
    return failure();
  Type f32 = kernel.builder.getF32Type();
  shared = kernel.shared({shares.rows * shares.width()}, f32, "sumsOfThreads");
  Value isFirst = index.less(row, 1);
  if (hasRun)
    isFirst = math.bitAnd(isFirst, hasRun);
  auto joined = [&] {
    return addLines(shared, place, index.constant(0), shares.rows, 1);
  };
  joinThreads(*sum);
  LogicalResult result = success();
  auto finish = [&] {
    kernel.within(isFirst, [&] { result = store(joined()); });
    return result;
  };
  if (shares.chunks == 1)
    return finish();

  int64_t images = shape.batch * shares.parts;
  Value counters =
      index.view(kernel.scratch, 0, images, kernel.builder.getI32Type());
  Value lines =
      kernel.named(index.view(kernel.scratch, shares.counterBytes(shape.batch),
                              images * shares.chunks * shares.width(), f32),
                   "sumsOfBlocks");
  kernel.within(isFirst, [&] {
    emitter.store(joined(), lines,
                  index.add(index.mul(kernel.block(), shares.width()), place),
                  shares.lanes);
  });
  Value own = index.div(kernel.block(), shares.chunks);
  return inLastBlock(kernel, counters, own, shares.chunks, [&] {
    // Each row of threads reduces a strided subset of the partial sums.
    Value begin =
        index.add(index.mul(own, shares.chunks * shares.width()), place);
    joinThreads(addLines(lines, begin, row, shares.chunks, shares.rows));
    return finish();
  });
}
