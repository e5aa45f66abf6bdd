//===- TensorOps.cpp - data movement --------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluation.h"
#include "Packing.h"
#include "RoundingKernels.h"
#include "StridedLoop.h"

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

static void evaluateTranspose(TransposeOp op, Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0);
  SmallVector<int64_t> own = rowMajorStrides(input.getShape()), strides;
  for (int64_t dim : op.getPermutation())
    strides.push_back(own[dim]);
  copyStrided(input, 0, strides, evaluation.addResult());
}

static void evaluateBroadcast(Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0);
  Tensor &result = evaluation.addResult();
  copyStrided(input, 0, broadcastStrides(input.getShape(), result.getShape()),
              result);
}

static void evaluateSlice(SliceOp op, Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0);
  SmallVector<int64_t> strides = rowMajorStrides(input.getShape());
  int64_t base = 0;
  SmallVector<int64_t> steps = op.getStrideValues();
  for (auto [dim, offset] : llvm::enumerate(op.getOffsets())) {
    base += offset * strides[dim];
    strides[dim] *= steps[dim];
  }
  copyStrided(input, base, strides, evaluation.addResult());
}

static void evaluateReverse(ReverseOp op, Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0);
  SmallVector<int64_t> strides = rowMajorStrides(input.getShape());
  int64_t base = 0;
  for (int64_t axis : op.getAxes()) {
    base += (input.getShape()[axis] - 1) * strides[axis];
    strides[axis] = -strides[axis];
  }
  copyStrided(input, base, strides, evaluation.addResult());
}

static void evaluateConcat(ConcatOp op, Evaluation &evaluation) {
  Tensor &result = evaluation.addResult();
  int64_t axis = op.getAxis();
  int64_t outer = productOf(result.getShape().take_front(axis));
  int64_t inner = productOf(result.getShape().drop_front(axis + 1));
  int64_t line = result.getShape()[axis] * inner, begin = 0;
  for (const Tensor *operand : evaluation.operands) {
    int64_t length = operand->getShape()[axis] * inner;
    visitElements(*operand, result, [&](auto from, auto to) {
      for (int64_t i = 0; i < outer; ++i)
        std::copy_n(from.begin() + i * length, length,
                    to.begin() + i * line + begin);
    });
    begin += length;
  }
}

static void evaluatePack(PackOp op, Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0);
  Tensor &result = evaluation.addResult();
  PackedAttr packed = op.getPacked();
  int64_t depth = op.getDepth(), width = op.getWidth(),
          columns = packed.getColumns(), together = packed.getDepth();
  int64_t steps = packed.getSteps(depth, depth);
  int64_t rowStride = op.getTranspose() ? 1 : width,
          columnStride = op.getTranspose() ? depth : 1;
  visitElements(input, result, [&](auto from, auto to) {
    for (int64_t first = 0; first < width; first += columns)
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t lane = 0; lane < columns; ++lane) {
          int64_t column = first + packedColumn(lane, packed);
          int64_t step = first / columns * steps + k / together;
          if (column < width)
            to[(step * columns + lane) * together + k % together] =
                from[k * rowStride + column * columnStride];
        }
  });
}

/// Returns the stored value at k index `k` of a panel's column.
static double storedAt(DequantizeOp op, const Tensor &values, int64_t panel,
                       int64_t k, int64_t column) {
  bool nibbles = op.getNibbles();
  int64_t depth = op.getDepth();
  int64_t lines = values.getShape()[1],
          width = op.isMatrix() ? 1 : values.getShape()[2];
  int64_t line = k / (nibbles ? 2 * depth : depth);
  int64_t at = (panel * lines + line) * width + column * depth + k % depth;
  if (values.isFloat())
    return values.floats()[at];
  int64_t stored = values.ints()[at];
  if (op.getFloat8())
    return kFloat8E4M3FN.decode(uint8_t(stored));
  return double(nibbles ? stored >> (k / depth % 2 * 4) & 15 : stored);
}

static void evaluateDequantize(DequantizeOp op, Evaluation &evaluation) {
  const Tensor &values = evaluation.operand(0);
  const Tensor *scale = evaluation.find(op.getScale()),
               *zero = evaluation.find(op.getZero()),
               *offset = evaluation.find(op.getOffset());
  Tensor &result = evaluation.addResult();
  ArrayRef<int64_t> shape = result.getShape();
  int64_t group = op.getGroup(), groups = group ? shape[1] / group : 0,
          columns = op.isMatrix() ? 1 : shape[2];
  double *out = result.floats().data();
  for (int64_t panel = 0; panel < shape[0]; ++panel)
    for (int64_t k = 0; k < shape[1]; ++k)
      for (int64_t column = 0; column < columns; ++column) {
        double value = storedAt(op, values, panel, k, column);
        int64_t at = (panel * groups + k / group) * columns + column;
        value -= zero ? double(zero->ints()[at]) : double(op.getCommonZero());
        if (scale)
          value *= scale->floats()[at];
        *out++ = offset ? value + offset->floats()[at] : value;
      }
  evaluation.roundResults();
}

//===----------------------------------------------------------------------===//
// Pad
//===----------------------------------------------------------------------===//

/// Returns the input index at `position` after the first input element of a
/// dimension, or -1 for padding.
static int64_t paddedSource(int64_t position, int64_t extent, int64_t interior,
                            PadMode mode) {
  if (extent == 0)
    return -1;
  switch (mode) {
  case PadMode::constant: {
    int64_t step = interior + 1;
    bool hit =
        position >= 0 && position % step == 0 && position / step < extent;
    return hit ? position / step : -1;
  }
  case PadMode::edge:
    return std::clamp<int64_t>(position, 0, extent - 1);
  case PadMode::wrap:
    return (position % extent + extent) % extent;
  case PadMode::reflect: {
    int64_t period = std::max<int64_t>(2 * (extent - 1), 1);
    int64_t folded = (position % period + period) % period;
    return folded < extent ? folded : period - folded;
  }
  }
  return -1;
}

