//===- TransformerLayers.h - layers of a transformer ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_CHECKPOINT_TRANSFORMERLAYERS_H
#define MPC_LIB_IMPORT_CHECKPOINT_TRANSFORMERLAYERS_H

#include "GraphText.h"
#include "TransformerText.h"

#include "llvm/ADT/StringRef.h"

#include <array>
#include <map>
#include <optional>
#include <set>

namespace mpc::checkpoint {

/// Cosine and sine of a rotary embedding, [batch, 1, tokens, rotary / 2].
struct RotaryTables {
  Node cosine, sine;
};

/// Writes layers with weights of a store. After a failure, which status()
/// returns, the text is invalid.
class TransformerLayers {
public:
  TransformerLayers(const ModelConfig &config, const WeightStore &weights,
                    const Extents &extents, const std::string &where)
      : config(config), weights(weights), extents(extents), where(where) {}

  const Status &status() const { return failure; }
  const std::set<std::string> &usedTensors() const { return used; }

  /// The tensor of a role in its stored type; `layer` replaces "{}". Sets the
  /// layer path of the following ops to the tensor's module.
  Node stored(Role role, llvm::StringRef suffix, std::vector<int64_t> shape,
              int64_t layer = -1);
  /// The same in f32.
  Node weight(Role role, llvm::StringRef suffix, std::vector<int64_t> shape,
              int64_t layer = -1) {
    return graph.cast(stored(role, suffix, std::move(shape), layer),
                      ElementType::F32);
  }

  /// Multiplies the last dimension by a matrix of `columns` outputs and adds a
  /// bias.
  Node linear(const Node &x, Role role, int64_t columns, bool hasBias,
              int64_t layer = -1);
  Node norm(const Node &x, Role role, int64_t layer = -1);
  Node activate(const Node &x, Activation activation);
  /// c * tanh(x / c)
  Node cap(const Node &x, double c);

  /// Tables of `rope` for `positions`, i64 [batch or 1, tokens].
  RotaryTables rotaryTables(const Rope &rope, const Node &positions);

  /// One layer of hidden states [batch, tokens, width]. `visible` is i1
  /// [batch, 1, 1, past + tokens].
  Node block(const Node &x, int64_t layer, const Node &visible,
             llvm::ArrayRef<RotaryTables> ropes);

  GraphText graph;
  /// Key and value caches of all layers, [batch, kvHeads, past, headSize];
  /// empty without a past.
  std::vector<Node> pasts;
  /// Keys and values of all layers including the past, in the same order.
  std::vector<Node> presents;

private:
  Node attention(const Node &x, int64_t layer, const Node &visible,
                 llvm::ArrayRef<RotaryTables> ropes);
  Node mlp(const Node &x, int64_t layer);
  /// Query, key and value, [batch, tokens, heads, headSize] each.
  std::array<Node, 3> project(const Node &x, int64_t layer);
  Node normHeads(const Node &x, Role role, int64_t layer);
  Node rotate(const Node &x, const RotaryTables &tables);
  /// softmax(cap(scale * query * key^T)) * value
  Node cappedAttention(const Node &query, Node key, Node value,
                       const Node &mask);
  /// The mask of a layer: `visible` and its sliding window; with `causal` also
  /// the condition that no token sees later ones.
  Node maskOf(int64_t layer, const Node &visible, bool causal);
  /// Sets the layer path to the module that contains the role's module.
  void enterParent(Role role, int64_t layer);

  const ModelConfig &config;
  const WeightStore &weights;
  const Extents extents;
  std::string where;
  Status failure;
  std::set<std::string> used;
  std::map<std::string, Node> constants;
  /// By window and causality.
  std::map<std::pair<int64_t, bool>, Node> masks;
};

} // namespace mpc::checkpoint

#endif // MPC_LIB_IMPORT_CHECKPOINT_TRANSFORMERLAYERS_H
