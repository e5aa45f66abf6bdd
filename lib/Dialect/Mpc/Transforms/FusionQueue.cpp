//===- FusionQueue.cpp - which fusion goes first --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A step changes what its neighbours can do: theirs are looked up again, and
// older entries of the queue are passed over by the groups' versions.
//
//===----------------------------------------------------------------------===//

#include "FusionQueue.h"
#include "FuseMovement.h"

#include <algorithm>
#include <optional>

using namespace mlir;
using namespace mpc;

namespace {

class Queue {
public:
  Queue(FusionGraph &graph, FuseRules &rules) : graph(graph), rules(rules) {}

  std::vector<FusionDecision> run() {
    // A step that a third kernel forbade may be allowed once that has joined
    // one of the two.
    do {
      progress = false;
      for (Operation *op : rules.operations())
        if (FusionGroup *group = graph.groupOf(op); group->ops.front() == op)
          push(group);
      drain();
    } while (progress);
    return std::move(decisions);
  }

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

  /// The steps of one group at one version, a heap. The queue orders batches by
  /// their best steps: those of a group that changes are dropped as a whole.
  using Batch = std::vector<Entry>;
  static bool isBehind(const Batch &a, const Batch &b) {
    return a.front() < b.front();
  }

  /// Kernels of matrix units and pools take only what follows them, so they go
  /// before norms and reductions, which take what stands before them as well.
  /// Loops wait for both: those take single ops only. A conversion rides on any
  /// loop.
  static int turnOf(const FusionCandidate &candidate) {
    switch (candidate.step) {
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

  void push(FusionGroup *group, FusionGroup *onlyReader = nullptr) {
    push(rules.candidatesOf(group, /*only=*/nullptr, onlyReader));
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
    queue.push_back(std::move(batch));
    std::push_heap(queue.begin(), queue.end(), isBehind);
  }

  /// Takes the best step out of the queue; nullopt where its group has changed.
  std::optional<Entry> pop() {
    std::pop_heap(queue.begin(), queue.end(), isBehind);
    Batch batch = std::move(queue.back());
    queue.pop_back();
    Entry best = batch.front();
    if (best.candidate.into->version != best.intoVersion)
      return std::nullopt;
    std::pop_heap(batch.begin(), batch.end());
    batch.pop_back();
    if (!batch.empty())
      push(std::move(batch));
    return best;
  }

  /// Whether the step is still allowed and saves as much. Where it saves
  /// something else by now, it goes back into the queue.
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
      if (!entry || entry->candidate.from->version != entry->fromVersion ||
          !isCurrent(entry->candidate))
        continue;
      const FusionCandidate &candidate = entry->candidate;
      FusionDecision decision{candidate.step, FusionDecision::Verdict::Taken,
                              leaderOf(candidate.into),
                              leaderOf(candidate.from), candidate.saving};
      // What others are to read may have to stand before `from` now.
      SmallVector<FusionGroup *> neighbours = neighboursOf(candidate.from);
      llvm::append_range(neighbours, neighboursOf(candidate.into));
      if (candidate.saving.seconds < 0)
        decision.verdict = FusionDecision::Verdict::CostsMore;
      else if (!rules.apply(candidate))
        decision.verdict = FusionDecision::Verdict::Cycle;
      if (decision.verdict == FusionDecision::Verdict::Taken) {
        progress = true;
        push(candidate.into);
        llvm::sort(neighbours);
        neighbours.erase(llvm::unique(neighbours), neighbours.end());
        llvm::sort(neighbours, [](FusionGroup *a, FusionGroup *b) {
          return a->last < b->last;
        });
        for (FusionGroup *group : neighbours)
          if (group != candidate.into && !group->ops.empty())
            push(group, candidate.into);
      }
      note(decision);
    }
  }

  static Operation *leaderOf(FusionGroup *group) {
    return group->anchor ? group->anchor : group->ops.back();
  }

  /// The groups that read from the group or that it reads, behind views too.
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

  /// A step that was not taken is noted once.
  void note(const FusionDecision &decision) {
    if (decision.verdict == FusionDecision::Verdict::Taken ||
        refused.insert({decision.into, decision.from}).second)
      decisions.push_back(decision);
  }

  FusionGraph &graph;
  FuseRules &rules;
  /// A heap of batches.
  std::vector<Batch> queue;
  std::vector<FusionDecision> decisions;
  llvm::DenseSet<std::pair<Operation *, Operation *>> refused;
  int64_t number = 0;
  bool progress = false;
};

} // namespace

std::vector<FusionDecision> mpc::groupOps(FusionGraph &graph, Block &block,
                                          const TargetInfo &target) {
  FuseRules rules(graph, block, target);
  rules.classify();
  std::vector<FusionDecision> decisions = Queue(graph, rules).run();
  rules.finish();
  return decisions;
}
