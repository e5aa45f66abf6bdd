//===- GreedyFusion.cpp - greedy operator fusion --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Priority queue of fusion candidates. A fusion changes the candidates of its
// neighbors: they are recomputed, and outdated entries are skipped by the
// groups' versions.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Fusion/GreedyFusion.h"

#include "FusionRules.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"

#include "llvm/ADT/bit.h"

#include <algorithm>
#include <optional>
#include <queue>

using namespace mlir;
using namespace mpc;

namespace {

class Queue {
public:
  Queue(FusionGraph &graph, FusionRules &rules)
      : graph(graph), rules(rules), waiting(graph.getNumGroups()) {}

  std::vector<FusionDecision> run() {
    // A fusion that a third kernel prevented may be possible once that kernel
    // is merged with one of the two.
    do {
      progress = false;
      for (Operation *op : rules.operations())
        if (FusionGroup *group = graph.groupOf(op); group->ops.front() == op)
          push(group);
      drain();
    } while (progress);
    return std::move(decisions);
  }

  /// Number of candidates pushed onto the queue.
  int64_t getPushed() const { return number; }

private:
  struct Entry {
    FusionCandidate candidate;
    int64_t intoVersion, fromVersion, order;
    int turn;

    bool operator<(const Entry &other) const {
      auto key = [](const Entry &entry) {
        return std::make_tuple(-entry.turn, entry.candidate.saving.seconds,
                               -int(entry.candidate.step), -entry.order);
      };
      return key(*this) < key(other);
    }
  };

  /// Candidates of one group found together, a heap.
  using Batch = std::vector<Entry>;

  /// All candidates of one group at one version, dropped as a whole when the
  /// group changes.
  struct Waiting {
    int64_t version = -1;
    std::vector<Batch> batches;
  };

  /// The best candidate of a batch represents it in the queue.
  struct Head {
    Entry best;
    size_t batch;

    bool operator<(const Head &other) const { return best < other.best; }
  };

  /// Priority: matrix-unit kernels and pools fuse only consumers, so they come
  /// before norms and reductions, which fuse producers too. Loops come after
  /// both because they fuse single ops only. Last, a conversion is fused into
  /// any loop, and remaining loops and norms before GEMMs are fused into them.
  static int turnOf(const FusionCandidate &candidate) {
    switch (candidate.step) {
    case FusionStep::OperandLoop:
    case FusionStep::OperandNorm:
      return 4;
    case FusionStep::Cast:
      return 3;
    case FusionStep::Loop:
      return 2;
    default:
      break;
    }
    FusionClass family = familyOf(candidate.into->anchor);
    return family == FusionClass::RowWise || family == FusionClass::Reduction;
  }

  void push(FusionGroup *group) { push(rules.candidatesOf(group)); }

  /// Pushes the candidates of `group` after a change of its neighbor `changed`.
  /// Most are in the queue already.
  void pushNeighbour(FusionGroup *group, FusionGroup *changed) {
    SmallVector<FusionCandidate> candidates =
        rules.candidatesOf(group, rules.isWide(group) ? changed : nullptr,
                           /*onlyReader=*/changed);
    llvm::erase_if(candidates, [&](const FusionCandidate &candidate) {
      return !again.insert(keyOf(candidate)).second;
    });
    push(candidates);
  }

  /// Identifies a candidate at one version of both groups.
  using Key = std::tuple<FusionGroup *, FusionGroup *, int64_t, int64_t, void *,
                         int, uint64_t>;
  static Key keyOf(const FusionCandidate &candidate) {
    return {candidate.into,
            candidate.from,
            candidate.into->version,
            candidate.from->version,
            candidate.operand.getAsOpaquePointer(),
            int(candidate.step),
            llvm::bit_cast<uint64_t>(candidate.saving.seconds)};
  }
  void push(ArrayRef<FusionCandidate> candidates) {
    Batch batch;
    for (const FusionCandidate &candidate : candidates)
      if (!graph.isApart(candidate.into, candidate.from))
        batch.push_back({candidate, candidate.into->version,
                         candidate.from->version, number++, turnOf(candidate)});
    if (batch.empty())
      return;
    std::make_heap(batch.begin(), batch.end());
    push(std::move(batch));
  }
  void push(Batch batch) {
    Waiting &group = waitingOf(batch.front().candidate.into);
    if (group.version != batch.front().intoVersion)
      group = {batch.front().intoVersion, {}};
    group.batches.push_back(std::move(batch));
    pushHead(group, group.batches.size() - 1);
  }
  void pushHead(Waiting &group, size_t batch) {
    queue.push({group.batches[batch].front(), batch});
  }
  Waiting &waitingOf(FusionGroup *group) { return waiting[group->number]; }

