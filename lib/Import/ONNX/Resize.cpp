//===- Resize.cpp - Resize and Upsample operators -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Separable resampling: along each axis, every result position is a weighted
// sum of a few input positions known at import. Few taps become gathers and
// multiplications, many (antialiased shrinking) a matmul.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "NodeImport.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

namespace {

/// Input positions and weights of one result position.
struct Taps {
  SmallVector<int64_t, 4> positions;
  SmallVector<double, 4> weights;
  bool outside = false; ///< uses the extrapolation value
};

/// Resampling of one axis.
struct AxisRule {
  int64_t in = 0, out = 0;
  double scale = 1;
  double roiStart = 0, roiEnd = 1;
  /// Exact length, of which `out` is the integer part.
  double length = 0;
};

struct ResizeRule {
  std::string mode, coordinates, nearest;
  double cubicA = -0.75, extrapolation = 0;
  bool excludeOutside = false, antialias = false;
  /// Before opset 11: the nearest position is rounded up if an axis shrinks,
  /// else down.
  bool isSimple = false;
};

} // namespace

/// Returns the input coordinate of result position `x`.
static double sourceCoordinate(const ResizeRule &rule, const AxisRule &axis,
                               int64_t x) {
  double in = double(axis.in), scale = axis.scale, out = axis.length;
  const std::string &mode = rule.coordinates;
  // Divide in f32, the type of the scales, so that whole quotients are exact.
  if (rule.isSimple)
    return double(float(x) / float(scale));
  if (mode == "asymmetric")
    return double(x) / scale;
  if (mode == "align_corners")
    return out == 1 ? 0 : double(x) * (in - 1) / (out - 1);
  if (mode == "pytorch_half_pixel")
    return out > 1 ? (double(x) + 0.5) / scale - 0.5 : 0;
  if (mode == "tf_half_pixel_for_nn")
    return (double(x) + 0.5) / scale;
  if (mode == "tf_crop_and_resize") {
    double start = axis.roiStart, end = axis.roiEnd;
    return out != 1 ? start * (in - 1) +
                          double(x) * (end - start) * (in - 1) / (out - 1)
                    : 0.5 * (start + end) * (in - 1);
  }
  double half = (double(x) + 0.5) / scale - 0.5;
  if (mode == "half_pixel_symmetric")
    return in / 2 * (1 - double(axis.out) / out) + half;
  return half;
}