static void evaluatePad(PadOp op, Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0), &value = evaluation.operand(1);
  Tensor &result = evaluation.addResult();
  size_t rank = input.getRank();
  SmallVector<int64_t> strides = rowMajorStrides(input.getShape());
  // Offset of the source per result coordinate, or -1.
  SmallVector<SmallVector<int64_t>> sources(rank);
  for (size_t dim = 0; dim < rank; ++dim)
    for (int64_t i = 0; i < result.getShape()[dim]; ++i) {
      int64_t interior = op.getInterior() ? (*op.getInterior())[dim] : 0;
      int64_t source = paddedSource(i - op.getLow()[dim], input.getShape()[dim],
                                    interior, op.getMode());
      sources[dim].push_back(source < 0 ? -1 : source * strides[dim]);
    }
  SmallVector<int64_t> index(rank, 0);
  visitElements(input, result, [&](auto from, auto to) {
    auto padding = value.isFloat()
                       ? decltype(from[0] + from[0])(value.floats()[0])
                       : decltype(from[0] + from[0])(value.ints()[0]);
    for (auto &element : to) {
      int64_t at = 0;
      for (size_t dim = 0; dim < rank && at >= 0; ++dim)
        at = sources[dim][index[dim]] < 0 ? -1 : at + sources[dim][index[dim]];
      element = at < 0 ? padding : from[at];
      for (size_t dim = rank; dim-- > 0;) {
        if (++index[dim] < result.getShape()[dim])
          break;
        index[dim] = 0;
      }
    }
  });
}

//===----------------------------------------------------------------------===//
// Indices as values
//===----------------------------------------------------------------------===//

static void evaluateIota(IotaOp op, Evaluation &evaluation) {
  Tensor &result = evaluation.addResult();
  ArrayRef<int64_t> shape = result.getShape();
  int64_t extent = shape[op.getAxis()],
          inner = productOf(shape.drop_front(op.getAxis() + 1));
  if (result.isFloat()) {
    for (auto [i, value] : llvm::enumerate(result.floats()))
      value = static_cast<double>(static_cast<int64_t>(i) / inner % extent);
    evaluation.roundResults();
    return;
  }
  IntegerKind kind(result.getElementType());
  for (auto [i, value] : llvm::enumerate(result.ints()))
    value = kind.wrap(static_cast<int64_t>(i) / inner % extent);
}

static void evaluateOneHot(OneHotOp op, Evaluation &evaluation) {
  ArrayRef<int64_t> indices = evaluation.operand(0).ints();
  const Tensor &on = evaluation.operand(1), &off = evaluation.operand(2);
  Tensor &result = evaluation.addResult();
  int64_t depth = op.getDepth();
  int64_t inner = productOf(result.getShape().drop_front(op.getAxis() + 1));
  auto isOn = [&](int64_t i) {
    int64_t outer = i / inner / depth, position = i / inner % depth;
    int64_t index = indices[outer * inner + i % inner];
    return (index < 0 ? index + depth : index) == position;
  };
  if (result.isFloat())
    for (auto [i, value] : llvm::enumerate(result.floats()))
      value = (isOn(i) ? on : off).floats()[0];
  else
    for (auto [i, value] : llvm::enumerate(result.ints()))
      value = (isOn(i) ? on : off).ints()[0];
}

static LogicalResult evaluateConstant(ConstantOp op, Evaluation &evaluation) {
  FailureOr<Tensor> value = Tensor::fromAttr(op.getValue());
  if (failed(value))
    return op.emitOpError("has no data of the size of its type; the resource "
                          "is missing or elided");
  evaluation.results.push_back(std::move(*value));
  return success();
}

FailureOr<bool> mpc::reference::evaluateTensorOp(Evaluation &evaluation) {
  Operation *op = evaluation.op;
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    if (failed(evaluateConstant(constant, evaluation)))
      return failure();
  } else if (isa<ReshapeOp>(op)) {
    evaluation.results.push_back(
        evaluation.operand(0).withType(evaluation.resultType()));
  } else if (auto transpose = dyn_cast<TransposeOp>(op)) {
    evaluateTranspose(transpose, evaluation);
  } else if (isa<BroadcastOp>(op)) {
    evaluateBroadcast(evaluation);
  } else if (auto concat = dyn_cast<ConcatOp>(op)) {
    evaluateConcat(concat, evaluation);
  } else if (auto slice = dyn_cast<SliceOp>(op)) {
    evaluateSlice(slice, evaluation);
  } else if (auto pad = dyn_cast<PadOp>(op)) {
    evaluatePad(pad, evaluation);
  } else if (auto pack = dyn_cast<PackOp>(op)) {
    evaluatePack(pack, evaluation);
  } else if (auto dequantize = dyn_cast<DequantizeOp>(op)) {
    evaluateDequantize(dequantize, evaluation);
  } else if (auto reverse = dyn_cast<ReverseOp>(op)) {
    evaluateReverse(reverse, evaluation);
  } else if (auto iota = dyn_cast<IotaOp>(op)) {
    evaluateIota(iota, evaluation);
  } else if (auto oneHot = dyn_cast<OneHotOp>(op)) {
    evaluateOneHot(oneHot, evaluation);
  } else {
    return false;
  }
  return true;
}
