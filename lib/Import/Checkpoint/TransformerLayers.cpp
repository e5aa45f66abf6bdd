//===- TransformerLayers.cpp - layers of a transformer --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TransformerLayers.h"

#include "mpc/Support/EscapedText.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>
#include <array>

using namespace mpc;
using namespace mpc::checkpoint;
using llvm::StringRef;

/// Masked scores; their softmax weight is zero.
static constexpr double kMasked = -1e30;

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

/// Returns the name of a role in the file: "model.layers.3.mlp.up_proj".
static std::string nameOf(const ModelConfig &config, Role role, int64_t layer) {
  auto found = config.names.find(role);
  if (found == config.names.end())
    return "";
  std::string name = found->second;
  if (size_t at = name.find("{}"); at != std::string::npos)
    name.replace(at, 2, std::to_string(layer));
  return name;
}

/// "model/layers/3/mlp" for "model.layers.3.mlp".
static std::string pathOf(std::string name) {
  std::replace(name.begin(), name.end(), '.', '/');
  return name;
}

void TransformerLayers::enterParent(Role role, int64_t layer) {
  graph.setLayer(
      pathOf(StringRef(nameOf(config, role, layer)).rsplit('.').first.str()));
}

/// Returns the name of a tensor's predecessor in old checkpoints, which name
/// weight and bias of a norm gamma and beta.
static std::string oldName(StringRef name) {
  if (name.consume_back(".weight"))
    return (name + ".gamma").str();
  if (name.consume_back(".bias"))
    return (name + ".beta").str();
  return "";
}

Node TransformerLayers::stored(Role role, StringRef suffix,
                               std::vector<int64_t> shape, int64_t layer) {
  std::string module = nameOf(config, role, layer),
              name = module + suffix.str();
  graph.setLayer(pathOf(module));
  TensorType wanted{ElementType::F32, std::move(shape)};
  auto fail = [&](const std::string &text) {
    if (failure.ok())
      failure = Status(StatusCode::InvalidArgument, where,
                       "tensor '" + name + "' " + text);
    return Node{0, wanted};
  };
  const StoredTensor *tensor = weights.find(name);
  if (!tensor)
    if (std::string old = oldName(name); weights.find(old)) {
      name = old;
      tensor = weights.find(old);
    }
  if (!tensor)
    return fail("is missing; the configuration needs it with the shape " +
                shapeToString(wanted.shape));
  if (tensor->type.shape != wanted.shape)
    return fail("has the shape " + shapeToString(tensor->type.shape) +
                ", but the configuration needs " + shapeToString(wanted.shape));
  ElementType element = tensor->type.element;
  if (!isFloat(element))
    return fail("has the type " + std::string(elementTypeName(element)) +
                ", but a weight is a float");
  used.insert(name);
  auto known = constants.find(name);
  if (known != constants.end())
    return known->second;
  Node made;
  if (isFloat8(element)) {
    Node codes =
        graph.external(tensor->identity, {ElementType::UI8, wanted.shape});
    made = graph.decodeFloat(codes, element);
  } else {
    made = graph.external(tensor->identity, tensor->type);
  }
  constants.emplace(name, made);
  return made;
}

Node TransformerLayers::linear(const Node &x, Role role, int64_t columns,
                               bool hasBias, int64_t layer) {
  bool transposed = !(config.isTransposed && layer >= 0);
  int64_t rows = x.dim(-1);
  std::vector<int64_t> shape = {columns, rows};
  if (!transposed)
    std::swap(shape[0], shape[1]);
  Node y = graph.matmul(x, weight(role, ".weight", shape, layer), transposed);
  if (hasBias)
    y = graph.add(y, weight(role, ".bias", {columns}, layer));
  return y;
}

Node TransformerLayers::norm(const Node &x, Role role, int64_t layer) {
  std::vector<int64_t> shape = {x.dim(-1)};
  Node scale = weight(role, ".weight", shape, layer);
  if (config.normOffset != 0)
    scale = graph.add(scale, graph.scalar(config.normOffset));
  if (config.norm == NormKind::Rms)
    return graph.rmsNorm(x, scale, config.epsilon);
  std::optional<Node> bias;
  if (config.normBias)
    bias = weight(role, ".bias", shape, layer);
  return graph.layerNorm(x, scale, bias ? &*bias : nullptr, config.epsilon);
}

Node TransformerLayers::activate(const Node &x, Activation activation) {
  switch (activation) {
  case Activation::Gelu:
    return graph.unary("gelu", x, "form = #mpc<gelu_form erf>");
  case Activation::GeluTanh:
    return graph.unary("gelu", x, "form = #mpc<gelu_form tanh>");
  case Activation::Silu:
    return graph.unary("silu", x);
  case Activation::Relu:
    return graph.unary("relu", x);
  case Activation::Tanh:
    return graph.unary("tanh", x);
  }
  return x;
}

Node TransformerLayers::cap(const Node &x, double c) {
  Node number = graph.scalar(c);
  return graph.mul(graph.unary("tanh", graph.binary("div", x, number)), number);
}

