//===- GatherScatter.cpp - gathers and scatters ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Negative indices count from the end; out-of-range ones are clamped by gathers
// and dropped by scatters.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"

#include "Evaluation.h"
#include "RoundingKernels.h"
#include "StridedLoop.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

static int64_t clampIndex(int64_t index, int64_t extent) {
  return std::clamp<int64_t>(index < 0 ? index + extent : index, 0, extent - 1);
}

/// Returns the nonnegative index, or -1 if it is out of range.
static int64_t checkIndex(int64_t index, int64_t extent) {
  if (index < 0)
    index += extent;
  return index >= 0 && index < extent ? index : -1;
}

/// Converts a row-major offset to coordinates.
static void unravel(int64_t position, ArrayRef<int64_t> shape,
                    MutableArrayRef<int64_t> index) {
  for (size_t dim = shape.size(); dim-- > 0; position /= shape[dim])
    index[dim] = position % shape[dim];
}

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

static void evaluateGatherOp(GatherOp op, Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0);
  ArrayRef<int64_t> indices = evaluation.operand(1).ints();
  Tensor &result = evaluation.addResult();
  int64_t axis = op.getAxis(), extent = input.getShape()[axis];
  int64_t outer = productOf(input.getShape().take_front(axis));
  int64_t inner = productOf(input.getShape().drop_front(axis + 1));
  visitElements(input, result, [&](auto from, auto to) {
    auto target = to.begin();
    for (int64_t i = 0; i < outer; ++i)
      for (int64_t index : indices)
        target = std::copy_n(
            from.begin() + (i * extent + clampIndex(index, extent)) * inner,
            inner, target);
  });
}

static void evaluateGatherElements(GatherElementsOp op,
                                   Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0);
  ArrayRef<int64_t> indices = evaluation.operand(1).ints();
  Tensor &result = evaluation.addResult();
  int64_t axis = op.getAxis(), extent = input.getShape()[axis];
  SmallVector<int64_t> strides = rowMajorStrides(input.getShape());
  int64_t step = strides[axis];
  strides[axis] = 0;
  StridedLoop<1> loop(result.getShape(), {strides});
  visitElements(input, result, [&](auto from, auto to) {
    loop.run([&](int64_t position, const std::array<int64_t, 1> &at) {
      to[position] = from[at[0] + clampIndex(indices[position], extent) * step];
    });
  });
}

static void evaluateGatherNd(GatherNdOp op, Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0), &indices = evaluation.operand(1);
  Tensor &result = evaluation.addResult();
  int64_t batchDims = op.getBatchDims(), tuple = indices.getShape().back();
  ArrayRef<int64_t> shape = input.getShape();
  int64_t batch = productOf(shape.take_front(batchDims));
  int64_t batchSize = productOf(shape.drop_front(batchDims));
  int64_t tuples =
      productOf(indices.getShape().drop_front(batchDims).drop_back());
  int64_t inner = productOf(shape.drop_front(batchDims + tuple));
  visitElements(input, result, [&](auto from, auto to) {
    auto target = to.begin();
    const int64_t *index = indices.ints().data();
    for (int64_t i = 0; i < batch; ++i)
      for (int64_t t = 0; t < tuples; ++t) {
        int64_t at = 0;
        for (int64_t extent : shape.slice(batchDims, tuple))
          at = at * extent + clampIndex(*index++, extent);
        target = std::copy_n(from.begin() + i * batchSize + at * inner, inner,
                             target);
      }
  });
}

//===----------------------------------------------------------------------===//
// Scatters
//===----------------------------------------------------------------------===//

/// Returns a function that combines an old element and an update.
template <typename Round>
static auto floatJoin(ScatterReduction reduction, Round round) {
  return [=](double old, double update) -> double {
    switch (reduction) {
    case ScatterReduction::none:
      return update;
    case ScatterReduction::add:
      return round(old + update);
    case ScatterReduction::mul:
      return round(old * update);
    case ScatterReduction::max:
      return maximum(old, update);
    case ScatterReduction::min:
      return minimum(old, update);
    }
    return update;
  };
}

