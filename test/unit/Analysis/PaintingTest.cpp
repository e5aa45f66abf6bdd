//===- PaintingTest.cpp - the rules of auto_mixed_precision ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One or more cases for each numbered rule. Graphs are written as strings of
// nodes in a chain: A allow, D deny, I infer, C clear, N in no list.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Painting.h"

#include "llvm/ADT/StringRef.h"

#include "gtest/gtest.h"

#include <random>

using namespace mpc;

namespace {

PaintNode node(char list) {
  PaintNode result;
  switch (list) {
  case 'A':
    result.list = PaintList::Allow;
    break;
  case 'D':
    result.list = PaintList::Deny;
    break;
  case 'I':
    result.list = PaintList::Infer;
    break;
  case 'C':
    result.list = PaintList::Clear;
    break;
  default:
    break;
  }
  return result;
}

/// A graph under construction.
struct Graph : PaintGraph {
  unsigned add(char list, llvm::ArrayRef<unsigned> inputs = {}) {
    return add(node(list), inputs);
  }
  unsigned add(const PaintNode &data, llvm::ArrayRef<unsigned> inputs = {}) {
    unsigned index = addNode(data);
    for (unsigned input : inputs)
      addEdge(input, index);
    return index;
  }
};

/// Each node reads the one before it.
Graph chain(llvm::StringRef lists) {
  Graph graph;
  for (char list : lists) {
    unsigned index = graph.add(list);
    if (index > 0)
      graph.addEdge(index - 1, index);
  }
  return graph;
}

/// One letter per node: a painted, d denied, - neither.
std::string colours(const PaintGraph &graph, const PaintOptions &options = {}) {
  Painting painting(graph, options);
  std::string result;
  for (unsigned i = 0; i < graph.size(); ++i)
    result += painting.isPainted(i) ? 'a' : painting.isDenied(i) ? 'd' : '-';
  return result;
}

/// Rules 1 to 3 and 5 to 9 are easier to see without rule 4.
const PaintOptions kNoFollow = {/*inferFollowsPaint=*/false};

// Rule 0: a fetched node keeps its type, seeds nothing and passes no colour.
TEST(PaintingTest, Rule0PreservedNodeSeedsNothing) {
  Graph graph;
  PaintNode fetched = node('A');
  fetched.isPreserved = true;
  unsigned first = graph.add(fetched);
  graph.add('C', {first});
  EXPECT_EQ(colours(graph), "--");
}

TEST(PaintingTest, Rule0PreservedNodeStopsColour) {
  Graph graph;
  unsigned first = graph.add('A');
  PaintNode fetched = node('C');
  fetched.isPreserved = true;
  unsigned second = graph.add(fetched, {first});
  graph.add('A', {second});
  EXPECT_EQ(colours(graph), "a-a");
}

TEST(PaintingTest, Rule1SeedsEveryAllowNode) {
  EXPECT_EQ(colours(chain("ANA")), "a-a");
}

// Without a seed nothing is decided, not even denied.
TEST(PaintingTest, Rule1StopsWithoutSeed) {
  EXPECT_EQ(colours(chain("DICI")), "----");
}

// The clear node before the allow node leads to no deny or infer node, so it is
// free; the infer node after the allow node is beyond the denial.
TEST(PaintingTest, Rule2DenyStopsBeforeTheClearTail) {
  Graph graph = chain("DICICAI");
  EXPECT_EQ(colours(graph, kNoFollow), "ddddaa-");
  Painting painting(graph, kNoFollow);
  EXPECT_EQ(painting.getRule(1), PaintRule::Deny);
  EXPECT_EQ(painting.getCause(1), 0u);
  EXPECT_EQ(painting.getRule(4), PaintRule::Spread);
}

TEST(PaintingTest, Rule2DenyDoesNotPassAllow) {
  EXPECT_EQ(colours(chain("DAIA")), "daaa");
}

TEST(PaintingTest, Rule2DenyDoesNotPassAnOpInNoList) {
  EXPECT_EQ(colours(chain("DNCIA"), kNoFollow), "d---a");
}

// Denial reaches a clear node that leads to an infer node by one of its ways.
TEST(PaintingTest, Rule2DenyReachesClearNodeWithAnInferReader) {
  Graph graph;
  unsigned deny = graph.add('D');
  unsigned clear = graph.add('C', {deny});
  graph.add('A', {clear});
  graph.add('I', {clear});
  EXPECT_EQ(colours(graph), "ddad");
}

TEST(PaintingTest, Rule3PaintsBetweenAllowNodes) {
  Graph graph = chain("AICIA");
  EXPECT_EQ(colours(graph, kNoFollow), "aaaaa");
  EXPECT_EQ(Painting(graph).getRule(1), PaintRule::Between);
}

TEST(PaintingTest, Rule3NeedsAllowOnBothSides) {
  EXPECT_EQ(colours(chain("IAI"), kNoFollow), "-a-");
}

TEST(PaintingTest, Rule3DenyOnTheWayStops) {
  EXPECT_EQ(colours(chain("AIDIA"), kNoFollow), "a-dda");
}

TEST(PaintingTest, Rule3NodeWithoutSixteenBitFormStops) {
  Graph graph;
  unsigned first = graph.add('A');
  PaintNode wideOnly = node('I');
  wideOnly.supportsNarrow = false;
  unsigned second = graph.add(wideOnly, {first});
  graph.add('A', {graph.add('I', {second})});
  EXPECT_EQ(colours(graph, kNoFollow), "a--a");
}

TEST(PaintingTest, Rule3NodeOfAnotherTypeStops) {
  Graph graph;
  unsigned first = graph.add('A');
  PaintNode integer = node('C');
  integer.isWide = false;
  graph.add('A', {graph.add(integer, {first})});
  EXPECT_EQ(colours(graph), "a-a");
}

TEST(PaintingTest, Rule4InferFollowsPaintAndItsFollowersFollow) {
  Graph graph = chain("AIINI");
  EXPECT_EQ(colours(graph), "aaa--");
  EXPECT_EQ(Painting(graph).getRule(2), PaintRule::Follow);
  EXPECT_EQ(colours(graph, kNoFollow), "a----");
}

TEST(PaintingTest, Rule4OneDeniedInputForbids) {
  Graph graph;
  unsigned allow = graph.add('A'), deny = graph.add('D');
  graph.add('I', {allow, deny});
  EXPECT_EQ(colours(graph), "add");
}

TEST(PaintingTest, Rule4OtherInputsMayBeAnything) {
  Graph graph;
  unsigned allow = graph.add('A'), other = graph.add('N');
  graph.add('I', {other, allow});
  EXPECT_EQ(colours(graph), "a-a");
}

// Clear nodes are painted after rule 4 has run.
TEST(PaintingTest, Rule4DoesNotLookThroughClear) {
  EXPECT_EQ(colours(chain("ACI")), "aa-");
}

TEST(PaintingTest, Rule4IsIndependentOfTheOrderOfNodes) {
  Graph graph;
  unsigned last = graph.add('I'), middle = graph.add('I'),
           first = graph.add('A');
  graph.addEdge(first, middle);
  graph.addEdge(middle, last);
  EXPECT_EQ(colours(graph), "aaa");
}

TEST(PaintingTest, Rule5SpreadsThroughClearBothWays) {
  Graph graph = chain("NCCACCN");
  EXPECT_EQ(colours(graph), "-aaaaa-");
  EXPECT_EQ(Painting(graph).getRule(1), PaintRule::Spread);
  EXPECT_EQ(Painting(graph).getCause(1), 2u);
}

TEST(PaintingTest, Rule5StopsAtInferAndDenied) {
  EXPECT_EQ(colours(chain("CIACDC")), "--aad-");
  EXPECT_EQ(colours(chain("CICA"), kNoFollow), "--aa");
}

// The seed paints its neighbours before it loses its own colour.
TEST(PaintingTest, Rule6DropsSeedWithoutSixteenBitForm) {
  Graph graph;
  PaintNode wideOnly = node('A');
  wideOnly.supportsNarrow = false;
  unsigned first = graph.add(wideOnly);
  graph.add('C', {first});
  EXPECT_EQ(colours(graph), "-a");
  EXPECT_EQ(Painting(graph).getRule(0), PaintRule::Dropped);
}

TEST(PaintingTest, Rule7ClusterTakesPaint) {
  Graph graph;
  PaintNode list = node('N');
  list.cluster = 0;
  graph.add(list);
  PaintNode popped = node('C');
  popped.cluster = 0;
  graph.add('A', {graph.add(popped)});
  EXPECT_EQ(colours(graph), "aaa");
  EXPECT_EQ(Painting(graph).getRule(0), PaintRule::Cluster);
}

TEST(PaintingTest, Rule7DeniedMemberKeepsTheClusterWide) {
  Graph graph;
  PaintNode pushed = node('C'), popped = node('C');
  pushed.cluster = popped.cluster = 3;
  unsigned push = graph.add(pushed, {graph.add('D')});
  graph.add('I', {push});
  graph.add('A', {graph.add(popped)});
  EXPECT_EQ(colours(graph), "dddda");
}

TEST(PaintingTest, Rule7BackEdgeEndsShareAColour) {
  Graph graph;
  unsigned merge = graph.add('C');
  unsigned product = graph.add('A', {merge});
  unsigned next = graph.add('N', {product});
  graph.addBackEdge(next, merge);
  EXPECT_EQ(colours(graph), "aaa");
}

TEST(PaintingTest, Rule7OneWideReaderKeepsTheLoopWide) {
  Graph graph;
  unsigned painted = graph.add('C'), wide = graph.add('N');
  unsigned product = graph.add('A', {painted});
  unsigned next = graph.add('C', {product});
  graph.addBackEdge(next, painted);
  graph.addBackEdge(next, wide);
  EXPECT_EQ(colours(graph), "--a-");
}

TEST(PaintingTest, Rule8RetargetsCastThatOnlyPaintedNodesRead) {
  Graph graph;
  PaintNode convert = node('N');
  convert.isCastToWide = true;
  unsigned first = graph.add(convert);
  graph.add('A', {first});
  EXPECT_EQ(colours(graph), "aa");
  EXPECT_EQ(Painting(graph).getRule(0), PaintRule::Cast);
}

TEST(PaintingTest, Rule8KeepsCastWithAWideReaderOrNone) {
  Graph graph;
  PaintNode convert = node('N');
  convert.isCastToWide = true;
  unsigned shared = graph.add(convert);
  graph.add('A', {shared});
  graph.add('N', {shared});
  graph.add(convert);
  EXPECT_EQ(colours(graph), "-a--");
}

// An op in no list is never painted, regardless of its position.
TEST(PaintingTest, NodeInNoListBlocks) {
  EXPECT_EQ(colours(chain("ANIA"), kNoFollow), "a--a");
  EXPECT_EQ(colours(chain("ACNCA")), "aa-aa");
}

TEST(PaintingTest, ForceAllPaintsAndDeniesNothing) {
  PaintOptions force;
  force.forceAll = true;
  Graph graph = chain("DINC");
  PaintNode constant = node('N');
  constant.isUnforceable = true;
  graph.add(constant);
  PaintNode wideOnly = node('D');
  wideOnly.supportsNarrow = false;
  graph.add(wideOnly);
  EXPECT_EQ(colours(graph, force), "aaaa--");
}

TEST(PaintingTest, InferAsDenyDeniesInferNodes) {
  PaintOptions strict;
  strict.inferAsDeny = true;
  EXPECT_EQ(colours(chain("AIA"), strict), "ada");
}

// Invariants of any graph, for any colours.
TEST(PaintingTest, InvariantsOnRandomGraphs) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    auto draw = [&](unsigned below) { return unsigned(random() % below); };
    Graph graph;
    unsigned count = 2 + draw(20);
    for (unsigned i = 0; i < count; ++i) {
      PaintNode data = node("ADICN"[draw(5)]);
      data.isPreserved = draw(8) == 0;
      data.supportsNarrow = draw(8) != 0;
      unsigned index = graph.add(data);
      for (unsigned edge = 0; index > 0 && edge < draw(4); ++edge)
        graph.addEdge(draw(index), index);
    }
    Painting painting(graph);
    for (unsigned i = 0; i < count; ++i) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", node " +
                   std::to_string(i));
      const PaintNode &data = graph[i];
      if (painting.isPainted(i)) {
        EXPECT_FALSE(data.isPreserved || !data.supportsNarrow);
        EXPECT_FALSE(painting.isDenied(i));
        EXPECT_NE(data.list, PaintList::None);
        EXPECT_NE(data.list, PaintList::Deny);
      } else if (data.list == PaintList::Allow) {
        EXPECT_TRUE(data.isPreserved || !data.supportsNarrow);
      }
      EXPECT_EQ(painting.getRule(i) == PaintRule::Unpainted ||
                    painting.getRule(i) == PaintRule::Dropped,
                !painting.isPainted(i) && !painting.isDenied(i));
    }
  }
}

} // namespace
