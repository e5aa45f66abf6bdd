//===- Reduction.cpp - reductions, scans, top_k ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"

#include "AxisSlices.h"
#include "Evaluation.h"
#include "RoundingKernels.h"
#include "StridedLoop.h"

#include <algorithm>
#include <numeric>

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

//===----------------------------------------------------------------------===//
// Reductions over axes
//===----------------------------------------------------------------------===//

/// Traverses the input in row-major order with `fn(input index, result index)`.
template <typename Fn>
static void forEachReduced(const Tensor &input, ArrayRef<int64_t> axes, Fn fn) {
  SmallVector<int64_t> kept(input.getShape());
  for (int64_t axis : axes)
    kept[axis] = 1;
  StridedLoop<1> loop(input.getShape(),
                      {broadcastStrides(kept, input.getShape())});
  loop.run([&](int64_t position, const std::array<int64_t, 1> &at) {
    fn(position, at[0]);
  });
}

/// Number of input elements per result element.
static int64_t reducedCount(const Tensor &input, ArrayRef<int64_t> axes) {
  int64_t count = 1;
  for (int64_t axis : axes)
    count *= input.getShape()[axis];
  return count;
}

/// Reduces the input with `combine(accumulator, element)`, starting at
/// `initial`.
template <typename Combine>
static void foldFloats(Evaluation &evaluation, ArrayRef<int64_t> axes,
                       double initial, Combine combine) {
  const Tensor &input = evaluation.operand(0);
  MutableArrayRef<double> result = evaluation.results.front().floats();
  llvm::fill(result, initial);
  ArrayRef<double> elements = input.floats();
  if (evaluation.rounding != Rounding::DeclaredBackwards) {
    forEachReduced(input, axes, [&](int64_t position, int64_t at) {
      result[at] = combine(result[at], elements[position]);
    });
    return;
  }
  std::vector<int64_t> places(elements.size());
  forEachReduced(input, axes,
                 [&](int64_t position, int64_t at) { places[position] = at; });
  for (size_t position = elements.size(); position-- > 0;)
    result[places[position]] =
        combine(result[places[position]], elements[position]);
}

template <typename Combine>
static void foldIntegers(Evaluation &evaluation, ArrayRef<int64_t> axes,
                         int64_t initial, Combine combine) {
  const Tensor &input = evaluation.operand(0);
  MutableArrayRef<int64_t> result = evaluation.results.front().ints();
  llvm::fill(result, initial);
  ArrayRef<int64_t> elements = input.ints();
  forEachReduced(input, axes, [&](int64_t position, int64_t at) {
    result[at] = combine(result[at], elements[position]);
  });
}

template <typename OpTy>
static void reduceFloats(OpTy op, Evaluation &evaluation) {
  ArrayRef<int64_t> axes = op.getAxes();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if constexpr (std::is_same_v<OpTy, ReduceMaxOp>)
    return foldFloats(evaluation, axes, -infinity, maximum);
  else if constexpr (std::is_same_v<OpTy, ReduceMinOp>)
    return foldFloats(evaluation, axes, infinity, minimum);
  else
    withRounding(evaluation.rounding, op.getAccumulateType(), [&](auto round) {
      if constexpr (std::is_same_v<OpTy, ReduceProdOp>) {
        foldFloats(evaluation, axes, 1,
                   [&](double a, double b) { return round(a * b); });
        return;
      }
      foldFloats(evaluation, axes, 0,
                 [&](double a, double b) { return round(a + b); });
      if constexpr (std::is_same_v<OpTy, ReduceMeanOp>) {
        auto count =
            static_cast<double>(reducedCount(evaluation.operand(0), axes));
        for (double &value : evaluation.results.front().floats())
          value = round(value / count);
      }
    });
}