  /// Pops the best candidate; nullopt if its group has changed.
  std::optional<Entry> pop() {
    Head head = queue.top();
    queue.pop();
    if (head.best.candidate.into->version != head.best.intoVersion)
      return std::nullopt;
    Waiting &group = waitingOf(head.best.candidate.into);
    Batch &batch = group.batches[head.batch];
    std::pop_heap(batch.begin(), batch.end());
    batch.pop_back();
    if (batch.empty())
      batch = Batch();
    else
      pushHead(group, head.batch);
    return head.best;
  }

  /// Returns true if the candidate is still allowed and saves as much. If its
  /// saving has changed, pushes it again.
  bool isCurrent(const FusionCandidate &old) {
    for (FusionCandidate &candidate : rules.candidatesOf(old.into, old.from)) {
      if (candidate.step != old.step || candidate.operand != old.operand)
        continue;
      if (candidate.saving.seconds == old.saving.seconds)
        return true;
      push(ArrayRef<FusionCandidate>(candidate));
      return false;
    }
    return false;
  }

  void drain() {
    while (!queue.empty()) {
      std::optional<Entry> entry = pop();
      if (entry)
        again.erase(keyOf(entry->candidate));
      if (!entry || entry->candidate.from->version != entry->fromVersion ||
          !isCurrent(entry->candidate))
        continue;
      const FusionCandidate &candidate = entry->candidate;
      FusionDecision decision{candidate.step, FusionDecision::Verdict::Taken,
                              leaderOf(candidate.into),
                              leaderOf(candidate.from), candidate.saving};
      // Fusions of other groups may now precede those of `from`.
      SmallVector<FusionGroup *> neighbours = neighboursOf(candidate.from);
      llvm::append_range(neighbours, neighboursOf(candidate.into));
      if (candidate.saving.seconds < 0)
        decision.verdict = FusionDecision::Verdict::CostsMore;
      else if (!rules.apply(candidate))
        decision.verdict = FusionDecision::Verdict::Cycle;
      if (decision.verdict == FusionDecision::Verdict::Taken) {
        progress = true;
        waitingOf(candidate.into) = Waiting();
        waitingOf(candidate.from) = Waiting();
        push(candidate.into);
        llvm::sort(neighbours, [](FusionGroup *a, FusionGroup *b) {
          return std::pair(a->last, a->number) < std::pair(b->last, b->number);
        });
        neighbours.erase(llvm::unique(neighbours), neighbours.end());
        for (FusionGroup *group : neighbours)
          if (group != candidate.into && !group->ops.empty())
            pushNeighbour(group, candidate.into);
      }
      note(decision);
    }
  }

  static Operation *leaderOf(FusionGroup *group) {
    return group->anchor ? group->anchor : group->ops.back();
  }

  /// Returns the producers and consumers of the group, also through views.
  SmallVector<FusionGroup *> neighboursOf(FusionGroup *group) const {
    SmallVector<FusionGroup *> neighbours;
    for (Operation *op : group->ops) {
      for (Value operand : op->getOperands()) {
        FusionGroup *source = graph.groupOf(operand);
        while (source && source->isLoose &&
               source->ops.front()->getNumOperands() > 0)
          source = graph.groupOf(source->ops.front()->getOperand(0));
        if (source && source != group)
          neighbours.push_back(source);
      }
      for (Value result : op->getResults())
        for (FusionGroup *reader : graph.readersOf(result))
          if (reader && reader != group)
            neighbours.push_back(reader);
    }
    return neighbours;
  }

  /// Records each rejected candidate once.
  void note(const FusionDecision &decision) {
    if (decision.verdict == FusionDecision::Verdict::Taken ||
        refused.insert({decision.into, decision.from}).second)
      decisions.push_back(decision);
  }

  FusionGraph &graph;
  FusionRules &rules;
  std::priority_queue<Head> queue;
  /// By group.
  std::vector<Waiting> waiting;
  std::vector<FusionDecision> decisions;
  llvm::DenseSet<std::pair<Operation *, Operation *>> refused;
  /// Candidates queued because a neighbor changed.
  llvm::DenseSet<Key> again;
  int64_t number = 0;
  bool progress = false;
};

} // namespace

void mpc::selectSingleOps(FusionGraph &graph, Block &block,
                          const TargetInfo &target) {
  FusionRules rules(graph, block, target);
  formInitialGroups(graph, block, target);
}

std::vector<FusionDecision> mpc::selectFusionGroups(FusionGraph &graph,
                                                    Block &block,
                                                    const TargetInfo &target,
                                                    FusionWork *work) {
  FusionRules rules(graph, block, target);
  formInitialGroups(graph, block, target);
  Queue queue(graph, rules);
  std::vector<FusionDecision> decisions = queue.run();
  if (work)
    *work = {queue.getPushed(), rules.getCost().getBorders(),
             rules.getWeighed()};
  return decisions;
}
