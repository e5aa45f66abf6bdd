//===- FuseRules.cpp - which ops share a kernel ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rules of mpc-fuse. Each rule saves a value's way through memory; none
// computes anything heavy twice.
//
//===----------------------------------------------------------------------===//

#include "FusionGraph.h"
#include "OpEmitter.h"

#include "mpc/Analysis/Fusibility.h"
#include "mpc/Dialect/Mpc/Transforms/Views.h"

#include <map>

using namespace mlir;
using namespace mpc;

namespace {

/// Kernels of more ops take long to compile and run out of registers.
constexpr size_t kMostOps = 64;

/// Whether `joining` makes the kernel of `group` too large. A cast always fits:
/// its placement counts on it (absorbsResultCast).
bool isFull(FusionGroup *group, FusionGroup *joining) {
  bool onlyCasts =
      llvm::all_of(joining->ops, [](Operation *op) { return isa<CastOp>(op); });
  return !onlyCasts && group->ops.size() + joining->ops.size() > kMostOps;
}

FusionClass classOf(Operation *op) {
  auto fusion = dyn_cast<FusionOpInterface>(op);
  return fusion ? fusion.getFusionClass() : FusionClass::Opaque;
}

bool isElementwise(Operation *op) { return isa<ElementwiseOpInterface>(op); }

/// Conversions cost nothing beside the memory they save.
bool isFreeToRepeat(Operation *op) {
  return isa<CastOp, IotaOp, BroadcastOp, SliceOp>(op);
}

/// Whether neighbours along the result's last dimension are neighbours (or the
/// same element) in the operand too, so that loads stay vectors.
bool keepsLastDimension(Operation *op) {
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    ArrayRef<int64_t> permutation = transpose.getPermutation();
    return permutation.empty() ||
           permutation.back() == static_cast<int64_t>(permutation.size()) - 1;
  }
  if (auto slice = dyn_cast<SliceOp>(op))
    return slice.getStrideValues().empty() ||
           slice.getStrideValues().back() == 1;
  if (auto gather = dyn_cast<GatherOp>(op))
    return gather.getAxis() + 1 < shapeOf(gather.getInput()).size();
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    ArrayRef<int64_t> from = shapeOf(reshape.getInput()), to = shapeOf(reshape);
    return !from.empty() && !to.empty() && from.back() == to.back();
  }
  return isa<BroadcastOp, IotaOp>(op);
}

class Rules {
public:
  Rules(FusionGraph &graph, Block &block) : graph(graph) {
    for (Operation &op : block.without_terminator())
      ops.push_back(&op);
  }

  void run() {
    for (Operation *op : ops)
      classify(op);
    eachAnchor({FusionClass::Contraction, FusionClass::Attention},
               [&](FusionGroup *group) {
                 for (Value operand : group->anchor->getOperands())
                   takeMovement(group, operand);
               });
    eachAnchor({FusionClass::Contraction, FusionClass::Convolution,
                FusionClass::Attention, FusionClass::Pool},
               [&](FusionGroup *group) { growEpilogue(group); });
    eachAnchor({FusionClass::Attention}, [&](FusionGroup *group) {
      while (takeTransposedResult(group))
        growEpilogue(group);
    });
    eachAnchor({FusionClass::RowWise, FusionClass::Reduction},
               [&](FusionGroup *group) {
                 growPrologue(group);
                 growEpilogue(group);
               });
    for (Operation *op : ops)
      joinLoops(op);
    // A conversion that nothing took rides on any loop before it.
    for (Operation *op : ops)
      if (FusionGroup *group = graph.groupOf(op);
          isa<CastOp>(op) && group->ops.size() == 1)
        if (FusionGroup *source = graph.groupOf(op->getOperand(0));
            isFree(source) && graph.isReadOnlyBy(source, group))
          graph.merge(group, source);
    widenAtReaders();
    for (Operation *op : ops)
      if (FusionGroup *group = graph.groupOf(op);
          !group->anchor && !group->isLoose)
        group->kind = isTransposing(group) ? FusionKind::transpose
                                           : FusionKind::elementwise;
  }

private:
  /// Gives a single op's group its kind.
  void classify(Operation *op) {
    FusionGroup *group = graph.groupOf(op);
    auto anchor = [&](FusionKind kind) {
      group->kind = kind;
      group->anchor = op;
    };
    group->isLoose = isa<mpc::ConstantOp>(op) || isView(op);
    switch (classOf(op)) {
    case FusionClass::Contraction:
      return anchor(FusionKind::contraction);
    case FusionClass::Convolution:
      return anchor(isa<ConvOp>(op) ? FusionKind::convolution
                                    : FusionKind::library);
    case FusionClass::Attention:
      return anchor(FusionKind::attention);
    case FusionClass::RowWise:
      return anchor(FusionKind::row);
    case FusionClass::Reduction:
    case FusionClass::Pool:
      return anchor(FusionKind::reduce);
    case FusionClass::Scan:
    case FusionClass::Recurrent:
    case FusionClass::Opaque:
      return anchor(FusionKind::library);
    default:
      return;
    }
  }