static double cubicWeight(double x, double a) {
  x = std::fabs(x);
  if (x <= 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2)
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

static Taps tapsAt(const ResizeRule &rule, const AxisRule &axis, int64_t x) {
  Taps taps;
  double source = sourceCoordinate(rule, axis, x);
  if (!std::isfinite(source))
    source = 0;
  if (rule.coordinates == "tf_crop_and_resize" &&
      (source < 0 || source > double(axis.in - 1))) {
    taps.outside = true;
    taps.positions = {0};
    taps.weights = {1};
    return taps;
  }
  source = std::clamp(source, -double(axis.in) - 4, 2 * double(axis.in) + 4);
  double base = std::floor(source), ratio = source - base;
  auto clamped = [&](double position) {
    return int64_t(std::clamp(position, 0.0, double(axis.in - 1)));
  };
  if (rule.mode == "nearest") {
    bool up = rule.isSimple             ? axis.scale < 1 && ratio > 0
              : rule.nearest == "ceil"  ? ratio > 0
              : rule.nearest == "floor" ? false
              : rule.nearest == "round_prefer_ceil" ? ratio >= 0.5
                                                    : ratio > 0.5;
    taps.positions = {clamped(up ? base + 1 : base)};
    taps.weights = {1};
    return taps;
  }
  bool cubic = rule.mode == "cubic";
  double shrink = rule.antialias ? std::min(axis.scale, 1.0) : 1.0;
  int64_t reach = int64_t(std::ceil((cubic ? 2 : 1) / shrink));
  double total = 0;
  for (int64_t i = 1 - reach; i <= reach; ++i) {
    double position = base + double(i), distance = (double(i) - ratio) * shrink;
    double weight = cubic ? cubicWeight(distance, rule.cubicA)
                          : std::max(0.0, 1 - std::fabs(distance));
    if (rule.excludeOutside && (position < 0 || position > double(axis.in - 1)))
      weight = 0;
    taps.positions.push_back(clamped(position));
    taps.weights.push_back(weight);
    total += weight;
  }
  if (total != 0 && (rule.excludeOutside || rule.antialias))
    for (double &weight : taps.weights)
      weight /= total;
  return taps;
}

/// Resamples dimension `d` of `x`.
static Value resample(NodeImport &n, Value x, int64_t d, const ResizeRule &rule,
                      const AxisRule &axis) {
  // An unscaled axis is unchanged in every coordinate mode.
  bool whole = axis.roiStart == 0 && axis.roiEnd == 1;
  if (axis.in == axis.out && axis.scale == 1 && whole)
    return x;
  std::vector<Taps> taps;
  bool identity = axis.in == axis.out;
  for (int64_t i = 0; i < axis.out; ++i) {
    taps.push_back(tapsAt(rule, axis, i));
    const Taps &last = taps.back();
    for (auto [position, weight] :
         llvm::zip_equal(last.positions, last.weights))
      identity &= weight == 0 || (position == i && weight == 1);
    identity &= !last.outside;
  }
  if (identity || n.failed())
    return x;
  int64_t rank = n.rank(x);
  Type type = n.element(x);
  size_t count = taps.empty() ? 1 : taps.front().positions.size();
  for (const Taps &tap : taps)
    count = std::max(count, tap.positions.size());
  SmallVector<int64_t> weightShape(rank, 1);
  weightShape[d] = axis.out;
  Value y;
  if (count <= 4) {
    for (size_t k = 0; k < count; ++k) {
      SmallVector<int64_t> positions;
      SmallVector<double> weights;
      for (const Taps &tap : taps) {
        positions.push_back(k < tap.positions.size() ? tap.positions[k] : 0);
        weights.push_back(k < tap.weights.size() ? tap.weights[k] : 0);
      }
      Value part = n.gather(x, n.ints(positions), d);
      if (rule.mode != "nearest")
        part = n.op<MulOp>({part, n.dense(weightShape, weights, type)});
      y = y ? n.op<AddOp>({y, part}) : part;
    }
  } else {
    SmallVector<double> matrix(size_t(axis.in * axis.out), 0);
    for (auto [i, tap] : llvm::enumerate(taps))
      for (auto [position, weight] :
           llvm::zip_equal(tap.positions, tap.weights))
        matrix[position * axis.out + int64_t(i)] += weight;
    SmallVector<int64_t> last;
    for (int64_t i = 0; i < rank; ++i)
      last.push_back(i);
    std::swap(last[d], last[rank - 1]);
    Value moved = n.transpose(x, last);
    SmallVector<int64_t> shape(n.shape(moved));
    int64_t rows = 1;
    for (int64_t extent : ArrayRef<int64_t>(shape).drop_back())
      rows *= extent;
    shape.back() = axis.out;
    Value product = n.matmulWide(n.reshape(moved, {rows, axis.in}),
                                 n.dense({axis.in, axis.out}, matrix, type));
    y = n.transpose(n.reshape(n.narrow(product, type), shape), last);
  }
  if (llvm::any_of(taps, [](const Taps &tap) { return tap.outside; })) {
    SmallVector<int64_t> outside;
    for (const Taps &tap : taps)
      outside.push_back(tap.outside);
    y = n.select(n.booleans(weightShape, outside),
                 n.scalar(rule.extrapolation, type), y);
  }
  return y;
}

/// Resamples all axes; floats of up to 32 bits in f32, others in f64, since an
/// f32 sum on the other side of a half would round to another integer. Integers
/// are rounded to nearest, as in ONNX's reference evaluator.
static LogicalResult resampleAll(NodeImport &n, const ResizeRule &rule,
                                 ArrayRef<AxisRule> axes) {
  Value x = n.in(0);
  Type type = n.element(x);
  SmallVector<int64_t> shape;
  for (const AxisRule &axis : axes) {
    if (axis.out < 0 || (axis.out > 0 && axis.in == 0))
      return n.error() << "an extent of " << axis.in << " cannot become "
                       << axis.out;
    shape.push_back(axis.out);
  }
  if (!n.tensorType(shape, type))
    return failure();
  // The position tables are built at import: limit them like other folding.
  for (int64_t extent : shape)
    if (extent > (int64_t(1) << 22))
      return n.error() << "an extent of " << extent
                       << " is too large to resample";
  bool moves = rule.mode == "nearest";
  bool isWide = !isa<FloatType>(type) || type.isF64();
  Type wide = isWide ? n.builder.getF64Type() : n.builder.getF32Type();
  Value y = moves ? x : n.cast(x, wide);
  for (auto [d, axis] : llvm::enumerate(axes))
    y = resample(n, y, int64_t(d), rule, axis);
  if (!moves && !isa<FloatType>(type))
    y = n.op<RoundOp>(y);
  return n.result(n.cast(y, type));
}

/// Limit of scales and sizes, to prevent overflows.
static constexpr int64_t kMostScale = int64_t(1) << 40;

/// Checks that `value` is a valid scale or size of a result; 0 is valid for an
/// empty axis.
static bool checkScale(NodeImport &n, StringRef name, double value,
                       bool isEmpty) {
  // NaN fails too.
  if ((value > 0 && value < double(kMostScale)) || (isEmpty && value == 0))
    return true;
  InFlightDiagnostic error = n.error() << name << " has the entry ";
  if (std::abs(value) < 1e18 && value == std::trunc(value))
    error << int64_t(value);
  else
    error << value;
  error << ", expected a positive number below 2^40";
  return false;
}

/// Sets the scale of an axis. Computed in f32, the type of the scales, as shape
/// inference does: 0.9 of 10 is 9.
static void setScale(AxisRule &axis, double scale) {
  axis.scale = scale;
  axis.length = double(float(axis.in) * float(scale));
  axis.out = int64_t(std::min(std::floor(axis.length), double(kMostScale)));
}

/// Reads the scaled axes and their scales, from `scales` or `sizes`.
static SmallVector<AxisRule> readAxes(NodeImport &n, Value x,
                                      size_t scalesInput) {
  SmallVector<int64_t> axes;
  for (int64_t d = 0; d < n.rank(x); ++d)
    axes.push_back(d);
  axes = n.intsAttr("axes", axes);
  (void)n.axes(axes, n.rank(x));
  SmallVector<AxisRule> rules;
  for (int64_t extent : n.shape(x))
    rules.push_back({extent, extent, 1, 0, 1, double(extent)});
  bool sized = n.has(3);
  if (n.failed())
    return rules;
  SmallVector<double> values =
      sized                ? n.constantFloatValues(3, "sizes")
      : n.has(scalesInput) ? n.constantFloatValues(scalesInput, "scales")
                           : SmallVector<double>();
  if (n.failed())
    return rules;
  if (values.size() != axes.size()) {
    n.error() << (sized ? "sizes" : "scales") << " has " << values.size()
              << " entries, expected " << axes.size();
    return rules;
  }
  std::string policy = n.stringAttr("keep_aspect_ratio_policy", "stretch");
  double common = 0;
  for (auto [given, value] : llvm::zip_equal(axes, values)) {
    AxisRule &rule = rules[n.axis(given, n.rank(x))];
    if (!checkScale(n, sized ? "sizes" : "scales", value,
                    /*isEmpty=*/sized && rule.in == 0))
      return rules;
    if (value == 0)
      continue;
    if (sized) {
      rule.scale = value / double(rule.in);
      rule.length = value;
      rule.out = int64_t(value);
    } else {
      setScale(rule, value);
    }
    if (common == 0)
      common = rule.scale;
    common = policy == "not_larger" ? std::min(common, rule.scale)
                                    : std::max(common, rule.scale);
  }
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
    n.error() << "attribute 'keep_aspect_ratio_policy' is '" << policy
              << "', expected stretch, not_larger or not_smaller";
  if (policy != "stretch" && sized && !n.failed()) {
    for (int64_t given : axes) {
      AxisRule &rule = rules[n.axis(given, n.rank(x))];
      rule.scale = common;
      rule.length = common * double(rule.in);
      rule.out = int64_t(std::floor(rule.length + 0.5));
    }
  }
  if (n.stringAttr("coordinate_transformation_mode", "") ==
      "tf_crop_and_resize") {
    SmallVector<double> roi =
        n.has(1) ? n.constantFloatValues(1, "roi") : SmallVector<double>();
    if (!n.failed() && roi.size() != 2 * axes.size()) {
      n.error() << "roi has " << roi.size() << " entries, expected "
                << 2 * axes.size();
      return rules;
    }
    for (auto [i, given] : llvm::enumerate(axes)) {
      if (n.failed())
        break;
      AxisRule &rule = rules[n.axis(given, n.rank(x))];
      rule.roiStart = roi[i];
      rule.roiEnd = roi[i + axes.size()];
    }
  }
  return rules;
}

/// Returns attribute `name`, checking that it is one of `allowed`.
static std::string choice(NodeImport &n, StringRef name, StringRef fallback,
                          ArrayRef<StringRef> allowed) {
  std::string value = n.stringAttr(name, fallback);
  if (!llvm::is_contained(allowed, value) && !n.failed())
    n.error() << "attribute '" << name << "' is '" << value
              << "', which is not supported";
  return value;
}

static LogicalResult convertResize(NodeImport &n) {
  Value x = n.in(0);
  ResizeRule rule;
  rule.mode = choice(n, "mode", "nearest", {"nearest", "linear", "cubic"});
  bool old = n.version < 11;
  rule.coordinates = choice(
      n, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel",
      {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
       "align_corners", "asymmetric", "tf_half_pixel_for_nn",
       "tf_crop_and_resize"});
  rule.nearest =
      choice(n, "nearest_mode", "round_prefer_floor",
             {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  rule.cubicA = n.floatAttr("cubic_coeff_a", -0.75);
  rule.extrapolation = n.floatAttr("extrapolation_value", 0);
  rule.excludeOutside = n.flag("exclude_outside");
  rule.antialias = n.flag("antialias") && rule.mode != "nearest";
  rule.isSimple = old && rule.mode == "nearest";
  SmallVector<AxisRule> axes = readAxes(n, x, old ? 1 : 2);
  return n.failed() ? failure() : resampleAll(n, rule, axes);
}

static LogicalResult convertUpsample(NodeImport &n) {
  Value x = n.in(0);
  ResizeRule rule;
  rule.mode = choice(n, "mode", "nearest", {"nearest", "linear"});
  rule.coordinates = "asymmetric";
  rule.isSimple = rule.mode == "nearest";
  SmallVector<double> scales = n.version >= 9
                                   ? n.constantFloatValues(1, "scales")
                                   : n.floatsAttr("scales");
  if (n.failed())
    return failure();
  if (int64_t(scales.size()) != n.rank(x))
    return n.error() << "scales has " << scales.size() << " entries, expected "
                     << n.rank(x);
  SmallVector<AxisRule> axes;
  for (auto [extent, scale] : llvm::zip_equal(n.shape(x), scales)) {
    if (!checkScale(n, "scales", scale, /*isEmpty=*/false))
      return failure();
    setScale(axes.emplace_back(AxisRule{extent}), scale);
  }
  return resampleAll(n, rule, axes);
}

OpFamily mpc::onnx::resizeOps() {
  static const OpEntry entries[] = {
      {"Resize 10,11,13,18,19 1-4 antialias axes "
       "coordinate_transformation_mode cubic_coeff_a exclude_outside "
       "extrapolation_value keep_aspect_ratio_policy mode nearest_mode",
       convertResize},
      {"Upsample 7,9,10 1-2 mode scales", convertUpsample},
  };
  return entries;
}
