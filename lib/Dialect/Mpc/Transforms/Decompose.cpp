//===- Decompose.cpp - take composites apart ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rewrites composites into ops that every target has kernels for. First pass of
// the Layout stage: its slices and reshapes are what the later ones clean up.
// Recurrent ops: DecomposeRecurrent.cpp; updates: DecomposeUpdate.cpp; losses
// and training forms: DecomposeTraining.cpp and DecomposeNorms.cpp.
//
//===----------------------------------------------------------------------===//

#include "Decompose.h"
#include "OpEmitter.h"

#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include "llvm/ADT/TypeSwitch.h"

namespace mpc {
#define GEN_PASS_DEF_DECOMPOSEPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// The type that a norm on `element` computes in.
Type normType(Type element) {
  return element.getIntOrFloatBitWidth() < 32
             ? Float32Type::get(element.getContext())
             : element;
}

/// `[channels]` as a tensor that broadcasts along axis 1 of a tensor of `rank`.
Value perChannel(OpEmitter &emit, Value value, int64_t rank, Type element) {
  SmallVector<int64_t> shape(rank - 1, 1);
  shape[0] = shapeOf(value)[0];
  return emit.reshape(emit.cast(value, element), shape);
}

Value decompose(OpEmitter &emit, BatchNormOp op) {
  Type element = getElementTypeOrSelf(op.getInput()), wide = normType(element);
  int64_t rank = shapeOf(op.getInput()).size();
  Value variance = emit.cast(op.getVariance(), wide);
  Value sum = emit.create<AddOp>(
      variance.getType(), variance,
      emit.splat({1}, wide, op.getEpsilon().convertToDouble()));
  Value factor =
      emit.create<DivOp>(sum.getType(), emit.cast(op.getScale(), wide),
                         emit.create<SqrtOp>(sum.getType(), sum));
  Value shift = emit.create<SubOp>(
      sum.getType(), emit.cast(op.getBias(), wide),
      emit.create<MulOp>(sum.getType(), emit.cast(op.getMean(), wide), factor));
  Value input = emit.cast(op.getInput(), wide);
  Value product = emit.create<MulOp>(input.getType(), input,
                                     perChannel(emit, factor, rank, wide));
  return emit.cast(emit.create<AddOp>(input.getType(), product,
                                      perChannel(emit, shift, rank, wide)),
                   element);
}

/// Normalises each of `groups` groups of channels, then scales per channel.
template <typename OpTy>
Value decomposeGroups(OpEmitter &emit, OpTy op, int64_t groups) {
  Type element = getElementTypeOrSelf(op.getInput()), wide = normType(element);
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  SmallVector<int64_t> grouped = {shape[0], groups,
                                  shape[1] / std::max<int64_t>(groups, 1) *
                                      productOf(shape.drop_front(2))};
  Value rows = emit.reshape(emit.cast(op.getInput(), wide), grouped);
  Value normal = emit.create<LayerNormOp>(
      rows.getType(), rows, emit.splat({1}, wide, 1.0), Value(),
      emit.builder.getI64IntegerAttr(2), op.getEpsilonAttr());
  Value image = emit.reshape(normal, shape);
  Value product =
      emit.create<MulOp>(image.getType(), image,
                         perChannel(emit, op.getScale(), shape.size(), wide));
  return emit.cast(
      emit.create<AddOp>(image.getType(), product,
                         perChannel(emit, op.getBias(), shape.size(), wide)),
      element);
}

//===----------------------------------------------------------------------===//
// Transposed convolution
//===----------------------------------------------------------------------===//

/// Windows that touch but do not overlap: each input pixel makes its own block.
bool isBlockwise(ConvTransposeOp op) {
  ArrayRef<int64_t> window = shapeOf(op.getFilter()).drop_front(2);
  auto isZero = [](int64_t value) { return value == 0; };
  return op.getGroups() == 1 && window == op.getStrides() &&
         llvm::all_of(op.getPadLow(), isZero) &&
         llvm::all_of(op.getPadHigh(), isZero) &&
         llvm::all_of(op.getOutputPadding(), isZero) &&
         llvm::all_of(op.getDilations(),
                      [](int64_t value) { return value == 1; });
}

/// The product of the pixels with the filter, its blocks put in place.
Value decomposeBlockwise(OpEmitter &emit, ConvTransposeOp op) {
  ArrayRef<int64_t> image = shapeOf(op.getInput()),
                    filter = shapeOf(op.getFilter());
  int64_t rank = image.size(), spatial = rank - 2, out = filter[1];
  ArrayRef<int64_t> window = filter.drop_front(2);

  SmallVector<int64_t> toLast = {0};
  for (int64_t d = 0; d < spatial; ++d)
    toLast.push_back(d + 2);
  toLast.push_back(1);
  Value pixels = emit.transpose(op.getInput(), toLast);
  pixels = emit.reshape(pixels,
                        {image[0] * productOf(image.drop_front(2)), image[1]});

  // [C, O, window...] -> [C, window..., O]
  SmallVector<int64_t> filterOrder = {0};
  for (int64_t d = 0; d < spatial; ++d)
    filterOrder.push_back(d + 2);
  filterOrder.push_back(1);
  Value matrix = emit.reshape(emit.transpose(op.getFilter(), filterOrder),
                              {filter[0], productOf(window) * out});
  Type element = getElementTypeOrSelf(op.getResult());
  auto blocksType = RankedTensorType::get(
      {shapeOf(pixels)[0], productOf(window) * out}, element);
  Value blocks = emit.create<MatmulOp>(
      blocksType, pixels, matrix, /*transpose_lhs=*/UnitAttr(),
      /*transpose_rhs=*/UnitAttr(), op.getAccumulateAttr(), op.getComputeAttr(),
      PackedAttr());

  // [N, s..., window..., O] -> [N, s0, w0, s1, w1, ..., O], then back to
  // channels first.
  SmallVector<int64_t> split = {image[0]}, order = {0}, joined = {image[0]},
                       toFirst = {0, rank - 1};
  llvm::append_range(split, image.drop_front(2));
  llvm::append_range(split, window);
  split.push_back(out);
  for (int64_t d = 0; d < spatial; ++d) {
    order.append({1 + d, 1 + spatial + d});
    joined.push_back(image[2 + d] * window[d]);
    toFirst.push_back(1 + d);
  }
  order.push_back(2 * spatial + 1);
  joined.push_back(out);
  Value placed = emit.transpose(emit.reshape(blocks, split), order);
  return emit.transpose(emit.reshape(placed, joined), toFirst);
}

/// A conv over the input with `stride - 1` zeros between its elements.
Value decompose(OpEmitter &emit, ConvTransposeOp op) {
  if (isBlockwise(op))
    return decomposeBlockwise(emit, op);
  ArrayRef<int64_t> filter = shapeOf(op.getFilter());
  int64_t spatial = filter.size() - 2, groups = op.getGroups();
  int64_t in = filter[0] / groups, out = filter[1];

  // [G * C/G, O/G, window...] -> [G * O/G, C/G, window... reversed]
  SmallVector<int64_t> split = {groups, in, out}, swap = {0, 2, 1},
                       joined = {groups * out, in}, axes;
  for (int64_t d = 0; d < spatial; ++d) {
    split.push_back(filter[2 + d]);
    joined.push_back(filter[2 + d]);
    swap.push_back(3 + d);
    axes.push_back(2 + d);
  }
  Value weights = emit.reshape(
      emit.transpose(emit.reshape(op.getFilter(), split), swap), joined);
  weights = emit.reverse(weights, axes);

  // Padding that is negative crops, which only mpc.pad can do.
  SmallVector<int64_t> low(spatial + 2, 0), high(low), interior(low), padLow,
      padHigh;
  for (int64_t d = 0; d < spatial; ++d) {
    int64_t reach = op.getDilations()[d] * (filter[2 + d] - 1);
    int64_t before = reach - op.getPadLow()[d];
    int64_t after = reach - op.getPadHigh()[d] + op.getOutputPadding()[d];
    interior[2 + d] = op.getStrides()[d] - 1;
    low[2 + d] = std::min<int64_t>(before, 0);
    high[2 + d] = std::min<int64_t>(after, 0);
    padLow.push_back(std::max<int64_t>(before, 0));
    padHigh.push_back(std::max<int64_t>(after, 0));
  }
  Value image = emit.pad(op.getInput(), low, high, interior);
  SmallVector<int64_t> ones(spatial, 1);
  OpBuilder &b = emit.builder;
  return emit.create<ConvOp>(
      op.getType(), image, weights, b.getDenseI64ArrayAttr(ones),
      b.getDenseI64ArrayAttr(padLow), b.getDenseI64ArrayAttr(padHigh),
      b.getDenseI64ArrayAttr(op.getDilations()), b.getI64IntegerAttr(groups),
      ImageLayoutAttr::get(b.getContext(), ImageLayout::channels_first),
      DenseI64ArrayAttr(), op.getAccumulateAttr(), op.getComputeAttr(),
      PackedAttr(), IntegerAttr());
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

struct DecomposePass : mpc::impl::DecomposePassBase<DecomposePass> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    if (maxSteps < 1)
      return emitError(UnknownLoc::get(context))
             << "mpc-decompose: max-steps must be at least 1, found "
             << maxSteps.getValue();
    return success();
  }

