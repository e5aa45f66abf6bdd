//===- PoolGradientPhase.cpp - max_pool gradients by window ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes the argmax of each window that overlaps some input rows once and
// buffers it. An element then only checks whether it is the argmax of each
// window that contains it.
//
//===----------------------------------------------------------------------===//

#include "SlidingWindow.h"

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"

#include <limits>

using namespace mlir;
using namespace mpc;

namespace {
/// Input rows per item: few of the overlapping windows also overlap rows of
/// other items.
constexpr int64_t kLines = 8;

class MaxPoolGradientPhase : public Phase {
public:
  MaxPoolGradientPhase(LoopContext &context, ArrayRef<Root> roots,
                       MaxPoolGradientOp op, int64_t lanes)
      : Phase(context, roots), op(op), pool(op, op.getWindow()),
        in(shapeOf(op.getInput())), out(shapeOf(op.getGradient())),
        lanes(lanes), blocks(llvm::divideCeil(in[1], kLines)) {
    bool fitsByte =
        pool.window[0] * pool.window[1] <= std::numeric_limits<int8_t>::max();
    placeType = builder.getIntegerType(fitsByte ? 8 : 32);
  }

  PhaseCost cost() override {
    int64_t lines = std::min(kLines, in[1]);
    auto elements = static_cast<double>(lines * in[2] * in[3]);
    return {in[0] * blocks, 2 * elements};
  }

  void emit(Value item) override;

private:
  /// Emits `body` for every vector of channels.
  void forChannels(llvm::function_ref<void(Value)> body) {
    index.loop(index.constant(0), index.constant(in[3]), lanes, body);
  }
  Value largestPlace(ArrayRef<Value> output);
  Value gradientAt(ValueRange indices, Value mask);
  /// The position in a window, in all lanes.
  Value spread(Value place, Type element) {
    return math.splat(math.castIndex(place, element), lanes);
  }

  MaxPoolGradientOp op;
  WindowShape pool;
  ArrayRef<int64_t> in, out;
  int64_t lanes, blocks;
  /// Argmax of each window of some output rows, from `firstLine` on.
  Type placeType;
  Value places, firstLine;
};
} // namespace

/// Returns the argmax position in the window of `output`: the first among
/// equals, and the first NaN before all numbers.
Value MaxPoolGradientPhase::largestPlace(ArrayRef<Value> output) {
  SmallVector<WindowDimension> window = pool.at(index, output, in, out);
  Type element = carriedType(getElementTypeOrSelf(op.getInput().getType()));
  // As wide as the elements, so that one mask serves both.
  Type flag = builder.getIntegerType(element.getIntOrFloatBitWidth());
  auto placeOf = [&](Value h, Value w) {
    return index.add(index.mul(h, pool.window[1]), w);
  };
  Value first = spread(placeOf(window[0].begin, window[1].begin), flag);
  Value least = math.constant(lanesOf(element, lanes), -kInfinity);
  SmallVector<Value> from(output);
  Value h, w;
  Carried best = overWindow(
      emitter, window, {least, first},
      [&](size_t dim, Value k, Value position) {
        (dim ? w : h) = k;
        from[1 + dim] = position;
      },
      [&](ValueRange best) {
        Value value = emitter.value(op.getInput(), from, lanes);
        Value wins = isBefore(math, value, best[0], /*largest=*/true,
                              /*isUnsigned=*/false, /*nanFirst=*/true);
        return Carried{math.select(wins, value, best[0]),
                       math.select(wins, spread(placeOf(h, w), flag), best[1])};
      });
  return math.truncateInt(best[1], placeType);
}

/// Returns the sum of the contributions of the windows that contain an element.
Value MaxPoolGradientPhase::gradientAt(ValueRange indices, Value mask) {
  Type elementType = getElementTypeOrSelf(op.getGradient().getType());
  Type type = lanesOf(carriedType(elementType), lanes);
  auto flags = VectorType::get({lanes}, placeType);
  SmallVector<HoldingWindows> holding;
  for (size_t dim = 0; dim < 2; ++dim)
    holding.push_back(windowsAround(index, pool, dim, indices[1 + dim],
                                    in[1 + dim], out[1 + dim]));
  // Returns the element's position in the window of position `output`.
  auto placeIn = [&](size_t dim, Value output) {
    return index.sub(index.add(indices[1 + dim], pool.low[dim]),
                     index.mul(output, pool.strides[dim]));
  };
  SmallVector<Value> at(indices);
  Carried sum = index.carry(
      holding[0].begin, holding[0].end, 1, math.constant(type, 0),
      [&](Value h, ValueRange lines) {
        at[1] = h;
        return index.carry(
            holding[1].begin, holding[1].end, 1, lines,
            [&](Value w, ValueRange sums) {
              at[2] = w;
              Value own = index.add(index.mul(placeIn(0, h), pool.window[1]),
                                    placeIn(1, w));
              own = spread(own, placeType);
              Value place = index.load(
                  places, {index.sub(h, firstLine), w, indices[3]}, flags);
              Value chosen = math.compare(arith::CmpIPredicate::eq, place, own);
              Value given = emitter.value(op.getGradient(), at, lanes, mask);
              return Carried{math.add(
                  sums[0], math.select(chosen, given, math.constant(type, 0)))};
            });
      });
  return emitter.round(sum[0], elementType);
}

