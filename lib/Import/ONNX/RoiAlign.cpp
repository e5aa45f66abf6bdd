//===- RoiAlign.cpp - RoiAlign operator -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each bin of a region is the mean or maximum of bilinear samples on a grid (He
// et al., Mask R-CNN, 2017).
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"

#include "Sampling.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

namespace {

/// Attributes and extents of a node.
struct RoiRule {
  int64_t regions = 0, ratio = 0;
  double scale = 1, shift = 0; ///< of coordinates
  bool atLeastOne = false; ///< regions have an extent of at least one element
  bool maximum = false;
};

/// Samples along one dimension of all regions.
struct RoiAxis {
  int64_t bins = 1, grid = 1; ///< maximum samples per bin over the regions
  Value position;             ///< [regions, bins, grid]
  /// Samples per bin of each region as a float [regions, 1, 1], and a mask of
  /// those among `grid`; null if all regions have `grid`.
  Value count, counts;
};

} // namespace

/// Computes samples along the dimension whose first and last coordinates are
/// the columns `first` and `first` + 2 of `rois`. Null positions after an
/// error.
static RoiAxis sampleAxis(NodeImport &n, const RoiRule &rule, Value rois,
                          int64_t first, int64_t bins) {
  RoiAxis axis;
  axis.bins = bins;
  Type type = n.element(rois);
  auto number = [&](double value) { return n.scalar(value, type); };
  auto edge = [&](int64_t column) {
    Value edge =
        n.reshape(n.sliceAxis(rois, 1, column, 1), {rule.regions, 1, 1});
    return n.op<SubOp>(
        {n.op<MulOp>({edge, number(rule.scale)}), number(rule.shift)});
  };
  Value start = edge(first), extent = n.op<SubOp>({edge(first + 2), start});
  if (rule.atLeastOne)
    extent = n.op<MaxOp>({extent, number(1)});
  Value bin = n.op<DivOp>({extent, number(double(bins))});
  axis.grid = rule.ratio;
  Value grid = number(double(rule.ratio));
  if (rule.ratio == 0) {
    std::shared_ptr<const reference::Tensor> known = n.known(bin);
    if (n.failed())
      return axis;
    if (!known) {
      (void)n.constantFloatValues(1, "rois, where 'sampling_ratio' is 0,");
      return axis;
    }
    double most = 1;
    SmallVector<double> grids;
    for (double size : known->floats()) {
      grids.push_back(std::max(0.0, std::ceil(size)));
      most = std::max(most, grids.back());
    }
    if (!(most <= 4096)) {
      n.error() << "a region has " << most
                << " samples along a bin, at most 4096 are supported";
      return axis;
    }
    axis.grid = int64_t(most);
    axis.count = n.dense({rule.regions, 1, 1}, grids, type);
    // An empty region has no samples.
    grid = n.op<MaxOp>({axis.count, number(1)});
    axis.counts = n.compare(ComparePredicate::lt, n.iota(axis.grid, 2, 3, type),
                            axis.count);
  }
  Value inBin = n.op<DivOp>(
      {n.op<MulOp>(
           {n.op<AddOp>({n.iota(axis.grid, 2, 3, type), number(0.5)}), bin}),
       grid});
  Value binStart =
      n.op<AddOp>({start, n.op<MulOp>({n.iota(bins, 1, 3, type), bin})});
  axis.position = n.op<AddOp>({binStart, inBin});
  return axis;
}

/// Reads the attributes and checks the inputs' shapes.
static RoiRule readRule(NodeImport &n, Value x, Value rois, Value batches) {
  RoiRule rule;
  std::string mode = n.stringAttr("mode", "avg");
  std::string coordinates =
      n.stringAttr("coordinate_transformation_mode",
                   n.version < 16 ? "output_half_pixel" : "half_pixel");
  rule.ratio = n.intAttr("sampling_ratio", 0);
  rule.scale = n.floatAttr("spatial_scale", 1);
  if (n.failed())
    return rule;
  rule.regions = n.dim(rois, 0);
  rule.maximum = mode == "max";
  rule.atLeastOne = coordinates == "output_half_pixel";
  rule.shift = rule.atLeastOne ? 0 : 0.5;
  if (mode != "avg" && mode != "max")
    n.error() << "attribute 'mode' is '" << mode << "', expected avg or max";
  else if (!rule.atLeastOne && coordinates != "half_pixel")
    n.error() << "attribute 'coordinate_transformation_mode' is '"
              << coordinates << "', expected half_pixel or output_half_pixel";
  else if (rule.ratio < 0 || rule.ratio > 4096)
    n.error() << "attribute 'sampling_ratio' is " << rule.ratio
              << ", expected 0 to 4096";
  else if (n.rank(x) != 4 || n.rank(rois) != 2 || n.dim(rois, 1) != 4 ||
           n.rank(batches) != 1 || n.dim(batches, 0) != rule.regions ||
           !n.isFloat(x) || !n.isFloat(rois) || elementCount(x) == 0)
    n.error() << "input " << x.getType() << ", rois " << rois.getType()
              << " and batch indices " << batches.getType()
              << " are not an image, [regions, 4] and [regions]";
  return rule;
}