  void eachAnchor(ArrayRef<FusionClass> classes,
                  llvm::function_ref<void(FusionGroup *)> grow) {
    for (Operation *op : ops)
      if (FusionGroup *group = graph.groupOf(op);
          group->anchor == op && group->kind != FusionKind::library &&
          llvm::is_contained(classes, classOf(op)))
        grow(group);
  }

  /// A loop that no kernel has taken yet.
  bool isFree(FusionGroup *group) {
    return group && !group->isLoose && !group->anchor;
  }

  /// Takes the elementwise ops of the group's shape that read its results, in
  /// block order, so that each is seen after those it reads.
  void growEpilogue(FusionGroup *group) {
    std::map<int64_t, Operation *> readers;
    auto addReaders = [&](Operation *op) {
      for (Operation *user : op->getUsers())
        readers[graph.positionOf(user)] = user;
    };
    llvm::for_each(group->ops, addReaders);
    while (!readers.empty()) {
      Operation *op = readers.begin()->second;
      readers.erase(readers.begin());
      FusionGroup *reader = graph.groupOf(op);
      if (!isFree(reader) || reader->ops.size() != 1 || !isElementwise(op) ||
          shapeOf(op->getResult(0)) != group->shape || isFull(group, reader))
        continue;
      if (graph.merge(group, reader)) {
        takeProducers(group, op);
        addReaders(op);
      }
    }
  }

  /// Takes the transpose that alone reads the group's only result, where rows
  /// stay whole: the kernel then stores them elsewhere, at no cost. From here
  /// on the group has the transpose's shape, and nothing in it reads the old
  /// one.
  bool takeTransposedResult(FusionGroup *group) {
    SmallVector<Value> results = graph.resultsOf(group);
    if (results.size() != 1 || !results.front().hasOneUse())
      return false;
    Operation *transpose = *results.front().user_begin();
    FusionGroup *reader = graph.groupOf(transpose);
    if (!isa<TransposeOp>(transpose) || !keepsLastDimension(transpose) ||
        !isFree(reader) || reader->ops.size() != 1 ||
        !graph.merge(group, reader))
      return false;
    group->shape = shapeOf(transpose->getResult(0));
    return true;
  }

  /// Takes the index maps behind a contraction's operand: packing reads it
  /// through them at no cost.
  void takeMovement(FusionGroup *group, Value operand) {
    FusionGroup *source = graph.groupOf(operand);
    if (ReshapeOp reshape = reshapeToJoin(operand, group))
      source = graph.groupOf(reshape.getInput());
    if (!isFree(source) || source->ops.size() != 1)
      return;
    Operation *producer = source->ops.front();
    bool fits = isa<TransposeOp, SliceOp>(producer)
                    ? keepsLastDimension(producer)
                    : isa<CastOp>(producer) && convertsMovement(producer);
    if (fits && mergeThrough(group, operand, source))
      takeMovement(group, producer->getOperand(0));
  }