  void runOnOperation() override {
    SmallVector<Operation *> composites;
    getOperation().walk([&](Operation *op) {
      if (op->hasTrait<Composite>() &&
          !llvm::is_contained(keep, op->getName().stripDialect()))
        composites.push_back(op);
    });
    SharedStatistics shared;
    for (Operation *op : composites) {
      OpBuilder builder(op);
      OpEmitter emit(builder, op);
      SmallVector<Value> values =
          TypeSwitch<Operation *, SmallVector<Value>>(op)
              .Case<BatchNormOp, ConvTransposeOp>([&](auto norm) {
                return SmallVector<Value>{decompose(emit, norm)};
              })
              .Case<GroupNormOp>([&](auto norm) {
                return SmallVector<Value>{
                    decomposeGroups(emit, norm, norm.getGroups())};
              })
              .Case<InstanceNormOp>([&](auto norm) {
                return SmallVector<Value>{
                    decomposeGroups(emit, norm, shapeOf(norm.getInput())[1])};
              })
              .Default([&](Operation *other) {
                if (fusionClassOf(other) == FusionClass::Recurrent)
                  return shapeOf(other->getOperand(0))[0] > maxSteps
                             ? SmallVector<Value>()
                             : unrollRecurrent(builder, other);
                SmallVector<Value> values = decomposeUpdate(builder, other);
                if (values.empty())
                  values = decomposeNorm(builder, other, shared);
                return values.empty() ? decomposeTraining(builder, other)
                                      : values;
              });
      if (values.empty())
        continue;
      op->replaceAllUsesWith(values);
      op->erase();
      ++numDecomposed;
    }
  }
};

} // namespace
