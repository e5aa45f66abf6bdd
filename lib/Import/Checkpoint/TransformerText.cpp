//===- TransformerText.cpp - transformers as mpc-dialect text -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TransformerText.h"

#include "TransformerLayers.h"

using namespace mpc;
using namespace mpc::checkpoint;

static bool isDecoder(const ModelConfig &config) {
  return config.head == HeadKind::CausalLm;
}

std::vector<TransformerInput>
mpc::checkpoint::transformerInputs(const ModelConfig &config,
                                   const Extents &extents) {
  auto [batch, tokens, past] = extents;
  auto integers = [](std::vector<int64_t> shape) {
    return TensorType{ElementType::I64, std::move(shape)};
  };
  std::vector<TransformerInput> inputs = {
      {"input_ids", integers({batch, tokens})},
      {"attention_mask", integers({batch, past + tokens})}};
  if (!isDecoder(config)) {
    if (config.types > 1)
      inputs.push_back({"token_type_ids", integers({batch, tokens})});
    return inputs;
  }
  inputs.push_back({"position_ids", integers({batch, tokens})});
  TensorType cache{ElementType::F32,
                   {batch, config.kvHeads, past, config.headSize}};
  if (past != 0)
    for (int64_t i = 0; i < config.layers; ++i)
      for (const char *kind : {".key", ".value"})
        inputs.push_back(
            {"past_key_values." + std::to_string(i) + kind, cache});
  return inputs;
}

namespace {

/// Writes what is before and after the layers.
class ModelWriter {
public:
  ModelWriter(const ModelConfig &config, const WeightStore &weights,
              const Extents &extents, const std::string &where)
      : config(config), extents(extents), where(where),
        layers(config, weights, extents, where), graph(layers.graph) {}

  Result<std::string> write();
  const std::set<std::string> &used() const { return layers.usedTensors(); }

private:
  Node embed();
  Node embedPositions();
  /// Row indices of the table of positions, for the padding token that has a
  /// position of its own.
  Node countedPositions();
  void writeHead(const Node &hidden);
  Node pool(const Node &hidden);

  const ModelConfig &config;
  const Extents extents;
  std::string where;
  TransformerLayers layers;
  GraphText &graph;
  std::map<std::string, Node> inputs;
};

} // namespace

Node ModelWriter::countedPositions() {
  Node ids = inputs["input_ids"], padding = graph.integer(*config.padding);
  Node counts = graph.cast(graph.compare("ne", ids, padding), ElementType::I64);
  return graph.add(graph.mul(graph.cumsum(counts, 1), counts), padding);
}

Node ModelWriter::embedPositions() {
  Node table = layers.stored(Role::PositionEmbedding, ".weight",
                             {config.positions, config.width});
  Node rows;
  if (isDecoder(config))
    rows = graph.gather(table, inputs["position_ids"]);
  else if (config.padding)
    rows = graph.gather(table, countedPositions());
  else
    rows = graph.slice(table, 0, 0, extents.tokens);
  return graph.cast(rows, ElementType::F32);
}

Node ModelWriter::embed() {
  Node table = layers.stored(Role::TokenEmbedding, ".weight",
                             {config.vocabulary, config.width});
  Node x =
      graph.cast(graph.gather(table, inputs["input_ids"]), ElementType::F32);
  if (config.embeddingScale != 1)
    x = graph.mul(x, graph.scalar(config.embeddingScale));
  if (config.types > 0) {
    Node types = layers.stored(Role::TypeEmbedding, ".weight",
                               {config.types, config.width});
    types = config.types > 1 ? graph.gather(types, inputs["token_type_ids"])
                             : types;
    x = graph.add(x, graph.cast(types, ElementType::F32));
  }
  if (config.hasPositionTable)
    x = graph.add(x, embedPositions());
  return config.hasEmbeddingNorm ? layers.norm(x, Role::EmbeddingNorm) : x;
}

