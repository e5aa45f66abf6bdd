//===- CastPlacement.cpp - cast placement as a minimum cut ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Low values are on the source's side (Boykov-Kolmogorov max-flow). A cast
// shared by several readers has a vertex per direction, which is low as soon as
// one reader is low (or high as soon as one is high); the arc between it and
// the value has the cast's cost.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/CastPlacement.h"

#include "llvm/Support/ErrorHandling.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>

#include <limits>

using namespace mpc;

#ifdef BOOST_NO_EXCEPTIONS
// Boost calls these instead of throwing; unreachable for a valid graph.
void boost::throw_exception(const std::exception &error) {
  llvm::report_fatal_error(error.what());
}
void boost::throw_exception(const std::exception &error,
                            const boost::source_location &) {
  llvm::report_fatal_error(error.what());
}
#endif

int64_t mpc::cost(const PlacementProblem::Cast &cast,
                  llvm::ArrayRef<StorageLabel> labels) {
  StorageLabel label = labels[cast.value];
  bool differs = llvm::any_of(
      cast.readers, [&](unsigned reader) { return labels[reader] != label; });
  if (!differs)
    return 0;
  return label == StorageLabel::High ? cast.narrow : cast.widen;
}

int64_t mpc::cost(const PlacementProblem &problem,
                  llvm::ArrayRef<StorageLabel> labels) {
  int64_t sum = 0;
  for (auto [node, label] : llvm::zip_equal(problem.nodes, labels))
    sum += label == StorageLabel::High ? node.highCost : node.lowCost;
  for (const PlacementProblem::Cast &cast : problem.casts)
    sum += cost(cast, labels);
  return sum;
}

namespace {

using Traits =
    boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
struct ArcData {
  int64_t capacity = 0, residual = 0;
  Traits::edge_descriptor reverse;
};
struct VertexData {
  Traits::edge_descriptor predecessor;
  boost::default_color_type color = boost::default_color_type();
  int64_t distance = 0;
};
using Network = boost::adjacency_list<boost::vecS, boost::vecS,
                                      boost::directedS, VertexData, ArcData>;

/// A flow network whose minimum cuts are the problem's solutions.
class CutNetwork {
public:
  explicit CutNetwork(const PlacementProblem &problem)
      : network(problem.nodes.size() + 2), source(problem.nodes.size()),
        sink(problem.nodes.size() + 1) {
    for (auto [index, node] : llvm::enumerate(problem.nodes)) {
      bool fixed = node.hard.has_value();
      bool low = fixed && *node.hard == StorageLabel::Low;
      connect(source, index, fixed ? (low ? kNever : 0) : node.highCost);
      connect(index, sink, fixed ? (low ? 0 : kNever) : node.lowCost);
    }
    for (const PlacementProblem::Cast &cast : problem.casts)
      addCast(cast);
  }

  /// The smallest set of low values of least cost: the vertices reachable from
  /// the source in the residual network.
  std::vector<StorageLabel> solve(size_t count) {
    boost::boykov_kolmogorov_max_flow(
        network, get(&ArcData::capacity, network),
        get(&ArcData::residual, network), get(&ArcData::reverse, network),
        get(&VertexData::predecessor, network),
        get(&VertexData::color, network), get(&VertexData::distance, network),
        get(boost::vertex_index, network), source, sink);
    std::vector<bool> reached(num_vertices(network));
    std::vector<Traits::vertex_descriptor> pending = {source};
    reached[source] = true;
    while (!pending.empty()) {
      Traits::vertex_descriptor vertex = pending.back();
      pending.pop_back();
      for (auto [arc, end] = out_edges(vertex, network); arc != end; ++arc) {
        Traits::vertex_descriptor next = target(*arc, network);
        if (network[*arc].residual > 0 && !reached[next]) {
          reached[next] = true;
          pending.push_back(next);
        }
      }
    }
    std::vector<StorageLabel> labels(count, StorageLabel::High);
    for (size_t i = 0; i < count; ++i)
      if (reached[i])
        labels[i] = StorageLabel::Low;
    return labels;
  }

private:
  /// Exceeds every finite cut; sums of a few still fit.
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 8;

  /// Arc paid if `low` is low and `high` is high.
  void connect(Traits::vertex_descriptor low, Traits::vertex_descriptor high,
               int64_t capacity) {
    if (capacity == 0)
      return;
    auto forward = add_edge(low, high, network).first;
    auto backward = add_edge(high, low, network).first;
    network[forward].capacity = capacity;
    network[forward].reverse = backward;
    network[backward].reverse = forward;
  }

  void addCast(const PlacementProblem::Cast &cast) {
    if (cast.readers.size() == 1) {
      connect(cast.readers.front(), cast.value, cast.narrow);
      connect(cast.value, cast.readers.front(), cast.widen);
      return;
    }
    if (cast.narrow != 0) {
      Traits::vertex_descriptor copy = add_vertex(network);
      connect(copy, cast.value, cast.narrow);
      for (unsigned reader : cast.readers)
        connect(reader, copy, kNever);
    }
    if (cast.widen != 0) {
      Traits::vertex_descriptor copy = add_vertex(network);
      connect(cast.value, copy, cast.widen);
      for (unsigned reader : cast.readers)
        connect(copy, reader, kNever);
    }
  }

  Network network;
  Traits::vertex_descriptor source, sink;
};

} // namespace

std::vector<StorageLabel> mpc::solvePlacement(const PlacementProblem &problem) {
  return CutNetwork(problem).solve(problem.nodes.size());
}