//===----------------------------------------------------------------------===//
// Rotary embedding
//===----------------------------------------------------------------------===//

RotaryTables TransformerLayers::rotaryTables(const Rope &rope,
                                             const Node &positions) {
  int64_t half = rope.rotary / 2, batch = positions.dim(0),
          tokens = positions.dim(1);
  Node frequencies = graph.numbers(rope.frequencies, {half});
  if (config.names.contains(Role::RopeFactors))
    frequencies =
        graph.binary("div", frequencies, weight(Role::RopeFactors, "", {half}));
  Node angles = graph.mul(graph.reshape(graph.cast(positions, ElementType::F32),
                                        {batch, 1, tokens, 1}),
                          frequencies);
  RotaryTables tables{graph.unary("cos", angles), graph.unary("sin", angles)};
  if (rope.factor != 1) {
    Node factor = graph.scalar(rope.factor);
    tables = {graph.mul(tables.cosine, factor), graph.mul(tables.sine, factor)};
  }
  return tables;
}

Node TransformerLayers::rotate(const Node &x, const RotaryTables &tables) {
  const auto &[cosine, sine] = tables;
  int64_t size = x.dim(-1), half = cosine.dim(-1), rotary = 2 * half;
  bool areAdjacent = config.pairs == RopePairs::Adjacent;
  Node head = graph.slice(x, -1, 0, rotary);
  Node first = areAdjacent ? graph.slice(head, -1, 0, half, 2)
                           : graph.slice(head, -1, 0, half);
  Node second = areAdjacent ? graph.slice(head, -1, 1, half, 2)
                            : graph.slice(head, -1, half, half);
  Node real =
      graph.binary("sub", graph.mul(cosine, first), graph.mul(sine, second));
  Node imaginary = graph.add(graph.mul(sine, first), graph.mul(cosine, second));
  Node turned;
  if (areAdjacent) {
    std::vector<int64_t> apart = real.shape();
    apart.push_back(1);
    turned = graph.reshape(
        graph.concat(
            {graph.reshape(real, apart), graph.reshape(imaginary, apart)}, -1),
        head.shape());
  } else {
    turned = graph.concat({real, imaginary}, -1);
  }
  if (rotary < size)
    turned =
        graph.concat({turned, graph.slice(x, -1, rotary, size - rotary)}, -1);
  return turned;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

std::array<Node, 3> TransformerLayers::project(const Node &x, int64_t layer) {
  int64_t batch = extents.batch, tokens = extents.tokens, heads = config.heads,
          groups = config.kvHeads, size = config.headSize;
  auto split = [&](const Node &value, int64_t count) {
    return graph.reshape(value, {batch, tokens, count, size});
  };
  if (config.qkv == QkvForm::Separate) {
    auto one = [&](Role role, int64_t count) {
      return split(linear(x, role, count * size, config.qkvBias, layer), count);
    };
    Node query = one(Role::Query, heads), key = one(Role::Key, groups);
    return {query, key, one(Role::Value, groups)};
  }
  Node fused = linear(x, Role::FusedQkv, (heads + 2 * groups) * size,
                      config.qkvBias, layer);
  if (config.qkv == QkvForm::PerHead) {
    fused = graph.reshape(fused, {batch, tokens, heads, 3, size});
    auto part = [&](int64_t i) {
      return split(graph.slice(fused, 3, i, 1), heads);
    };
    Node query = part(0), key = part(1);
    return {query, key, part(2)};
  }
  auto part = [&](int64_t first, int64_t count) {
    return split(graph.slice(fused, -1, first * size, count * size), count);
  };
  Node query = part(0, heads), key = part(heads, groups);
  return {query, key, part(heads + groups, groups)};
}

Node TransformerLayers::maskOf(int64_t layer, const Node &visible,
                               bool causal) {
  int64_t window = config.windows.empty() ? 0 : config.windows[layer];
  if (window == 0 && !causal)
    return visible;
  auto [found, isNew] = masks.try_emplace({window, causal});
  if (!isNew)
    return found->second;
  graph.setLayer("");
  int64_t tokens = extents.tokens, rows = extents.past + tokens;
  // Distance from each query back to each key.
  Node distance = graph.binary(
      "sub",
      graph.add(graph.iota({tokens, rows}, 0), graph.integer(extents.past)),
      graph.iota({tokens, rows}, 1));
  Node mask = visible;
  auto keep = [&](StringRef predicate, int64_t bound) {
    mask = graph.binary(
        "and", mask, graph.compare(predicate, distance, graph.integer(bound)));
  };
  bool isDecoder = config.head == HeadKind::CausalLm;
  if (causal)
    keep("ge", 0);
  if (window != 0 && isDecoder)
    keep("lt", window);
  if (window != 0 && !isDecoder) {
    keep("le", window);
    keep("ge", -window);
  }
  return found->second = mask;
}

Node TransformerLayers::normHeads(const Node &x, Role role, int64_t layer) {
  return config.qkNorm ? norm(x, role, layer) : x;
}

Node TransformerLayers::cappedAttention(const Node &query, Node key, Node value,
                                        const Node &mask) {
  int64_t repeat = config.heads / config.kvHeads;
  auto repeated = [&](const Node &x) {
    if (repeat == 1)
      return x;
    int64_t rows = x.dim(2), size = x.dim(3);
    Node split =
        graph.reshape(x, {extents.batch, config.kvHeads, 1, rows, size});
    Node wide = graph.broadcast(
        split, {extents.batch, config.kvHeads, repeat, rows, size});
    return graph.reshape(wide, {extents.batch, config.heads, rows, size});
  };
  key = repeated(key);
  value = repeated(value);
  Node scores = graph.mul(graph.matmul(query, key, /*transposed=*/true),
                          graph.scalar(config.attentionScale));
  scores = graph.select(mask, cap(scores, config.attentionCap),
                        graph.scalar(kMasked));
  return graph.matmul(graph.softmax(scores, 3), value, /*transposed=*/false);
}

Node TransformerLayers::attention(const Node &x, int64_t layer,
                                  const Node &visible,
                                  llvm::ArrayRef<RotaryTables> ropes) {
  auto [query, key, value] = project(x, layer);
  query = normHeads(query, Role::QueryNorm, layer);
  key = normHeads(key, Role::KeyNorm, layer);
  enterParent(Role::AttentionOut, layer);
  auto heads = [&](const Node &y) { return graph.transpose(y, {0, 2, 1, 3}); };
  query = heads(query);
  key = heads(key);
  value = heads(value);
  if (!ropes.empty()) {
    const RotaryTables &tables =
        ropes[config.ropeOfLayer.empty() ? 0 : config.ropeOfLayer[layer]];
    query = rotate(query, tables);
    key = rotate(key, tables);
  }
  bool isDecoder = config.head == HeadKind::CausalLm;
  if (isDecoder) {
    if (!pasts.empty()) {
      key = graph.concat({pasts[2 * layer], key}, 2);
      value = graph.concat({pasts[2 * layer + 1], value}, 2);
    }
    presents.push_back(key);
    presents.push_back(value);
  }
  bool isCapped = config.attentionCap != 0;
  Node mask = maskOf(layer, visible, /*causal=*/isDecoder && isCapped);
  enterParent(Role::AttentionOut, layer);
  Node result =
      isCapped ? cappedAttention(query, key, value, mask)
               : graph.attention(query, key, value, &mask,
                                 config.attentionScale, /*causal=*/isDecoder);
  Node joined = graph.reshape(
      graph.transpose(result, {0, 2, 1, 3}),
      {extents.batch, extents.tokens, config.heads * config.headSize});
  return linear(joined, Role::AttentionOut, config.width,
                config.attentionOutBias, layer);
}

//===----------------------------------------------------------------------===//
// MLP and blocks
//===----------------------------------------------------------------------===//

Node TransformerLayers::mlp(const Node &x, int64_t layer) {
  int64_t inner = config.inner;
  bool hasBias = config.mlpBias;
  Node hidden;
  if (!config.isGated) {
    hidden =
        activate(linear(x, Role::Up, inner, hasBias, layer), config.activation);
  } else {
    Node gate, up;
    if (config.fusesGateUp) {
      Node both = linear(x, Role::FusedGateUp, 2 * inner, hasBias, layer);
      gate = graph.slice(both, -1, 0, inner);
      up = graph.slice(both, -1, inner, inner);
    } else {
      gate = linear(x, Role::Gate, inner, hasBias, layer);
      up = linear(x, Role::Up, inner, hasBias, layer);
    }
    enterParent(Role::Down, layer);
    hidden = graph.mul(activate(gate, config.activation), up);
  }
  return linear(hidden, Role::Down, config.width, hasBias, layer);
}

Node TransformerLayers::block(const Node &x, int64_t layer, const Node &visible,
                              llvm::ArrayRef<RotaryTables> ropes) {
  bool isBefore = config.place != NormPlace::AfterSum,
       isAfter = config.place == NormPlace::Both,
       skips = !config.skipsAttentionNorm.empty() &&
               config.skipsAttentionNorm[layer];
  auto join = [&](const Node &lhs, const Node &rhs) {
    enterParent(Role::AttentionNorm, layer);
    return graph.add(lhs, rhs);
  };
  Node attended =
      attention(isBefore && !skips ? norm(x, Role::AttentionNorm, layer) : x,
                layer, visible, ropes);
  if (isAfter)
    attended = norm(attended, Role::PostAttentionNorm, layer);
  if (config.isParallel) {
    Node transformed = mlp(norm(x, Role::MlpNorm, layer), layer);
    return join(join(transformed, attended), x);
  }
  Node sum = join(x, attended);
  if (!isBefore)
    sum = norm(sum, Role::PostAttentionNorm, layer);
  Node transformed =
      mlp(isBefore ? norm(sum, Role::MlpNorm, layer) : sum, layer);
  if (isAfter)
    transformed = norm(transformed, Role::PostMlpNorm, layer);
  Node result = join(sum, transformed);
  return isBefore ? result : norm(result, Role::PostMlpNorm, layer);
}