Node ModelWriter::pool(const Node &hidden) {
  if (config.pooling == Pooling::FirstToken)
    return graph.reshape(graph.slice(hidden, 1, 0, 1),
                         {extents.batch, config.width});
  Node mask = graph.cast(inputs["attention_mask"], ElementType::F32);
  Node total = graph.reduceSum(
      graph.mul(hidden,
                graph.reshape(mask, {extents.batch, extents.tokens, 1})),
      1, /*keepDim=*/false);
  return graph.binary("div", total, graph.reduceSum(mask, 1, /*keepDim=*/true));
}

void ModelWriter::writeHead(const Node &hidden) {
  if (config.head == HeadKind::None) {
    graph.result("last_hidden_state", hidden);
    if (config.hasPooler) {
      Node pooled = layers.linear(pool(hidden), Role::Pooler, config.width,
                                  /*hasBias=*/true);
      graph.result("pooler_output", layers.activate(pooled, Activation::Tanh));
    }
    return;
  }
  Node x =
      config.head == HeadKind::SequenceClassification ? pool(hidden) : hidden;
  if (config.headTransform) {
    x = layers.linear(x, Role::HeadTransform, config.width,
                      config.headTransformBias);
    x = layers.activate(x, *config.headTransform);
    if (config.headTransformNorm)
      x = layers.norm(x, Role::HeadNorm);
  }
  bool isClassifier = config.head == HeadKind::SequenceClassification ||
                      config.head == HeadKind::TokenClassification;
  int64_t columns = isClassifier ? config.classes : config.vocabulary;
  Node logits = layers.linear(
      x, config.isTied ? Role::TokenEmbedding : Role::Head, columns,
      /*hasBias=*/false);
  if (config.headBias)
    logits = graph.add(logits, layers.weight(Role::HeadBias, "", {columns}));
  if (config.logitCap != 0)
    logits = layers.cap(logits, config.logitCap);
  graph.result("logits", logits);
  for (size_t i = 0; i < layers.presents.size(); ++i)
    graph.result("present." + std::to_string(i / 2) +
                     (i % 2 == 0 ? ".key" : ".value"),
                 layers.presents[i]);
}

Result<std::string> ModelWriter::write() {
  if (!isDecoder(config) && config.hasPositionTable && !config.padding &&
      extents.tokens > config.positions)
    return Status(StatusCode::InvalidArgument, where,
                  "has a table of " + std::to_string(config.positions) +
                      " positions, but " + std::to_string(extents.tokens) +
                      " tokens are given");
  for (TransformerInput &input : transformerInputs(config, extents)) {
    Node argument = graph.argument(input.name, input.type);
    if (input.name.starts_with("past"))
      layers.pasts.push_back(argument);
    inputs.emplace(std::move(input.name), argument);
  }
  Node x = embed();
  graph.setLayer("");
  Node mask = inputs["attention_mask"];
  Node visible = graph.compare(
      "ne", graph.reshape(mask, {extents.batch, 1, 1, mask.dim(1)}),
      graph.integer(0));
  std::vector<RotaryTables> ropes;
  if (!config.ropes.empty()) {
    Node positions = isDecoder(config) ? inputs["position_ids"]
                                       : graph.iota({1, extents.tokens}, 1);
    // A lookup checks at run time that no text is longer.
    if (config.mostTokens > 0)
      positions = graph.reshape(
          graph.gather(graph.iota({config.mostTokens, 1}, 0), positions),
          positions.shape());
    for (const Rope &rope : config.ropes)
      ropes.push_back(layers.rotaryTables(rope, positions));
  }
  for (int64_t i = 0; i < config.layers; ++i) {
    x = layers.block(x, i, visible, ropes);
    if (!layers.status().ok())
      return layers.status();
  }
  if (config.hasFinalNorm)
    x = layers.norm(x, Role::FinalNorm);
  writeHead(x);
  if (!layers.status().ok())
    return layers.status();
  return graph.finish();
}

Result<std::string> mpc::checkpoint::writeTransformer(
    const ModelConfig &config, const WeightStore &weights,
    const Extents &extents, const std::string &where,
    std::set<std::string> *used) {
  ModelWriter writer(config, weights, extents, where);
  Result<std::string> text = writer.write();
  if (used)
    *used = writer.used();
  return text;
}
