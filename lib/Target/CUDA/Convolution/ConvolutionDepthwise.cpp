//===- ConvolutionDepthwise.cpp - depthwise convolutions ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Direct convolution: depthwise filters have no reuse across channels, so GEMM
// does not apply. A thread computes adjacent channels of one pixel and loops
// over the window; overlapping windows hit in L1.
//
//===----------------------------------------------------------------------===//

#include "ConvolutionDepthwise.h"

#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

namespace {
class DepthwisePlan : public KernelPlan {
public:
  DepthwisePlan(func::FuncOp kernel, const CudaTarget &target,
                FusedGemm problem, GemmEpilogue epilogue)
      : KernelPlan(kernel, target), problem(std::move(problem)),
        op(cast<ConvOp>(this->problem.anchor)),
        shape(*ConvolutionShape::of(op)), epilogue(std::move(epilogue)) {
    // With several outputs per channel, inputs are loaded one at a time.
    this->epilogue.lanes =
        shape.groupOutputs() == 1
            ? alignedRunOf(op.getInput(), this->epilogue.lanes)
            : 1;
  }

  int64_t items() const {
    return shape.pixels() * shape.outputs / epilogue.lanes;
  }
  std::optional<Schedule> schedule() const override {
    Schedule schedule;
    DepthwiseSchedule parameters;
    parameters.lanes = epilogue.lanes;
    schedule.threads = kDepthwiseThreads;
    schedule.blocks[0] = llvm::divideCeil(items(), kDepthwiseThreads);
    if (problem.pool.op)
      schedulePooled(shape, target, parameters, schedule);
    schedule.set(parameters);
    return schedule;
  }
  LogicalResult emit(GpuKernel &gpuKernel) const override;

private:
  FusedGemm problem;
  /// MLIR's accessors are not const.
  mutable ConvOp op;
  ConvolutionShape shape;
  GemmEpilogue epilogue;
};
} // namespace

std::unique_ptr<KernelPlan> cuda::planDepthwise(func::FuncOp kernel,
                                                const CudaTarget &target,
                                                FusedGemm &problem) {
  ConvolutionShape shape = *ConvolutionShape::of(cast<ConvOp>(problem.anchor));
  if (shape.groups == 1 || shape.groupChannels() != 1 ||
      shape.pixels() * shape.outputs > INT32_MAX)
    return nullptr;
  // Columns of the epilogue are all channels.
  std::optional<GemmEpilogue> epilogue =
      GemmEpilogue::of(kernel, problem, shape.outputs);
  if (!epilogue)
    return nullptr;
  return std::make_unique<DepthwisePlan>(kernel, target, std::move(problem),
                                         std::move(*epilogue));
}

FailureOr<Value> cuda::sumDepthwise(GpuKernel &kernel, ConvOp op,
                                    const ConvolutionShape &shape,
                                    ArrayRef<Value> pixel, Value column,
                                    int64_t lanes) {
  OpBuilder &b = kernel.builder;
  Location loc = kernel.loc;
  IndexMath math{b, loc};
  Value channel = math.div(column, shape.groupOutputs());
  Type f32 = b.getF32Type(), type = lanesOf(f32, lanes);
  Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  // Filters with outputs last are loaded as vectors.
  std::optional<StridedView> filterView = StridedView::of(op.getFilter());
  bool together = filterView && lanes > 1 &&
                  filterView->alignedRun(0, shape.outputs, lanes) == lanes;
  LogicalResult result = success();
  auto addPlace = [&](Value number, ValueRange carried) -> Carried {
    Value sum = carried.front();
    kernel.named(number, "place");
    kernel.named(sum, "sum");
    SmallVector<Value> place = math.delinearize(number, shape.window);
    ConvolutionShape::Position position =
        shape.inputPosition(math, pixel, place);
    static constexpr StringRef kNames[] = {"inputD", "inputH", "inputW"};
    for (unsigned dim = 3 - shape.rank; dim < 3; ++dim)
      named(math, position.spatial[dim], kNames[dim]);
    auto step = [&]() -> Value {
      ElementEmitter emitter(b, op.getLoc(), cudaElementTarget());
      kernel.bindInputs(emitter);
      FailureOr<Value> input = emitter.emit(
          op.getInput(),
          shape.indices(pixel.front(), position.spatial, channel), lanes);
      SmallVector<Value> at = {column, math.constant(0)};
      llvm::append_range(at, ArrayRef<Value>(place).take_back(shape.rank));
      if (failed(input)) {
        result = failure();
        return sum;
      }
      if (together) {
        Value memory = kernel.inputs[filterView->argument.getArgNumber()];
        Value filter =
            emitter.load(math.flatten(memory),
                         getElementTypeOrSelf(op.getFilter().getType()),
                         filterView->offsetAt(math, at), lanes);
        return math::FmaOp::create(b, loc, *input, filter, sum);
      }
      SmallVector<Value> weights;
      for (int64_t lane = 0; lane < lanes; ++lane) {
        at.front() = math.add(column, lane);
        FailureOr<Value> weight = emitter.emit(op.getFilter(), at, 1);
        if (failed(weight)) {
          result = failure();
          return sum;
        }
        weights.push_back(*weight);
      }
      Value filter = weights.front();
      if (lanes > 1)
        filter = vector::FromElementsOp::create(b, loc, cast<VectorType>(type),
                                                weights);
      return math::FmaOp::create(b, loc, *input, filter, sum);
    };
    return {kernel.orElse(position.inside, type, step, [&] { return sum; })};
  };
  Value total = math.loop(math.constant(0), math.constant(shape.windowSize()),
                          /*step=*/1, zero, addPlace)
                    .front();
  return failed(result) ? FailureOr<Value>() : total;
}

LogicalResult DepthwisePlan::emit(GpuKernel &kernel) const {
  int64_t lanes = epilogue.lanes;
  if (problem.pool.op)
    return emitPooled(kernel, problem, shape, epilogue);
  IndexMath math{kernel.builder, kernel.loc};
  int64_t pixels = shape.pixels(), perPixel = shape.outputs / lanes;
  Value item = kernel.named(
      math.add(math.mul(kernel.block(), kDepthwiseThreads), kernel.thread()),
      "item");
  OpBuilder::InsertionGuard outer(kernel.builder);
  if (pixels * perPixel % kDepthwiseThreads != 0)
    kernel.enter(math.less(item, pixels * perPixel));
  // Channels or pixels are contiguous in memory.
  Value number =
      shape.channelsLast ? math.div(item, perPixel) : math.rem(item, pixels);
  Value column = math.mul(shape.channelsLast ? math.rem(item, perPixel)
                                             : math.div(item, pixels),
                          lanes);
  kernel.named(column, "column");
  SmallVector<Value> pixel = math.delinearize(
      number, {shape.batch, shape.out[0], shape.out[1], shape.out[2]});
  FailureOr<Value> sum = sumDepthwise(kernel, op, shape, pixel, column, lanes);
  if (failed(sum))
    return failure();
  return epilogue.emit(
      kernel, *sum,
      shape.indices(pixel.front(), ValueRange(pixel).drop_front(), column));
}
