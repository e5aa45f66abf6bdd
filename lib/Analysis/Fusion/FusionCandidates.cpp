//===- FusionCandidates.cpp - candidates of operator fusion ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds operands that a group could compute and consumers that it could fuse,
// and applies the fusion that the queue chose.
//
//===----------------------------------------------------------------------===//

#include "FusionRules.h"
#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Looking
//===----------------------------------------------------------------------===//

/// Returns true if candidates with `group` are requested.
static bool isWanted(FusionGroup *group, FusionGroup *only) {
  return !only || group == only;
}

SmallVector<FusionCandidate>
FusionRules::candidatesOf(FusionGroup *group, FusionGroup *only,
                          FusionGroup *onlyReader) const {
  Candidates candidates;
  if (group->isLoose || group->isJoint || group->ops.empty())
    return candidates;
  if (!group->anchor) {
    addLoops(group, only, candidates);
    return candidates;
  }
  if (group->kind == FusionKind::library)
    return candidates;
  FusionClass family = familyOf(group->anchor);
  if (takesOperands(group)) {
    addOperands(group, only, candidates);
    addOperandLoops(group, only, candidates);
    addOperandNorms(group, only, candidates);
    // The consumers of its three results are decided in advance.
    if (isa<AttentionGradientOp>(group->anchor))
      return candidates;
  }
  if (storesElsewhere(group))
    addStore(group, only, candidates);
  if (family == FusionClass::RowWise || family == FusionClass::Reduction)
    addPrologue(group, only, candidates);
  addEpilogue(group, only, only ? only : onlyReader, candidates);
  return candidates;
}

/// Calls `take` with each op outside `group` that reads its `op`, restricted to
/// `only` if given.
static void forEachReader(const FusionGraph &graph, FusionGroup *group,
                          Operation *op, FusionGroup *only,
                          llvm::function_ref<void(Operation *)> take) {
  if (!only) {
    for (Operation *user : op->getUsers())
      if (graph.groupOf(user) != group)
        take(user);
    return;
  }
  if (only != group)
    for (Operation *user : only->ops)
      if (llvm::any_of(user->getOperands(), [&](Value operand) {
            return operand.getDefiningOp() == op;
          }))
        take(user);
}

SmallVector<FusionCandidate> FusionRules::operandsOf(FusionGroup *group) const {
  Candidates candidates;
  addOperands(group, /*only=*/nullptr, candidates);
  return candidates;
}

/// Index maps and casts before the anchor's operands.
void FusionRules::addOperands(FusionGroup *group, FusionGroup *only,
                              Candidates &candidates) const {
  unsigned count =
      isa<ConvOp>(group->anchor) ? 1 : group->anchor->getNumOperands();
  SmallVector<std::pair<Value, unsigned>> pending;
  for (unsigned index = 0; index < count; ++index)
    pending.push_back({group->anchor->getOperand(index), index});
  SmallPtrSet<Operation *, 8> seen;
  while (!pending.empty()) {
    auto [operand, index] = pending.pop_back_val();
    FusionGroup *source = graph.groupOf(operand);
    if (source == group) {
      Operation *op = operand.getDefiningOp();
      // The norm's kernel has already considered the norm's inputs.
      if (!op->hasTrait<MapsRows>() && seen.insert(op).second)
        for (Value behind : op->getOperands())
          pending.push_back({behind, index});
      continue;
    }
    FusionGroup *reader = group;
    if (Value behind = reshapeToJoin(operand, group)) {
      source = graph.groupOf(behind);
      reader = graph.groupOf(operand);
    }
    if (!isWanted(source, only) || !isFree(source) || source->ops.size() != 1 ||
        !graph.isReadOnlyBy(source, reader) || isFull(group, source) ||
        !ridesOnOperand(source->ops.front(), group->anchor, operand, index))
      continue;
    candidates.push_back({FusionStep::Operand, group, source, operand,
                          cost.ofOperand(group, source, index)});
  }
}

/// Loops that the kernel of a GEMM, or of an equivalent convolution, computes
/// while it loads an operand, each element once.
void FusionRules::addOperandLoops(FusionGroup *group, FusionGroup *only,
                                  Candidates &candidates) const {
  Operation *anchor = group->anchor;
  if (!kernels.fusesOperandMovement || !isProduct(anchor) ||
      FusionCost::operandPasses(anchor, /*index=*/0) > 1)
    return;
  Value operand = anchor->getOperand(0);
  // An image that is transposed while loading, element by element.
  while (operand.getDefiningOp<TransposeOp>() && graph.isInternal(operand))
    operand = operand.getDefiningOp()->getOperand(0);
  FusionGroup *source = graph.groupOf(operand), *reader = group;
  if (Value behind = reshapeToJoin(operand, group)) {
    source = graph.groupOf(behind);
    reader = graph.groupOf(operand);
  }
  // Computed values must consist of whole vectors.
  auto keepsWhole = [](Operation *op) {
    return isElementwise(op) || (isa<ConcatOp>(op) && keepsVectors(op)) ||
           (isa<SliceOp, TransposeOp, BroadcastOp>(op) &&
            keepsLastDimension(op));
  };
  if (!isWanted(source, only) || !isFree(source) || source == group ||
      !graph.isReadOnlyBy(source, reader) || isFull(group, source) ||
      getElementTypeOrSelf(operand).isF64() ||
      !llvm::all_of(source->ops, keepsWhole))
    return;
  candidates.push_back({FusionStep::OperandLoop, group, source, operand,
                        cost.ofOperand(group, source, /*index=*/0)});
}

