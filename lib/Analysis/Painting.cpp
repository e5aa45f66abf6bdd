//===- Painting.cpp - TensorFlow's auto_mixed_precision -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One function per numbered rule, in order. Every traversal visits a node at
// most once, so each rule takes time linear in the edges.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Painting.h"

#include "llvm/ADT/STLExtras.h"

using namespace mpc;
using llvm::ArrayRef;
using llvm::BitVector;
using llvm::SmallVector;

//===----------------------------------------------------------------------===//
// Graph
//===----------------------------------------------------------------------===//

unsigned PaintGraph::addNode(const PaintNode &node) {
  nodes.push_back(node);
  in.emplace_back();
  out.emplace_back();
  return nodes.size() - 1;
}

void PaintGraph::addEdge(unsigned from, unsigned to) {
  out[from].push_back(to);
  in[to].push_back(from);
}

void PaintGraph::addBackEdge(unsigned from, unsigned to) {
  back.push_back({from, to});
}

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

static constexpr unsigned kNoCause = ~0u;

PaintList Painting::listOf(unsigned node) const {
  PaintList list = graph[node].list;
  return options.inferAsDeny && list == PaintList::Infer ? PaintList::Deny
                                                         : list;
}

bool Painting::mayPaint(unsigned node) const {
  const PaintNode &data = graph[node];
  return data.isWide && data.supportsNarrow && !data.isPreserved &&
         !deny.test(node);
}

void Painting::set(BitVector &colour, unsigned node, PaintRule rule,
                   unsigned cause) {
  if (colour.test(node))
    return;
  colour.set(node);
  rules[node] = rule;
  causes[node] = cause;
}

std::optional<unsigned> Painting::getCause(unsigned node) const {
  if (causes[node] == kNoCause)
    return std::nullopt;
  return causes[node];
}

