//===- FusionRules.cpp - fusion rules -------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rules of mpc-select-fusion-groups: each allows a fusion that saves a
// value's memory traffic; none recomputes anything expensive.
//
//===----------------------------------------------------------------------===//

#include "FusionRules.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace mpc;

StringRef mpc::nameOf(FusionStep step) {
  switch (step) {
  case FusionStep::Operand:
    return "operand";
  case FusionStep::Epilogue:
    return "epilogue";
  case FusionStep::EpilogueOperand:
    return "epilogue operand";
  case FusionStep::Store:
    return "store";
  case FusionStep::Prologue:
    return "prologue";
  case FusionStep::Loop:
    return "loop";
  case FusionStep::Cast:
    return "cast";
  case FusionStep::OperandLoop:
    return "operand loop";
  case FusionStep::OperandNorm:
    return "operand norm";
  }
  return "";
}

FusionRules::FusionRules(FusionGraph &graph, Block &block,
                         const TargetInfo &target)
    : graph(graph), cost(target, graph), live(graph.getNumGroups()),
      kernels(target.kernels()) {
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);
}

//===----------------------------------------------------------------------===//
// Questions
//===----------------------------------------------------------------------===//

/// Returns true for a loop that is not part of a kernel with an anchor.
bool FusionRules::isFree(FusionGroup *group) const {
  return group && !group->isLoose && !group->isJoint && !group->anchor;
}

bool FusionRules::isWide(FusionGroup *group) const {
  return !group->anchor && llvm::any_of(group->ops, [](Operation *op) {
    return op->getNumOperands() > kMostKernelOps / 4;
  });
}

/// Returns true if every kernel may recompute `value`: a launch costs more.
bool FusionRules::isRepeatedScalar(Value value) const {
  return kernels.recomputesScalars && elementCount(value) == 1;
}

/// Returns true if the group's kernel loads its operands through index maps.
bool FusionRules::takesOperands(FusionGroup *group) const {
  FusionClass family = familyOf(group->anchor);
  return family == FusionClass::Contraction ||
         family == FusionClass::Attention ||
         (family == FusionClass::Convolution && kernels.fusesOperandMovement);
}

/// Returns the maximum number of values of the groups' shape that are live at
/// once when their ops run in block order.
static size_t liveValues(const FusionGraph &graph, FusionGroup *group,
                         FusionGroup *joining) {
  auto isInside = [&](Operation *op) {
    return graph.groupOf(op) == group || graph.groupOf(op) == joining;
  };
  // Position of each value's last reader; the end for values read outside.
  SmallVector<std::pair<int64_t, int64_t>> ranges;
  for (Operation *op : llvm::concat<Operation *const>(
           group->ops, joining == group ? ArrayRef<Operation *>()
                                        : ArrayRef<Operation *>(joining->ops)))
    for (Value result : op->getResults()) {
      if (elementCount(result) != productOf(group->shape))
        continue;
      int64_t begin = graph.positionOf(op), end = begin;
      // There may be thousands of readers; one outside is enough.
      for (Operation *user : result.getUsers()) {
        if (!isInside(user)) {
          end = std::numeric_limits<int64_t>::max();
          break;
        }
        end = std::max(end, graph.positionOf(user));
      }
      ranges.push_back({begin, end});
    }
  // At each definition, remove the values that are dead by then.
  SmallVector<int64_t> ends(llvm::make_second_range(ranges));
  llvm::sort(ranges);
  llvm::sort(ends);
  size_t most = 0, ended = 0;
  for (auto [begun, range] : llvm::enumerate(ranges)) {
    while (ends[ended] < range.first)
      ++ended;
    most = std::max(most, begun + 1 - ended);
  }
  return most;
}

/// Maximum number of ops in a kernel's code, counting copies; operands of a
/// concat, which are branches, count as ops.
static constexpr size_t kMostCodeOps = 4 * kMostKernelOps;

