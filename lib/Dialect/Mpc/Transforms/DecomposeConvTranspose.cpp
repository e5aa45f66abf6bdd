//===- DecomposeConvTranspose.cpp - sub-pixel decomposition ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decomposes a transposed convolution into GEMMs and ordinary convolutions
// without multiplying inserted zeros. All output positions with one remainder
// modulo the stride (a phase) read the same taps of the filter, so each phase
// is a convolution with a sub-filter.
//
//===----------------------------------------------------------------------===//

#include "Decompose.h"
#include "OpEmitter.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"

#include <numeric>

using namespace mlir;
using namespace mpc;

namespace {

//===----------------------------------------------------------------------===//
// GEMM
//===----------------------------------------------------------------------===//

/// Permutation that moves channels after the spatial dimensions.
SmallVector<int64_t> orderWithChannelsLast(int64_t rank) {
  SmallVector<int64_t> order = {0};
  for (int64_t d = 2; d < rank; ++d)
    order.push_back(d);
  order.push_back(1);
  return order;
}

/// Multiplies the channels of each pixel of `image` by `matrix`: [N, s...,
/// columns].
Value multiplyChannels(OpEmitter &emit, ConvTransposeOp op, Value image,
                       Value matrix) {
  ArrayRef<int64_t> shape = shapeOf(image);
  int64_t rows = shape[0] * productOf(shape.drop_front(2)),
          columns = shapeOf(matrix)[1];
  Value pixels =
      emit.reshape(emit.transpose(image, orderWithChannelsLast(shape.size())),
                   {rows, shape[1]});
  Value product = emit.create<MatmulOp>(
      RankedTensorType::get({rows, columns},
                            getElementTypeOrSelf(op.getResult())),
      pixels, matrix, /*transpose_lhs=*/UnitAttr(),
      /*transpose_rhs=*/UnitAttr(), op.getAccumulateAttr(), op.getComputeAttr(),
      PackedAttr());
  SmallVector<int64_t> result = {shape[0]};
  llvm::append_range(result, shape.drop_front(2));
  result.push_back(columns);
  return emit.reshape(product, result);
}

/// Returns true if windows tile the output: each input pixel produces its own
/// block.
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

/// GEMM of pixels and filter, followed by a depth-to-space permutation.
Value decomposeBlockwise(OpEmitter &emit, ConvTransposeOp op) {
  ArrayRef<int64_t> image = shapeOf(op.getInput()),
                    filter = shapeOf(op.getFilter());
  int64_t rank = image.size(), spatial = rank - 2, out = filter[1];
  ArrayRef<int64_t> window = filter.drop_front(2);

  // [C, O, window...] -> [C, window..., O]
  Value matrix =
      emit.reshape(emit.transpose(op.getFilter(), orderWithChannelsLast(rank)),
                   {filter[0], productOf(window) * out});
  Value blocks = multiplyChannels(emit, op, op.getInput(), matrix);

  // [N, s..., window..., O] -> [N, s0, w0, s1, w1, ..., O], then back to
  // channels first.
  SmallVector<int64_t> split = {image[0]}, order = {0}, joined = {image[0]};
  llvm::append_range(split, image.drop_front(2));
  llvm::append_range(split, window);
  split.push_back(out);
  for (int64_t d = 0; d < spatial; ++d) {
    order.append({1 + d, 1 + spatial + d});
    joined.push_back(image[2 + d] * window[d]);
  }
  order.push_back(2 * spatial + 1);
  joined.push_back(out);
  Value placed = emit.transpose(emit.reshape(blocks, split), order);
  return emit.transpose(emit.reshape(placed, joined),
                        inversePermutation(orderWithChannelsLast(rank)));
}

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

/// Taps that output positions of one phase read along one dimension: output
/// stride * q + remainder is the sum over t of filter[last - t * filterStep] *
/// input[first + q + t * inputStep].
struct Phase {
  int64_t taps = 0, last = 0, filterStep = 1, first = 0, inputStep = 1;
};

/// One dimension of a transposed convolution.
struct PhasedDimension {
  int64_t in, out, stride;
  /// Phases of the output, indexed by remainder.
  SmallVector<Phase> phases;

