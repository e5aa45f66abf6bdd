//===- StructuredCases.cpp - random matmuls, windows, norms, reductions ---===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "VjpCases.h"

using namespace mpc::vjptest;

namespace {

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

/// `batch` of each operand broadcasts to that of the result.
void matmul(Draw &d, Shape lhsBatch, Shape rhsBatch, Shape batch, bool turnLeft,
            bool turnRight) {
  int64_t m = d.extent(), k = d.extent(), n = d.extent();
  lhsBatch.append(turnLeft ? Shape{k, m} : Shape{m, k});
  rhsBatch.append(turnRight ? Shape{n, k} : Shape{k, n});
  batch.append({m, n});
  d.parameter(lhsBatch);
  d.parameter(rhsBatch);
  d.op(std::string("mpc.matmul %0, %1") + (turnLeft ? " transpose_lhs" : "") +
           (turnRight ? " transpose_rhs" : ""),
       {batch});
}

struct Window {
  Shape strides, low, high, dilations;
  std::string text() const {
    return " strides(" + list(strides) + ") pad(" + list(low) + ", " +
           list(high) + ") dilations(" + list(dilations) + ")";
  }
};

Window drawWindow(Draw &d, int64_t rank, int64_t padding) {
  Window window;
  for (int64_t i = 0; i < rank; ++i) {
    window.strides.push_back(d.extent(1, 3));
    window.low.push_back(d.extent(0, padding));
    window.high.push_back(d.extent(0, padding));
    window.dilations.push_back(d.extent(1, 2));
  }
  return window;
}

void conv(Draw &d, int64_t rank, int64_t groups, bool last) {
  int64_t in = d.extent(1, 2), out = d.extent(1, 2), batch = d.extent(1, 2);
  Window w = drawWindow(d, rank, 2);
  Shape image, window, positions;
  for (int64_t i = 0; i < rank; ++i) {
    window.push_back(d.extent(1, 3));
    image.push_back(d.extent(5, 7));
    positions.push_back((image[i] + w.low[i] + w.high[i] -
                         w.dilations[i] * (window[i] - 1) - 1) /
                            w.strides[i] +
                        1);
  }
  auto join = [&](int64_t channels, const Shape &spatial) {
    Shape shape = {batch};
    if (!last)
      shape.push_back(channels);
    shape.append(spatial);
    if (last)
      shape.push_back(channels);
    return shape;
  };
  Shape filter = {groups * out, in};
  filter.append(window);
  d.parameter(join(groups * in, image));
  d.parameter(filter);
  d.op("mpc.conv %0, %1" + w.text() + " groups(" + std::to_string(groups) +
           ")" + (last ? " layout(channels_last)" : ""),
       {join(groups * out, positions)});
}

/// With `spill` the output padding may exceed the stride.
void convTranspose(Draw &d, int64_t rank, int64_t groups, bool spill) {
  int64_t in = d.extent(1, 2), out = d.extent(1, 2), batch = d.extent(1, 2);
  Window w = drawWindow(d, rank, 1);
  Shape image, window, extra, result = {batch, groups * out};
  for (int64_t i = 0; i < rank; ++i) {
    window.push_back(d.extent(2, 3));
    image.push_back(d.extent(2, 4));
    extra.push_back(d.extent(0, spill ? 5 : w.strides[i] - 1));
    result.push_back((image[i] - 1) * w.strides[i] +
                     w.dilations[i] * (window[i] - 1) + 1 + extra[i] -
                     w.low[i] - w.high[i]);
  }
  Shape input = {batch, groups * in}, filter = {groups * in, out};
  input.append(image);
  filter.append(window);
  d.parameter(input);
  d.parameter(filter);
  d.op("mpc.conv_transpose %0, %1" + w.text() + " output_padding(" +
           list(extra) + ") groups(" + std::to_string(groups) + ")",
       {result});
}

/// `mask`: 0 none, 1 float, 2 i1.
void attention(Draw &d, int mask, bool causal, int64_t repeats) {
  int64_t batch = d.extent(1, 2), groups = d.extent(1, 2),
          heads = groups * repeats, s = d.extent(2, 4), t = d.extent(4, 5),
          depth = d.extent(1, 3), values = d.extent(1, 3);
  d.parameter({batch, heads, s, depth});
  d.parameter({batch, groups, t, depth});
  d.parameter({batch, groups, t, values});
  std::string text = "mpc.attention %0, %1, %2";
  if (mask == 1)
    d.parameter({heads, 1, t});
  if (mask == 2)
    d.integers({batch, 1, s, t}, 0, 1, "i1");
  if (mask)
    text += " mask(%3)";
  d.op(text + " scale(0.7)" + (causal ? " causal" : ""),
       {{batch, heads, s, values}});
}

void pool(Draw &d, std::string name, std::string flags, bool ceil,
          bool last = false) {
  int64_t batch = d.extent(1, 2), channels = d.extent(1, 2);
  Shape image, window, low, high, strides, positions;
  for (int i = 0; i < 2; ++i) {
    window.push_back(d.extent(2, 3));
    image.push_back(d.extent(4, 6));
    low.push_back(d.extent(0, 1));
    high.push_back(d.extent(0, 1));
    strides.push_back(d.extent(1, 2));
    int64_t room = image[i] + low[i] + high[i] - window[i];
    int64_t count =
        (ceil ? (room + strides[i] - 1) / strides[i] : room / strides[i]) + 1;
    if (ceil && (count - 1) * strides[i] >= image[i] + low[i])
      --count;
    positions.push_back(count);
  }
  auto join = [&](const Shape &spatial) {
    return last ? Shape{batch, spatial[0], spatial[1], channels}
                : Shape{batch, channels, spatial[0], spatial[1]};
  };
  d.parameter(join(image));
  d.op("mpc." + name + " %0 window(" + list(window) + ") strides(" +
           list(strides) + ") pad(" + list(low) + ", " + list(high) +
           ") dilations([1, 1])" + (ceil ? " ceil_mode" : "") + flags +
           (last ? " layout(channels_last)" : ""),
       {join(positions)}, Types::Arrow);
}

//===----------------------------------------------------------------------===//
// Reductions and norms
//===----------------------------------------------------------------------===//

void reduce(Draw &d, std::string name, Domain domain = normal) {
  Shape shape = d.shape(3, 2), axes, left;
  bool keep = d.coin();
  int64_t kept = d.extent(0, 2);
  for (int64_t i = 0; i < 3; ++i) {
    if (i != kept)
      axes.push_back(i);
    if (i == kept || keep)
      left.push_back(i == kept ? shape[i] : 1);
  }
  d.parameter(shape, domain);
  d.op("mpc." + name + " %0 axes(" + list(axes) + ")" +
           (keep ? " keep_dims" : ""),
       {left}, Types::Arrow);
}

void alongAxis(Draw &d, std::string name, std::string flags = "") {
  Shape shape = d.shape(3, 2);
  d.parameter(shape);
  d.op("mpc." + name + " %0 axis(" + std::to_string(d.extent(0, 2)) + ")" +
           flags,
       {shape}, Types::Result);
}

/// Norms over the last two axes; with a `bias` if the op has one.
void trailingNorm(Draw &d, std::string name, bool bias) {
  Shape shape = d.shape(3, 2), inner = {shape[1], shape[2]};
  d.parameter(shape);
  d.parameter(d.coin() ? inner : Shape{shape[2]});
  if (bias)
    d.parameter(inner);
  d.op("mpc." + name + " %0, %1" + (bias ? ", %2" : "") +
           " axis(1) epsilon(0.01)",
       {shape});
}

void channelNorm(Draw &d, std::string name, int64_t groups,
                 std::string flags = "") {
  Shape shape = {d.extent(2, 3), groups * d.extent(1, 2), d.extent(2, 3),
                 d.extent(2, 3)};
  d.parameter(shape);
  d.parameter({shape[1]});
  d.parameter({shape[1]});
  d.op("mpc." + name + " %0, %1, %2" + flags + " epsilon(0.01)", {shape});
}

} // namespace

