//===- GraphDrawing.h - graph layout of a report ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lays out the graph of an explanation with Graphviz' program `dot`.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_GRAPHDRAWING_H
#define MPC_TOOLS_MPC_GRAPHDRAWING_H

#include "HtmlReport.h"

namespace mpc::tool {

/// Nodes, boxes of launches and lines of an explanation's document:
///
///   {"of": "ops" or "kernels", "width", "height",
///    "nodes": [{"op" or "kernel": number, or "input" or "result": name,
///               "x", "y", "width", "height"}],
///    "kernels": [{"kernel": number, "x", "y", "width", "height"}],
///    "edges": [{"from", "to", "type", "shape", "path"}]}
///
/// in pixels from the upper left corner; edges are between numbers of nodes,
/// `path` is SVG's. More ops than a reader could tell apart become one node per
/// launch. Fails in one sentence where dot is missing or gives no answer.
Result<Json> drawGraph(const Json &explanation);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_GRAPHDRAWING_H