/// Returns true if the code of a kernel of both groups would be too large. A
/// kernel computes an element where it is read. Data movement reads its operand
/// at indices of its own, so the code of an op before several movement ops is
/// duplicated per path: for y = concat(y, y) or y = y[1:] + y[:-1], repeated n
/// times, 2^n copies.
static bool repeatsCode(const FusionGraph &graph, FusionGroup *group,
                        FusionGroup *joining) {
  SmallVector<Operation *> members;
  size_t moving = 0;
  for (FusionGroup *part : {group, joining})
    for (Operation *op : part->ops) {
      members.push_back(op);
      moving += !isElementwise(op);
    }
  // A single movement op at most doubles the code.
  if (moving < 2)
    return false;
  llvm::sort(members, [&](Operation *a, Operation *b) {
    return graph.positionOf(a) > graph.positionOf(b);
  });
  // The index functions at which each op is read, by number; 0 is the identity.
  llvm::DenseMap<Operation *, llvm::SmallSet<size_t, 4>> reads;
  size_t functions = 0, total = 0;
  for (Operation *op : members) {
    llvm::SmallSet<size_t, 4> own = std::move(reads[op]);
    if (own.empty())
      own.insert(0);
    total +=
        own.size() *
        (isa<ConcatOp>(op) ? std::max<size_t>(op->getNumOperands(), 1) : 1);
    if (total > kMostCodeOps)
      return true;
    for (Value operand : op->getOperands()) {
      FusionGroup *source = graph.groupOf(operand);
      if (!source || (source != group && source != joining))
        continue;
      llvm::SmallSet<size_t, 4> &at = reads[operand.getDefiningOp()];
      for (size_t function : own)
        at.insert(isElementwise(op) ? function : ++functions);
    }
  }
  return false;
}

bool FusionRules::isFull(FusionGroup *group, FusionGroup *joining) const {
  if (llvm::all_of(joining->ops, [](Operation *op) {
        auto cast = dyn_cast<CastOp>(op);
        return cast && !(isWidening(cast) && isWidenedByReaders(cast));
      }))
    return false;
  if (group->ops.size() + joining->ops.size() > kMostKernelOps ||
      repeatsCode(graph, group, joining))
    return true;
  if (kernels.liveValues == 0)
    return false;
  // Merging does not extend the live ranges of the group's own values.
  LiveValues &memo = live[group->number];
  if (memo.version != group->version)
    memo = {group->version, liveValues(graph, group, group)};
  size_t more = 0, most = size_t(kernels.liveValues);
  for (Operation *op : joining->ops)
    more += op->getNumResults();
  return memo.count + more > most && liveValues(graph, group, joining) > most;
}

/// Returns true if `op` belongs to the epilogue of a kernel other than `group`,
/// directly or through elementwise ops not yet in a kernel. Fusing it here
/// would make that kernel store an unfinished value.
bool FusionRules::endsOtherKernel(Operation *op, FusionGroup *group) const {
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

/// Returns true if `op` computes only the input of sums, from results that the
/// group stores anyway: the kernel of the sum reads those instead.
bool FusionRules::isForReduction(Operation *op, FusionGroup *group) const {
  bool isSummed = llvm::all_of(op->getUsers(), [&](Operation *user) {
    FusionGroup *reader = graph.groupOf(user);
    return familyOf(user) == FusionClass::Reduction && reader &&
           reader->anchor == user && !reader->isJoint;
  });
  if (!isSummed || op->use_empty())
    return false;
  // Later kernels convert what they read.
  auto isStored = [&](auto &&self, Value value) -> bool {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      auto cast = dyn_cast<CastOp>(user);
      return user != op &&
             (graph.groupOf(user) != group ||
              (cast && isWidening(cast) && self(self, cast.getResult())));
    });
  };
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    auto cast = operand.getDefiningOp<CastOp>();
    return graph.groupOf(operand) != group || isStored(isStored, operand) ||
           (cast && isWidening(cast) && isStored(isStored, cast.getInput()));
  });
}

/// Returns true if the cast follows a movement op that would otherwise share a
/// kernel with the cast only.
bool FusionRules::convertsMovement(Operation *cast) const {
  FusionGroup *behind = graph.groupOf(cast->getOperand(0));
  return isFree(behind) && behind->ops.size() == 1 &&
         isa<TransposeOp, SliceOp>(behind->ops.front()) &&
         keepsLastDimension(behind->ops.front()) &&
         graph.isReadOnlyBy(behind, graph.groupOf(cast));
}

bool FusionRules::convertsInput(Operation *cast) const {
  return kernels.fusesOperandMovement &&
         isNarrowing(mlir::cast<CastOp>(cast)) &&
         isa<BlockArgument>(sourceOfReshapes(cast->getOperand(0)));
}

