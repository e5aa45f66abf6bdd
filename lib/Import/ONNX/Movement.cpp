//===- Movement.cpp - data movement operators -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckedIndices.h"
#include "RecurrentSteps.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

static LogicalResult convertTranspose(NodeImport &n) {
  Value x = n.in(0);
  SmallVector<int64_t> reversed;
  for (int64_t d = n.rank(x) - 1; d >= 0; --d)
    reversed.push_back(d);
  return n.result(n.transpose(x, n.intsAttr("perm", reversed)));
}

/// After a change of the batch size, resizes model data that repeats one row
/// for each example (a class token, expanded by exporters) to the new batch.
/// Returns any other value unchanged.
static Value rebindRows(NodeImport &n, Value value) {
  int64_t from = n.importer.oldBatch, to = n.importer.newBatch;
  auto constant = value.getDefiningOp<ConstantOp>();
  if (from == to || !constant || n.rank(value) < 2 || n.dim(value, 0) != from)
    return value;
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementTypeBitWidth() % 8 != 0)
    return value;
  FailureOr<ConstantBytes> data = ConstantBytes::get(constant.getValue());
  if (failed(data))
    return value;
  ArrayRef<char> bytes = data->bytes(),
                 row = bytes.take_front(bytes.size() / size_t(from));
  for (int64_t i = 1; i < from; ++i)
    if (bytes.slice(size_t(i) * row.size(), row.size()) != row)
      return value;
  SmallVector<int64_t> shape(type.getShape());
  shape.front() = 1;
  // The row keeps the constant's name, by which training refers to it.
  auto name = dyn_cast<NameLoc>(constant.getLoc());
  OpBuilder builder(constant);
  auto single = ConstantOp::create(
      builder, constant.getLoc(),
      makeConstant(RankedTensorType::get(shape, type.getElementType()), row,
                   name ? name.getName().getValue() : "constant"));
  shape.front() = to;
  return n.broadcast(single.getResult(), shape);
}

static LogicalResult convertConcat(NodeImport &n) {
  SmallVector<Value> values = n.ins();
  if (n.failed())
    return failure();
  if (!n.hasAttr("axis"))
    return n.error() << "attribute 'axis' is missing";
  int64_t axis = n.axisAttr("axis", 0, n.rank(values.front()));
  if (axis != 0)
    for (Value &value : values)
      value = rebindRows(n, value);
  return n.result(n.concat(values, axis));
}

/// Returns the sizes of the parts: given, or `count` equal ones, the last of
/// which may be smaller.
static SmallVector<int64_t> splitSizes(NodeImport &n, int64_t extent,
                                       int64_t axis) {
  SmallVector<int64_t> sizes;
  int64_t count = int64_t(n.node.outputs.size());
  if (std::optional<SmallVector<int64_t>> given = n.attrOrInput("split", 1)) {
    sizes = *given;
  } else {
    if (n.hasAttr("num_outputs") && n.intAttr("num_outputs", 0) != count) {
      n.error() << "attribute 'num_outputs' is " << n.intAttr("num_outputs", 0)
                << ", but the node has " << count << " outputs";
      return {};
    }
    int64_t part = (extent + count - 1) / count;
    if (n.version < 18 && extent % count != 0 && !n.failed())
      n.error() << "dimension " << axis << " of extent " << extent
                << " does not split into " << count << " equal parts";
    for (int64_t i = 0, left = extent; i < count; ++i, left -= part)
      sizes.push_back(std::clamp<int64_t>(left, 0, part));
  }
  int64_t total = 0;
  bool negative = false;
  for (int64_t size : sizes) {
    negative |= size < 0 || size > extent;
    total += negative ? 0 : size;
  }
  if (!n.failed() &&
      (negative || total != extent || int64_t(sizes.size()) != count))
    n.error() << "its " << sizes.size() << " split sizes do not divide extent "
              << extent << " among " << count << " outputs";
  return sizes;
}

static LogicalResult convertSplit(NodeImport &n) {
  Value x = n.in(0);
  if (n.failed() || n.node.outputs.empty())
    return n.status();
  int64_t axis = n.axisAttr("axis", 0, n.rank(x));
  SmallVector<int64_t> sizes = splitSizes(n, n.dim(x, axis), axis);
  int64_t offset = 0;
  for (size_t i = 0; i < sizes.size() && !n.failed(); ++i) {
    n.set(i, n.sliceAxis(x, axis, offset, sizes[i]));
    offset += sizes[i];
  }
  return n.status();
}

