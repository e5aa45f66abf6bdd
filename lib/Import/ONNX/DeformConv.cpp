//===- DeformConv.cpp - deformable convolution ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each element of the window samples the image at an offset position (Dai et
// al., 2017), times a mask (Zhu et al., 2019); the sampled columns (im2col) are
// multiplied by the filters.
//
//===----------------------------------------------------------------------===//

#include "Sampling.h"
#include "WindowAttributes.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

namespace {

/// Extents of one node.
struct DeformShape {
  int64_t batch, channels, features, groups, offsetGroups;
  int64_t window = 1, places = 1, samples = 1; ///< products of extents
  Window rule;
  SmallVector<int64_t> spatial, result; ///< image and result extents
};

} // namespace

/// Returns a shape with `lead` before the result's spatial extents.
static SmallVector<int64_t> before(ArrayRef<int64_t> lead,
                                   const DeformShape &shape) {
  SmallVector<int64_t> extents(lead);
  extents.append(shape.result);
  return extents;
}

static FailureOr<DeformShape> readShape(NodeImport &n, Value x, Value filter,
                                        Value offset) {
  DeformShape shape;
  shape.groups = n.intAttr("group", 1);
  shape.offsetGroups = n.intAttr("offset_group", 1);
  if (n.failed())
    return failure();
  int64_t rank = n.rank(x) - 2;
  if (rank < 1 || rank > 3 || n.rank(filter) != rank + 2 ||
      n.rank(offset) != rank + 2 || !n.isFloat(x) || elementCount(x) == 0)
    return n.error() << "input " << x.getType() << ", filter "
                     << filter.getType() << " and offset " << offset.getType()
                     << " are no images of 1 to 3 dimensions with elements";
  SmallVector<int64_t> kernel(n.shape(filter).drop_front(2));
  if (n.intsAttr("kernel_shape", kernel) != kernel && !n.failed())
    return n.error() << "attribute 'kernel_shape' differs from the filter's "
                        "window in "
                     << filter.getType();
  shape.spatial.assign(n.shape(x).drop_front(2).begin(), n.shape(x).end());
  shape.rule = readWindow(n, kernel, shape.spatial);
  if (n.failed())
    return failure();
  for (int64_t d = 0; d < rank; ++d) {
    int64_t room = shape.spatial[d] + shape.rule.low[d] + shape.rule.high[d] -
                   shape.rule.reach(d);
    if (room < 0)
      return n.error() << "a window of " << shape.rule.reach(d)
                       << " does not fit an image of " << shape.spatial[d];
    shape.result.push_back(room / shape.rule.strides[d] + 1);
    shape.window *= kernel[d];
    shape.places *= shape.spatial[d];
  }
  shape.batch = n.dim(x, 0);
  shape.channels = n.dim(x, 1);
  shape.features = n.dim(filter, 0);
  if (shape.groups < 1 || shape.offsetGroups < 1 ||
      n.dim(filter, 1) * shape.groups != shape.channels ||
      shape.features % shape.groups != 0 ||
      shape.channels % shape.offsetGroups != 0)
    return n.error() << shape.channels << " channels and filter "
                     << filter.getType() << " do not split into "
                     << shape.groups << " groups, or not into "
                     << shape.offsetGroups << " groups of offsets";
  SmallVector<int64_t> expected =
      before({shape.batch, shape.offsetGroups * shape.window * rank}, shape);
  if (n.shape(offset) != ArrayRef<int64_t>(expected)) {
    InFlightDiagnostic diagnostic = n.error() << "offset " << offset.getType()
                                              << ", expected the extents ";
    llvm::interleaveComma(expected, diagnostic);
    return diagnostic;
  }
  // The size of the offsets bounds the extents and thereby the tables.
  for (int64_t extent : shape.result)
    shape.samples *= extent;
  if (shape.window * shape.samples > (int64_t(1) << 24))
    return n.error() << shape.samples << " windows of " << shape.window
                     << " elements are too many: at most 16777216 elements are "
                        "supported";
  return shape;
}