/// Returns true if the kernel of `anchor` loads operand `index` by elements.
static bool readsElements(Operation *anchor, unsigned index) {
  auto precision = dyn_cast<PrecisionOpInterface>(anchor);
  return familyOf(anchor) == FusionClass::Attention && precision &&
         !precision.isPrecisionOperand(index);
}

/// Returns true if an element takes at most a few instructions.
static bool isFewInstructions(Operation *op) {
  constexpr int64_t kMostFlops = 2;
  return isElementwise(op) && cast<CostOpInterface>(op).getFlops() <=
                                  kMostFlops * elementCount(op->getResult(0));
}

/// Returns true if the kernel of `anchor` can load `operand`, the result of
/// `producer`, by loading the operands of `producer`. The result becomes the
/// anchor's operand `index`.
bool FusionRules::ridesOnOperand(Operation *producer, Operation *anchor,
                                 Value operand, unsigned index) const {
  // Cheaper than the GEMM of a score.
  if (readsElements(anchor, index))
    return isFewInstructions(producer) || isFreeToRepeat(producer) ||
           keepsLastDimension(producer);
  if (isa<CastOp>(producer))
    return convertsMovement(producer) || convertsInput(producer);
  if (isa<TransposeOp, SliceOp>(producer) && keepsLastDimension(producer))
    return true;
  if (!kernels.fusesOperandMovement ||
      familyOf(anchor) == FusionClass::Attention)
    return false;
  // Images of few channels are loaded by elements in any order; others only if
  // each element is loaded once.
  return keepsVectors(producer) ||
         (isa<TransposeOp>(producer) && isa<ConvOp>(anchor) &&
          (hasShortRows(operand) || isProduct(anchor)));
}

bool mpc::isProduct(Operation *anchor) {
  auto conv = dyn_cast<ConvOp>(anchor);
  return isa<MatmulOp>(anchor) ||
         (conv && conv.getGroups() == 1 &&
          conv.getLayout() == ImageLayout::channels_last &&
          llvm::all_of(shapeOf(conv.getFilter()).drop_front(2),
                       [](int64_t extent) { return extent == 1; }));
}

/// Returns the reshape's input if `operand` is a reshape that can be computed
/// inside `group`: it preserves the last extent, so that vectors stay whole,
/// and has no other reader.
Value FusionRules::reshapeToJoin(Value operand, FusionGroup *group) const {
  auto reshape = operand.getDefiningOp<ReshapeOp>();
  if (!reshape || !keepsLastDimension(reshape) ||
      !graph.groupOf(operand)->isLoose ||
      !graph.isReadOnlyBy(graph.groupOf(operand), group))
    return {};
  return reshape.getInput();
}

/// Returns true if the loop `source`, which computes `operand` of `op` in
/// `group`, can be fused into the group.
bool FusionRules::mayRunConcurrently(Operation *op, Value operand,
                                     FusionGroup *group,
                                     FusionGroup *source) const {
  // Loops of one shape; the kernel stores the results of both.
  if (isElementwise(op) && source->shape == group->shape &&
      isPlainLoop(source->ops) && isPlainLoop(group->ops))
    return true;
  // The kernel of a movement op also stores narrowed results
  // (fusesResultCast).
  if (isa<CastOp>(op) && source->shape == group->shape &&
      !isLastDimensionMoved(source->ops) && isPlainLoop(group->ops))
    return true;
  if (!graph.isReadOnlyBy(source, group))
    return false;
  bool isRepeatable =
      llvm::all_of(source->ops, isFreeToRepeat) || isRepeatedScalar(operand);
  if (elementCount(operand) < elementCount(op->getResult(0)) && !isRepeatable &&
      !isa<PadOp, ConcatOp>(op))
    return false;
  // Gathers read their input at random and may recompute an element often.
  if (familyOf(op) == FusionClass::Gather && !isRepeatable)
    return false;
  // Elementwise ops are fused into any data movement except transposes of the
  // last dimension, which have loops of their own; data movement is fused into
  // ops that preserve vectors.
  return isElementwise(op) ? !isLastDimensionMoved(source->ops)
                           : llvm::all_of(source->ops, [](Operation *part) {
                               return isPlainLoop(part) || keepsVectors(part);
                             });
}

