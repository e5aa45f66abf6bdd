//===- TensorFlowGraph.h - recorded graphs in the dialect -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds a function from the nodes of a recorded TensorFlow graph and maps the
// edges and ports of the recording to operands and results.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_REPLAY_TENSORFLOWGRAPH_H
#define MPC_TOOLS_REPLAY_TENSORFLOWGRAPH_H

#include "Replay.h"

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>

namespace mpc::replay {

/// A result of a node: its name and number.
using Port = std::pair<std::string, int>;

/// One operand of one of our ops that reads a node's result.
struct Edge {
  Port from;
  std::string to;
  mlir::Operation *op = nullptr;
  unsigned operand = 0;
};

/// A recorded graph as a function.
class TensorFlowGraph {
public:
  /// Builds `graph`, an entry with nodes and fetches. The error names the part
  /// that the dialect cannot express.
  static llvm::Expected<TensorFlowGraph> build(const Json &graph,
                                               mlir::MLIRContext &context);

  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// The value of every port but constants, which passes replace.
  std::map<Port, mlir::Value> values;
  /// Every read of such a value by another node, but for returned ones.
  std::vector<Edge> edges;
  /// Ops of every node.
  std::map<std::string, std::vector<mlir::Operation *>> ops;
};

} // namespace mpc::replay

#endif // MPC_TOOLS_REPLAY_TENSORFLOWGRAPH_H
