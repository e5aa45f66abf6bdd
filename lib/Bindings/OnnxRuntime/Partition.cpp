//===- Partition.cpp - division of a graph between providers --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Partition.h"

#include "mpc/JIT/Signature.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

using namespace mpc;
using namespace mpc::ort;

std::vector<std::vector<size_t>>
mpc::ort::partition(const std::vector<std::vector<size_t>> &consumers,
                    const std::vector<bool> &isSupported) {
  std::vector<size_t> producers(consumers.size());
  for (const std::vector<size_t> &nodes : consumers)
    for (size_t node : nodes)
      ++producers[node];
  // Ready nodes: others, supported ones.
  std::array<std::vector<size_t>, 2> ready;
  for (size_t i = 0; i < consumers.size(); ++i)
    if (producers[i] == 0)
      ready[isSupported[i]].push_back(i);
  auto runAll = [&](bool supported) {
    std::vector<size_t> done;
    while (!ready[supported].empty()) {
      size_t node = ready[supported].back();
      ready[supported].pop_back();
      done.push_back(node);
      for (size_t consumer : consumers[node])
        if (--producers[consumer] == 0)
          ready[isSupported[consumer]].push_back(consumer);
    }
    return done;
  };
  std::vector<std::vector<size_t>> groups;
  while (!ready[0].empty() || !ready[1].empty()) {
    runAll(false);
    if (std::vector<size_t> group = runAll(true); !group.empty()) {
      std::sort(group.begin(), group.end());
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

std::vector<std::vector<size_t>> mpc::ort::consumersOf(const HostGraph &graph) {
  std::unordered_map<std::string, size_t> producers;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (const std::string &name : graph.nodes[i].outputs)
      if (!name.empty())
        producers[name] = i;
  std::vector<std::vector<size_t>> consumers(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (const auto *names :
         {&graph.nodes[i].inputs, &graph.nodes[i].implicitInputs})
      for (const std::string &name : *names)
        if (auto producer = producers.find(name); producer != producers.end())
          consumers[producer->second].push_back(i);
  return consumers;
}

std::string mpc::ort::findBoundaryObstacle(const HostValue &value) {
  if (value.kind != kOnnxTensor)
    return "value '" + value.name + "' is not a tensor";
  if (!elementTypeOf(value.dataType))
    return "value '" + value.name + "' has the element type " +
           std::to_string(value.dataType) +
           " of TensorProto, which mpc has no buffers of";
  return "";
}

bool mpc::ort::isRandom(const HostNode &node) {
  static constexpr std::string_view kRandom[] = {
      "Bernoulli",        "Multinomial",   "RandomNormal",
      "RandomNormalLike", "RandomUniform", "RandomUniformLike"};
  if (!node.domain.empty())
    return false;
  // The third input of Dropout may switch training on.
  if (node.op == "Dropout")
    return node.inputs.size() > 2 && !node.inputs[2].empty();
  return std::find(std::begin(kRandom), std::end(kRandom), node.op) !=
         std::end(kRandom);
}

std::string mpc::ort::findObstacle(const HostGraph &graph,
                                   const HostNode &node) {
  if (node.isAssigned)
    return "another provider has taken it";
  if (!isOnnxOpSupported(node.domain, node.op))
    return "mpc has no operator of that name";
  if (isRandom(node))
    return "mpc would repeat its random numbers in each run";
  constexpr int kString = 8, kComplex64 = 14, kComplex128 = 15;
  for (const auto *names : {&node.inputs, &node.outputs})
    for (const std::string &name : *names) {
      if (name.empty())
        continue;
      int type = graph.values.at(name).dataType;
      if (type == kString || type == kComplex64 || type == kComplex128)
        return std::string("mpc has no ") +
               (type == kString ? "strings" : "complex numbers");
    }
  return "";
}

int mpc::ort::gainOf(const HostNode &node) {
  static constexpr std::string_view kContractions[] = {"Attention",
                                                       "BiasGelu",
                                                       "Conv",
                                                       "ConvInteger",
                                                       "ConvTranspose",
                                                       "DeformConv",
                                                       "Einsum",
                                                       "FusedMatMul",
                                                       "GRU",
                                                       "Gemm",
                                                       "GroupQueryAttention",
                                                       "If",
                                                       "LSTM",
                                                       "LinearAttention",
                                                       "Loop",
                                                       "MatMul",
                                                       "MatMulInteger",
                                                       "MatMulNBits",
                                                       "MultiHeadAttention",
                                                       "QLinearConv",
                                                       "QLinearMatMul",
                                                       "RNN",
                                                       "Scan"};
  static constexpr std::string_view kMovements[] = {
      "Cast",   "Concat",   "Constant",  "ConstantOfShape", "Expand", "Flatten",
      "Gather", "Identity", "Reshape",   "Shape",           "Size",   "Slice",
      "Split",  "Squeeze",  "Transpose", "Unsqueeze"};
  auto has = [&](const auto &names) {
    return std::find(std::begin(names), std::end(names), node.op) !=
           std::end(names);
  };
  return has(kContractions) ? 4 : has(kMovements) ? 0 : 1;
}

bool mpc::ort::needsMpc(const HostGraph &graph, const HostNode &node) {
  constexpr int kBfloat16 = 16;
  for (const auto *names : {&node.inputs, &node.outputs})
    for (const std::string &name : *names)
      if (!name.empty() && graph.values.at(name).dataType == kBfloat16)
        return true;
  return false;
}