/// Returns true if `op` depends on more than one result of the group's anchor,
/// directly or through ops of the group. A recurrent layer computes them at
/// different times.
static bool mixesResults(const FusionGraph &graph, Operation *op,
                         FusionGroup *group) {
  SmallPtrSet<Operation *, 8> seen;
  SmallVector<Value> pending(op->getOperands());
  Value found;
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    Operation *source = value.getDefiningOp();
    if (!source || graph.groupOf(source) != group)
      continue;
    if (source == group->anchor) {
      if (found && found != value)
        return true;
      found = value;
    } else if (seen.insert(source).second) {
      llvm::append_range(pending, source->getOperands());
    }
  }
  return false;
}

/// Elementwise consumers of the group's shape, and producers of their other
/// operands: elementwise ops of that shape, and index maps and conversions of
/// any shape without other readers.
void FusionRules::addEpilogue(FusionGroup *group, FusionGroup *only,
                              FusionGroup *onlyReader,
                              Candidates &candidates) const {
  SmallPtrSet<Operation *, 16> before = {group->anchor};
  SmallVector<Value> pending(group->anchor->getOperands());
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (op && graph.groupOf(op) == group && before.insert(op).second)
      llvm::append_range(pending, op->getOperands());
  }

  SmallPtrSet<FusionGroup *, 8> seen;
  for (Operation *op : group->ops) {
    // The inputs of a GEMM's operand rows are stored for other readers but not
    // buffered for the epilogue; a norm's kernel holds its input in registers.
    bool isOperand = op != group->anchor && before.contains(op) &&
                     familyOf(group->anchor) == FusionClass::Contraction;
    forEachReader(graph, group, op, onlyReader, [&](Operation *user) {
      FusionGroup *reader = graph.groupOf(user);
      if (!isOperand && isFree(reader) && !graph.isApart(group, reader) &&
          reader->ops.size() == 1 && isElementwise(user) &&
          shapeOf(user->getResult(0)) == group->shape &&
          !isForReduction(user, group) && !isFull(group, reader) &&
          !(group->kind == FusionKind::recurrence &&
            mixesResults(graph, user, group)) &&
          seen.insert(reader).second)
        candidates.push_back({FusionStep::Epilogue, group, reader, Value(),
                              cost.ofMerge(group, reader)});
    });
    if (before.contains(op))
      continue;
    for (Value operand : op->getOperands()) {
      FusionGroup *source = graph.groupOf(operand);
      if (!isWanted(source, only) || !isFree(source) ||
          source->ops.size() != 1 || !graph.isReadOnlyBy(source, group))
        continue;
      Operation *producer = source->ops.front();
      bool fits =
          isElementwise(producer)
              ? shapeOf(operand) == group->shape || isFreeToRepeat(producer) ||
                    isRepeatedScalar(operand)
              : keepsLastDimension(producer) ||
                    // One number per row is a scalar load anyway.
                    (kernels.fusesOperandMovement &&
                     isa<TransposeOp>(producer) &&
                     shapeOf(operand).back() == 1) ||
                    (kernels.fusesOperandMovement && isa<OneHotOp>(producer)) ||
                    // Concatenated biases.
                    (kernels.fusesOperandMovement && isa<ConcatOp>(producer) &&
                     keepsVectors(producer));
      if (fits && !endsOtherKernel(producer, group) &&
          !repeatsCode(group, source) && seen.insert(source).second)
        candidates.push_back({FusionStep::EpilogueOperand, group, source,
                              Value(), cost.ofMerge(group, source)});
    }
  }
}

void FusionRules::addStore(FusionGroup *group, FusionGroup *only,
                           Candidates &candidates) const {
  SmallVector<Operation *> chain = storeChain(group);
  if (chain.empty())
    return;
  // Reshapes are free: the saving is the movement's, or that of the op that can
  // be fused afterwards.
  auto *movement =
      llvm::find_if(chain, [](Operation *op) { return !isa<ReshapeOp>(op); });
  FusionGroup *from = movement != chain.end() ? graph.groupOf(*movement)
                                              : readerBehind(chain.back());
  if (!isWanted(from, only))
    return;
  // GEMM results are stored via shared memory, in any order; rows are not.
  bool isScattered = familyOf(group->anchor) == FusionClass::RowWise &&
                     isLastDimensionMoved(chain);
  candidates.push_back(
      {FusionStep::Store, group, from, chain.front()->getResult(0),
       isScattered ? cost.ofScatter(group, from) : cost.ofMerge(group, from)});
}

