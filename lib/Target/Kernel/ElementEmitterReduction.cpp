//===- ElementEmitterReduction.cpp - reductions per result element --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits a reduction that is requested per element as a loop nest at that
// element.
//
//===----------------------------------------------------------------------===//

#include "Reducers.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"

using namespace mlir;
using namespace mpc;

FailureOr<Value> ElementEmitter::emitComputed(Operation *op,
                                              const Request &at) {
  if (isReducing(op))
    return emitReduce(op, at);
  if (isa<MaxPoolOp, AvgPoolOp>(op))
    return emitPool(op, at);
  if (isa<MaxPoolGradientOp, AvgPoolGradientOp>(op))
    return emitPoolGradient(op, at);
  if (isa<RandomBitsOp>(op))
    return emitRandomBits(op, at);
  if (isa<BatchNormOp>(op))
    return emitBatchNorm(op, at);
  if (isa<MatmulOp>(op))
    return emitMatmul(op, at);
  if (isa<ConvOp>(op))
    return emitConv(op, at);
  return op->emitOpError("has no element-by-element form"), failure();
}

/// Full-rank indices of a reduction's input from those of its result.
static SmallVector<Value> expandIndices(ElementEmitter &emitter,
                                        ValueRange result,
                                        ArrayRef<int64_t> shape,
                                        ArrayRef<int64_t> axes) {
  bool keepsDims = result.size() == shape.size();
  SmallVector<Value> indices;
  size_t next = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    bool reduced = llvm::is_contained(axes, static_cast<int64_t>(dim));
    if (reduced && !keepsDims)
      indices.push_back(emitter.index(0));
    else
      indices.push_back(result[next++]);
  }
  return indices;
}

FailureOr<Value> ElementEmitter::emitReduce(Operation *op, const Request &at) {
  Value input = op->getOperand(0);
  ArrayRef<int64_t> shape = shapeOf(input);
  SmallVector<int64_t> axes = cast<ReductionOpInterface>(op).getReductionAxes();
  bool horizontal =
      llvm::is_contained(axes, static_cast<int64_t>(shape.size()) - 1);
  if (horizontal && at.lanes > 1)
    return emitPerLane(op->getResult(0), at);
  Reducer reducer = reducerOf(*this, op);
  ReductionLoop loop{*this,
                     shape,
                     axes,
                     reducer.initial,
                     reducer.body,
                     reducer.join,
                     reducer.joining == tile::NamedReduction::sum};
  SmallVector<LaneSegment> segments;
  if (horizontal)
    segments = planLanes(*this, input, shape.back());
  FailureOr<Carried> sums =
      loop.run(expandIndices(*this, at.indices, shape, axes), at.lanes,
               at.range, segments);
  if (failed(sums))
    return failure();
  return reducer.finish(*sums);
}

//===----------------------------------------------------------------------===//
// batch_norm
//===----------------------------------------------------------------------===//

FailureOr<Value> ElementEmitter::emitBatchNorm(Operation *op,
                                               const Request &at) {
  auto norm = cast<BatchNormOp>(op);
  bool channelLanes = shapeOf(norm.getInput()).size() == 2;
  auto channel = [&](Value tensor) -> Result {
    Value position = at.indices[1];
    return channelLanes ? emitRequest(tensor, Request{position, at.lanes,
                                                      at.mask, at.range})
                        : emitScalar(tensor, position, at.lanes);
  };
  Result x = emitRequest(norm.getInput(), at), scale = channel(norm.getScale()),
         bias = channel(norm.getBias()), mean = channel(norm.getMean()),
         variance = channel(norm.getVariance());
  if (failed(x) || failed(scale) || failed(bias) || failed(mean) ||
      failed(variance))
    return failure();
  ValueMath math(builder, loc);
  Value one = math.constant((*x).getType(), 1.0);
  Value deviation =
      math.sqrt(math.add(*variance, norm.getEpsilon().convertToDouble()));
  Value scaled = math.mul(math.sub(*x, *mean), math.div(one, deviation));
  Value result = math.add(math.mul(scaled, *scale), *bias);
  return round(result, getElementTypeOrSelf(norm.getResult().getType()));
}
