//===- HostGraph.h - a graph of ONNX Runtime --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_ONNXRUNTIME_HOSTGRAPH_H
#define MPC_LIB_BINDINGS_ONNXRUNTIME_HOSTGRAPH_H

#include "HostApi.h"

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace mpc::ort {

/// A value of a graph.
struct HostValue {
  std::string name;
  const OrtValueInfo *handle = nullptr;
  /// ONNXType: kOnnxTensor or another.
  int kind = 0;
  /// TensorProto.DataType of a tensor.
  int dataType = 0;
  /// Extents; -1 for a dynamic one. Empty if `!hasRank`.
  std::vector<int64_t> shape;
  /// True if the rank is known. A scalar that is not an input of the graph
  /// cannot be told from an unknown rank.
  bool hasRank = false;
  /// Name of each symbolic dimension, else empty.
  std::vector<std::string> symbols;
  /// True if the value is a constant, of this graph or an outer one.
  bool isConstant = false;
  bool isGraphOutput = false;
  bool isGraphInput = false;

  /// Returns true if the shape is known and static.
  bool isStatic() const;
};

/// A node of a graph.
struct HostNode {
  const OrtNode *handle = nullptr;
  size_t id = 0;
  std::string name, op, domain;
  /// Names of values; empty for an absent one.
  std::vector<std::string> inputs, outputs;
  /// Values of this graph or outer ones that subgraphs of the node read.
  std::vector<std::string> implicitInputs;
  /// True if a provider has taken the node.
  bool isAssigned = false;
  bool hasSubgraphs = false;

  /// "node 'NAME' (Conv)"
  std::string describe() const;
};

/// A copy of the structure of a graph, which refers to its handles. Valid as
/// long as the graph.
struct HostGraph {
  const OrtGraph *handle = nullptr;
  std::string modelPath;
  int64_t irVersion = 0;
  std::map<std::string, int64_t> opsets;
  /// In topological order.
  std::vector<HostNode> nodes;
  std::unordered_map<std::string, HostValue> values;
  /// True for the body of a control-flow node.
  bool isNested = false;

  static Result<HostGraph> read(const HostApi &api, const OrtGraph *graph);
};

/// Nodes of a graph that are compiled together.
struct NodeGroup {
  /// Positions in HostGraph::nodes, ascending.
  std::vector<size_t> nodes;
  /// Values that the nodes read from outside, without constants; values that
  /// others read; constants. In the order of the nodes.
  std::vector<std::string> inputs, outputs, constants;
};

/// Returns the group of `nodes` with its inputs and outputs.
NodeGroup makeGroup(const HostGraph &graph, std::vector<size_t> nodes);

} // namespace mpc::ort

#endif // MPC_LIB_BINDINGS_ONNXRUNTIME_HOSTGRAPH_H
