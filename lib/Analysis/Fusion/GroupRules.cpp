//===- GroupRules.cpp - which ops may share a kernel ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rules of mpc-group-ops. Each allows a step that saves a value's way
// through memory; none computes anything heavy twice.
//
//===----------------------------------------------------------------------===//

#include "GroupRules.h"
#include "mpc/Analysis/Fusion/FusionMovement.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "mpc/Analysis/Fusion/Views.h"
#include "mpc/Analysis/PairedColumns.h"
#include "mpc/Analysis/ScaledRows.h"

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

GroupRules::GroupRules(FusionGraph &graph, Block &block,
                       const TargetInfo &target)
    : graph(graph), block(block), cost(target, graph),
      live(graph.getNumGroups()), kernels(target.kernels()) {
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);
}

void GroupRules::classify() {
  for (Operation *op : ops) {
    FusionGroup *group = graph.groupOf(op);
    auto concat = dyn_cast<ConcatOp>(op);
    group->isLoose = isa<mpc::ConstantOp>(op) ||
                     (isView(op) && !(concat && joinsSmallLoops(concat)));
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
  if (kernels.takesWhole(AttentionGradientOp::getOperationName()))
    joinAttentionGradients();
  joinHalves();
  joinPanels();
  if (!kernels.mapsOperands)
    joinScaledRows();
  joinUpdates();
  joinChecks();
}

/// A product of paired columns hands out their halves itself.
void GroupRules::joinHalves() {
  for (Operation *op : ops) {
    std::optional<PairedColumns> pair = PairedColumns::of(op);
    if (!pair || pair->block != PairedColumns::blockFor(kernels))
      continue;
    FusionGroup *group = graph.groupOf(op);
    for (Operation *view : pair->views)
      takeReader(group, view);
    group->shape = shapeOf(pair->halves[0]);
  }
}

/// A product unpacks its narrow panels itself.
void GroupRules::joinPanels() {
  for (Operation *op : ops)
    if (isa<DequantizeOp>(op) && op->hasOneUse())
      graph.merge(graph.groupOf(*op->user_begin()), graph.groupOf(op));
}

/// Attention widens scaled rows of a cache as it loads them: stored wide, they
/// would be several times what is read.
void GroupRules::joinScaledRows() {
  for (Operation *op : ops) {
    auto attention = dyn_cast<AttentionOp>(op);
    if (!attention)
      continue;
    bool isScaled = false;
    for (Value operand : {attention.getKey(), attention.getValue()}) {
      std::optional<ScaledRows> rows = ScaledRows::of(operand);
      // What something else reads as well has memory.
      if (!rows || !llvm::all_of(rows->chain, [&](Operation *part) {
            return part->hasOneUse() && part->getBlock() == &block;
          }))
        continue;
      isScaled = true;
      for (Operation *part : rows->chain)
        if (!graph.merge(graph.groupOf(op), graph.groupOf(part)))
          break;
    }
    // A query of 16 bits meets their numbers as it is.
    Operation *widened = attention.getQuery().getDefiningOp();
    if (isScaled && isa_and_present<CastOp>(widened) && widened->hasOneUse() &&
        widened->getBlock() == &block)
      graph.merge(graph.groupOf(op), graph.groupOf(widened));
  }
}

//===----------------------------------------------------------------------===//
// Questions
//===----------------------------------------------------------------------===//

/// A loop that no kernel has taken yet.
bool GroupRules::isFree(FusionGroup *group) const {
  return group && !group->isLoose && !group->isJoint && !group->anchor;
}

bool GroupRules::isWide(FusionGroup *group) const {
  return !group->anchor && llvm::any_of(group->ops, [](Operation *op) {
    return op->getNumOperands() > kMostKernelOps / 4;
  });
}

/// Whether every kernel may compute `value` anew: a launch costs more.
bool GroupRules::isRepeatedScalar(Value value) const {
  return kernels.repeatsScalars && elementCount(value) == 1;
}

/// Whether the group's kernel loads its operands through index maps.
bool GroupRules::takesOperands(FusionGroup *group) const {
  FusionClass family = familyOf(group->anchor);
  return family == FusionClass::Contraction ||
         family == FusionClass::Attention ||
         (family == FusionClass::Convolution && kernels.mapsOperands);
}

/// The most values of the groups' shape that are alive at once when their ops
/// run in block order.
static size_t liveValues(const FusionGraph &graph, FusionGroup *group,
                         FusionGroup *joining) {
  auto isInside = [&](Operation *op) {
    return graph.groupOf(op) == group || graph.groupOf(op) == joining;
  };
  // Where the last reader of each value stands; those read outside stay alive
  // to the end.
  SmallVector<std::pair<int64_t, int64_t>> ranges;
  for (Operation *op : llvm::concat<Operation *const>(
           group->ops, joining == group ? ArrayRef<Operation *>()
                                        : ArrayRef<Operation *>(joining->ops)))
    for (Value result : op->getResults()) {
      if (elementCount(result) != productOf(group->shape))
        continue;
      int64_t begin = graph.positionOf(op), end = begin;
      // A value may have thousands of readers: one outside is enough.
      for (Operation *user : result.getUsers()) {
        if (!isInside(user)) {
          end = std::numeric_limits<int64_t>::max();
          break;
        }
        end = std::max(end, graph.positionOf(user));
      }
      ranges.push_back({begin, end});
    }
  // At the begin of each, those that have ended before are gone.
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

bool GroupRules::isFull(FusionGroup *group, FusionGroup *joining) const {
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
  // What is alive in the group does not live longer because others join it.
  LiveValues &memo = live[group->number];
  if (memo.version != group->version)
    memo = {group->version, liveValues(graph, group, group)};
  size_t more = 0, most = size_t(kernels.liveValues);
  for (Operation *op : joining->ops)
    more += op->getNumResults();
  return memo.count + more > most && liveValues(graph, group, joining) > most;
}

/// Whether `op` belongs to the epilogue of a kernel other than `group`, at once
/// or through elementwise ops that no kernel has taken yet. That kernel would
/// else store an unfinished value.
bool GroupRules::endsOtherKernel(Operation *op, FusionGroup *group) const {
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

/// Whether `op` computes what is only summed, of results that the group stores
/// anyway: the kernel of the sum reads these, and nothing is written for it.
bool GroupRules::isForReduction(Operation *op, FusionGroup *group) const {
  bool isSummed = llvm::all_of(op->getUsers(), [&](Operation *user) {
    FusionGroup *reader = graph.groupOf(user);
    return familyOf(user) == FusionClass::Reduction && reader &&
           reader->anchor == user && !reader->isJoint;
  });
  if (!isSummed || op->use_empty())
    return false;
  // Kernels after this one widen by themselves what they read.
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

/// Whether the cast has a movement before it that would else share a kernel
/// with nothing but the cast.
bool GroupRules::convertsMovement(Operation *cast) const {
  FusionGroup *behind = graph.groupOf(cast->getOperand(0));
  return isFree(behind) && behind->ops.size() == 1 &&
         isa<TransposeOp, SliceOp>(behind->ops.front()) &&
         keepsLastDimension(behind->ops.front()) &&
         graph.isReadOnlyBy(behind, graph.groupOf(cast));
}

bool GroupRules::convertsInput(Operation *cast) const {
  return kernels.mapsOperands && isNarrowing(mlir::cast<CastOp>(cast)) &&
         isa<BlockArgument>(behindReshapes(cast->getOperand(0)));
}

/// Whether the kernel around `anchor` reads operand number `index` element by
/// element, as it does a mask.
static bool readsElements(Operation *anchor, unsigned index) {
  auto precision = dyn_cast<PrecisionOpInterface>(anchor);
  return familyOf(anchor) == FusionClass::Attention && precision &&
         !precision.isPrecisionOperand(index);
}

/// Whether an element costs a few instructions at most.
static bool isFewInstructions(Operation *op) {
  constexpr int64_t kMostFlops = 2;
  return isElementwise(op) && cast<CostOpInterface>(op).getFlops() <=
                                  kMostFlops * elementCount(op->getResult(0));
}

/// Whether the kernel around `anchor` can load `operand`, the result of
/// `producer`, by loading what `producer` reads. What is made of it becomes the
/// anchor's operand number `index`.
bool GroupRules::ridesOnOperand(Operation *producer, Operation *anchor,
                                Value operand, unsigned index) const {
  // Less than the product of a score takes.
  if (readsElements(anchor, index))
    return isFewInstructions(producer) || isFreeToRepeat(producer) ||
           keepsLastDimension(producer);
  if (isa<CastOp>(producer))
    return convertsMovement(producer) || convertsInput(producer);
  if (isa<TransposeOp, SliceOp>(producer) && keepsLastDimension(producer))
    return true;
  if (!kernels.mapsOperands || familyOf(anchor) == FusionClass::Attention)
    return false;
  // Images of few channels are loaded by elements in any order, others where
  // an element is loaded once.
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

/// The reshape's input, where the reshape makes `operand` and can be computed
/// inside `group`: it keeps the last extent, so that vectors stay whole, and
/// nothing else reads it.
Value GroupRules::reshapeToJoin(Value operand, FusionGroup *group) const {
  auto reshape = operand.getDefiningOp<ReshapeOp>();
  if (!reshape || !keepsLastDimension(reshape) ||
      !graph.groupOf(operand)->isLoose ||
      !graph.isReadOnlyBy(graph.groupOf(operand), group))
    return {};
  return reshape.getInput();
}

/// Whether the loop `source`, which computes `operand` of `op` in `group`, can
/// be computed inside it.
bool GroupRules::mayJoin(Operation *op, Value operand, FusionGroup *group,
                         FusionGroup *source) const {
  // Loops of one shape side by side, with the results of both.
  if (isElementwise(op) && source->shape == group->shape &&
      isPlainLoop(source->ops) && isPlainLoop(group->ops))
    return true;
  // What a movement's kernel stores it stores narrow as well
  // (absorbsResultCast).
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
  // Gathers read their input at random, and so may compute an element often.
  if (familyOf(op) == FusionClass::Gather && !isRepeatable)
    return false;
  // Elementwise ops ride on any data movement but transposes of the last
  // dimension, which have loops of their own; data movement rides on what keeps
  // vectors.
  return isElementwise(op) ? !isLastDimensionMoved(source->ops)
                           : llvm::all_of(source->ops, [](Operation *part) {
                               return isPlainLoop(part) || keepsVectors(part);
                             });
}

/// Whether the op makes rows of rows along the last dimension, as norms and
/// softmax do.
static bool mapsWholeRows(Operation *op) {
  if (!op->hasTrait<MapsRows>())
    return false;
  SmallVector<int64_t> axes = cast<ReductionOpInterface>(op).getReductionAxes();
  return llvm::is_contained(axes,
                            int64_t(shapeOf(op->getResult(0)).size()) - 1);
}

bool GroupRules::storesElsewhere(FusionGroup *group) const {
  FusionClass family = familyOf(group->anchor);
  return family == FusionClass::Attention ||
         (kernels.mapsResults &&
          (takesOperands(group) || mapsWholeRows(group->anchor) ||
           group->kind == FusionKind::recurrence));
}

/// Whether the group's kernel can store its results through `transpose`.
bool GroupRules::mayStoreThrough(Operation *transpose,
                                 FusionGroup *group) const {
  // Where the CPU stores a row elsewhere, it stores the whole row.
  return keepsLastDimension(transpose) ||
         (kernels.mapsResults && (isa<ConvOp, MatmulOp>(group->anchor) ||
                                  mapsWholeRows(group->anchor)));
}

/// An elementwise op behind the reshape that no kernel has taken yet; null
/// where there is none.
FusionGroup *GroupRules::readerBehind(Operation *reshape) const {
  for (Operation *user : reshape->getUsers())
    if (FusionGroup *reader = graph.groupOf(user);
        isElementwise(user) && isFree(reader))
      return reader;
  return nullptr;
}

/// Whether a reshape takes away dimensions of extent 1 alone.
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

/// The movement that alone reads the group's only result, so that the kernel
/// can store elsewhere at no cost. Afterwards the group has the last one's
/// shape, and nothing in it reads the old one.
SmallVector<Operation *> GroupRules::storeChain(FusionGroup *group) const {
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
    if (auto slice = dyn_cast<SliceOp>(reader); slice && kernels.mapsResults)
      isMovement = keepsLastDimension(reader) &&
                   llvm::all_of(slice.getStrideValues(),
                                [](int64_t stride) { return stride == 1; });
    bool isReshape = kernels.mapsResults && isa<ReshapeOp>(reader);
    if (!(isMovement && !owner->isLoose) && !isReshape)
      break;
    // The states of a layer are stored in their own dimensions.
    bool isRecurrence = group->kind == FusionKind::recurrence;
    if (isRecurrence && isReshape && !dropsUnits(reader))
      break;
    chain.push_back(reader);
    // A reshape in the end belongs to the kernel where elementwise ops follow.
    bool isFollowed =
        (length > 0 || isRow) && !isRecurrence && readerBehind(reader);
    if (isMovement || isFollowed)
      length = chain.size();
    if (!kernels.mapsResults)
      break;
  }
  chain.resize(length);
  return chain;
}