static LogicalResult convertRoiAlign(NodeImport &n) {
  Value x = n.in(0), rois = n.in(1), batches = n.in(2);
  RoiRule rule = readRule(n, x, rois, batches);
  int64_t bins[2] = {n.intAttr("output_height", 1),
                     n.intAttr("output_width", 1)};
  if (n.failed())
    return failure();
  for (int64_t count : bins)
    if (count < 1 || count > (1 << 16))
      return n.error() << "a region is cut into " << count
                       << " bins, expected 1 to 65536";
  Type type = n.element(x);
  Type wide = type.isF64() ? type : Type(n.builder.getF32Type());
  Type i64 = n.builder.getI64Type();
  rois = n.cast(rois, wide);
  int64_t channels = n.dim(x, 1), regions = rule.regions,
          places = n.dim(x, 2) * n.dim(x, 3);
  // Coordinates are in the order x, y.
  RoiAxis axes[2] = {sampleAxis(n, rule, rois, 1, bins[0]),
                     sampleAxis(n, rule, rois, 0, bins[1])};
  if (n.failed())
    return failure();
  // [regions, bins y, grid y, bins x, grid x]
  SmallVector<int64_t> all = {regions, bins[0], axes[0].grid, bins[1],
                              axes[1].grid};
  SmallVector<int64_t> flat = {regions, all[1] * all[2] * all[3] * all[4]};
  if (!n.tensorType({flat[0], flat[1], channels}, wide))
    return failure();
  auto overBoth = [&](Value value, int64_t d) {
    SmallVector<int64_t> shape = {n.dim(value, 0), 1, 1, 1, 1};
    shape[1 + 2 * d] = n.dim(value, 1);
    shape[2 + 2 * d] = n.dim(value, 2);
    return n.reshape(value, shape);
  };
  SmallVector<Tap> taps = {{nullptr, nullptr}};
  Value inside;
  for (int64_t d : {0, 1}) {
    SampleAxis axis(n, n.dim(x, 2 + d), Padding::Border, wide);
    Value position = axes[d].position;
    // Samples more than one element outside count as zeros.
    Value near =
        n.op<AndOp>({n.compare(ComparePredicate::ge, position, axis.number(-1)),
                     n.compare(ComparePredicate::le, position,
                               axis.number(double(axis.extent)))});
    if (axes[d].counts)
      near = n.op<AndOp>({near, axes[d].counts});
    near = overBoth(near, d);
    inside = inside ? n.op<AndOp>({inside, near}) : near;
    SmallVector<Tap> along = axis.linear(axis.mapIntoExtent(position));
    for (Tap &tap : along)
      tap = {overBoth(tap.index, d), overBoth(tap.weight, d)};
    taps = combineTaps(n, taps, along, d == 0 ? n.dim(x, 3) : 1);
  }
  // Channels last, so that a sample is one gather of a row.
  Value image = n.reshape(n.transpose(n.cast(x, wide), {0, 2, 3, 1}),
                          {n.dim(x, 0) * places, channels});
  Value first = n.op<MulOp>({n.cast(batches, i64), n.ints({places}, {})});
  first = n.reshape(first, {regions, 1, 1, 1, 1});
  Value pooled;
  for (const Tap &tap : taps) {
    Value index = n.broadcast(n.op<AddOp>({tap.index, first}), all);
    Value weight = n.op<MulOp>({tap.weight, n.cast(inside, wide)});
    Value part = n.op<MulOp>(
        {n.gather(image, n.reshape(index, flat), 0),
         n.reshape(n.broadcast(weight, all), {flat[0], flat[1], 1})});
    // Max mode takes the maximum over the four weighted neighbors.
    pooled = !pooled        ? part
             : rule.maximum ? n.op<MaxOp>({pooled, part})
                            : n.op<AddOp>({pooled, part});
  }
  SmallVector<int64_t> apart = all;
  apart.push_back(channels);
  pooled = n.reshape(pooled, apart);
  Value count;
  if (axes[0].count)
    count = n.reshape(n.op<MulOp>({axes[0].count, axes[1].count}),
                      {regions, 1, 1, 1});
  Value zero = n.scalar(0, wide), y = pooled;
  if (rule.maximum) {
    // Samples that a region does not have never are the maximum.
    for (int64_t d : {0, 1}) {
      if (!axes[d].counts)
        continue;
      SmallVector<int64_t> shape(n.shape(overBoth(axes[d].counts, d)));
      shape.push_back(1);
      y = n.select(n.reshape(axes[d].counts, shape), y,
                   n.scalar(-INFINITY, wide));
    }
    y = n.reduce<ReduceMaxOp>(y, {2, 4}, /*keepDims=*/false);
    if (count)
      y = n.select(n.compare(ComparePredicate::eq, count, zero), zero, y);
  } else {
    y = n.reduce<ReduceSumOp>(y, {2, 4}, /*keepDims=*/false);
    Value samples = count ? n.op<MaxOp>({count, n.scalar(1, wide)})
                          : n.scalar(double(axes[0].grid * axes[1].grid), wide);
    y = n.op<DivOp>({y, samples});
  }
  return n.result(n.cast(n.transpose(y, {0, 3, 1, 2}), type));
}

OpFamily mpc::onnx::roiAlignOps() {
  static const OpEntry entries[] = {
      {"RoiAlign 10,16,22 3 coordinate_transformation_mode mode output_height "
       "output_width sampling_ratio spatial_scale",
       convertRoiAlign},
  };
  return entries;
}
