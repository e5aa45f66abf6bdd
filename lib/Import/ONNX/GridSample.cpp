//===- GridSample.cpp - GridSample and AffineGrid operators ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "Sampling.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Maps [-1, 1] to positions.
static Value denormalize(NodeImport &n, SampleAxis &axis, Value x,
                         bool aligned) {
  Value shifted = n.op<AddOp>({x, axis.number(1)});
  if (aligned)
    return axis.scale(shifted, double(axis.extent - 1) / 2);
  Value scaled = axis.scale(shifted, double(axis.extent));
  return axis.scale(n.op<SubOp>({scaled, axis.number(1)}), 0.5);
}

/// Evaluates the cubic convolution kernel (a = -0.75) at distance |t| in [0, 1]
/// or [1, 2].
static Value cubicWeightAt(NodeImport &n, SampleAxis &axis, Value t,
                           bool near) {
  constexpr double a = -0.75;
  auto step = [&](Value value, double constant) {
    return n.op<AddOp>({n.op<MulOp>({value, t}), axis.number(constant)});
  };
  if (near) {
    // ((a + 2) t - (a + 3)) t^2 + 1
    Value inner = step(axis.number(a + 2), -(a + 3));
    return step(n.op<MulOp>({inner, t}), 1);
  }
  // ((a t - 5 a) t + 8 a) t - 4 a
  return step(step(step(axis.number(a), -5 * a), 8 * a), -4 * a);
}

/// Returns the taps along one dimension around the positions `x`.
static SmallVector<Tap> tapsAround(NodeImport &n, SampleAxis &axis, Value x,
                                   StringRef mode) {
  if (mode == "nearest")
    return {axis.at(x)};
  if (mode == "linear")
    return axis.linear(x);
  Value base = n.op<FloorOp>(x), ratio = n.op<SubOp>({x, base});
  Value rest = n.op<SubOp>({axis.number(1), ratio});
  auto beside = [&](Value near) {
    return cubicWeightAt(n, axis, n.op<AddOp>({near, axis.number(1)}), false);
  };
  return {axis.at(n.op<SubOp>({base, axis.number(1)}), beside(ratio)),
          axis.at(base, cubicWeightAt(n, axis, ratio, true)),
          axis.at(n.op<AddOp>({base, axis.number(1)}),
                  cubicWeightAt(n, axis, rest, true)),
          axis.at(n.op<AddOp>({base, axis.number(2)}), beside(rest))};
}