  /// Whether the cast has a movement before it that would else share a kernel
  /// with nothing but the cast.
  bool convertsMovement(Operation *cast) {
    FusionGroup *behind = graph.groupOf(cast->getOperand(0));
    return isFree(behind) && behind->ops.size() == 1 &&
           isa<TransposeOp, SliceOp>(behind->ops.front()) &&
           keepsLastDimension(behind->ops.front()) &&
           graph.isReadOnlyBy(behind, graph.groupOf(cast));
  }

  /// The reshape that makes `operand` and can be computed inside `group`: it
  /// keeps the last extent, so that vectors stay whole, and nothing else reads
  /// it.
  ReshapeOp reshapeToJoin(Value operand, FusionGroup *group) {
    auto reshape = operand.getDefiningOp<ReshapeOp>();
    if (!reshape || !keepsLastDimension(reshape) ||
        !graph.groupOf(operand)->isLoose ||
        !graph.isReadOnlyBy(graph.groupOf(operand), group))
      return {};
    return reshape;
  }

  /// Merges `source`, which computes `operand` or the input of the reshape that
  /// does, where nothing else reads it.
  bool mergeThrough(FusionGroup *group, Value operand, FusionGroup *source) {
    FusionGroup *between = graph.groupOf(operand);
    if (between == source)
      return graph.isReadOnlyBy(source, group) && graph.merge(group, source);
    if (!graph.isReadOnlyBy(source, between))
      return false;
    between->isLoose = false;
    if (graph.merge(between, source) && graph.merge(group, between))
      return true;
    // The pair stays a kernel of its own, a plain loop that ends in the
    // reshape.
    return false;
  }

  /// Whether `op` belongs to the epilogue of a kernel other than `group`, at
  /// once or through elementwise ops that no kernel has taken yet. That kernel
  /// would else store an unfinished value.
  bool endsOtherKernel(Operation *op, FusionGroup *group) {
    SmallVector<Operation *> pending = {op};
    SmallPtrSet<Operation *, 8> seen;
    while (!pending.empty()) {
      Operation *next = pending.pop_back_val();
      if (!isElementwise(next) || !seen.insert(next).second)
        continue;
      for (Value operand : next->getOperands()) {
        FusionGroup *source = graph.groupOf(operand);
        if (!source || source == group ||
            source->shape != shapeOf(next->getResult(0)))
          continue;
        if (source->anchor && source->kind != FusionKind::library)
          return true;
        if (isFree(source) && source->ops.size() == 1)
          pending.push_back(source->ops.front());
      }
    }
    return false;
  }

  /// Gives a widening cast to the kernel that reads it: the one that makes its
  /// input then stores 16 bits.
  void widenAtReaders() {
    for (Operation *op : ops) {
      auto cast = dyn_cast<CastOp>(op);
      if (!cast || cast->use_empty() || !isWidening(cast))
        continue;
      OpOperand &use = *cast->getUses().begin();
      FusionGroup *reader = graph.groupOf(use.getOwner());
      if (reader && !reader->isLoose && reader != graph.groupOf(op) &&
          graph.isReadOnlyBy(op, reader) &&
          absorbsCast(use.getOwner(), use.getOperandNumber(), FusionTarget()))
        graph.move(op, reader);
    }
  }

  static bool isWidening(CastOp cast) {
    auto from = dyn_cast<FloatType>(getElementTypeOrSelf(cast.getInput()));
    auto to = dyn_cast<FloatType>(getElementTypeOrSelf(cast.getResult()));
    return from && to && from.getWidth() < to.getWidth();
  }

  /// Takes what computes operands of `op`, a member of `group`: elementwise ops
  /// of the group's shape, and index maps and conversions of any, where nothing
  /// else reads them.
  void takeProducers(FusionGroup *group, Operation *op) {
    for (Value operand : op->getOperands()) {
      FusionGroup *source = graph.groupOf(operand);
      if (!isFree(source) || source->ops.size() != 1 ||
          !graph.isReadOnlyBy(source, group))
        continue;
      Operation *producer = source->ops.front();
      bool sameShape = shapeOf(operand) == group->shape;
      bool fits = isElementwise(producer)
                      ? sameShape || isFreeToRepeat(producer)
                      : keepsLastDimension(producer);
      if (fits && !endsOtherKernel(producer, group) &&
          graph.merge(group, source))
        takeProducers(group, producer);
    }
  }