static auto integerJoin(ScatterReduction reduction, IntegerKind kind) {
  return [=](int64_t old, int64_t update) -> int64_t {
    auto a = static_cast<uint64_t>(old), b = static_cast<uint64_t>(update);
    switch (reduction) {
    case ScatterReduction::none:
      return update;
    case ScatterReduction::add:
      return kind.wrap(static_cast<int64_t>(a + b));
    case ScatterReduction::mul:
      return kind.wrap(static_cast<int64_t>(a * b));
    case ScatterReduction::max:
      return kind.less(old, update) ? update : old;
    case ScatterReduction::min:
      return kind.less(update, old) ? update : old;
    }
    return update;
  };
}

/// Calls `fn(result elements, update elements, combine)`.
template <typename Fn>
static void withJoin(Evaluation &evaluation, ScatterReduction reduction,
                     Fn fn) {
  const Tensor &updates = evaluation.operand(2);
  Tensor &result = evaluation.results.front();
  Type type = result.getElementType();
  if (!result.isFloat())
    return fn(result.ints(), updates.ints(),
              integerJoin(reduction, IntegerKind(type)));
  withRounding(evaluation.rounding, type, [&](auto round) {
    fn(result.floats(), updates.floats(), floatJoin(reduction, round));
  });
}

static void evaluateScatterElements(ScatterElementsOp op,
                                    Evaluation &evaluation) {
  const Tensor &indices = evaluation.operand(1);
  evaluation.results.push_back(evaluation.operand(0));
  ArrayRef<int64_t> shape = evaluation.operand(0).getShape();
  int64_t axis = op.getAxis();
  SmallVector<int64_t> strides = rowMajorStrides(shape), index(shape.size());
  withJoin(evaluation, op.getReduction(),
           [&](auto result, auto updates, auto join) {
             for (int64_t i = 0; i < indices.size(); ++i) {
               unravel(i, indices.getShape(), index);
               index[axis] = indices.ints()[i];
               int64_t at = 0;
               for (size_t dim = 0; dim < shape.size() && at >= 0; ++dim) {
                 int64_t position = checkIndex(index[dim], shape[dim]);
                 at = position < 0 ? -1 : at + position * strides[dim];
               }
               if (at >= 0)
                 result[at] = join(result[at], updates[i]);
             }
           });
}

static void evaluateScatterNd(ScatterNdOp op, Evaluation &evaluation) {
  const Tensor &indices = evaluation.operand(1);
  evaluation.results.push_back(evaluation.operand(0));
  ArrayRef<int64_t> shape = evaluation.operand(0).getShape();
  int64_t tuple = indices.getShape().back();
  int64_t inner = productOf(shape.drop_front(tuple));
  int64_t tuples = productOf(indices.getShape().drop_back());
  withJoin(evaluation, op.getReduction(),
           [&](auto result, auto updates, auto join) {
             for (int64_t t = 0; t < tuples; ++t) {
               int64_t at = 0;
               for (int64_t dim = 0; dim < tuple && at >= 0; ++dim) {
                 int64_t position =
                     checkIndex(indices.ints()[t * tuple + dim], shape[dim]);
                 at = position < 0 ? -1 : at * shape[dim] + position;
               }
               if (at < 0)
                 continue;
               for (int64_t i = 0; i < inner; ++i)
                 result[at * inner + i] =
                     join(result[at * inner + i], updates[t * inner + i]);
             }
           });
}

FailureOr<bool> mpc::reference::evaluateGatherScatter(Evaluation &evaluation) {
  Operation *op = evaluation.op;
  if (fusionClassOf(op) == FusionClass::Gather &&
      evaluation.operand(0).size() == 0 &&
      elementCount(evaluation.resultType()) != 0)
    return op->emitOpError() << "takes elements of an empty tensor "
                             << evaluation.operand(0).getType();
  if (auto gather = dyn_cast<GatherOp>(op))
    evaluateGatherOp(gather, evaluation);
  else if (auto gatherElements = dyn_cast<GatherElementsOp>(op))
    evaluateGatherElements(gatherElements, evaluation);
  else if (auto gatherNd = dyn_cast<GatherNdOp>(op))
    evaluateGatherNd(gatherNd, evaluation);
  else if (auto scatterElements = dyn_cast<ScatterElementsOp>(op))
    evaluateScatterElements(scatterElements, evaluation);
  else if (auto scatterNd = dyn_cast<ScatterNdOp>(op))
    evaluateScatterNd(scatterNd, evaluation);
  else
    return false;
  return true;
}
