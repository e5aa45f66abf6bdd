//===- GridSample.cpp - sampling at computed positions -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every result position names a place between the input's elements; its value
// is a weighted sum of the elements around. Each of these taps is one gather
// over the flattened image, its index and weight computed by elementwise ops.
//
//===----------------------------------------------------------------------===//

#include "NodeImport.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

namespace {

enum class Padding { Zeros, Border, Reflection };

/// Arithmetic on positions of one spatial dimension.
class Axis {
public:
  Axis(NodeImport &n, int64_t extent, bool aligned, Padding padding, Type type)
      : n(n), type(type), extent(extent), padding(padding), aligned(aligned),
        low(aligned ? 0.0 : -0.5), high(double(extent) - (aligned ? 1 : 0.5)) {}

  /// From [-1, 1] to positions.
  Value denormalize(Value x) {
    Value shifted = n.op<AddOp>({x, number(1)});
    if (aligned)
      return scale(shifted, double(extent - 1) / 2);
    Value scaled = scale(shifted, double(extent));
    return scale(n.op<SubOp>({scaled, number(1)}), 0.5);
  }

  /// Brings positions beyond the borders back, unless they read zeros.
  Value bringInside(Value x) {
    if (padding == Padding::Zeros)
      return x;
    if (padding == Padding::Reflection)
      return reflect(x);
    Value outside =
        n.op<OrOp>({n.compare(ComparePredicate::lt, x, number(low)),
                    n.compare(ComparePredicate::gt, x, number(high))});
    return n.select(outside, clamp(x), x);
  }

  /// The element at whole positions `x` as an i64 index, always inside.
  Value index(Value x) {
    if (padding == Padding::Reflection)
      x = reflect(x);
    return n.cast(clamp(x), n.builder.getI64Type());
  }

  /// 1 where a whole position is inside, 0 elsewhere; null where padding is not
  /// zeros.
  Value weightInside(Value x) {
    if (padding != Padding::Zeros)
      return nullptr;
    Value inside = n.op<AndOp>(
        {n.compare(ComparePredicate::ge, x, number(0)),
         n.compare(ComparePredicate::le, x, number(double(extent - 1)))});
    return n.cast(inside, type);
  }

  Value number(double value) { return n.scalar(value, type); }
  Value scale(Value x, double factor) {
    return n.op<MulOp>({x, number(factor)});
  }

private:
  Value clamp(Value x) {
    return n.op<ClampOp>({x, number(0), number(double(extent - 1))});
  }

  /// Mirrors at both borders: a triangle wave of period 2 * (high - low).
  Value reflect(Value x) {
    double range = high - low;
    if (range <= 0)
      return n.op<MaxOp>({n.op<MinOp>({x, number(low)}), number(low)});
    Value distance = n.op<AbsOp>(n.op<SubOp>({x, number(low)}));
    Value turned = n.op<RemOp>({distance, number(2 * range)});
    Value back = n.op<SubOp>({number(2 * range), turned});
    return n.op<AddOp>({n.op<MinOp>({turned, back}), number(low)});
  }

  NodeImport &n;
  Type type;
  int64_t extent;
  Padding padding;
  bool aligned;
  double low, high;
};

/// One tap along one dimension: an index, and its weight (null means 1).
struct Tap {
  Value index, weight;
};

} // namespace

/// The cubic convolution kernel (a = -0.75) at distance |t| in [0, 1] or [1,
/// 2].
static Value cubicWeight(NodeImport &n, Axis &axis, Value t, bool near) {
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

/// The taps along one dimension around the positions `x`.
static SmallVector<Tap> tapsAround(NodeImport &n, Axis &axis, Value x,
                                   StringRef mode) {
  SmallVector<Tap> taps;
  auto add = [&](Value position, Value weight) {
    Value inside = axis.weightInside(position);
    if (inside)
      weight = weight ? n.op<MulOp>({weight, inside}) : inside;
    taps.push_back({axis.index(position), weight});
  };
  if (mode == "nearest") {
    add(x, nullptr);
    return taps;
  }
  Value base = n.op<FloorOp>(x), ratio = n.op<SubOp>({x, base});
  Value rest = n.op<SubOp>({axis.number(1), ratio});
  Value next = n.op<AddOp>({base, axis.number(1)});
  if (mode == "linear") {
    add(base, rest);
    add(next, ratio);
    return taps;
  }
  add(n.op<SubOp>({base, axis.number(1)}),
      cubicWeight(n, axis, n.op<AddOp>({ratio, axis.number(1)}), false));
  add(base, cubicWeight(n, axis, ratio, true));
  add(next, cubicWeight(n, axis, rest, true));
  add(n.op<AddOp>({base, axis.number(2)}),
      cubicWeight(n, axis, n.op<AddOp>({rest, axis.number(1)}), false));
  return taps;
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

  // All combinations of taps, dimension by dimension: flat index and weight.
  SmallVector<Tap> combined = {{nullptr, nullptr}};
  int64_t stride = places;
  for (int64_t d = 0; d < spatial && !n.failed(); ++d) {
    int64_t extent = n.dim(x, d + 2);
    stride /= extent;
    Axis axis(n, extent, aligned, padding, wide);
    // The grid names the last dimension first.
    Value normal = n.reshape(n.sliceAxis(coordinates, 3, spatial - 1 - d, 1),
                             {batch, 1, points});
    Value position = axis.denormalize(normal);
    if (mode == "nearest")
      position = n.op<RoundOp>(position);
    position = axis.bringInside(position);
    SmallVector<Tap> taps = tapsAround(n, axis, position, mode), next;
    for (const Tap &before : combined) {
      for (const Tap &tap : taps) {
        Value index = tap.index;
        if (stride != 1)
          index = n.op<MulOp>(
              {index, n.scalar(double(stride), n.builder.getI64Type())});
        if (before.index)
          index = n.op<AddOp>({before.index, index});
        Value weight = !before.weight ? tap.weight
                       : !tap.weight ? before.weight
                                     : n.op<MulOp>({before.weight, tap.weight});
        next.push_back({index, weight});
      }
    }
    combined = std::move(next);
  }
  Value sum;
  for (const Tap &tap : combined) {
    Value index = n.broadcast(tap.index, {batch, channels, points});
    Value part =
        n.op<GatherElementsOp>({image, index}, n.attr("axis", int64_t(2)));
    if (tap.weight)
      part = n.op<MulOp>({part, tap.weight});
    sum = sum ? n.op<AddOp>({sum, part}) : part;
  }
  return n.result(n.cast(n.reshape(sum, resultShape), type));
}

/// The positions of an image under an affine map: one product with the constant
/// positions of the image itself.
static LogicalResult convertAffineGrid(NodeImport &n) {
  Value theta = n.in(0);
  SmallVector<int64_t> size = n.knownInts(1, "size");
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
  // The last dimension of the image is the first coordinate.
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