template <typename OpTy>
static void reduceIntegers(OpTy op, Evaluation &evaluation) {
  ArrayRef<int64_t> axes = op.getAxes();
  IntegerKind kind(evaluation.operand(0).getElementType());
  if constexpr (std::is_same_v<OpTy, ReduceMaxOp>)
    return foldIntegers(
        evaluation, axes, kind.lowest(),
        [&](int64_t a, int64_t b) { return kind.less(a, b) ? b : a; });
  else if constexpr (std::is_same_v<OpTy, ReduceMinOp>)
    return foldIntegers(
        evaluation, axes, kind.highest(),
        [&](int64_t a, int64_t b) { return kind.less(b, a) ? b : a; });
  else if constexpr (std::is_same_v<OpTy, ReduceProdOp>)
    return foldIntegers(evaluation, axes, 1, [&](int64_t a, int64_t b) {
      return kind.wrap(static_cast<int64_t>(static_cast<uint64_t>(a) *
                                            static_cast<uint64_t>(b)));
    });
  else {
    foldIntegers(evaluation, axes, 0, [&](int64_t a, int64_t b) {
      return kind.wrap(static_cast<int64_t>(static_cast<uint64_t>(a) +
                                            static_cast<uint64_t>(b)));
    });
    if constexpr (std::is_same_v<OpTy, ReduceMeanOp>) {
      int64_t count =
          std::max<int64_t>(reducedCount(evaluation.operand(0), axes), 1);
      for (int64_t &value : evaluation.results.front().ints())
        value = kind.isUnsigned
                    ? static_cast<int64_t>(static_cast<uint64_t>(value) / count)
                    : value / count;
    }
  }
}

template <typename OpTy> static bool tryReduce(Evaluation &evaluation) {
  auto op = dyn_cast<OpTy>(evaluation.op);
  if (!op)
    return false;
  evaluation.addResult();
  if (evaluation.operand(0).isFloat())
    reduceFloats(op, evaluation);
  else
    reduceIntegers(op, evaluation);
  return true;
}

//===----------------------------------------------------------------------===//
// argmax, argmin
//===----------------------------------------------------------------------===//

/// `before(a, b)`: a is selected over b. Ties select the first index, or the
/// last.
template <typename T, typename Before>
static int64_t bestPosition(const T *line, int64_t extent, int64_t stride,
                            bool selectLast, Before before) {
  int64_t best = 0;
  for (int64_t i = 1; i < extent; ++i) {
    T value = line[i * stride], current = line[best * stride];
    if (before(value, current) || (selectLast && !before(current, value)))
      best = i;
  }
  return best;
}

static void evaluateArgReduce(Evaluation &evaluation, int64_t axis,
                              bool selectLast, bool largest) {
  const Tensor &input = evaluation.operand(0);
  MutableArrayRef<int64_t> result = evaluation.addResult().ints();
  AxisSlices lines(input.getShape(), axis);
  if (input.isFloat()) {
    // NaN takes precedence, as in reduce_max and reduce_min.
    auto before = [&](double a, double b) {
      if (std::isnan(a) || std::isnan(b))
        return std::isnan(a) && !std::isnan(b);
      return largest ? a > b : a < b;
    };
    lines.run([&](int64_t line, int64_t base) {
      result[line] = bestPosition(input.floats().data() + base, lines.extent,
                                  lines.stride, selectLast, before);
    });
    return;
  }
  IntegerKind kind(input.getElementType());
  auto before = [&](int64_t a, int64_t b) {
    return largest ? kind.less(b, a) : kind.less(a, b);
  };
  lines.run([&](int64_t line, int64_t base) {
    result[line] = bestPosition(input.ints().data() + base, lines.extent,
                                lines.stride, selectLast, before);
  });
}

//===----------------------------------------------------------------------===//
// cumsum
//===----------------------------------------------------------------------===//

template <typename T, typename Add>
static void runningSum(ArrayRef<T> input, MutableArrayRef<T> result,
                       const AxisSlices &lines, bool exclusive, bool reverse,
                       Add add) {
  lines.run([&](int64_t, int64_t base) {
    T sum = 0;
    for (int64_t i = 0; i < lines.extent; ++i) {
      int64_t at = base + (reverse ? lines.extent - 1 - i : i) * lines.stride;
      T next = add(sum, input[at]);
      result[at] = exclusive ? sum : next;
      sum = next;
    }
  });
}