static LogicalResult convertSlice(NodeImport &n) {
  Value x = n.in(0);
  SmallVector<int64_t> starts, ends, axes, steps;
  bool inputs = n.version >= 10;
  starts = inputs ? n.constantIntValues(1, "starts") : n.intsAttr("starts");
  ends = inputs ? n.constantIntValues(2, "ends") : n.intsAttr("ends");
  for (size_t i = 0; i < starts.size(); ++i)
    axes.push_back(int64_t(i));
  steps.assign(starts.size(), 1);
  if (inputs && n.has(3))
    axes = n.constantIntValues(3, "axes");
  else if (!inputs)
    axes = n.intsAttr("axes", axes);
  if (inputs && n.has(4))
    steps = n.constantIntValues(4, "steps");
  if (n.failed())
    return failure();
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size())
    return n.error() << "starts, ends, axes and steps have " << starts.size()
                     << ", " << ends.size() << ", " << axes.size() << " and "
                     << steps.size() << " entries";
  SmallVector<int64_t> offsets(n.rank(x), 0), sizes(n.shape(x)),
      strides(n.rank(x), 1), reversed;
  (void)n.axes(axes, n.rank(x));
  for (auto [start, end, given, step] :
       llvm::zip_equal(starts, ends, axes, steps)) {
    int64_t d = n.axis(given, n.rank(x));
    if (n.failed())
      return failure();
    if (step == 0 || step == std::numeric_limits<int64_t>::min())
      return n.error() << "step " << step << " is not allowed";
    int64_t extent = n.dim(x, d);
    int64_t from =
        start < 0 ? std::max<int64_t>(start, -extent - 1) + extent : start;
    int64_t to = end < 0 ? std::max<int64_t>(end, -extent - 1) + extent : end;
    if (step > 0) {
      from = std::clamp<int64_t>(from, 0, extent);
      to = std::clamp<int64_t>(to, 0, extent);
    } else {
      // Iterate over the reversed dimension forwards: position p becomes extent
      // - 1 - p.
      from = extent - 1 - std::clamp<int64_t>(from, -1, extent - 1);
      to = extent - 1 - std::clamp<int64_t>(to, -1, extent - 1);
      step = -step;
      reversed.push_back(d);
    }
    int64_t span = std::max<int64_t>(to - from, 0);
    int64_t size = span == 0 ? 0 : (span - 1) / step + 1;
    offsets[d] = size == 0 ? 0 : from;
    sizes[d] = size;
    // One element needs no stride; a huge stride would overflow the position.
    strides[d] = size <= 1 ? 1 : step;
  }
  llvm::sort(reversed);
  if (!reversed.empty())
    x = n.op<ReverseOp>(x, n.attr("axes", reversed));
  return n.result(n.slice(x, offsets, sizes, strides));
}

static LogicalResult convertPad(NodeImport &n) {
  Value x = n.in(0);
  bool inputs = n.version >= 11;
  SmallVector<int64_t> pads =
      inputs ? n.constantIntValues(1, "pads") : n.intsAttr("pads");
  SmallVector<int64_t> axes;
  for (int64_t d = 0; d < n.rank(x); ++d)
    axes.push_back(d);
  if (n.has(3)) {
    axes = n.constantIntValues(3, "axes");
    (void)n.axes(axes, n.rank(x));
  }
  std::string modeName = n.stringAttr("mode", "constant");
  std::optional<PadMode> mode = symbolizePadMode(modeName);
  if (n.failed())
    return failure();
  if (!mode)
    return n.error() << "attribute 'mode' is '" << modeName
                     << "', expected constant, reflect, edge or wrap";
  if (pads.size() != 2 * axes.size())
    return n.error() << "pads has " << pads.size() << " entries, expected "
                     << 2 * axes.size();
  SmallVector<int64_t> low(n.rank(x), 0), high(n.rank(x), 0);
  for (auto [i, given] : llvm::enumerate(axes)) {
    int64_t d = n.axis(given, n.rank(x));
    low[d] = pads[i];
    high[d] = pads[i + axes.size()];
    for (int64_t amount : {low[d], high[d]})
      if (amount < -n.dim(x, d) || amount > (int64_t(1) << 40))
        return n.error() << "pads has the entry " << amount << " for extent "
                         << n.dim(x, d);
  }
  Value fill;
  if (inputs && n.has(2))
    fill = n.in(2);
  else
    fill = n.scalar(inputs ? 0 : n.floatAttr("value", 0), n.element(x));
  if (!n.failed() && elementCount(fill) != 1)
    return n.error() << "constant_value is " << fill.getType()
                     << ", expected a scalar";
  return n.result(n.op<PadOp>(
      {x, n.reshape(fill, {})},
      {n.attr("low", low), n.attr("high", high),
       n.attr("mode", PadModeAttr::get(n.builder.getContext(), *mode))}));
}

static LogicalResult convertTile(NodeImport &n) {
  Value x = n.in(0);
  SmallVector<int64_t> repeats = n.constantIntValues(1, "repeats");
  if (n.failed())
    return failure();
  if (int64_t(repeats.size()) != n.rank(x))
    return n.error() << "repeats has " << repeats.size()
                     << " entries, expected " << n.rank(x);
  // Each extent d becomes [1, d], is broadcast to [r, d] and flattened.
  SmallVector<int64_t> split, wide, joined;
  for (auto [extent, repeat] : llvm::zip_equal(n.shape(x), repeats)) {
    int64_t total;
    if (repeat < 0 || __builtin_mul_overflow(extent, repeat, &total))
      return n.error() << "repeats has the entry " << repeat;
    split.append({1, extent});
    wide.append({repeat, extent});
    joined.push_back(total);
  }
  if (!n.tensorType(joined, n.element(x)))
    return failure();
  return n.result(n.reshape(n.broadcast(n.reshape(x, split), wide), joined));
}