/// Returns coordinate `d` of every window element before adding offsets, as [1,
/// 1, window * samples].
static Value placesOfWindow(NodeImport &n, const DeformShape &shape, int64_t d,
                            Type type) {
  SmallVector<double> places;
  for (int64_t tap = 0; tap < shape.window; ++tap) {
    for (int64_t sample = 0; sample < shape.samples; ++sample) {
      int64_t inWindow = tap, inResult = sample;
      for (int64_t k = shape.rule.rank() - 1; k > d; --k) {
        inWindow /= shape.rule.kernel[k];
        inResult /= shape.result[k];
      }
      inWindow %= shape.rule.kernel[d];
      inResult %= shape.result[d];
      places.push_back(double(inResult * shape.rule.strides[d] -
                              shape.rule.low[d] +
                              inWindow * shape.rule.dilations[d]));
    }
  }
  return n.dense({1, 1, shape.window * shape.samples}, places, type);
}

/// Returns the sampled columns: [batch, channels, window * samples].
static Value sampledColumns(NodeImport &n, const DeformShape &shape, Value x,
                            Value offset, Type wide) {
  int64_t rank = shape.rule.rank(), lead = shape.batch * shape.offsetGroups,
          each = shape.window * shape.samples;
  Value image =
      n.reshape(n.cast(x, wide),
                {lead, shape.channels / shape.offsetGroups, shape.places});
  Value moved = n.reshape(n.cast(offset, wide),
                          {lead, shape.window, rank, shape.samples});
  SmallVector<Tap> taps = {{nullptr, nullptr}};
  int64_t stride = shape.places;
  for (int64_t d = 0; d < rank; ++d) {
    stride /= shape.spatial[d];
    SampleAxis axis(n, shape.spatial[d], Padding::Zeros, wide);
    Value along = n.reshape(n.sliceAxis(moved, 2, d, 1), {lead, 1, each});
    Value position = n.op<AddOp>({along, placesOfWindow(n, shape, d, wide)});
    taps = combineTaps(n, taps, axis.linear(position), stride);
  }
  Value columns = sumOfTaps(n, image, taps);
  if (n.has(4)) {
    Value mask = n.in(4);
    SmallVector<int64_t> expected =
        before({shape.batch, shape.offsetGroups * shape.window}, shape);
    if (!n.failed() && n.shape(mask) != ArrayRef<int64_t>(expected)) {
      n.error() << "mask " << mask.getType() << " has not one element for "
                << shape.offsetGroups << " times " << shape.window
                << " offsets of each result";
      return nullptr;
    }
    columns =
        n.op<MulOp>({columns, n.reshape(n.cast(mask, wide), {lead, 1, each})});
  }
  return columns;
}

static LogicalResult convertDeformConv(NodeImport &n) {
  Value x = n.in(0), filter = n.in(1), offset = n.in(2);
  FailureOr<DeformShape> read = readShape(n, x, filter, offset);
  if (failed(read))
    return failure();
  const DeformShape &shape = *read;
  Type type = n.element(x);
  Type wide = type.isF64() ? type : Type(n.builder.getF32Type());
  if (!n.tensorType({shape.batch, shape.channels, shape.window, shape.samples},
                    wide))
    return failure();
  int64_t depth = shape.channels / shape.groups * shape.window;
  Value columns =
      n.reshape(n.cast(sampledColumns(n, shape, x, offset, wide), type),
                {shape.batch, shape.groups, depth, shape.samples});
  Value rows = n.reshape(
      filter, {1, shape.groups, shape.features / shape.groups, depth});
  Value y = n.reshape(n.matmulWide(rows, columns),
                      {shape.batch, shape.features, shape.samples});
  if (n.has(3)) {
    Value bias = n.in(3);
    if (!n.failed() && elementCount(bias) != shape.features)
      return n.error() << "bias " << bias.getType() << " does not have "
                       << shape.features << " elements";
    y = n.op<AddOp>(
        {y, n.reshape(n.cast(bias, n.element(y)), {1, shape.features, 1})});
  }
  return n.result(n.narrow(
      n.reshape(y, before({shape.batch, shape.features}, shape)), type));
}

OpFamily mpc::onnx::deformConvOps() {
  static const OpEntry entries[] = {
      {"DeformConv 19,22 3-5 dilations group kernel_shape offset_group pads "
       "strides",
       convertDeformConv},
  };
  return entries;
}
