//===- Convolution.cpp - convolutions by implicit GEMM --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implicit GEMM on the main loop of Gemm.cpp: tiles of the im2col matrix are
// gathered from the input by address computation.
//
//===----------------------------------------------------------------------===//

#include "../Gemm/Gemm.h"
#include "ConvolutionDepthwise.h"

#include "mpc/Analysis/OperandSums.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

//===----------------------------------------------------------------------===//
// Implicit GEMM
//
// Rows are output pixels, columns are output channels; k runs over window
// positions times (fastest) the channels of a group. Groups are batches.
//===----------------------------------------------------------------------===//

/// Returns the strides of the argument from which `image` is computed by unary
/// elementwise ops and transposes; nullopt for other computations.
static std::optional<SmallVector<int64_t>> stridesBehind(Value image) {
  if (std::optional<StridedView> view = StridedView::of(image))
    return view->strides;
  Operation *op = image.getDefiningOp();
  if (auto transpose = dyn_cast_if_present<TransposeOp>(op)) {
    std::optional<SmallVector<int64_t>> from =
        stridesBehind(transpose.getInput());
    if (!from)
      return std::nullopt;
    return llvm::map_to_vector(transpose.getPermutation(),
                               [&](int64_t dim) { return (*from)[dim]; });
  }
  Value full;
  if (isa_and_present<ElementwiseOpInterface>(op))
    for (Value operand : op->getOperands())
      if (operand != full && shapeOf(operand) == shapeOf(image)) {
        if (full)
          return std::nullopt;
        full = operand;
      }
  return full ? stridesBehind(full) : std::nullopt;
}

namespace {
/// Left-hand side: the im2col matrix of the input.
class Im2colOperand : public GemmOperand {
public:
  Im2colOperand(Value input, const ConvolutionShape &shape, int64_t tileBytes)
      : shape(shape), view(StridedView::of(input)) {
    tensor = input;
    rows = shape.pixels();
    depth = shape.windowSize() * shape.groupChannels();
    int64_t most = powerOfTwoIn(shape.groupChannels(), 16 / tileBytes);
    // Adjacent threads read pixels that are adjacent in memory.
    alongDepth = shape.channelsLast;
    unsigned dim = shape.channelDim();
    // A 1x1 convolution is a plain GEMM.
    auto isTurned = [&](ArrayRef<int64_t> strides) {
      return shape.windowSize() == 1 && strides[dim] != 1 &&
             strides[shape.spatialDim(2)] == 1;
    };
    if (view) {
      argument = view->argument;
      alongDepth =
          (alongDepth && !isTurned(view->strides)) || view->strides[dim] == 1;
      chunk = alongDepth ? view->alignedRun(dim, shape.channels, most) : 1;
    } else if (std::optional<SmallVector<int64_t>> strides =
                   stridesBehind(input);
               strides && isTurned(*strides)) {
      alongDepth = false;
    } else if (alongDepth) {
      chunk = alignedRunOf(input, most);
    }
  }

  OperandLocation locate(const IndexMath &math, ValueRange batch, Value row,
                         Value k) const override {
    SmallVector<Value> pixel = math.delinearize(
        row, {shape.batch, shape.out[0], shape.out[1], shape.out[2]});
    SmallVector<Value> window =
        math.delinearize(math.div(k, shape.groupChannels()), shape.window);
    Value channel = math.add(math.mul(batch.front(), shape.groupChannels()),
                             math.rem(k, shape.groupChannels()));
    ConvolutionShape::Position position =
        shape.inputPosition(math, pixel, window);
    static constexpr StringRef kNames[] = {"inputD", "inputH", "inputW"};
    for (unsigned dim = 3 - shape.rank; dim < 3; ++dim)
      named(math, position.spatial[dim], kNames[dim]);
    named(math, pixel.front(), "image");
    named(math, channel, "channel");
    OperandLocation place;
    place.inside = position.inside;
    place.indices = shape.indices(pixel.front(), position.spatial, channel);
    if (view)
      place.offset = view->offsetAt(math, place.indices);
    return place;
  }

private:
  ConvolutionShape shape;
  /// The image in memory; nullopt if its elements are computed.
  std::optional<StridedView> view;
};

/// Right-hand side: the filter, `[outputs, channels of a group, window...]`,
/// possibly stored with a reversed window.
class FilterOperand : public GemmOperand {
public:
  FilterOperand(Value filter, const ConvolutionShape &shape, int64_t tileBytes)
      : shape(shape) {
    tensor = filter;
    if (auto reverse = filter.getDefiningOp<ReverseOp>();
        reverse && llvm::all_of(reverse.getAxes(),
                                [](int64_t axis) { return axis >= 2; })) {
      view = StridedView::of(reverse.getInput());
      if (view)
        reversed.assign(reverse.getAxes().begin(), reverse.getAxes().end());
    } else {
      view = StridedView::of(filter);
    }
    rows = shape.groupOutputs();
    depth = shape.windowSize() * shape.groupChannels();
    if (!view)
      return;
    argument = view->argument;
    if (view->strides[0] == 1 && shape.groupChannels() > 1) {
      alongDepth = false;
      chunk = view->alignedRun(0, shape.groupOutputs(), 16 / tileBytes);
    } else {
      chunk = view->alignedRun(1, shape.groupChannels(), 16 / tileBytes);
    }
  }

