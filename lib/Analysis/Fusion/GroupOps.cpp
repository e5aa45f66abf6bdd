//===- GroupOps.cpp - which fusion goes first -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A step changes what its neighbours can do: theirs are looked up again, and
// older entries of the queue are passed over by the groups' versions.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Fusion/GroupOps.h"

#include "GroupRules.h"

#include "mpc/Analysis/Fusion/FusionMovement.h"

#include "llvm/ADT/bit.h"

#include <algorithm>
#include <optional>
#include <queue>

using namespace mlir;
using namespace mpc;

namespace {

class Queue {
public:
  Queue(FusionGraph &graph, GroupRules &rules)
      : graph(graph), rules(rules), waiting(graph.getNumGroups()) {}

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

  /// Steps that were put into the queue.
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

  /// Steps of one group that were found at once, a heap.
  using Batch = std::vector<Entry>;

  /// All steps of one group at one version. Once it changes they are dropped as
  /// a whole.
  struct Waiting {
    int64_t version = -1;
    std::vector<Batch> batches;
  };

  /// The best step of a batch stands in the queue for all of them.
  struct Head {
    Entry best;
    size_t batch;

    bool operator<(const Head &other) const { return best < other.best; }
  };

  /// Kernels of matrix units and pools take only what follows them, so they go
  /// before norms and reductions, which take what stands before them as well.
  /// Loops wait for both: those take single ops only. A conversion rides on any
  /// loop, and what loops and norms are left in front of products joins these.
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

  /// What `group` can do since `changed`, which it reads or which reads it,
  /// became another. Most of it waits already.
  void pushNeighbour(FusionGroup *group, FusionGroup *changed) {
    SmallVector<FusionCandidate> candidates =
        rules.candidatesOf(group, rules.isWide(group) ? changed : nullptr,
                           /*onlyReader=*/changed);
    llvm::erase_if(candidates, [&](const FusionCandidate &candidate) {
      return !again.insert(keyOf(candidate)).second;
    });
    push(candidates);
  }

  /// Tells a step at one version of both groups from others.
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

  /// Takes the best step out of the queue; nullopt where its group has changed.
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
      if (entry)
        again.erase(keyOf(entry->candidate));
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
        waitingOf(candidate.into) = Waiting();
        waitingOf(candidate.from) = Waiting();
        push(candidate.into);
        llvm::sort(neighbours);
        neighbours.erase(llvm::unique(neighbours), neighbours.end());
        llvm::sort(neighbours, [](FusionGroup *a, FusionGroup *b) {
          return a->last < b->last;
        });
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
  GroupRules &rules;
  std::priority_queue<Head> queue;
  /// By group.
  std::vector<Waiting> waiting;
  std::vector<FusionDecision> decisions;
  llvm::DenseSet<std::pair<Operation *, Operation *>> refused;
  /// What waits because a neighbour changed.
  llvm::DenseSet<Key> again;
  int64_t number = 0;
  bool progress = false;
};

} // namespace

std::vector<FusionDecision> mpc::groupOps(FusionGraph &graph, Block &block,
                                          const TargetInfo &target,
                                          FusionWork *work) {
  GroupRules rules(graph, block, target);
  rules.classify();
  Queue queue(graph, rules);
  std::vector<FusionDecision> decisions = queue.run();
  if (work)
    *work = {queue.getPushed(), rules.getCost().getBorders(),
             rules.getWeighed()};
  return decisions;
}
