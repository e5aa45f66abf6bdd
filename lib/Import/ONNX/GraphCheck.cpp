//===- GraphCheck.cpp - SSA check of a graph ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Graph.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Returns true if node `from` transitively depends on node `to`.
static bool dependsOn(const Graph &graph,
                      const llvm::StringMap<size_t> &producers, size_t from,
                      size_t to) {
  SmallVector<bool> seen(graph.nodes.size(), false);
  SmallVector<size_t> open = {from};
  while (!open.empty()) {
    size_t node = open.pop_back_val();
    if (node == to)
      return true;
    if (seen[node])
      continue;
    seen[node] = true;
    for (const std::string &input : graph.nodes[node].inputs) {
      auto producer = producers.find(input);
      if (producer != producers.end())
        open.push_back(producer->second);
    }
  }
  return false;
}

/// Reports why the input `name` of node `index` is not defined before it.
static LogicalResult reportUndefined(const Graph &graph, size_t index,
                                     StringRef name) {
  llvm::StringMap<size_t> producers;
  for (auto [i, node] : llvm::enumerate(graph.nodes))
    for (const std::string &output : node.outputs)
      producers.try_emplace(output, i);
  const Node &node = graph.nodes[index];
  InFlightDiagnostic diagnostic = emitError(node.location) << node.op << ": ";
  auto producer = producers.find(name);
  if (producer == producers.end())
    return diagnostic
           << "input '" << name
           << "' is no graph input, no initializer and no node's output";
  if (dependsOn(graph, producers, producer->second, index))
    return diagnostic << "the node is part of a cycle through its input '"
                      << name << "'";
  return diagnostic << "input '" << name << "' is produced by the later node '"
                    << graph.nodes[producer->second].name
                    << "'; nodes must stand in topological order";
}

bool NameScope::contains(StringRef name) const {
  for (const NameScope *scope = this; scope; scope = scope->outer)
    if (scope->names.contains(name))
      return true;
  return false;
}

LogicalResult mpc::onnx::checkGraph(const Graph &graph, Location location,
                                    const NameScope *outer) {
  NameScope defined;
  defined.outer = outer;
  llvm::StringMap<char> &local = defined.names;
  for (const ValueInfo &input : graph.inputs) {
    if (input.name.empty())
      return emitError(location)
             << "graph '" << graph.name << "' has an input without a name";
    if (!local.try_emplace(input.name, 'i').second)
      return emitError(location)
             << "graph '" << graph.name << "' has two inputs named '"
             << input.name << "'";
  }
  for (const TensorData &tensor : graph.initializers) {
    if (tensor.name.empty())
      return emitError(location) << "graph '" << graph.name
                                 << "' has an initializer without a name";
    // An initializer with an input's name is the input's default value.
    auto [it, fresh] = local.try_emplace(tensor.name, 't');
    if (!fresh && it->second == 't')
      return emitError(location)
             << "graph '" << graph.name << "' has two initializers named '"
             << tensor.name << "'";
    it->second = 't';
  }
  for (auto [i, node] : llvm::enumerate(graph.nodes)) {
    for (const std::string &input : node.inputs)
      if (!input.empty() && !defined.contains(input))
        return reportUndefined(graph, i, input);
    for (const NodeAttribute &attribute : node.attributes)
      if (attribute.graph &&
          failed(checkGraph(*attribute.graph, node.location, &defined)))
        return failure();
    for (const std::string &output : node.outputs) {
      if (output.empty())
        continue;
      if (!local.try_emplace(output, 'n').second)
        return emitError(node.location)
               << node.op << ": output '" << output
               << "' is already the name of another value";
    }
  }
  for (const ValueInfo &output : graph.outputs)
    if (!defined.contains(output.name))
      return emitError(location)
             << "graph output '" << output.name
             << "' is no graph input, no initializer and no node's output";
  return success();
}