static LogicalResult convertGridSample(NodeImport &n) {
  Value x = n.in(0), grid = n.in(1);
  std::string mode =
      n.stringAttr("mode", n.version < 20 ? "bilinear" : "linear");
  mode = mode == "bilinear" ? "linear" : mode == "bicubic" ? "cubic" : mode;
  std::string paddingName = n.stringAttr("padding_mode", "zeros");
  bool aligned = n.flag("align_corners");
  if (n.failed())
    return failure();
  if (mode != "linear" && mode != "nearest" && mode != "cubic")
    return n.error() << "attribute 'mode' is '" << mode
                     << "', expected linear, nearest or cubic";
  if (paddingName != "zeros" && paddingName != "border" &&
      paddingName != "reflection")
    return n.error() << "attribute 'padding_mode' is '" << paddingName
                     << "', expected zeros, border or reflection";
  Padding padding = paddingName == "zeros"    ? Padding::Zeros
                    : paddingName == "border" ? Padding::Border
                                              : Padding::Reflection;
  int64_t spatial = n.rank(x) - 2;
  if (spatial < 1 || spatial > 3 || n.rank(grid) != n.rank(x) ||
      n.dim(grid, spatial + 1) != spatial || n.dim(grid, 0) != n.dim(x, 0) ||
      !n.isFloat(x) || !n.isFloat(grid) || elementCount(x) == 0)
    return n.error() << "input " << x.getType() << " and grid "
                     << grid.getType() << " do not fit";

  Type type = n.element(x);
  Type wide = type.isF64() ? type : Type(n.builder.getF32Type());
  int64_t batch = n.dim(x, 0), channels = n.dim(x, 1), points = 1, places = 1;
  SmallVector<int64_t> resultShape = {batch, channels};
  for (int64_t d = 0; d < spatial; ++d) {
    points *= n.dim(grid, d + 1);
    places *= n.dim(x, d + 2);
    resultShape.push_back(n.dim(grid, d + 1));
  }
  Value image = n.reshape(n.cast(x, wide), {batch, channels, places});
  Value coordinates =
      n.reshape(n.cast(grid, wide), {batch, 1, points, spatial});

  // Cartesian product of the taps over dimensions: flat index and weight.
  SmallVector<Tap> combined = {{nullptr, nullptr}};
  int64_t stride = places;
  for (int64_t d = 0; d < spatial && !n.failed(); ++d) {
    int64_t extent = n.dim(x, d + 2);
    stride /= extent;
    SampleAxis axis(n, extent, padding, wide, aligned);
    // The grid lists the last dimension first.
    Value normal = n.reshape(n.sliceAxis(coordinates, 3, spatial - 1 - d, 1),
                             {batch, 1, points});
    Value position = denormalize(n, axis, normal, aligned);
    if (mode == "nearest")
      position = n.op<RoundOp>(position);
    // Cubic taps are clamped individually, as in PyTorch and ONNX Runtime; more
    // than three positions outside all of them are the border.
    if (mode == "cubic" && padding == Padding::Border)
      position = n.op<ClampOp>(
          {position, axis.number(-3), axis.number(double(extent + 2))});
    else
      position = axis.mapIntoExtent(position);
    combined =
        combineTaps(n, combined, tapsAround(n, axis, position, mode), stride);
  }
  Value sum = sumOfTaps(n, image, combined);
  return n.result(n.cast(n.reshape(sum, resultShape), type));
}

/// Positions of an image under an affine map: one matmul with the image's
/// constant positions.
static LogicalResult convertAffineGrid(NodeImport &n) {
  Value theta = n.in(0);
  SmallVector<int64_t> size = n.constantIntValues(1, "size");
  bool aligned = n.flag("align_corners");
  if (n.failed())
    return failure();
  int64_t rank = int64_t(size.size()) - 2, places = 1;
  if (rank != 2 && rank != 3)
    return n.error() << "size has " << size.size()
                     << " entries, expected 4 or 5";
  SmallVector<int64_t> spatial(ArrayRef<int64_t>(size).drop_front(2));
  SmallVector<int64_t> wanted = {size[0], rank, rank + 1};
  if (n.shape(theta) != ArrayRef<int64_t>(wanted))
    return n.error() << "theta " << theta.getType() << " is not [" << size[0]
                     << ", " << rank << ", " << rank + 1 << "]";
  RankedTensorType grid = n.tensorType(spatial, n.element(theta));
  if (!grid)
    return failure();
  places = grid.getNumElements();
  // The image's last dimension is the first coordinate.
  SmallVector<double> positions;
  for (int64_t place = 0; place < places; ++place) {
    int64_t rest = place;
    for (int64_t d = rank; d-- > 0; rest /= spatial[d]) {
      auto at = double(rest % spatial[d]), extent = double(spatial[d]);
      positions.push_back(aligned
                              ? (extent > 1 ? 2 * at / (extent - 1) - 1 : -1)
                              : (2 * at + 1) / extent - 1);
    }
    positions.push_back(1);
  }
  Value image = n.dense({places, rank + 1}, positions, n.element(theta));
  Value mapped = n.matmulWide(n.broadcast(image, {size[0], places, rank + 1}),
                              theta, false, /*transposeRhs=*/true);
  SmallVector<int64_t> shape = {size[0]};
  shape.append(spatial);
  shape.push_back(rank);
  return n.result(n.narrow(n.reshape(mapped, shape), n.element(theta)));
}

OpFamily mpc::onnx::gridSampleOps() {
  static const OpEntry entries[] = {
      {"AffineGrid 20 2 align_corners", convertAffineGrid},
      {"GridSample 16,20,22 2 align_corners mode padding_mode",
       convertGridSample},
  };
  return entries;
}
