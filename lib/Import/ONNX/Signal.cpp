//===- Signal.cpp - DFT, STFT and mel weight operators --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A Fourier transform of fixed length is a matmul with a constant matrix: real
// and imaginary parts are adjacent, so that one real matmul suffices.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"

#include "NodeImport.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Maximum length: for longer transforms a DFT matmul is too slow.
static constexpr int64_t kMaxLength = 4096;

namespace {

/// A transform of vectors with `parts` components per element (1: real, 2:
/// complex).
struct Transform {
  int64_t length = 0;
  int64_t parts = 1;
  bool inverse = false, oneSided = false;

  /// True for a one-sided spectrum to real numbers.
  bool isToReal() const { return inverse && oneSided; }
  int64_t inputs() const { return isToReal() ? length / 2 + 1 : length; }
  int64_t outputs() const {
    return oneSided && !inverse ? length / 2 + 1 : length;
  }
  int64_t outputParts() const { return isToReal() ? 1 : 2; }

  /// Returns the DFT matrix [inputs * parts, outputs * outputParts], row-major.
  SmallVector<double> matrix() const;
};

} // namespace

SmallVector<double> Transform::matrix() const {
  static constexpr double kPi = 3.14159265358979323846;
  SmallVector<double> values;
  values.reserve(size_t(inputs() * parts * outputs() * outputParts()));
  for (int64_t from = 0; from < inputs(); ++from) {
    // The omitted half of the spectrum is the complex conjugate: double the
    // weight.
    bool mirrored = isToReal() && from != 0 && 2 * from != length;
    double weight = (inverse ? 1.0 / double(length) : 1.0) * (mirrored ? 2 : 1);
    for (int64_t part = 0; part < parts; ++part)
      for (int64_t to = 0; to < outputs(); ++to) {
        double angle = 2 * kPi * double(from * to % length) / double(length);
        double cosine = weight * std::cos(angle);
        double sine = (inverse ? weight : -weight) * std::sin(angle);
        values.push_back(part == 0 ? cosine : -sine);
        if (outputParts() == 2)
          values.push_back(part == 0 ? sine : cosine);
      }
  }
  return values;
}

/// Transforms `x`, whose last dimension is the parts, along `axis`.
static Value transform(NodeImport &n, Value x, int64_t axis,
                       const Transform &t) {
  if (n.failed())
    return nullptr;
  if (t.length < 1 || t.length > kMaxLength) {
    n.error() << "the length of the transform is " << t.length
              << ", expected 1 to " << kMaxLength;
    return nullptr;
  }
  Type type = n.element(x), wide = n.wideType(type);
  int64_t rank = n.rank(x), extent = n.dim(x, axis);
  if (extent > t.inputs()) {
    x = n.sliceAxis(x, axis, 0, t.inputs());
  } else if (extent < t.inputs()) {
    SmallVector<int64_t> low(rank, 0), high(rank, 0);
    high[axis] = t.inputs() - extent;
    x = n.pad(x, low, high, 0);
  }
  // Permutation that moves the axis next to the parts, and its inverse.
  SmallVector<int64_t> there, back(rank);
  for (int64_t d = 0; d < rank - 1; ++d)
    if (d != axis)
      there.push_back(d);
  there.append({axis, rank - 1});
  for (auto [to, from] : llvm::enumerate(there))
    back[from] = int64_t(to);
  x = n.transpose(x, there);
  if (n.failed())
    return nullptr;
  SmallVector<int64_t> shape(n.shape(x).drop_back(2));
  int64_t lines = 1;
  for (int64_t each : shape)
    lines *= each;
  int64_t columns = t.inputs() * t.parts;
  Value matrix =
      n.dense({columns, t.outputs() * t.outputParts()}, t.matrix(), wide);
  Value product =
      n.matmulWide(n.cast(n.reshape(x, {lines, columns}), wide), matrix);
  shape.append({t.outputs(), t.outputParts()});
  return n.narrow(n.transpose(n.reshape(product, shape), back), type);
}

/// Returns true if the last dimension of `x` has one or two parts.
static bool checkParts(NodeImport &n, Value x) {
  if (n.failed())
    return false;
  int64_t parts = n.rank(x) < 2 ? 0 : n.dim(x, n.rank(x) - 1);
  if (n.isFloat(x) && (parts == 1 || parts == 2))
    return true;
  n.error() << "input " << x.getType()
            << " is no tensor of floats whose last dimension has 1 or 2 parts";
  return false;
}