  PhasedDimension(ConvTransposeOp op, int64_t d)
      : in(shapeOf(op.getInput())[2 + d]), out(shapeOf(op.getResult())[2 + d]),
        stride(op.getStrides()[d]) {
    int64_t window = shapeOf(op.getFilter())[2 + d],
            dilation = op.getDilations()[d], low = op.getPadLow()[d],
            common = std::gcd(stride, dilation);
    for (int64_t r = 0; r < std::min(stride, out); ++r) {
      Phase phase;
      phase.filterStep = stride / common;
      phase.inputStep = dilation / common;
      // Input index i meets filter index k at i * stride + k * dilation.
      for (int64_t k = 0; k < window; ++k) {
        int64_t distance = r + low - k * dilation;
        if (distance % stride != 0)
          continue;
        ++phase.taps;
        phase.last = k;
        phase.first = distance / stride;
      }
      phases.push_back(phase);
    }
  }

  /// Returns true if all phases but one are zero.
  bool hasOnePhase() const {
    return llvm::count_if(
               phases, [](const Phase &phase) { return phase.taps > 0; }) == 1;
  }
  /// Number of positions to compute for a phase. Several phases are
  /// interleaved, so each computes as many as the first; excess positions are
  /// cropped.
  int64_t count(int64_t remainder) const {
    int64_t first = hasOnePhase() ? remainder : 0;
    return (out - first + stride - 1) / stride;
  }
};

/// Emits a transposed convolution phase by phase.
class SubpixelConvolution {
public:
  SubpixelConvolution(OpEmitter &emit, ConvTransposeOp op, CastOp rounds)
      : emit(emit), op(op), rounds(rounds), chosen(op.getStrides().size()) {
    for (size_t d = 0; d < chosen.size(); ++d)
      dimensions.push_back(PhasedDimension(op, d));
  }

  Value value() {
    Value all = interleaved(0);
    return all ? all : zeros(shapeOf(op.getResult()));
  }

private:
  Value zeros(ArrayRef<int64_t> shape) {
    return emit.splat(shape, resultElement(), 0.0);
  }
  Type resultElement() {
    CastOp cast = rounds;
    return getElementTypeOrSelf(cast ? cast.getResult() : op.getResult());
  }

  /// Returns the result of the phases chosen for dimensions before `d`,
  /// interleaved along `d` and later dimensions; null for zeros.
  Value interleaved(size_t d) {
    if (d == dimensions.size())
      return chosenPhases();
    const PhasedDimension &dimension = dimensions[d];
    int64_t axis = 2 + static_cast<int64_t>(d);
    SmallVector<Value> parts;
    for (auto [remainder, phase] : llvm::enumerate(dimension.phases)) {
      chosen[d] = static_cast<int64_t>(remainder);
      parts.push_back(phase.taps > 0 ? interleaved(d + 1) : Value());
    }
    Value *found = llvm::find_if(parts, [](Value part) { return !!part; });
    if (found == parts.end())
      return {};
    SmallVector<int64_t> shape(shapeOf(*found));
    if (dimension.hasOnePhase()) {
      SmallVector<int64_t> low(shape.size(), 0), high(low), interior(low);
      low[axis] = found - parts.begin();
      interior[axis] = dimension.stride - 1;
      high[axis] = dimension.out - low[axis] -
                   ((shape[axis] - 1) * dimension.stride + 1);
      return emit.pad(*found, low, high, interior);
    }
    for (Value &part : parts)
      if (!part)
        part = zeros(shape);
    SmallVector<int64_t> apart = shape;
    apart.insert(apart.begin() + axis + 1, 1);
    for (Value &part : parts)
      part = emit.reshape(part, apart);
    shape[axis] *= static_cast<int64_t>(parts.size());
    return emit.sliceAxis(emit.reshape(emit.concat(parts, axis + 1), shape),
                          axis, 0, dimension.out);
  }

