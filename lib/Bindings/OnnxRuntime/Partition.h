//===- Partition.h - division of a graph between providers ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_ONNXRUNTIME_PARTITION_H
#define MPC_LIB_BINDINGS_ONNXRUNTIME_PARTITION_H

#include "HostGraph.h"

#include <string>
#include <vector>

namespace mpc::ort {

/// Divides the nodes with `isSupported` into groups that can each be one node:
/// no path between two nodes of a group leaves the group. Alternates between
/// running all supported and all other nodes that are ready, so that a group is
/// as large as the dependences on other nodes permit. Groups are in topological
/// order. `consumers[i]` are the nodes that depend on node `i`.
std::vector<std::vector<size_t>>
partition(const std::vector<std::vector<size_t>> &consumers,
          const std::vector<bool> &isSupported);

/// Returns for each node the nodes that read its results.
std::vector<std::vector<size_t>> consumersOf(const HostGraph &graph);

/// Returns why mpc cannot compile the node, judged by its operator and by the
/// kinds and types of its values; empty if it may.
std::string findObstacle(const HostGraph &graph, const HostNode &node);

/// Returns true for a node whose results are random numbers. ONNX Runtime
/// continues its sequence from run to run; a compiled program repeats one.
bool isRandom(const HostNode &node);

/// Returns why a value cannot pass between mpc and ONNX Runtime; empty if it
/// can.
std::string findBoundaryObstacle(const HostValue &value);

/// Estimates the gain of compiling a node: 4 for a contraction or a recurrent
/// network, 0 for a movement of data, 1 for other ops.
int gainOf(const HostNode &node);

/// Least sum of gains of a group in a graph with other nodes. A smaller one is
/// left to ONNX Runtime: the call costs more than the fusion saves.
inline constexpr int kLeastGain = 4;

/// Returns true if ONNX Runtime's CPU provider has no kernels for a float type
/// of the node.
bool needsMpc(const HostGraph &graph, const HostNode &node);

} // namespace mpc::ort

#endif // MPC_LIB_BINDINGS_ONNXRUNTIME_PARTITION_H
