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

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;

namespace {
/// Input rows per item: few of the overlapping windows also overlap rows of
/// other items.
constexpr int64_t kLines = 8;

class MaxPoolGradientPhase : public Phase {
public:
  MaxPoolGradientPhase(LoopContext &context, ArrayRef<Root> roots,
                       MaxPoolGradientOp op, int64_t lanes)
      : context(context), emitter(context.emitter),
        math(context.builder, context.loc), index{context.builder, context.loc},
        roots(roots), op(op), pool(op, op.getWindow()),
        in(shapeOf(op.getInput())), out(shapeOf(op.getGradient())),
        lanes(lanes), blocks(llvm::divideCeil(in[1], kLines)) {
    bool fitsByte =
        pool.window[0] * pool.window[1] <= std::numeric_limits<int8_t>::max();
    placeType = context.builder.getIntegerType(fitsByte ? 8 : 32);
  }

  PhaseCost cost() override {
    int64_t lines = std::min(kLines, in[1]);
    auto elements = static_cast<double>(lines * in[2] * in[3]);
    return {in[0] * blocks, 2 * elements};
  }

  LogicalResult emit(Value item) override;

private:
  /// Emits `body` for every vector of channels.
  void forChannels(llvm::function_ref<void(Value)> body) {
    index.loop(index.constant(0), index.constant(in[3]), lanes, body);
  }
  FailureOr<Value> largestPlace(ArrayRef<Value> output);
  FailureOr<Value> gradientAt(ValueRange indices, Value mask);

  LoopContext &context;
  ElementEmitter &emitter;
  ValueMath math;
  IndexMath index;
  SmallVector<Root> roots;
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
FailureOr<Value> MaxPoolGradientPhase::largestPlace(ArrayRef<Value> output) {
  SmallVector<WindowDimension> window = pool.at(index, output, in, out);
  Type element = carriedType(getElementTypeOrSelf(op.getInput().getType()));
  Type wide = lanesOf(element, lanes);
  // As wide as the elements, so that one mask serves both.
  Type flags = ValueMath::withElement(
      wide, context.builder.getIntegerType(element.getIntOrFloatBitWidth()));
  auto spread = [&](Value place) -> Value {
    Value number = arith::IndexCastOp::create(
        context.builder, context.loc, getElementTypeOrSelf(flags), place);
    return vector::BroadcastOp::create(context.builder, context.loc, flags,
                                       number);
  };
  auto placeOf = [&](Value h, Value w) {
    return index.add(index.mul(h, pool.window[1]), w);
  };
  Value first = spread(placeOf(window[0].begin, window[1].begin));
  Value least = math.constant(wide, -std::numeric_limits<double>::infinity());
  SmallVector<Value> from(output);
  FailureOr<Carried> best = carryLoop(
      emitter, window[0].begin, window[0].end, 1, {least, first},
      [&](Value h, ValueRange lines) {
        from[1] = index.add(window[0].start, h);
        return carryLoop(
            emitter, window[1].begin, window[1].end, 1, lines,
            [&](Value w, ValueRange best) -> FailureOr<Carried> {
              from[2] = index.add(window[1].start, w);
              FailureOr<Value> value = emitter.emit(op.getInput(), from, lanes);
              if (failed(value))
                return failure();
              Value wins = math.bitAnd(
                  math.compare(CmpFPredicate::UGT, *value, best[0]),
                  math.compare(CmpFPredicate::ORD, best[0], best[0]));
              return Carried{math.select(wins, *value, best[0]),
                             math.select(wins, spread(placeOf(h, w)), best[1])};
            });
      });
  if (failed(best))
    return failure();
  return Value(arith::TruncIOp::create(context.builder, context.loc,
                                       ValueMath::withElement(wide, placeType),
                                       (*best)[1]));
}

/// Returns the sum of the contributions of the windows that contain an element.
FailureOr<Value> MaxPoolGradientPhase::gradientAt(ValueRange indices,
                                                  Value mask) {
  OpBuilder &b = context.builder;
  Type elementType = getElementTypeOrSelf(op.getGradient().getType());
  Type type = lanesOf(carriedType(elementType), lanes);
  auto flags = cast<VectorType>(ValueMath::withElement(type, placeType));
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
  FailureOr<Carried> sum = carryLoop(
      emitter, holding[0].begin, holding[0].end, 1, {math.constant(type, 0)},
      [&](Value h, ValueRange lines) {
        at[1] = h;
        return carryLoop(
            emitter, holding[1].begin, holding[1].end, 1, lines,
            [&](Value w, ValueRange sums) -> FailureOr<Carried> {
              at[2] = w;
              Value own = index.add(index.mul(placeIn(0, h), pool.window[1]),
                                    placeIn(1, w));
              own = arith::IndexCastOp::create(b, context.loc, placeType, own);
              own = vector::BroadcastOp::create(b, context.loc, flags, own);
              Value place = vector::LoadOp::create(
                  b, context.loc, flags, places,
                  ValueRange{index.sub(h, firstLine), w, indices[3]});
              Value chosen = math.compare(arith::CmpIPredicate::eq, place, own);
              FailureOr<Value> given =
                  emitter.emit(op.getGradient(), at, lanes, mask);
              if (failed(given))
                return failure();
              return Carried{
                  math.add(sums[0], math.select(chosen, *given,
                                                math.constant(type, 0)))};
            });
      });
  if (failed(sum))
    return failure();
  return emitter.round(sum->front(), elementType);
}

LogicalResult MaxPoolGradientPhase::emit(Value item) {
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

  LogicalResult result = success();
  index.loop(firstLine, limit, 1, [&](Value h) {
    index.loop(index.constant(0), index.constant(out[2]), 1, [&](Value w) {
      forChannels([&](Value channel) {
        FailureOr<Value> place = largestPlace({image, h, w, channel});
        if (failed(place)) {
          result = failure();
          return;
        }
        vector::StoreOp::create(
            context.builder, context.loc, *place, places,
            ValueRange{index.sub(h, firstLine), w, channel});
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
        Carried values;
        for (const Root &root : roots) {
          FailureOr<Value> value = emitter.emit(root.tensor, at, lanes);
          if (failed(value)) {
            result = failure();
            return;
          }
          values.push_back(*value);
        }
        for (auto [root, value] : llvm::zip(roots, values))
          emitter.store(value, root.memref, at, lanes);
      });
    });
  });
  emitter.unbind(op.getResult());
  return result;
}

/// Returns the max_pool gradient in which the roots are elementwise; null if
/// there is none or more than one.
static MaxPoolGradientOp findGradient(const ElementEmitter &emitter,
                                      ArrayRef<Root> roots) {
  llvm::DenseSet<Value> visited;
  SmallVector<Value> work;
  for (const Root &root : roots)
    work.push_back(root.tensor);
  MaxPoolGradientOp found;
  while (!work.empty()) {
    Value value = work.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || emitter.isBound(value) || !visited.insert(value).second)
      continue;
    if (auto gradient = dyn_cast<MaxPoolGradientOp>(op)) {
      if (found || shapeOf(value) != shapeOf(roots.front().tensor))
        return {};
      found = gradient;
      continue;
    }
    if (!isa<ElementwiseOpInterface, ConstantOp>(op))
      return {};
    llvm::append_range(work, op->getOperands());
  }
  return found;
}

std::unique_ptr<Phase> mpc::makeMaxPoolGradientPhase(LoopContext &context,
                                                     ArrayRef<Root> roots) {
  ElementEmitter &emitter = context.emitter;
  MaxPoolGradientOp op = findGradient(emitter, roots);
  const ElementTarget &target = context.target;
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