/// Producers of the anchor's first operand, including values with other readers
/// if they have the shape of the group's results.
void FusionRules::addPrologue(FusionGroup *group, FusionGroup *only,
                              Candidates &candidates) const {
  Value input = group->anchor->getOperand(0);
  bool isRow = familyOf(group->anchor) == FusionClass::RowWise;
  bool mayYield =
      isRow && shapeOf(input) == shapeOf(group->anchor->getResult(0));
  SmallVector<Value> pending = {input};
  // The gradient of a norm reads rows of two tensors.
  if (auto norm = dyn_cast<NormGradientOp>(group->anchor))
    pending.push_back(norm.getGradient());
  SmallPtrSet<Operation *, 8> seen;
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    FusionGroup *source = graph.groupOf(value);
    if (source == group) {
      if (seen.insert(value.getDefiningOp()).second)
        llvm::append_range(pending, value.getDefiningOp()->getOperands());
      continue;
    }
    if (!isWanted(source, only) || !isFree(source) || source->ops.size() != 1)
      continue;
    Operation *producer = source->ops.front();
    bool isOnlyReader = graph.isReadOnlyBy(source, group);
    bool sameShape = shapeOf(value) == shapeOf(input);
    bool keepsRows =
        keepsLastDimension(producer) ||
        (kernels.fusesOperandMovement && isRow && keepsVectors(producer));
    bool fits =
        isElementwise(producer)
            ? (sameShape && (isOnlyReader || mayYield)) ||
                  ((isFreeToRepeat(producer) || isRepeatedScalar(value)) &&
                   isOnlyReader)
            : keepsRows && isOnlyReader;
    if (fits && !repeatsCode(group, source))
      candidates.push_back({FusionStep::Prologue, group, source, Value(),
                            cost.ofMerge(group, source)});
  }
}

/// Loops that compute operands of the group, and any before a lone conversion.
void FusionRules::addLoops(FusionGroup *group, FusionGroup *only,
                           Candidates &candidates) const {
  for (Operation *op : group->ops) {
    for (Value operand : op->getOperands()) {
      FusionGroup *source = graph.groupOf(operand);
      if (!source || source == group)
        continue;
      // Cheap checks first: a concatenation may have thousands of operands.
      FusionGroup *maker = source;
      if (source->isLoose) {
        auto reshape = operand.getDefiningOp<ReshapeOp>();
        maker = reshape ? graph.groupOf(reshape.getInput()) : nullptr;
      }
      if (!isWanted(maker, only) || !isFree(maker) || maker == group)
        continue;
      ++weighed;
      bool fits = false;
      if (maker == source)
        fits = mayRunConcurrently(op, operand, group, source);
      else if (reshapeToJoin(operand, group))
        fits = graph.isReadOnlyBy(maker, source) &&
               !isLastDimensionMoved(maker->ops) && isPlainLoop(maker->ops) &&
               familyOf(op) != FusionClass::Gather;
      if (fits && !isFull(source, group))
        candidates.push_back({FusionStep::Loop, group, maker, operand,
                              cost.ofMerge(group, maker)});
    }
  }
  if (group->ops.size() != 1 || !isa<CastOp>(group->ops.front()))
    return;
  FusionGroup *source = graph.groupOf(group->ops.front()->getOperand(0));
  if (isWanted(source, only) && isFree(source) &&
      graph.isReadOnlyBy(source, group))
    candidates.push_back({FusionStep::Cast, group, source, Value(),
                          cost.ofMerge(group, source)});
}

//===----------------------------------------------------------------------===//
// Taking
//===----------------------------------------------------------------------===//

bool FusionRules::apply(const FusionCandidate &candidate) {
  switch (candidate.step) {
  case FusionStep::Operand:
  case FusionStep::Loop:
  case FusionStep::OperandLoop:
    return mergeThrough(candidate.into, candidate.operand, candidate.from);
  case FusionStep::OperandNorm:
    return fuseNorm(candidate.into, candidate.operand, candidate.from);
  case FusionStep::Store:
    return fuseStore(candidate.into);
  default:
    return graph.merge(candidate.into, candidate.from);
  }
}

/// Merges `source`, which computes `operand`, directly or before a reshape.
bool FusionRules::mergeThrough(FusionGroup *group, Value operand,
                               FusionGroup *source) {
  FusionGroup *between = graph.groupOf(operand);
  if (between == source)
    return graph.merge(group, source);
  // The reshape has only the source before it and only the group after it.
  graph.closeView(between);
  if (graph.merge(between, source) && graph.merge(group, between))
    return true;
  // The pair remains a kernel of its own, a loop that ends in the reshape.
  return false;
}

/// Fuses the movement op that is the only reader of the group's result.
bool FusionRules::fuseStore(FusionGroup *group) {
  for (Operation *op : storeChain(group)) {
    // It has no other operand, so no path passes through a third group.
    FusionGroup *owner = graph.groupOf(op);
    graph.closeView(owner);
    if (!graph.merge(group, owner))
      return false;
    group->shape = shapeOf(op->getResult(0));
  }
  return true;
}