/// Returns true if the op maps rows to rows along the last dimension, as norms
/// and softmax do.
static bool mapsWholeRows(Operation *op) {
  if (!op->hasTrait<MapsRows>())
    return false;
  SmallVector<int64_t> axes = cast<ReductionOpInterface>(op).getReductionAxes();
  return llvm::is_contained(axes,
                            int64_t(shapeOf(op->getResult(0)).size()) - 1);
}

bool FusionRules::storesElsewhere(FusionGroup *group) const {
  FusionClass family = familyOf(group->anchor);
  return family == FusionClass::Attention ||
         (kernels.fusesResultMovement &&
          (takesOperands(group) || mapsWholeRows(group->anchor) ||
           group->kind == FusionKind::recurrence));
}

/// Returns true if the group's kernel can fold `transpose` into its store.
bool FusionRules::mayStoreThrough(Operation *transpose,
                                  FusionGroup *group) const {
  // CPU kernels can only redirect the store of a whole row.
  return keepsLastDimension(transpose) ||
         (kernels.fusesResultMovement &&
          (isa<ConvOp, MatmulOp>(group->anchor) ||
           mapsWholeRows(group->anchor)));
}

/// Returns the group of an elementwise reader of the reshape that is not yet in
/// a kernel; null if there is none.
FusionGroup *FusionRules::readerBehind(Operation *reshape) const {
  for (Operation *user : reshape->getUsers())
    if (FusionGroup *reader = graph.groupOf(user);
        isElementwise(user) && isFree(reader))
      return reader;
  return nullptr;
}

/// Returns true if a reshape only removes dimensions of extent 1.
static bool dropsUnits(Operation *reshape) {
  ArrayRef<int64_t> from = shapeOf(reshape->getOperand(0)),
                    to = shapeOf(reshape->getResult(0));
  size_t kept = 0;
  for (int64_t extent : from) {
    if (kept < to.size() && to[kept] == extent)
      ++kept;
    else if (extent != 1)
      return false;
  }
  return kept == to.size();
}

/// Returns the movement ops that are the only readers of the group's only
/// result, so that the kernel can fold them into its store. Afterwards the
/// group has the shape of the last one, and no op in it reads the old one.
SmallVector<Operation *> FusionRules::storeChain(FusionGroup *group) const {
  SmallVector<Value> results = graph.resultsOf(group);
  if (results.size() != 1)
    return {};
  bool isRow = mapsWholeRows(group->anchor);
  SmallVector<Operation *> chain;
  size_t length = 0;
  for (Value value = results.front(); value.hasOneUse();
       value = chain.back()->getResult(0)) {
    Operation *reader = *value.user_begin();
    FusionGroup *owner = graph.groupOf(reader);
    if (!owner || owner->anchor || owner->ops.size() != 1)
      break;
    bool isMovement =
        isa<TransposeOp>(reader) && mayStoreThrough(reader, group);
    if (auto slice = dyn_cast<SliceOp>(reader);
        slice && kernels.fusesResultMovement)
      isMovement = keepsLastDimension(reader) &&
                   llvm::all_of(slice.getStrideValues(),
                                [](int64_t stride) { return stride == 1; });
    bool isReshape = kernels.fusesResultMovement && isa<ReshapeOp>(reader);
    if (!(isMovement && !owner->isLoose) && !isReshape)
      break;
    // The states of a recurrent layer are stored in their own dimensions.
    bool isRecurrence = group->kind == FusionKind::recurrence;
    if (isRecurrence && isReshape && !dropsUnits(reader))
      break;
    chain.push_back(reader);
    // Include a final reshape if elementwise ops follow.
    bool isFollowed =
        (length > 0 || isRow) && !isRecurrence && readerBehind(reader);
    if (isMovement || isFollowed)
      length = chain.size();
    if (!kernels.fusesResultMovement)
      break;
  }
  chain.resize(length);
  return chain;
}

//===----------------------------------------------------------------------===//
// Candidates
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
          !repeatsCode(graph, group, source) && seen.insert(source).second)
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
    if (fits && !repeatsCode(graph, group, source))
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
// Norm prologues of GEMMs
//
// A GEMM whose left operand is a norm along the contracted dimension can
// compute the normalized rows itself, in the shared memory of each block (norm
// prologue). It also stores them if they have other readers.
//
//===----------------------------------------------------------------------===//