template <typename Enter, typename Visit>
void Painting::walk(unsigned root, bool toInputs, bool toOutputs, Enter enter,
                    Visit visit) const {
  SmallVector<unsigned> pending;
  auto reach = [&](unsigned from) {
    auto step = [&](unsigned to) {
      if (!enter(to))
        return;
      visit(to, from);
      pending.push_back(to);
    };
    if (toInputs)
      for_each(graph.inputs(from), step);
    if (toOutputs)
      for_each(graph.outputs(from), step);
  };
  visit(root, kNoCause);
  pending.push_back(root);
  while (!pending.empty())
    reach(pending.pop_back_val());
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

Painting::Painting(const PaintGraph &graph, const PaintOptions &options)
    : graph(graph), options(options), allow(graph.size()), deny(graph.size()),
      rules(graph.size(), PaintRule::Unpainted),
      causes(graph.size(), kNoCause) {
  seed();
  if (allow.none())
    return;
  propagateDeny();
  matchClusters();
  paintBetween();
  matchClusters();
  if (options.inferFollowsPaint)
    paintFollowers();
  spreadThroughClear();
  dropUnsupported();
  matchClusters();
  matchBackEdges();
  paintCasts();
}

// Rules 0 and 1. A seed without a 16-bit form still propagates color; rule 6
// removes its own.
void Painting::seed() {
  for (unsigned node = 0; node < graph.size(); ++node) {
    const PaintNode &data = graph[node];
    bool forced = options.forceAll && !data.isUnforceable && data.isWide;
    if (!data.isPreserved && (forced || listOf(node) == PaintList::Allow))
      set(allow, node, PaintRule::Seed, kNoCause);
  }
}

// Rule 2. Denial propagates forward, but only into nodes from which another
// deny or infer node is reachable through clear nodes only: a clear tail before
// an allow node stays free.
void Painting::propagateDeny() {
  if (options.forceAll)
    return;
  BitVector leads(graph.size());
  for (unsigned root = 0; root < graph.size(); ++root)
    if (llvm::is_contained({PaintList::Deny, PaintList::Infer}, listOf(root)))
      walk(
          root, /*toInputs=*/true, /*toOutputs=*/false,
          [&](unsigned node) {
            return !leads.test(node) && listOf(node) == PaintList::Clear;
          },
          [&](unsigned node, unsigned) { leads.set(node); });
  for (unsigned root = 0; root < graph.size(); ++root)
    if (listOf(root) == PaintList::Deny && !deny.test(root))
      walk(
          root, /*toInputs=*/false, /*toOutputs=*/true,
          [&](unsigned node) { return !deny.test(node) && leads.test(node); },
          [&](unsigned node, unsigned from) {
            set(deny, node, PaintRule::Deny, from);
          });
}

// Rule 3. Forward from the allow nodes through paintable nodes, then back
// through those reached.
void Painting::paintBetween() {
  auto isRoot = [&](unsigned node) {
    return listOf(node) == PaintList::Allow && !graph[node].isPreserved;
  };
  BitVector reached(graph.size()), done(graph.size());
  for (unsigned root = 0; root < graph.size(); ++root)
    if (isRoot(root))
      walk(
          root, /*toInputs=*/false, /*toOutputs=*/true,
          [&](unsigned node) {
            return !reached.test(node) && mayPaint(node) &&
                   llvm::is_contained({PaintList::Clear, PaintList::Infer},
                                      listOf(node));
          },
          [&](unsigned node, unsigned) { reached.set(node); });
  for (unsigned root = 0; root < graph.size(); ++root)
    if (isRoot(root) && !done.test(root))
      walk(
          root, /*toInputs=*/true, /*toOutputs=*/false,
          [&](unsigned node) { return !done.test(node) && reached.test(node); },
          [&](unsigned node, unsigned from) {
            done.set(node);
            set(allow, node, PaintRule::Between, from);
          });
}

// Rule 4, to a fixed point: newly painted nodes paint their own followers.
void Painting::paintFollowers() {
  SmallVector<unsigned> pending;
  for (unsigned node = 0; node < graph.size(); ++node)
    pending.push_back(node);
  std::reverse(pending.begin(), pending.end());
  while (!pending.empty()) {
    unsigned node = pending.pop_back_val();
    if (allow.test(node) || !mayPaint(node) ||
        listOf(node) != PaintList::Infer ||
        llvm::any_of(graph.inputs(node),
                     [&](unsigned in) { return deny.test(in); }))
      continue;
    const unsigned *cause = llvm::find_if(
        graph.inputs(node), [&](unsigned in) { return allow.test(in); });
    if (cause == graph.inputs(node).end())
      continue;
    set(allow, node, PaintRule::Follow, *cause);
    llvm::append_range(pending, graph.outputs(node));
  }
}

// Rule 5.
void Painting::spreadThroughClear() {
  SmallVector<unsigned> roots;
  llvm::append_range(roots, allow.set_bits());
  for (unsigned root : roots)
    walk(
        root, /*toInputs=*/true, /*toOutputs=*/true,
        [&](unsigned node) {
          return !allow.test(node) && mayPaint(node) &&
                 listOf(node) == PaintList::Clear;
        },
        [&](unsigned node, unsigned from) {
          set(allow, node, PaintRule::Spread, from);
        });
}

// Rule 6.
void Painting::dropUnsupported() {
  SmallVector<unsigned> painted;
  llvm::append_range(painted, allow.set_bits());
  for (unsigned node : painted)
    if (!graph[node].isWide || !graph[node].supportsNarrow) {
      allow.reset(node);
      rules[node] = PaintRule::Dropped;
      causes[node] = kNoCause;
    }
}

// Rule 7: in a cluster denial takes precedence over paint.
void Painting::matchClusters() {
  int clusters = 0;
  for (unsigned node = 0; node < graph.size(); ++node)
    clusters = std::max(clusters, graph[node].cluster + 1);
  if (clusters == 0)
    return;
  std::vector<unsigned> denied(clusters, kNoCause), painted(clusters, kNoCause);
  for (unsigned node = 0; node < graph.size(); ++node) {
    int cluster = graph[node].cluster;
    if (cluster < 0)
      continue;
    if (deny.test(node))
      denied[cluster] = node;
    if (allow.test(node))
      painted[cluster] = node;
  }
  for (unsigned node = 0; node < graph.size(); ++node) {
    int cluster = graph[node].cluster;
    if (cluster < 0)
      continue;
    if (denied[cluster] != kNoCause) {
      allow.reset(node);
      set(deny, node, PaintRule::Cluster, denied[cluster]);
    } else if (painted[cluster] != kNoCause) {
      set(allow, node, PaintRule::Cluster, painted[cluster]);
    }
  }
}

// Rule 7 for loops: one float32 reader of a back edge makes all of them wide,
// and the loop-carried value takes its readers' color.
void Painting::matchBackEdges() {
  for (auto [from, to] : graph.backEdges()) {
    unsigned source = from;
    auto readers =
        make_filter_range(graph.backEdges(), [source](const auto &e) {
          return e.first == source;
        });
    auto wide = llvm::find_if(
        readers, [&](const auto &edge) { return !allow.test(edge.second); });
    auto match = [&](unsigned node, unsigned cause, bool paint) {
      if (allow.test(node) == paint)
        return;
      if (paint)
        return set(allow, node, PaintRule::Cluster, cause);
      allow.reset(node);
      rules[node] = PaintRule::Cluster;
      causes[node] = cause;
    };
    if (wide == readers.end()) {
      match(source, to, /*paint=*/true);
      continue;
    }
    unsigned cause = (*wide).second;
    for (const auto &edge : readers)
      match(edge.second, cause, /*paint=*/false);
    match(source, cause, /*paint=*/false);
  }
}

// Rule 8. Casts that feed casts are visited once, in order.
void Painting::paintCasts() {
  for (unsigned node = 0; node < graph.size(); ++node) {
    const PaintNode &data = graph[node];
    ArrayRef<unsigned> readers = graph.outputs(node);
    if (data.isCastToWide && data.isWide && data.supportsNarrow &&
        !data.isPreserved && !readers.empty() &&
        llvm::all_of(readers,
                     [&](unsigned reader) { return allow.test(reader); }))
      set(allow, node, PaintRule::Cast, readers.front());
  }
}