void MaxPoolGradientPhase::emit(Value item) {
  Value image = index.div(item, blocks);
  Value begin = index.mul(index.rem(item, blocks), kLines);
  Value end = index.min(index.add(begin, kLines), in[1]);
  auto windowsOf = [&](Value line) {
    return windowsAround(index, pool, 0, line, in[1], out[1]);
  };
  firstLine = windowsOf(begin).begin;
  Value limit = windowsOf(index.sub(end, index.constant(1))).end;
  int64_t most = (kLines - 1 + pool.window[0] - 1) / pool.strides[0] + 1;
  places = context.allocate({most, out[2], in[3]}, placeType);

  index.loop(firstLine, limit, 1, [&](Value h) {
    index.loop(index.constant(0), index.constant(out[2]), 1, [&](Value w) {
      forChannels([&](Value channel) {
        index.store(largestPlace({image, h, w, channel}), places,
                    {index.sub(h, firstLine), w, channel});
      });
    });
  });
  emitter.bindSource(op.getResult(),
                     [this](ValueRange indices, int64_t, Value mask) {
                       return gradientAt(indices, mask);
                     });
  index.loop(begin, end, 1, [&](Value h) {
    index.loop(index.constant(0), index.constant(in[2]), 1, [&](Value w) {
      forChannels([&](Value channel) {
        SmallVector<Value> at = {image, h, w, channel};
        storeRoots(at, lanes, {0, in[3]});
      });
    });
  });
  emitter.unbind(op.getResult());
}

/// Returns the max_pool gradient in which the roots are elementwise; null if
/// there is none or more than one.
static MaxPoolGradientOp findGradient(const ElementEmitter &emitter,
                                      ArrayRef<Root> roots) {
  MaxPoolGradientOp found;
  bool fits = visitDefinitions(emitter, roots, [&](Operation *op) {
    auto gradient = dyn_cast<MaxPoolGradientOp>(op);
    if (!gradient)
      return isa<ElementwiseOpInterface, ConstantOp>(op)
                 ? WalkResult::advance()
                 : WalkResult::interrupt();
    if (found || shapeOf(gradient.getResult()) != shapeOf(roots.front().tensor))
      return WalkResult::interrupt();
    found = gradient;
    return WalkResult::skip();
  });
  return fits ? found : MaxPoolGradientOp();
}

std::unique_ptr<Phase> mpc::makeMaxPoolGradientPhase(LoopContext &context,
                                                     ArrayRef<Root> roots) {
  ElementEmitter &emitter = context.emitter;
  MaxPoolGradientOp op = findGradient(emitter, roots);
  const ElementTarget &target = emitter.getTarget();
  if (!op || target.lanes == 1 || !target.privateScratch)
    return nullptr;
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  bool isPlain = op.getLayout() == ImageLayout::channels_last &&
                 shape.size() == 4 &&
                 isa<FloatType>(getElementTypeOrSelf(op.getInput())) &&
                 llvm::all_of(op.getDilations(),
                              [](int64_t dilation) { return dilation == 1; });
  if (!isPlain || elementCount(op.getGradient()) == 0)
    return nullptr;
  // The argmax and the maximum are both in registers.
  int64_t lanes = 2 * target.lanes;
  while (lanes > target.lanes / 2 && shape[3] % lanes != 0)
    lanes /= 2;
  LaneRange all{0, shape[3]};
  auto isWhole = [&](Value value) { return isContiguous(emitter, value, all); };
  bool reads = llvm::all_of(op->getOperands(), isWhole) &&
               llvm::all_of(roots, [&](const Root &root) {
                 return isWhole(root.tensor);
               });
  if (shape[3] % lanes != 0 || lanes < target.lanes / 2 || !reads)
    return nullptr;
  return std::make_unique<MaxPoolGradientPhase>(context, roots, op, lanes);
}