  /// Takes what computes the anchor's first operand, also values that others
  /// read as well where they have the shape of the group's results.
  void growPrologue(FusionGroup *group) {
    Operation *anchor = group->anchor;
    Value input = anchor->getOperand(0);
    bool mayYield = shapeOf(input) == group->shape &&
                    classOf(anchor) == FusionClass::RowWise;
    SmallVector<Value> pending = {input};
    while (!pending.empty()) {
      Value value = pending.pop_back_val();
      FusionGroup *source = graph.groupOf(value);
      if (!isFree(source) || source->ops.size() != 1)
        continue;
      Operation *producer = source->ops.front();
      bool isOnlyReader = graph.isReadOnlyBy(source, group);
      bool sameShape = shapeOf(value) == shapeOf(input);
      bool fits = isElementwise(producer)
                      ? (sameShape && (isOnlyReader || mayYield)) ||
                            (isFreeToRepeat(producer) && isOnlyReader)
                      : keepsLastDimension(producer) && isOnlyReader;
      if (fits && graph.merge(group, source))
        llvm::append_range(pending, producer->getOperands());
    }
  }

  /// Lets the loop of `op` join those that compute its operands.
  void joinLoops(Operation *op) {
    if (!isFree(graph.groupOf(op)))
      return;
    for (Value operand : op->getOperands()) {
      FusionGroup *group = graph.groupOf(op), *source = graph.groupOf(operand);
      if (!source || isFull(source, group))
        continue;
      if (ReshapeOp reshape = reshapeToJoin(operand, group)) {
        FusionGroup *behind = graph.groupOf(reshape.getInput());
        if (behind != group && isFree(behind) &&
            !isLastDimensionMoved(behind) && isPlainLoop(behind) &&
            classOf(op) != FusionClass::Gather)
          mergeThrough(group, operand, behind);
      } else if (source != group && isFree(source) &&
                 mayJoin(op, operand, group, source)) {
        graph.merge(group, source);
      }
    }
  }

  /// Whether the loop `source`, which computes `operand` of `op` in `group`,
  /// can be computed inside it.
  bool mayJoin(Operation *op, Value operand, FusionGroup *group,
               FusionGroup *source) {
    // Loops of one shape side by side, with the results of both.
    if (isElementwise(op) && source->shape == group->shape &&
        isPlainLoop(source) && isPlainLoop(group))
      return true;
    if (!graph.isReadOnlyBy(source, group))
      return false;
    bool isRepeatable = llvm::all_of(source->ops, isFreeToRepeat);
    if (elementCount(operand) < elementCount(op->getResult(0)) &&
        !isRepeatable && !isa<PadOp, ConcatOp>(op))
      return false;
    // Gathers read their input at random, and so may compute an element often.
    if (classOf(op) == FusionClass::Gather && !isRepeatable)
      return false;
    // Elementwise ops ride on any data movement but transposes of the last
    // dimension, which have loops of their own; data movement rides on what
    // keeps vectors.
    return isElementwise(op) ? !isLastDimensionMoved(source)
                             : isPlainLoop(source);
  }

  /// Only elementwise ops of the group's own shape, and what keeps vectors.
  bool isPlainLoop(FusionGroup *group) {
    return llvm::all_of(group->ops, [](Operation *op) {
      return isElementwise(op) || keepsLastDimension(op);
    });
  }

  bool isLastDimensionMoved(FusionGroup *group) {
    return llvm::any_of(group->ops, [](Operation *op) {
      return isa<TransposeOp>(op) && !keepsLastDimension(op);
    });
  }

  bool isTransposing(FusionGroup *group) {
    return llvm::any_of(group->ops,
                        [](Operation *op) { return isa<TransposeOp>(op); });
  }

  FusionGraph &graph;
  SmallVector<Operation *> ops;
};

} // namespace

void mpc::groupOps(FusionGraph &graph, Block &block) {
  Rules(graph, block).run();
}
