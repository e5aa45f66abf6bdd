//===- ContractedDag.cpp - DAG with cycle-free node merging ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Merging two nodes creates a cycle if a path between them passes through a
// third. A bidirectional search, one edge per side in turn, looks for it
// between their positions in the order. If there is none, the side that
// finishes first has visited all nodes that must move across the merged node.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Fusion/ContractedDag.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

using namespace mpc;

/// Gap between the labels of nodes appended to the order.
static constexpr uint64_t kGap = uint64_t(1) << 32;

ContractedDag::Node ContractedDag::addNode(llvm::ArrayRef<Node> inputs) {
  auto node = static_cast<Node>(nodes.size());
  Data data;
  data.parent = node;
  data.before = last;
  data.behind = kNone;
  data.label = last == kNone ? kGap : nodes[last].label + kGap;
  data.inputs.assign(inputs.begin(), inputs.end());
  nodes.push_back(std::move(data));
  (last == kNone ? first : nodes[last].behind) = node;
  last = node;
  for (Node input : inputs)
    nodes[find(input)].outputs.push_back(node);
  return node;
}

void ContractedDag::addEdge(Node from, Node to) {
  from = find(from);
  to = find(to);
  assert(from == to || nodes[from].label < nodes[to].label);
  nodes[from].outputs.push_back(to);
  nodes[to].inputs.push_back(from);
}

ContractedDag::Node ContractedDag::find(Node node) const {
  while (nodes[node].parent != node) {
    nodes[node].parent = nodes[nodes[node].parent].parent;
    node = nodes[node].parent;
  }
  return node;
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

void ContractedDag::unlink(Node node) {
  Data &data = nodes[node];
  (data.before == kNone ? first : nodes[data.before].behind) = data.behind;
  (data.behind == kNone ? last : nodes[data.behind].before) = data.before;
}

void ContractedDag::insertBehind(Node node, Node place) {
  Node behind = place == kNone ? first : nodes[place].behind;
  auto above = [&] {
    return behind == kNone ? std::numeric_limits<uint64_t>::max()
                           : nodes[behind].label;
  };
  auto below = [&] { return place == kNone ? 0 : nodes[place].label; };
  if (above() - below() < 2)
    makeRoom(place == kNone ? behind : place);
  Data &data = nodes[node];
  // Appended nodes get a full gap.
  data.label =
      behind == kNone ? below() + kGap : below() + (above() - below()) / 2;
  data.before = place;
  data.behind = behind;
  (place == kNone ? first : nodes[place].behind) = node;
  (behind == kNone ? last : nodes[behind].before) = node;
}

void ContractedDag::makeRoom(Node place) {
  // The smallest power-of-two range of labels around the position that is not
  // too dense; the permitted density decreases with the size (order maintenance
  // after Dietz and Sleator).
  Node begin = place, end = place;
  uint64_t count = 1;
  double allowed = 1;
  for (unsigned bits = 1; bits < 64; ++bits) {
    allowed *= 1.5;
    uint64_t low = nodes[place].label >> bits << bits,
             high = low + ((uint64_t(1) << bits) - 1);
    for (; nodes[begin].before != kNone &&
           nodes[nodes[begin].before].label >= low;
         ++count)
      begin = nodes[begin].before;
    for (; nodes[end].behind != kNone && nodes[nodes[end].behind].label <= high;
         ++count)
      end = nodes[end].behind;
    uint64_t step = (high - low) / (count + 1);
    if (double(count) > allowed || step < 2)
      continue;
    uint64_t label = low;
    for (Node node = begin;; node = nodes[node].behind) {
      nodes[node].label = label += step;
      if (node == end)
        return;
    }
  }
}

//===----------------------------------------------------------------------===//
// Merges
//===----------------------------------------------------------------------===//

/// Search from one node towards the other, one edge per step, in breadth-first
/// order: many paths pass through a single node.
class ContractedDag::Search {
public:
  Search(ContractedDag &dag, Node from, Node to, bool forward)
      : dag(dag), from(from), to(to), node(from), forward(forward) {}

  enum class Step { Goes, Done, Cycle };
  Step step() {
    while (true) {
      std::vector<Node> &edges =
          forward ? dag.nodes[node].outputs : dag.nodes[node].inputs;
      if (edge == edges.size()) {
        if (next == found.size())
          return Step::Done;
        node = found[next++];
        edge = 0;
        continue;
      }
      Node reached = dag.find(edges[edge]);
      if (reached == node) {
        // Inside the merged node: drop the edge.
        edges[edge] = edges.back();
        edges.pop_back();
        continue;
      }
      edges[edge++] = reached;
      ++dag.visited;
      if (reached == to)
        return node == from ? Step::Goes : meet(node);
      Data &data = dag.nodes[reached];
      bool isBetween = forward ? data.label < dag.nodes[to].label
                               : data.label > dag.nodes[to].label;
      unsigned &mine = forward ? data.seenForward : data.seenBackward;
      unsigned other = forward ? data.seenBackward : data.seenForward;
      if (!isBetween || mine == dag.search)
        return Step::Goes;
      if (other == dag.search)
        return meet(reached);
      mine = dag.search;
      found.push_back(reached);
      return Step::Goes;
    }
  }

  /// Nodes reached between the two ends.
  std::vector<Node> found;

private:
  Step meet(Node node) {
    dag.between = node;
    return Step::Cycle;
  }

  ContractedDag &dag;
  Node from, to;
  /// Cursor: an edge of a node, and the next node.
  Node node;
  size_t edge = 0, next = 0;
  bool forward;
};

bool ContractedDag::merge(Node a, Node b) {
  a = find(a);
  b = find(b);
  if (a == b)
    return true;
  if (nodes[a].label > nodes[b].label)
    std::swap(a, b);
  ++search;
  Search down(*this, a, b, /*forward=*/true), up(*this, b, a, false);
  Search *done = nullptr;
  for (bool turn = true; !done; turn = !turn) {
    Search &side = turn ? up : down;
    switch (side.step()) {
    case Search::Step::Cycle:
      return false;
    case Search::Step::Done:
      done = &side;
      break;
    case Search::Step::Goes:
      break;
    }
  }

  // Move the ancestors of `b` before `a`, or the descendants of `a` after `b`.
  auto byLabel = [&](Node left, Node right) {
    return nodes[left].label < nodes[right].label;
  };
  llvm::sort(done->found, byLabel);
  Node kept = done == &up ? a : b, gone = kept == a ? b : a;
  for (Node node : done->found)
    unlink(node);
  Node place = done == &up ? nodes[a].before : b;
  for (Node node : done->found) {
    insertBehind(node, place);
    place = node;
  }

  unlink(gone);
  // Append the shorter edge list to the longer one. The position stays with the
  // node that remains in the order.
  Data &into = nodes[kept], &from = nodes[gone];
  auto join = [](std::vector<Node> &edges, std::vector<Node> &more) {
    if (edges.size() < more.size())
      edges.swap(more);
    edges.insert(edges.end(), more.begin(), more.end());
    more = {};
  };
  join(into.inputs, from.inputs);
  join(into.outputs, from.outputs);
  into.size += from.size;
  from.parent = kept;
  return true;
}