  /// Returns the result of the chosen phase.
  Value chosenPhases() {
    int64_t rank = 2 + static_cast<int64_t>(chosen.size());
    SmallVector<int64_t> offsets(rank, 0), sizes(shapeOf(op.getFilter())),
        steps(rank, 1), shape(shapeOf(op.getResult())), low(rank, 0), high(low),
        padLow, padHigh, dilations;
    for (auto [d, remainder] : llvm::enumerate(chosen)) {
      const PhasedDimension &dimension = dimensions[d];
      const Phase &phase = dimension.phases[remainder];
      offsets[2 + d] = phase.last - (phase.taps - 1) * phase.filterStep;
      sizes[2 + d] = phase.taps;
      steps[2 + d] = phase.filterStep;
      dilations.push_back(phase.inputStep);
      shape[2 + d] = dimension.count(remainder);
      int64_t reach = (phase.taps - 1) * phase.inputStep;
      int64_t before = -phase.first,
              after = shape[2 + d] + reach - dimension.in - before;
      // Negative padding or padding of at least the window size needs mpc.pad.
      padLow.push_back(std::clamp<int64_t>(before, 0, reach));
      padHigh.push_back(std::clamp<int64_t>(after, 0, reach));
      low[2 + d] = before - padLow.back();
      high[2 + d] = after - padHigh.back();
    }
    Value image =
        emit.pad(op.getInput(), low, high, SmallVector<int64_t>(rank, 0));
    Value part = emit.slice(op.getFilter(), offsets, sizes, steps);
    // A 1x1 sub-filter needs no padding.
    bool isProduct = op.getGroups() == 1 &&
                     productOf(ArrayRef<int64_t>(sizes).drop_front(2)) == 1;
    Value result =
        isProduct ? product(image, part)
                  : convolution(image, part, shape, padLow, padHigh, dilations);
    return rounds ? OpEmitter::castLike(emit.builder, rounds, result) : result;
  }

  Value product(Value image, Value filter) {
    Value matrix = emit.reshape(filter, shapeOf(filter).take_front(2));
    Value sums = multiplyChannels(emit, op, image, matrix);
    return emit.transpose(
        sums, inversePermutation(orderWithChannelsLast(shapeOf(sums).size())));
  }

  Value convolution(Value image, Value filter, ArrayRef<int64_t> shape,
                    ArrayRef<int64_t> padLow, ArrayRef<int64_t> padHigh,
                    ArrayRef<int64_t> dilations) {
    OpBuilder &b = emit.builder;
    return emit.create<ConvOp>(
        RankedTensorType::get(shape, getElementTypeOrSelf(op.getResult())),
        image, turned(filter),
        b.getDenseI64ArrayAttr(SmallVector<int64_t>(chosen.size(), 1)),
        b.getDenseI64ArrayAttr(padLow), b.getDenseI64ArrayAttr(padHigh),
        b.getDenseI64ArrayAttr(dilations), b.getI64IntegerAttr(op.getGroups()),
        ImageLayoutAttr::get(b.getContext(), ImageLayout::channels_first),
        DenseI64ArrayAttr(), op.getAccumulateAttr(), op.getComputeAttr(),
        PackedAttr(), IntegerAttr());
  }

  /// [G * C/G, O/G, window...] -> [G * O/G, C/G, window...] with the window
  /// reversed. The window is flattened, so one reverse suffices.
  Value turned(Value filter) {
    ArrayRef<int64_t> shape = shapeOf(filter), window = shape.drop_front(2);
    int64_t groups = op.getGroups(), in = shape[0] / groups;
    SmallVector<int64_t> joined = {groups * shape[1], in};
    llvm::append_range(joined, window);
    Value split =
        emit.reshape(filter, {groups, in, shape[1], productOf(window)});
    return emit.reshape(emit.reverse(emit.transpose(split, {0, 2, 1, 3}), {3}),
                        joined);
  }

  OpEmitter &emit;
  ConvTransposeOp op;
  /// Rounding applied to each phase, or null.
  CastOp rounds;
  SmallVector<PhasedDimension> dimensions;
  /// Chosen remainder per dimension.
  SmallVector<int64_t> chosen;
};

} // namespace

Value mpc::decomposeConvTranspose(ConvTransposeOp op) {
  OpBuilder builder(op);
  OpEmitter emit(builder, op);
  if (isBlockwise(op))
    return decomposeBlockwise(emit, op);
  // Phases are interleaved in the type that all readers round the accumulators
  // to.
  SmallVector<CastOp> casts;
  for (Operation *user : op->getUsers())
    if (auto cast = dyn_cast<CastOp>(user))
      casts.push_back(cast);
  bool rounds =
      !casts.empty() && isNarrowing(casts.front()) &&
      llvm::all_of(op->getUsers(), [&](Operation *user) {
        return isa<CastOp>(user) &&
               user->getAttrs() == casts.front()->getAttrs() &&
               user->getResultTypes() == casts.front()->getResultTypes();
      });
  Value value =
      SubpixelConvolution(emit, op, rounds ? casts.front() : CastOp()).value();
  if (!rounds)
    return value;
  for (CastOp cast : casts) {
    cast.getResult().replaceAllUsesWith(value);
    cast.erase();
  }
  return emit.cast(value, getElementTypeOrSelf(op.getResult()));
}