/// Returns true if all batches of the left side are multiplied with one matrix,
/// so that all rows form one GEMM.
static bool multipliesOneMatrix(MatmulOp product) {
  ArrayRef<int64_t> lhs = shapeOf(product.getLhs()),
                    rhs = shapeOf(product.getRhs()),
                    result = shapeOf(product.getResult());
  return lhs.size() >= 2 && lhs.drop_back() == result.drop_back() &&
         productOf(rhs.drop_back(2)) == 1 && productOf(lhs) > 0 &&
         productOf(result) > 0;
}

/// Returns true if GEMMs of these types have kernels with a norm prologue.
static bool hasPlainTypes(MatmulOp product) {
  Type element = getElementTypeOrSelf(product.getLhs()),
       result = getElementTypeOrSelf(product.getResult());
  auto isPlain = [](Type type) {
    return type.isF16() || type.isBF16() || type.isF32();
  };
  return isPlain(element) && isPlain(result) &&
         !product.getAccumulate().value_or(result).isF64();
}

/// Returns true if the group is one norm along the last dimension, preceded by
/// elementwise ops and movement of whole rows, and followed by elementwise ops.
static bool isNormOfRows(FusionGroup *group) {
  if (!group->anchor || group->isJoint ||
      !group->anchor->hasTrait<MapsRows>() ||
      isa<SoftmaxOp, LogSoftmaxOp>(group->anchor))
    return false;
  int64_t last = shapeOf(group->anchor->getResult(0)).size() - 1;
  SmallVector<int64_t> axes =
      cast<ReductionOpInterface>(group->anchor).getReductionAxes();
  SmallPtrSet<Operation *, 8> behind = {group->anchor};
  return axes == ArrayRef<int64_t>(last) &&
         llvm::all_of(group->ops, [&](Operation *op) {
           bool isBehind = llvm::any_of(op->getOperands(), [&](Value operand) {
             return behind.contains(operand.getDefiningOp());
           });
           if (isBehind)
             behind.insert(op);
           return op == group->anchor || isElementwise(op) ||
                  (isa<ReshapeOp>(op) && keepsLastDimension(op)) ||
                  (isa<PadOp, ConcatOp, SliceOp>(op) && !isBehind);
         });
}

/// Returns true if the kernel of `product` reads the results of `source` only
/// as its first operand: once fused, the rows exist only there.
static bool readsAsRows(const FusionGraph &graph, MatmulOp product,
                        FusionGroup *source) {
  return llvm::all_of(
      graph.groupOf(product.getOperation())->ops, [&](Operation *op) {
        return llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
          return (op == product && operand.getOperandNumber() == 0) ||
                 (graph.groupOf(operand.get()) != source &&
                  graph.groupOf(sourceOfReshapes(operand.get())) != source);
        });
      });
}

void FusionRules::addOperandNorms(FusionGroup *group, FusionGroup *only,
                                  Candidates &candidates) const {
  auto product = dyn_cast<MatmulOp>(group->anchor);
  if (!kernels.hasRowPrologue || !product || product.getPacked() ||
      product.getTransposeLhs() || !multipliesOneMatrix(product) ||
      llvm::any_of(group->ops,
                   [](Operation *op) { return isa<ReductionOpInterface>(op); }))
    return;
  Value operand = product.getLhs();
  FusionGroup *source = graph.groupOf(operand);
  if (Value behind = reshapeToJoin(operand, group))
    source = graph.groupOf(behind);
  if (!source || source == group || (only && only != source) ||
      !isNormOfRows(source) || !readsAsRows(graph, product, source) ||
      isFull(group, source) || !hasPlainTypes(product) ||
      cost.rowsOfBlock(product) == 0)
    return;
  candidates.push_back({FusionStep::OperandNorm, group, source, operand,
                        cost.ofRows(group, source)});
}

//===----------------------------------------------------------------------===//
// Application
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

/// Fuses the reshape in between first: if the norm cannot be fused, the GEMM
/// reads the stored value through it.
bool FusionRules::fuseNorm(FusionGroup *group, Value operand,
                           FusionGroup *norm) {
  FusionGroup *between = graph.groupOf(operand);
  if (between != norm) {
    graph.closeView(between);
    if (!graph.merge(group, between))
      return false;
  }
  return graph.merge(group, norm);
}
