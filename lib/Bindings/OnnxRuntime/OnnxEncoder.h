//===- OnnxEncoder.h - subgraphs as ONNX models -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_ONNXRUNTIME_ONNXENCODER_H
#define MPC_LIB_BINDINGS_ONNXRUNTIME_ONNXENCODER_H

#include "HostGraph.h"

#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace mpc::ort {

/// A node group as an ONNX model. Large constants are external data, whose
/// bytes stay in ONNX Runtime's memory.
struct EncodedGroup {
  std::string model;
  /// The same model with large constants as inputs, which ONNX Runtime itself
  /// can run; empty unless requested.
  std::string modelForHost;
  /// A large constant: the name of its value, and its bytes, which are valid as
  /// long as the graph.
  struct Constant {
    std::string value;
    std::span<const std::byte> bytes;
  };
  /// Large constants by the name of their external data.
  std::map<std::string, Constant> constants;
  /// Position in HostGraph::nodes of each node, by the unique name that the
  /// model has for it or for a node in its subgraphs.
  std::unordered_map<std::string, size_t> nodeOfName;
};

/// Encodes `group` of `graph`. Fails, naming the node, if an attribute or
/// constant cannot be read.
Result<EncodedGroup> encodeGroup(const HostApi &api, const HostGraph &graph,
                                 const NodeGroup &group, bool forHost);

} // namespace mpc::ort

#endif // MPC_LIB_BINDINGS_ONNXRUNTIME_ONNXENCODER_H
