//===- FilterProductTests.cpp - filter gradients as GEMMs -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FilterTesting.h"
#include "HostKernelTesting.h"

#include "Target/CUDA/Convolution/FilterGradientProblem.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

using namespace mpc;
using namespace mpc::cuda;

namespace {
/// A convolution whose filter's gradient is wanted.
struct Filter {
  int64_t batch, height, width, channels, outputs;
  std::array<int64_t, 2> window = {3, 3}, stride = {1, 1}, low = {1, 1},
                         high = {1, 1}, dilation = {1, 1};
  bool channelsLast = true, bias = false;
  /// Of the operands, the image before it is narrowed, what is stored.
  std::string type = "bf16", image{}, result = "f32", compute{};

  std::string text() const;
};
} // namespace

static std::string tensor(llvm::ArrayRef<int64_t> shape,
                          const std::string &type) {
  std::string text = "tensor<";
  for (int64_t extent : shape)
    text += std::to_string(extent) + "x";
  return text + type + ">";
}

std::string Filter::text() const {
  std::array<int64_t, 2> in = {height, width}, out;
  for (int i = 0; i < 2; ++i)
    out[i] = (in[i] + low[i] + high[i] - dilation[i] * (window[i] - 1) - 1) /
                 stride[i] +
             1;
  auto shape = [&](std::array<int64_t, 2> extents, int64_t extent) {
    std::vector<int64_t> all = {batch, extents[0], extents[1]};
    all.insert(all.begin() + (channelsLast ? 3 : 1), extent);
    return all;
  };
  std::string from = image.empty() ? type : image, body, x = "x", g = "g";
  auto cast = [&](const std::string &name, const std::string &value,
                  llvm::ArrayRef<int64_t> extents, const std::string &source,
                  const std::string &to) {
    body += "  %" + name + " = mpc.cast %" + value + " : " +
            tensor(extents, source) + " to " + tensor(extents, to) + "\n";
    return name;
  };
  if (from != type)
    x = cast("n", "x", shape(in, channels), from, type);
  std::vector<int64_t> filter = {outputs, channels, window[0], window[1]};
  std::string signature = "%x: " + tensor(shape(in, channels), from) +
                          ", %g: " + tensor(shape(out, outputs), type);
  body += llvm::formatv(
      "  %f = mpc.conv_filter_gradient %{0}, %g strides([{1}, {2}]) "
      "pad([{3}, {4}], [{5}, {6}]) dilations([{7}, {8}]) {9} {10} : "
      "({11}, {12}) -> {13}\n",
      x, stride[0], stride[1], low[0], low[1], high[0], high[1], dilation[0],
      dilation[1], channelsLast ? "layout(channels_last)" : "", compute,
      tensor(shape(in, channels), type), tensor(shape(out, outputs), type),
      tensor(filter, "f32"));
  std::string results = "%f", types = tensor(filter, result);
  if (result != "f32")
    results = "%" + cast("rf", "f", filter, "f32", result);
  if (bias) {
    if (type != "f32")
      g = cast("w", "g", shape(out, outputs), type, "f32");
    body += "  %b = mpc.reduce_sum %" + g + " axes([" +
            (channelsLast ? "0, 1, 2" : "0, 2, 3") +
            "]) : " + tensor(shape(out, outputs), "f32") + " -> " +
            tensor({outputs}, "f32") + "\n";
    results += result != "f32"
                   ? ", %" + cast("rb", "b", {outputs}, "f32", result)
                   : std::string(", %b");
    types += ", " + tensor({outputs}, result);
  }
  return "func.func private @k(" + signature + ") -> (" + types +
         ") attributes {mpc.kernel_kind = \"library\"} {\n" + body +
         "  return " + results + " : " + types + "\n}\n";
}

static CudaKernelCheck filter(const char *target = "sm_80") {
  CudaKernelCheck check;
  check.target = cudaTarget(target);
  check.family = "filter";
  return check;
}

static void addProduct(CudaKernelBatch &batch, const Filter &shape,
                       const CudaKernelCheck &check) {
  std::string text = withForm(shape.text(), FilterForm::Product, check.target);
  ASSERT_NE(text, "") << shape.text();
  batch.add(text, check);
}

