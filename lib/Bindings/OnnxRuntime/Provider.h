//===- Provider.h - execution provider of one session -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_ONNXRUNTIME_PROVIDER_H
#define MPC_LIB_BINDINGS_ONNXRUNTIME_PROVIDER_H

#include "Subgraph.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mpc::ort {

/// Claims the nodes of a session's graph that mpc compiles, and runs them. ONNX
/// Runtime calls all functions of one session from one thread.
class Provider : public OrtEp {
public:
  Provider(const HostApi &api, const OrtLogger *logger, ProviderOptions options,
           Device device);

private:
  /// Node groups of a graph that mpc compiles, by position in HostGraph::nodes,
  /// and why other nodes are not in them.
  struct Claims {
    std::vector<std::unique_ptr<Subgraph>> subgraphs;
    std::vector<NodeGroup> groups;
    std::vector<std::string> obstacles;
  };

  Status claim(const OrtGraph *graph, OrtEpGraphSupportInfo *support);
  Claims findClaims(const HostGraph &graph) const;
  /// Claims one node, so that the session fails: ONNX Runtime reports failures
  /// of a compile only.
  Status claimFailure(const HostGraph &graph, const Status &failure,
                      OrtEpGraphSupportInfo *support);
  /// Fails if an option names what the graph lacks: a symbol of an input, or an
  /// op in one of the subgraphs.
  Status
  checkUse(const HostGraph &graph,
           const std::vector<std::unique_ptr<Subgraph>> &subgraphs) const;
  /// Marks the nodes of `group` whose values cannot pass between mpc and ONNX
  /// Runtime; returns whether there are some.
  static bool markBoundary(const HostGraph &graph, const NodeGroup &group,
                           std::vector<std::string> &obstacles);
  void report(const HostGraph &graph, const Claims &claims) const;
  /// Adds the EPContext nodes of this provider; returns whether there are some.
  Result<bool> claimContexts(const HostGraph &graph,
                             OrtEpGraphSupportInfo *support);
  /// Reads the file of an EPContext node, which is none if the node is of
  /// another provider. Refused unless the session trusts machine code.
  Result<std::optional<ExecutableFile>> readContext(const HostGraph &graph,
                                                    const HostNode &node);
  Status addGroup(const HostGraph &graph, const std::vector<size_t> &nodes,
                  bool dropsConstants, OrtEpGraphSupportInfo *support) const;

  Status compileAll(const OrtNode **fused, size_t count,
                    OrtNodeComputeInfo **infos, OrtNode **contextNodes);
  Result<OrtNode *> makeContextNode(const Subgraph &subgraph,
                                    const std::string &name,
                                    const std::vector<std::string> &inputs,
                                    const std::vector<std::string> &outputs);

  SessionState session;
  /// Number of files written beside a compiled model.
  int contextFiles = 0;
  /// Claimed subgraphs by their first output, until ONNX Runtime compiles them.
  /// One that failed to load is claimed as well: ONNX Runtime reports failures
  /// of a compile only.
  std::map<std::string, Result<std::unique_ptr<Subgraph>>> claimed;
};

} // namespace mpc::ort

#endif // MPC_LIB_BINDINGS_ONNXRUNTIME_PROVIDER_H