std::vector<OpCase> mpc::vjptest::structuredCases() {
  return {
      {"mpc.matmul",
       [](Draw &d) { matmul(d, {}, {}, {}, d.coin(), d.coin()); }},
      {"mpc.matmul both stored the other way",
       [](Draw &d) { matmul(d, {2}, {2}, {2}, true, true); }},
      {"mpc.matmul shared weight",
       [](Draw &d) { matmul(d, {2, 3}, {}, {2, 3}, false, d.coin()); }},
      {"mpc.matmul shared weight of a turned input",
       [](Draw &d) { matmul(d, {3}, {}, {3}, true, d.coin()); }},
      {"mpc.matmul broadcast batches",
       [](Draw &d) { matmul(d, {3, 1}, {1, 2}, {3, 2}, d.coin(), d.coin()); }},
      {"mpc.matmul shared input",
       [](Draw &d) { matmul(d, {}, {3}, {3}, d.coin(), d.coin()); }},
      {"mpc.conv", [](Draw &d) { conv(d, 2, 1, false); }},
      {"mpc.conv grouped", [](Draw &d) { conv(d, 1, 3, false); }},
      {"mpc.conv channels last", [](Draw &d) { conv(d, 2, 2, true); }},
      {"mpc.conv three dimensions", [](Draw &d) { conv(d, 3, 1, false); }},
      {"mpc.conv_transpose",
       [](Draw &d) { convTranspose(d, 2, d.extent(1, 2), false); }},
      {"mpc.conv_transpose with much output padding",
       [](Draw &d) { convTranspose(d, 1, 1, true); }},
      {"mpc.attention", [](Draw &d) { attention(d, 0, false, 1); }},
      {"mpc.attention causal", [](Draw &d) { attention(d, 0, true, 1); }},
      {"mpc.attention shared keys", [](Draw &d) { attention(d, 2, false, 2); }},
      {"mpc.attention learnt mask",
       [](Draw &d) { attention(d, 1, d.coin(), 2); }},
      {"mpc.max_pool", [](Draw &d) { pool(d, "max_pool", "", d.coin()); }},
      {"mpc.max_pool channels last",
       [](Draw &d) { pool(d, "max_pool", "", false, true); }},
      {"mpc.avg_pool", [](Draw &d) { pool(d, "avg_pool", "", d.coin()); }},
      {"mpc.avg_pool padding counts",
       [](Draw &d) { pool(d, "avg_pool", " count_include_pad", d.coin()); }},
      {"mpc.reduce_sum", [](Draw &d) { reduce(d, "reduce_sum"); }},
      {"mpc.reduce_mean", [](Draw &d) { reduce(d, "reduce_mean"); }},
      {"mpc.reduce_max", [](Draw &d) { reduce(d, "reduce_max"); }},
      {"mpc.reduce_min", [](Draw &d) { reduce(d, "reduce_min"); }},
      {"mpc.reduce_prod", [](Draw &d) { reduce(d, "reduce_prod"); }},
      {"mpc.cumsum", [](Draw &d) { alongAxis(d, "cumsum"); }},
      {"mpc.cumsum exclusive reverse",
       [](Draw &d) { alongAxis(d, "cumsum", " exclusive reverse"); }},
      {"mpc.top_k",
       [](Draw &d) {
         Shape shape = d.shape(2, 3);
         d.parameter(shape);
         d.op("mpc.top_k %0 k(2) axis(1) largest(" +
                  std::string(d.coin() ? "true" : "false") + ")",
              {{shape[0], 2}}, Types::Arrow);
         d.alsoGives(d.type({shape[0], 2}, "i64"));
       }},
      {"mpc.softmax", [](Draw &d) { alongAxis(d, "softmax"); }},
      {"mpc.log_softmax", [](Draw &d) { alongAxis(d, "log_softmax"); }},
      {"mpc.layer_norm", [](Draw &d) { trailingNorm(d, "layer_norm", true); }},
      {"mpc.layer_norm without bias",
       [](Draw &d) { trailingNorm(d, "layer_norm", false); }},
      {"mpc.rms_norm", [](Draw &d) { trailingNorm(d, "rms_norm", false); }},
      {"mpc.group_norm",
       [](Draw &d) { channelNorm(d, "group_norm", 2, " groups(2)"); }},
      {"mpc.instance_norm",
       [](Draw &d) { channelNorm(d, "instance_norm", 1); }},
      {"mpc.batch_norm",
       [](Draw &d) {
         Shape shape = d.shape(4, 2), channels = {shape[1]};
         d.parameter(shape);
         for (int i = 0; i < 3; ++i)
           d.parameter(channels);
         d.parameter(channels, positive);
         d.op("mpc.batch_norm %0, %1, %2, %3, %4 epsilon(0.01)", {shape});
       }},
  };
}
