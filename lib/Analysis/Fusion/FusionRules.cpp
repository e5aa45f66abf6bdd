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
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "mpc/Analysis/Fusion/Views.h"
#include "mpc/Analysis/GatedMatmulColumns.h"
#include "mpc/Analysis/QuantizedCacheRows.h"

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
    : graph(graph), block(block), cost(target, graph),
      live(graph.getNumGroups()), kernels(target.kernels()) {
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);
}

void FusionRules::classify() {
  for (Operation *op : ops) {
    FusionGroup *group = graph.groupOf(op);
    auto concat = dyn_cast<ConcatOp>(op);
    group->isLoose =
        isa<mpc::ConstantOp>(op) ||
        (isView(op) && !(concat && concatenatesSmallLoops(concat)));
    if (isa<DequantizeOp>(op))
      continue;
    std::optional<FusionKind> kind;
    switch (familyOf(op)) {
    case FusionClass::Contraction:
      kind = FusionKind::contraction;
      break;
    case FusionClass::Convolution:
      kind = isa<ConvOp>(op) ? FusionKind::convolution : FusionKind::library;
      break;
    case FusionClass::Attention:
      kind = FusionKind::attention;
      break;
    case FusionClass::RowWise:
      kind = FusionKind::row;
      break;
    case FusionClass::Reduction:
    case FusionClass::Pool:
      kind = FusionKind::reduce;
      break;
    case FusionClass::Recurrent:
      kind = op->hasTrait<Composite>() ? FusionKind::library
                                       : FusionKind::recurrence;
      break;
    case FusionClass::Scan:
    case FusionClass::Opaque:
      kind = FusionKind::library;
      break;
    default:
      break;
    }
    if (!kind)
      continue;
    group->kind = *kind;
    group->anchor = op;
  }
  if (kernels.hasCompositeKernel(AttentionGradientOp::getOperationName()))
    joinAttentionGradients();
  foldHalves();
  joinPanels();
  if (!kernels.fusesOperandMovement)
    joinScaledRows();
  joinUpdates();
  joinChecks();
}

/// The kernel of a GEMM with interleaved columns separates the halves.
void FusionRules::foldHalves() {
  for (Operation *op : ops) {
    std::optional<GatedMatmulColumns> pair = GatedMatmulColumns::of(op);
    if (!pair || pair->block != GatedMatmulColumns::blockFor(kernels))
      continue;
    FusionGroup *group = graph.groupOf(op);
    for (Operation *view : pair->views)
      fuseReader(group, view);
    group->shape = shapeOf(pair->halves[0]);
  }
}

/// A GEMM dequantizes its panels itself.
void FusionRules::joinPanels() {
  for (Operation *op : ops)
    if (isa<DequantizeOp>(op) && op->hasOneUse())
      graph.merge(graph.groupOf(*op->user_begin()), graph.groupOf(op));
}

/// Attention dequantizes rows of a KV cache while it loads them: stored wide,
/// they would take several times the traffic.
void FusionRules::joinScaledRows() {
  for (Operation *op : ops) {
    auto attention = dyn_cast<AttentionOp>(op);
    if (!attention)
      continue;
    bool isScaled = false;
    for (Value operand : {attention.getKey(), attention.getValue()}) {
      std::optional<QuantizedCacheRows> rows = QuantizedCacheRows::of(operand);
      // A value with another reader is stored.
      if (!rows || !llvm::all_of(rows->chain, [&](Operation *part) {
            return part->hasOneUse() && part->getBlock() == &block;
          }))
        continue;
      isScaled = true;
      for (Operation *part : rows->chain)
        if (!graph.merge(graph.groupOf(op), graph.groupOf(part)))
          break;
    }
    // The kernel reads a 16-bit query directly.
    Operation *widened = attention.getQuery().getDefiningOp();
    if (isScaled && isa_and_present<CastOp>(widened) && widened->hasOneUse() &&
        widened->getBlock() == &block)
      graph.merge(graph.groupOf(op), graph.groupOf(widened));
  }
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

bool FusionRules::isFull(FusionGroup *group, FusionGroup *joining) const {
  if (llvm::all_of(joining->ops, [](Operation *op) {
        auto cast = dyn_cast<CastOp>(op);
        return cast && !(isWidening(cast) && isWidenedByReaders(cast));
      }))
    return false;
  if (group->ops.size() + joining->ops.size() > kMostKernelOps ||
      repeatsCode(group, joining))
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