// Odd extents, one to five images, channels of every width, windows that reach
// over each side or stop before it, apart and dilated, in every type; sums of
// the gradient with every other one.
TEST(FilterProduct, EdgeShapes) {
  const Filter shapes[] = {
      {1, 5, 7, 1, 1},
      {2, 9, 6, 3, 7},
      {3, 7, 9, 8, 16, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
      {4, 6, 5, 32, 33, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
      {5, 11, 10, 12, 40, {3, 2}, {1, 2}, {2, 0}, {0, 1}, {2, 1}},
      {1, 13, 13, 32, 8, {5, 5}, {3, 3}, {2, 2}, {2, 2}},
      {2, 8, 8, 64, 24, {2, 2}, {2, 2}, {0, 0}, {0, 0}},
      {3, 1, 17, 4, 9, {1, 4}, {1, 1}, {0, 3}, {0, 3}, {1, 2}},
      // Positions that the image's edge cuts off, without any pad.
      {2, 10, 10, 8, 8, {3, 3}, {2, 2}, {0, 0}, {0, 0}},
      {1, 3, 3, 16, 16, {3, 3}, {1, 1}, {0, 0}, {0, 0}},
  };
  CudaKernelBatch batch;
  int count = 0;
  for (auto [type, compute] :
       {std::pair("f16", ""), std::pair("bf16", ""), std::pair("f32", ""),
        std::pair("f32", "compute(tf32)")})
    for (Filter shape : shapes) {
      shape.type = type;
      shape.compute = compute;
      shape.bias = ++count % 2;
      // Every type in either layout.
      shape.channelsLast = count / 2 % 3 != 0;
      CudaKernelCheck check = filter(count % 7 ? "sm_80" : "sm_75");
      if (count % 3)
        check.orders = {ThreadOrder::Shuffled};
      addProduct(batch, shape, check);
    }
  batch.expect();
}

// The image is downcast while tiles are loaded, and the result when stored.
TEST(FilterProduct, Casts) {
  CudaKernelBatch batch;
  for (int64_t channels : {1, 3, 8})
    for (const char *type : {"f16", "bf16"}) {
      Filter shape{2, 7, 9, channels, 12};
      shape.type = type;
      shape.image = "f32";
      shape.bias = channels != 3;
      shape.result = channels == 8 ? "f32" : type;
      shape.channelsLast = channels != 3;
      addProduct(batch, shape, filter());
    }
  batch.expect();
}

// Positions that are rounded up so that blocks have equal shares: nothing is
// added for those that do not exist, and counters are clear for the next run.
TEST(FilterProduct, Splits) {
  CudaKernelBatch batch;
  for (const char *type : {"bf16", "f32"})
    for (bool channelsLast : {true, false}) {
      Filter shape{5, 15, 15, 8, 24};
      shape.type = type;
      shape.compute = channelsLast ? "compute(tf32)" : "";
      shape.channelsLast = channelsLast;
      shape.bias = true;
      CudaKernelCheck check = filter();
      ParsedGemm parsed(shape.text(), check.target);
      ASSERT_TRUE(parsed.problem);
      EXPECT_EQ(parsed.problem->k, 1152);
      GemmTiles tiles = GemmTiles::choose(*parsed.problem, check.target);
      EXPECT_GT(tiles.splits, 1);
      EXPECT_EQ(1152 / tiles.k % tiles.splits, 0);
      EXPECT_GE(1152 / tiles.k / tiles.splits, tiles.stages);
      addProduct(batch, shape, check);
    }
  batch.expect();
}

// Every tile that may be chosen, with edges in both directions.
TEST(FilterProduct, EveryTile) {
  CudaKernelBatch batch;
  int count = 0;
  for (auto [type, compute] : {std::pair("f16", ""), std::pair("f32", ""),
                               std::pair("f32", "compute(tf32)")}) {
    CudaKernelCheck check = filter();
    check.orders = {ThreadOrder::Shuffled};
    Filter shape{2, 6, 6, 8, 16};
    shape.type = type;
    shape.compute = compute;
    size_t tiles = tilesOf(shape.text(), check.target).size();
    for (size_t i = 0; i < tiles; ++i, ++count) {
      GemmTiles tile = tilesOf(shape.text(), check.target)[i];
      Filter edges = shape;
      edges.outputs = tile.m + 4;
      edges.channels = tile.n / 9 + 8;
      edges.bias = count % 2;
      batch.add(withTiles(edges.text(), i, check.target).text, check);
    }
  }
  EXPECT_GT(count, 20);
  batch.expect();
}

// Cases that tensor cores or tiles do not support accumulate in threads.
TEST(FilterProduct, WhatIsNoProduct) {
  CudaTarget target = filter().target, old = filter("sm_75").target;
  Filter wide{2, 6, 6, 8, 16};
  wide.type = "f64";
  EXPECT_EQ(withForm(substitute(wide.text(), {{"xf32>", "xf64>"}}),
                     FilterForm::Product, target),
            "");
  // Older matrix units have no bfloat16, and a tile of f32 does not round.
  Filter narrowed{2, 6, 6, 8, 16};
  narrowed.image = "f32";
  EXPECT_EQ(withForm(narrowed.text(), FilterForm::Product, old), "");
  EXPECT_NE(withForm(narrowed.text(), FilterForm::Product, target), "");
}

// Layers use tensor cores and the whole device.
TEST(FilterProduct, Choice) {
  CudaTarget target = filter().target;
  for (const Filter &layer :
       {Filter{64, 26, 26, 32, 64}, Filter{32, 56, 56, 64, 64},
        Filter{32, 7, 7, 512, 512},
        Filter{32, 14, 14, 1024, 256, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
        Filter{32, 224, 224, 3, 64, {7, 7}, {2, 2}, {3, 3}, {3, 3}}}) {
    ParsedGemm parsed(layer.text(), target);
    ASSERT_TRUE(parsed.problem);
    GemmTiles tiles = GemmTiles::choose(*parsed.problem, target);
    EXPECT_GT(tiles.tileCount(*parsed.problem) * tiles.splits,
              target.multiprocessors() / 2)
        << layer.text();
  }
}
