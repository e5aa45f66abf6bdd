//===- HostGraph.cpp - a graph of ONNX Runtime ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostGraph.h"

#include <algorithm>
#include <unordered_set>

using namespace mpc;
using namespace mpc::ort;

bool HostValue::isStatic() const {
  return kind == kOnnxTensor && hasRank &&
         std::all_of(shape.begin(), shape.end(),
                     [](int64_t extent) { return extent >= 0; });
}

std::string HostNode::describe() const {
  return "node '" + name + "' (" + (domain.empty() ? "" : domain + ".") + op +
         ")";
}

namespace {

class GraphReader : HostReader {
public:
  GraphReader(const HostApi &api, HostGraph &graph)
      : HostReader(api), graph(graph) {}

  Status read() {
    graph.modelPath = text(api::getModelPath, graph.handle);
    graph.irVersion = get(api::getIrVersion, graph.handle);
    graph.isNested = get(api::getParentNode, graph.handle) != nullptr;
    std::vector<const char *> domains(get(api::opsetCount, graph.handle));
    std::vector<int64_t> versions(domains.size());
    check(api(api::getOpsets)(graph.handle, domains.data(), versions.data(),
                              domains.size()));
    for (size_t i = 0; ok() && i < domains.size(); ++i)
      graph.opsets[domains[i]] = versions[i];
    for (const OrtValueInfo *input :
         list(api::inputCount, api::getInputs, graph.handle))
      add(input, /*isGraphInput=*/true);
    for (const OrtNode *node :
         list(api::nodeCount, api::getNodes, graph.handle))
      addNode(node);
    return status();
  }

private:
  /// Returns the value of `handle`, which is null for an absent one.
  HostValue *add(const OrtValueInfo *handle, bool isGraphInput = false) {
    if (!handle)
      return nullptr;
    std::string name = text(api::getValueName, handle);
    if (!ok() || name.empty())
      return nullptr;
    auto [entry, isNew] = graph.values.try_emplace(name);
    HostValue &value = entry->second;
    if (!isNew)
      return &value;
    value.name = name;
    value.handle = handle;
    value.isConstant = get(api::isConstantInitializer, handle);
    value.isGraphInput = isGraphInput;
    value.isGraphOutput = get(api::isGraphOutput, handle);
    const OrtTypeInfo *type = get(api::getValueType, handle);
    if (!type)
      return &value;
    value.kind = get(api::getOnnxType, type);
    if (value.kind != kOnnxTensor)
      return &value;
    const OrtTensorTypeAndShapeInfo *tensor = get(api::castToTensorInfo, type);
    if (!tensor)
      return &value;
    value.dataType = dataTypeOf(get(api::getElementType, tensor));
    value.shape = list(api::getDimensionsCount, api::getDimensions, tensor);
    value.hasRank = !value.shape.empty() ||
                    (isGraphInput && get(api::getElementCount, tensor) == 1);
    std::vector<const char *> symbols =
        list(api::getDimensionsCount, api::getSymbolicDimensions, tensor);
    for (const char *symbol : symbols)
      value.symbols.push_back(symbol ? symbol : "");
    return &value;
  }

  std::vector<std::string>
  namesOf(const std::vector<const OrtValueInfo *> &handles) {
    std::vector<std::string> names;
    for (const OrtValueInfo *handle : handles) {
      HostValue *value = add(handle);
      names.push_back(value ? value->name : "");
    }
    return names;
  }

  void addNode(const OrtNode *handle) {
    HostNode &node = graph.nodes.emplace_back();
    node.handle = handle;
    node.id = get(api::getNodeId, handle);
    node.name = text(api::getNodeName, handle);
    node.op = text(api::getOperatorType, handle);
    node.domain = text(api::getDomain, handle);
    if (node.domain == "ai.onnx")
      node.domain.clear();
    node.isAssigned = !text(api::getEpName, handle).empty();
    node.hasSubgraphs = get(api::subgraphCount, handle) != 0;
    node.inputs =
        namesOf(list(api::nodeInputCount, api::getNodeInputs, handle));
    node.outputs =
        namesOf(list(api::nodeOutputCount, api::getNodeOutputs, handle));
    node.implicitInputs =
        namesOf(list(api::implicitInputCount, api::getImplicitInputs, handle));
  }

  HostGraph &graph;
};

} // namespace

Result<HostGraph> HostGraph::read(const HostApi &api, const OrtGraph *handle) {
  HostGraph graph;
  graph.handle = handle;
  if (Status status = GraphReader(api, graph).read(); !status.ok())
    return status;
  return graph;
}

NodeGroup mpc::ort::makeGroup(const HostGraph &graph,
                              std::vector<size_t> nodes) {
  std::sort(nodes.begin(), nodes.end());
  NodeGroup group;
  group.nodes = std::move(nodes);
  std::unordered_set<std::string> seen, readOutside;
  auto isInside = [&](size_t node) {
    return std::binary_search(group.nodes.begin(), group.nodes.end(), node);
  };
  for (size_t i : group.nodes)
    seen.insert(graph.nodes[i].outputs.begin(), graph.nodes[i].outputs.end());
  for (size_t i : group.nodes)
    for (const auto *names :
         {&graph.nodes[i].inputs, &graph.nodes[i].implicitInputs})
      for (const std::string &name : *names)
        if (!name.empty() && seen.insert(name).second)
          (graph.values.at(name).isConstant ? group.constants : group.inputs)
              .push_back(name);
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (!isInside(i))
      for (const auto *names :
           {&graph.nodes[i].inputs, &graph.nodes[i].implicitInputs})
        readOutside.insert(names->begin(), names->end());
  for (size_t i : group.nodes)
    for (const std::string &name : graph.nodes[i].outputs)
      if (!name.empty() &&
          (readOutside.contains(name) || graph.values.at(name).isGraphOutput))
        group.outputs.push_back(name);
  return group;
}