static void evaluateCumsum(CumsumOp op, Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0);
  Tensor &result = evaluation.addResult();
  AxisSlices lines(input.getShape(), op.getAxis());
  if (input.isFloat()) {
    withRounding(evaluation.rounding, op.getAccumulateType(), [&](auto round) {
      runningSum(input.floats(), result.floats(), lines, op.getExclusive(),
                 op.getReverse(),
                 [&](double a, double b) { return round(a + b); });
    });
    return;
  }
  IntegerKind kind(input.getElementType());
  runningSum(input.ints(), result.ints(), lines, op.getExclusive(),
             op.getReverse(), [&](int64_t a, int64_t b) {
               return kind.wrap(
                   static_cast<int64_t>(static_cast<uint64_t>(a) + b));
             });
}

//===----------------------------------------------------------------------===//
// top_k
//===----------------------------------------------------------------------===//

template <typename T, typename Before>
static void selectTop(ArrayRef<T> input, MutableArrayRef<T> values,
                      MutableArrayRef<int64_t> indices, const AxisSlices &from,
                      const AxisSlices &to, Before before) {
  std::vector<int64_t> order(from.extent);
  from.run([&](int64_t line, int64_t base) {
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      T left = input[base + a * from.stride],
        right = input[base + b * from.stride];
      // Ties are in index order.
      return before(left, right) || (!before(right, left) && a < b);
    });
    int64_t target = to.base(line);
    for (int64_t i = 0; i < to.extent; ++i) {
      values[target + i * to.stride] = input[base + order[i] * from.stride];
      indices[target + i * to.stride] = order[i];
    }
  });
}

static void evaluateTopK(TopKOp op, Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0);
  evaluation.addResult();
  evaluation.addResult();
  Tensor &values = evaluation.results[0], &indices = evaluation.results[1];
  AxisSlices from(input.getShape(), op.getAxis()),
      to(values.getShape(), op.getAxis());
  bool largest = op.getLargest();
  if (input.isFloat()) {
    // NaN is larger than every number.
    auto less = [](double a, double b) {
      return a < b || (std::isnan(b) && !std::isnan(a));
    };
    selectTop(
        input.floats(), values.floats(), indices.ints(), from, to,
        [&](double a, double b) { return largest ? less(b, a) : less(a, b); });
    return;
  }
  IntegerKind kind(input.getElementType());
  selectTop(input.ints(), values.ints(), indices.ints(), from, to,
            [&](int64_t a, int64_t b) {
              return largest ? kind.less(b, a) : kind.less(a, b);
            });
}

FailureOr<bool> mpc::reference::evaluateReduction(Evaluation &evaluation) {
  if (tryReduce<ReduceSumOp>(evaluation) ||
      tryReduce<ReduceMeanOp>(evaluation) ||
      tryReduce<ReduceProdOp>(evaluation) ||
      tryReduce<ReduceMaxOp>(evaluation) ||
      tryReduce<ReduceMinOp>(evaluation)) {
    evaluation.roundResults();
    return true;
  }
  Operation *op = evaluation.op;
  if (auto argmax = dyn_cast<ArgmaxOp>(op))
    evaluateArgReduce(evaluation, argmax.getAxis(), argmax.getSelectLast(),
                      /*largest=*/true);
  else if (auto argmin = dyn_cast<ArgminOp>(op))
    evaluateArgReduce(evaluation, argmin.getAxis(), argmin.getSelectLast(),
                      /*largest=*/false);
  else if (auto cumsum = dyn_cast<CumsumOp>(op))
    evaluateCumsum(cumsum, evaluation);
  else if (auto topK = dyn_cast<TopKOp>(op))
    evaluateTopK(topK, evaluation);
  else
    return false;
  return true;
}
