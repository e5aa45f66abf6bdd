//===- MpcShapes.cpp - shape rules shared by inference and verifiers ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared shape diagnostics.
//
//===----------------------------------------------------------------------===//

#include "MpcShapes.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::shapes;

/// Maximum window attribute value, so that window arithmetic fits int64.
static constexpr int64_t kLargestExtent = int64_t(1) << 40;

std::string mpc::shapes::toString(ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "[";
  llvm::interleaveComma(shape, os, [&](int64_t extent) {
    if (ShapedType::isDynamic(extent))
      os << "?";
    else
      os << extent;
  });
  os << "]";
  return text;
}

std::optional<Shape> mpc::shapes::broadcast(ArrayRef<int64_t> a,
                                            ArrayRef<int64_t> b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    int64_t &out = result[result.size() - 1 - i];
    if (x == y || y == 1)
      out = x;
    else if (x == 1)
      out = y;
    else if (ShapedType::isDynamic(x))
      out = y;
    else if (ShapedType::isDynamic(y))
      out = x;
    else
      return std::nullopt;
  }
  return result;
}

LogicalResult mpc::shapes::requireStatic(std::optional<Location> loc,
                                         StringRef op, ValueRange values) {
  for (Value value : values)
    if (!tensor(value).hasStaticShape())
      return fail(loc, op, "needs static shapes, found ", value.getType());
  return success();
}

LogicalResult mpc::shapes::requireAxis(std::optional<Location> loc,
                                       StringRef op, int64_t axis,
                                       int64_t rank) {
  if (axis < 0 || axis >= rank)
    return fail(loc, op, "axis ", axis, " is outside the rank ", rank);
  return success();
}

LogicalResult mpc::shapes::requireAxes(std::optional<Location> loc,
                                       StringRef op, ArrayRef<int64_t> axes,
                                       int64_t rank) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (failed(requireAxis(loc, op, axes[i], rank)))
      return failure();
    if (i > 0 && axes[i] <= axes[i - 1])
      return fail(loc, op, "axes ", toString(axes),
                  " must be ascending and unique");
  }
  return success();
}

LogicalResult mpc::shapes::requireSameElementType(std::optional<Location> loc,
                                                  StringRef op,
                                                  ValueRange values) {
  for (Value value : values)
    if (tensor(value).getElementType() !=
        tensor(values.front()).getElementType())
      return fail(loc, op, "needs one element type, found ",
                  tensor(values.front()).getElementType(), " and ",
                  tensor(value).getElementType());
  return success();
}

bool mpc::shapes::isSameOrWider(TypeRange inferred, TypeRange actual) {
  if (inferred.size() != actual.size())
    return false;
  for (auto [a, b] : llvm::zip_equal(inferred, actual)) {
    RankedTensorType x = dyn_cast<RankedTensorType>(a),
                     y = dyn_cast<RankedTensorType>(b);
    if (!x || !y || failed(verifyCompatibleShape(x, y)))
      return false;
    Type from = x.getElementType(), to = y.getElementType();
    if (from == to)
      continue;
    if (!isa<FloatType>(from) || !isa<FloatType>(to) ||
        from.getIntOrFloatBitWidth() >= to.getIntOrFloatBitWidth())
      return false;
  }
  return true;
}

FailureOr<Shape> mpc::shapes::slide(std::optional<Location> loc, StringRef op,
                                    ArrayRef<int64_t> spatial,
                                    const Window &window) {
  size_t rank = spatial.size();
  for (ArrayRef<int64_t> entries : {window.size, window.strides, window.padLow,
                                    window.padHigh, window.dilations}) {
    if (entries.size() != rank)
      return fail(loc, op, "needs ", rank,
                  " entries per window attribute, found ", toString(entries));
    for (int64_t entry : entries)
      if (entry > kLargestExtent || entry < -kLargestExtent)
        return fail(loc, op, "window entry ", entry, " is too large");
  }
  Shape result(rank);
  for (size_t i = 0; i < rank; ++i) {
    if (window.size[i] <= 0 || window.strides[i] <= 0 ||
        window.dilations[i] <= 0)
      return fail(loc, op,
                  "window, strides and dilations must be positive, found ",
                  window.size[i], ", ", window.strides[i], " and ",
                  window.dilations[i]);
    if (spatial[i] > kLargestExtent)
      return fail(loc, op, "extent ", spatial[i], " is too large");
    int64_t reach = 0;
    if (__builtin_mul_overflow(window.size[i] - 1, window.dilations[i],
                               &reach) ||
        reach > kLargestExtent)
      return fail(loc, op, "dilated window ", window.size[i], " x ",
                  window.dilations[i], " is too large");
    int64_t padded = spatial[i] + window.padLow[i] + window.padHigh[i];
    int64_t room = padded - reach - 1;
    if (room < 0)
      return fail(loc, op, "window of extent ", reach + 1,
                  " does not fit into padded extent ", padded,
                  " of spatial dimension ", i);
    int64_t steps = room / window.strides[i];
    if (window.ceilMode && room % window.strides[i] != 0 &&
        (steps + 1) * window.strides[i] < spatial[i] + window.padLow[i])
      ++steps;
    result[i] = steps + 1;
  }
  return result;
}

Image::Image(ArrayRef<int64_t> shape, ImageLayout layout)
    : batch(shape.front()) {
  if (layout == ImageLayout::channels_first) {
    channels = shape[1];
    spatial.assign(shape.begin() + 2, shape.end());
  } else {
    channels = shape.back();
    spatial.assign(shape.begin() + 1, shape.end() - 1);
  }
}

Shape Image::join(int64_t batch, int64_t channels, ArrayRef<int64_t> spatial,
                  ImageLayout layout) {
  Shape shape = {batch};
  if (layout == ImageLayout::channels_first)
    shape.push_back(channels);
  llvm::append_range(shape, spatial);
  if (layout == ImageLayout::channels_last)
    shape.push_back(channels);
  return shape;
}
