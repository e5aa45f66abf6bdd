//===- ContractedDagTest.cpp - edge contraction keeps a graph acyclic -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Fusion/ContractedDag.h"

#include "gtest/gtest.h"

#include <random>
#include <set>

using namespace mpc;

namespace {

using Node = ContractedDag::Node;

/// The same by looking at everything.
class Slow {
public:
  void addNode(const std::vector<Node> &inputs) {
    part.push_back(part.size());
    for (Node input : inputs)
      edges.insert({input, Node(part.size() - 1)});
  }

  bool merge(Node a, Node b) {
    a = part[a];
    b = part[b];
    if (a == b)
      return true;
    if (reachesThroughOther(a, b) || reachesThroughOther(b, a))
      return false;
    for (Node &other : part)
      if (other == b)
        other = a;
    return true;
  }

  std::vector<Node> part;

private:
  bool reachesThroughOther(Node from, Node to) const {
    std::set<Node> seen;
    std::vector<Node> pending = {from};
    while (!pending.empty()) {
      Node node = pending.back();
      pending.pop_back();
      for (auto [source, target] : edges) {
        if (part[source] != node || part[target] == node)
          continue;
        if (part[target] == to && node != from)
          return true;
        if (part[target] != to && seen.insert(part[target]).second)
          pending.push_back(part[target]);
      }
    }
    return false;
  }

  std::set<std::pair<Node, Node>> edges;
};

TEST(ContractedDagTest, AgreesWithASearchOfTheWholeGraph) {
  for (unsigned round = 0; round < 300; ++round) {
    std::mt19937 random(round);
    auto below = [&](unsigned bound) { return unsigned(random() % bound); };
    ContractedDag dag;
    Slow slow;
    unsigned count = 2 + below(30), window = 1 + below(count);
    for (unsigned i = 0; i < count; ++i) {
      std::vector<Node> inputs;
      for (unsigned n = i == 0 ? 0 : below(3); n > 0; --n)
        inputs.push_back(i - 1 - below(std::min(i, window)));
      dag.addNode(inputs);
      slow.addNode(inputs);
    }
    for (unsigned step = 0; step < 3 * count; ++step) {
      Node a = below(count), b = below(count);
      ASSERT_EQ(slow.merge(a, b), dag.merge(a, b)) << "round " << round;
      for (Node i = 0; i < count; ++i)
        ASSERT_EQ(slow.part[i] == slow.part[a], dag.find(i) == dag.find(a));
    }
  }
}

TEST(ContractedDagTest, AWayThroughAThirdNodeIsNoMerge) {
  ContractedDag dag;
  Node a = dag.addNode({}), b = dag.addNode(a), c = dag.addNode({a, b});
  EXPECT_FALSE(dag.merge(a, c));
  EXPECT_EQ(dag.getBetween(), b);
  EXPECT_TRUE(dag.merge(a, b));
  EXPECT_TRUE(dag.merge(c, a)) << "the third node has become one of the two";
  EXPECT_EQ(dag.sizeOf(b), 3u);
}

/// Nodes that the merges of the graphs below visit, per node.
int64_t visitedPerNode(const ContractedDag &dag, unsigned count) {
  return dag.getVisited() / count;
}

TEST(ContractedDagTest, AChainTakesAFewVisitsPerNode) {
  constexpr unsigned kCount = 20000;
  ContractedDag dag;
  dag.addNode({});
  for (Node i = 1; i < kCount; ++i)
    dag.addNode(i - 1);
  for (Node i = 1; i < kCount; ++i)
    ASSERT_TRUE(dag.merge(i, i - 1));
  EXPECT_LE(visitedPerNode(dag, kCount), 4);
}

TEST(ContractedDagTest, ReadersOfOneValueTakeAFewVisitsEach) {
  constexpr unsigned kCount = 20000;
  ContractedDag dag;
  dag.addNode({});
  for (Node i = 1; i < kCount; ++i)
    dag.addNode(0u);
  // In reverse order, so that all other nodes are in between.
  for (Node i = kCount - 1; i > 0; --i)
    ASSERT_TRUE(dag.merge(0, i));
  EXPECT_LE(visitedPerNode(dag, kCount), 4);
}

TEST(ContractedDagTest, AnEdgeThatIsAddedIsAWay) {
  ContractedDag dag;
  Node a = dag.addNode({}), b = dag.addNode(a), c = dag.addNode(a);
  dag.addEdge(b, c);
  EXPECT_FALSE(dag.merge(a, c));
  EXPECT_EQ(dag.getBetween(), b);
}

TEST(ContractedDagTest, AShortWayIsFoundAtOnce) {
  // A line of nodes that all read the first one.
  constexpr unsigned kCount = 20000;
  ContractedDag dag;
  Node first = dag.addNode({}), before = first;
  for (Node i = 1; i < kCount; ++i)
    before = dag.addNode({before, first});
  for (Node i = kCount - 1; i > 1; --i)
    ASSERT_FALSE(dag.merge(first, i));
  EXPECT_LE(visitedPerNode(dag, kCount), 8);
}

TEST(ContractedDagTest, RoomForLabelsIsFoundWhereverNodesMove) {
  // Every merge moves one node right before the first.
  constexpr unsigned kCount = 3000;
  ContractedDag dag;
  Node first = dag.addNode({});
  std::vector<Node> roots, readers;
  for (unsigned i = 0; i < kCount; ++i)
    roots.push_back(dag.addNode({}));
  for (unsigned i = 0; i < kCount; ++i)
    readers.push_back(dag.addNode({first, roots[i]}));
  for (unsigned i = 0; i < kCount; ++i)
    ASSERT_TRUE(dag.merge(first, readers[i]));
  for (unsigned i = 1; i < kCount; ++i)
    ASSERT_TRUE(dag.merge(roots[0], roots[i]));
  ASSERT_TRUE(dag.merge(first, roots[0]));
  EXPECT_EQ(dag.sizeOf(first), 2 * kCount + 1);
}

} // namespace