static LogicalResult convertDft(NodeImport &n) {
  Value x = n.in(0);
  if (!checkParts(n, x))
    return failure();
  int64_t rank = n.rank(x);
  int64_t axis = n.version < 20 ? n.intAttr("axis", 1)
                                : n.knownInt(2, "axis", /*fallback=*/-2);
  axis = n.axis(axis, rank);
  Transform t;
  t.parts = n.dim(x, rank - 1);
  t.inverse = n.flag("inverse");
  t.oneSided = n.flag("onesided");
  int64_t whole = t.isToReal() ? 2 * (n.dim(x, axis) - 1) : n.dim(x, axis);
  t.length = n.knownInt(1, "dft_length", whole);
  if (n.failed())
    return failure();
  if (axis == rank - 1)
    return n.error() << "axis " << axis << " holds the parts of a number";
  return n.result(transform(n, x, axis, t));
}

static LogicalResult convertStft(NodeImport &n) {
  Value x = n.in(0);
  int64_t step = n.knownInt(1, "frame_step");
  Value window = n.has(2) ? n.in(2) : Value();
  if (!checkParts(n, x))
    return failure();
  if (n.rank(x) != 3 || (window && n.rank(window) != 1))
    return n.error() << "signal " << x.getType()
                     << " or its window has a wrong number of dimensions";
  int64_t samples = n.dim(x, 1);
  int64_t length =
      n.knownInt(3, "frame_length", window ? n.dim(window, 0) : samples);
  if (n.failed())
    return failure();
  if (step < 1 || length < 1 || length > samples ||
      (window && n.dim(window, 0) != length))
    return n.error() << "frames of " << length << " samples every " << step
                     << " do not fit a signal of " << samples
                     << " samples and its window";
  int64_t frames = 1 + (samples - length) / step;
  SmallVector<int64_t> places;
  for (int64_t frame = 0; frame < frames; ++frame)
    for (int64_t i = 0; i < length; ++i)
      places.push_back(frame * step + i);
  Value cut = n.gather(x, n.ints(places, {frames, length}), 1);
  if (window)
    cut = n.op<MulOp>({cut, n.reshape(window, {length, 1})});
  Transform t;
  t.length = length;
  t.parts = n.dim(x, 2);
  t.oneSided = n.flag("onesided", true);
  return n.result(transform(n, cut, 2, t));
}

static LogicalResult convertMelWeightMatrix(NodeImport &n) {
  int64_t bins = n.knownInt(0, "num_mel_bins"),
          length = n.knownInt(1, "dft_length"),
          rate = n.knownInt(2, "sample_rate");
  SmallVector<double> lower = n.constantFloatValues(3, "lower_edge_hertz"),
                      upper = n.constantFloatValues(4, "upper_edge_hertz");
  int64_t dataType = n.intAttr("output_datatype", kFloat);
  if (n.failed())
    return failure();
  Type type = elementTypeOf(int32_t(dataType), n.builder.getContext());
  if (!isa_and_nonnull<FloatType>(type))
    return n.error() << "attribute 'output_datatype' is "
                     << dataTypeName(int32_t(dataType))
                     << ", expected a float type";
  int64_t spectrum = length / 2 + 1;
  if (bins < 1 || bins > (1 << 16) || length < 1 || length > (1 << 16) ||
      rate < 1 || lower.size() != 1 || upper.size() != 1)
    return n.error() << bins << " bins of a transform of length " << length
                     << " at rate " << rate << " make no matrix";
  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  double low = mel(lower.front());
  double step = (mel(upper.front()) - low) / double(bins + 2);
  SmallVector<int64_t> edges;
  for (int64_t i = 0; i < bins + 2; ++i) {
    double hertz = 700 * (std::pow(10.0, (low + double(i) * step) / 2595) - 1);
    double edge = std::floor(double(length + 1) * hertz / double(rate));
    if (!(edge >= 0 && edge < double(spectrum)))
      return n.error() << "an edge of " << hertz
                       << " Hz lies outside of the spectrum at rate " << rate;
    edges.push_back(int64_t(edge));
  }
  SmallVector<double> values(size_t(spectrum * bins), 0);
  for (int64_t bin = 0; bin < bins; ++bin) {
    int64_t left = edges[bin], middle = edges[bin + 1], right = edges[bin + 2];
    auto at = [&](int64_t row) -> double & { return values[row * bins + bin]; };
    if (left == middle)
      at(middle) = 1;
    for (int64_t row = left; left < middle && row <= middle; ++row)
      at(row) = double(row - left) / double(middle - left);
    for (int64_t row = middle; row < right; ++row)
      at(row) = double(right - row) / double(right - middle);
  }
  return n.result(n.dense({spectrum, bins}, values, type));
}

OpFamily mpc::onnx::signalOps() {
  static const OpEntry entries[] = {
      {"DFT 17,20 1-3 axis inverse onesided", convertDft},
      {"MelWeightMatrix 17 5 output_datatype", convertMelWeightMatrix},
      {"STFT 17 2-4 onesided", convertStft},
  };
  return entries;
}