/// Checks the input of DepthToSpace or SpaceToDepth; returns the block size, 0
/// on failure.
static int64_t blockSize(NodeImport &n, Value x) {
  int64_t block = n.intAttr("blocksize", 0);
  if (n.failed())
    return 0;
  if (n.rank(x) == 4 && block > 0 && block < (int64_t(1) << 20))
    return block;
  n.error() << "input " << x.getType() << " with blocksize " << block
            << " is not supported";
  return 0;
}

static LogicalResult convertDepthToSpace(NodeImport &n) {
  Value x = n.in(0);
  int64_t block = blockSize(n, x);
  std::string mode = n.stringAttr("mode", "DCR");
  if (n.failed())
    return failure();
  if (mode != "DCR" && mode != "CRD")
    return n.error() << "attribute 'mode' is '" << mode
                     << "', expected DCR or CRD";
  int64_t batch = n.dim(x, 0), channels = n.dim(x, 1), rows = n.dim(x, 2),
          columns = n.dim(x, 3);
  if (channels % (block * block) != 0)
    return n.error() << "its " << channels
                     << " channels are no multiple of blocksize squared";
  int64_t depth = channels / (block * block);
  Value moved =
      mode == "DCR"
          ? n.transpose(
                n.reshape(x, {batch, block, block, depth, rows, columns}),
                {0, 3, 4, 1, 5, 2})
          : n.transpose(
                n.reshape(x, {batch, depth, block, block, rows, columns}),
                {0, 1, 4, 2, 5, 3});
  return n.result(
      n.reshape(moved, {batch, depth, rows * block, columns * block}));
}

static LogicalResult convertSpaceToDepth(NodeImport &n) {
  Value x = n.in(0);
  int64_t block = blockSize(n, x);
  if (n.failed())
    return failure();
  int64_t batch = n.dim(x, 0), channels = n.dim(x, 1), rows = n.dim(x, 2),
          columns = n.dim(x, 3);
  if (rows % block != 0 || columns % block != 0)
    return n.error() << "input " << x.getType()
                     << " does not divide into blocks of " << block;
  Value split = n.reshape(
      x, {batch, channels, rows / block, block, columns / block, block});
  Value moved = n.transpose(split, {0, 3, 5, 1, 2, 4});
  return n.result(n.reshape(
      moved, {batch, channels * block * block, rows / block, columns / block}));
}

static LogicalResult convertReverseSequence(NodeImport &n) {
  int64_t rank = n.rank(n.in(0));
  int64_t time = n.axisAttr("time_axis", 0, rank),
          batch = n.axisAttr("batch_axis", 1, rank);
  if (n.failed())
    return failure();
  Value lengths = checkedLengths(n, 1, "sequence_lens", n.dim(n.in(0), time),
                                 "the input's steps");
  return n.result(reverseSequence(n, n.in(0), lengths, time, batch));
}

/// Crops or pads around the center, with the odd element at the end.
static LogicalResult convertCenterCropPad(NodeImport &n) {
  Value x = n.in(0);
  SmallVector<int64_t> target = n.constantIntValues(1, "shape"), axes;
  for (int64_t d = 0; d < n.rank(x); ++d)
    axes.push_back(d);
  axes = n.intsAttr("axes", axes);
  if (n.failed())
    return failure();
  (void)n.axes(axes, n.rank(x));
  if (target.size() != axes.size())
    return n.error() << "shape has " << target.size() << " entries, expected "
                     << axes.size();
  SmallVector<int64_t> low(n.rank(x), 0), high(n.rank(x), 0);
  for (auto [given, wanted] : llvm::zip_equal(axes, target)) {
    int64_t d = n.axis(given, n.rank(x));
    if (n.failed())
      return failure();
    if (wanted < 0 || wanted > (int64_t(1) << 40))
      return n.error() << "shape has the entry " << wanted;
    int64_t missing = wanted - n.dim(x, d);
    low[d] = missing >= 0 ? missing / 2 : -(-missing / 2);
    high[d] = missing - low[d];
  }
  return n.result(n.pad(x, low, high, 0));
}

OpFamily mpc::onnx::movementOps() {
  static const OpEntry entries[] = {
      {"CenterCropPad 18 2 axes", convertCenterCropPad},
      {"Concat 4,11,13 1+ axis", convertConcat},
      {"DepthToSpace 1,11,13 1 blocksize mode", convertDepthToSpace},
      {"Pad 2,11,13,18,19,21,23,24,25 1-4 mode pads value", convertPad},
      {"ReverseSequence 10 2 batch_axis time_axis", convertReverseSequence},
      {"Slice 1,10,11,13 1-5 axes ends starts", convertSlice},
      {"SpaceToDepth 1,13 1 blocksize", convertSpaceToDepth},
      {"Split 2,11,13,18 1-2 axis num_outputs split", convertSplit},
      {"Tile 6,13 2", convertTile},
      {"Transpose 1,13,21,23,24,25 1 perm", convertTranspose},
  };
  return entries;
}