  OperandLocation locate(const IndexMath &math, ValueRange batch, Value row,
                         Value k) const override {
    OperandLocation place;
    place.indices = {
        math.add(math.mul(batch.front(), shape.groupOutputs()), row),
        math.rem(k, shape.groupChannels())};
    SmallVector<Value> window =
        math.delinearize(math.div(k, shape.groupChannels()), shape.window);
    llvm::append_range(place.indices,
                       ArrayRef<Value>(window).take_back(shape.rank));
    if (!view)
      return place;
    SmallVector<Value> at(place.indices);
    auto type = cast<RankedTensorType>(tensor.getType());
    for (int64_t axis : reversed)
      at[axis] = math.sub(math.constant(type.getDimSize(axis) - 1), at[axis]);
    place.offset = view->offsetAt(math, at);
    return place;
  }

private:
  ConvolutionShape shape;
  std::optional<StridedView> view;
  /// Dimensions along which `view` is reversed.
  SmallVector<int64_t> reversed;
};
} // namespace

/// Returns the global pooling of the result of `op` in `kernel`; nullopt for
/// other reductions.
static std::optional<GlobalPooling> poolOf(func::FuncOp kernel, ConvOp op) {
  GlobalPooling pool;
  for (Operation &sum : kernel.getBody().front()) {
    if (!isa<ReduceSumOp, ReduceMeanOp>(sum))
      continue;
    if (pool.op || !poolsImages(&sum, op))
      return std::nullopt;
    pool.op = &sum;
  }
  auto results = kernel.getBody().front().getTerminator()->getOperands();
  for (auto [number, result] : llvm::enumerate(results))
    if (pool.op && isMadeElementwise(result, pool.op->getResult(0)))
      pool.outputs.push_back(number);
  return pool;
}

std::optional<FusedGemm> FusedGemm::convolution(func::FuncOp kernel,
                                                const CudaTarget &target) {
  auto op = dyn_cast_if_present<ConvOp>(soleContraction(kernel));
  if (!op || op.getPacked())
    return std::nullopt;
  std::optional<ConvolutionShape> found = ConvolutionShape::of(op);
  Type result = getElementTypeOrSelf(op.getResult().getType());
  FusedGemm problem;
  if (!found || op.getAccumulate().value_or(result).isF64() ||
      !chooseUnit(getElementTypeOrSelf(op.getInput().getType()), result,
                  op.getCompute(), target, problem))
    return std::nullopt;
  const ConvolutionShape &shape = *found;
  problem.anchor = op;
  std::optional<GlobalPooling> pool = poolOf(kernel, op);
  if (!pool)
    return std::nullopt;
  problem.pool = *pool;
  problem.batchShape = {shape.groups};
  problem.batches = shape.groups;
  problem.m = shape.pixels();
  problem.n = shape.groupOutputs();
  problem.k = shape.windowSize() * shape.groupChannels();
  if (problem.m == 0 || problem.n == 0 || problem.k == 0)
    return std::nullopt;
  int64_t tileBytes = problem.tileType.getIntOrFloatBitWidth() / 8;
  problem.lhs =
      std::make_unique<Im2colOperand>(op.getInput(), shape, tileBytes);
  problem.rhs =
      std::make_unique<FilterOperand>(op.getFilter(), shape, tileBytes);
  problem.columnsLast = shape.channelsLast;
  problem.resultIndices = [shape](const IndexMath &math, ValueRange batch,
                                  Value row, Value column) {
    SmallVector<Value> pixel = math.delinearize(
        row, {shape.batch, shape.out[0], shape.out[1], shape.out[2]});
    Value channel =
        math.add(math.mul(batch.front(), shape.groupOutputs()), column);
    return shape.indices(pixel.front(), ValueRange(pixel).drop_front(),
                         channel);
  };
  return problem;
}

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

std::unique_ptr<KernelPlan> cuda::planConvolution(func::FuncOp kernel,
                                                  const CudaTarget &target) {
  std::optional<FusedGemm> problem = FusedGemm::convolution(kernel, target);
  if (!problem)
    return nullptr;
  if (auto depthwise = planDepthwise(kernel, target, *problem))
    return depthwise;
  // Implicit GEMM does not support global pooling.
  if (problem->pool.op)
    return nullptr;
  return GemmPlan::of(kernel, target, std::move(problem));
}
