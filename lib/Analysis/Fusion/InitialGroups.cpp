//===- InitialGroups.cpp - groups before any fusion -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Assigns kinds and anchors, and forms the groups that are decided before any
// other grows.
//
//===----------------------------------------------------------------------===//

#include "FusionRules.h"

#include "mpc/Analysis/CastFusion.h"
#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Analysis/Fusion/Views.h"
#include "mpc/Analysis/GatedMatmulColumns.h"
#include "mpc/Analysis/QuantizedCacheRows.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcOptimizerOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mpc;

namespace {
/// Forms the groups of one block.
class InitialGroups {
public:
  InitialGroups(FusionGraph &graph, Block &block, const TargetInfo &target)
      : graph(graph), block(block), kernels(target.kernels()) {
    for (Operation &op : block.without_terminator())
      ops.push_back(&op);
  }

  void form();

private:
  void fuseReader(FusionGroup *group, Operation *op);
  void foldHalves();
  void joinPanels();
  void joinScaledRows();
  void joinAttentionGradients();
  void joinInto(ArrayRef<Operation *> members, FusionKind kind);
  void joinUpdates();
  void joinChecks();

  FusionGraph &graph;
  Block &block;
  const KernelCapabilities &kernels;
  SmallVector<Operation *> ops;
};
} // namespace

//===----------------------------------------------------------------------===//
// GEMMs and attention
//===----------------------------------------------------------------------===//

/// Fuses `op`, which reads only the group, into it.
void InitialGroups::fuseReader(FusionGroup *group, Operation *op) {
  FusionGroup *own = graph.groupOf(op);
  graph.closeView(own);
  graph.merge(group, own);
}

/// The kernel of a GEMM with interleaved columns separates the halves.
void InitialGroups::foldHalves() {
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
void InitialGroups::joinPanels() {
  for (Operation *op : ops)
    if (isa<DequantizeOp>(op) && op->hasOneUse())
      graph.merge(graph.groupOf(*op->user_begin()), graph.groupOf(op));
}

/// Attention dequantizes rows of a KV cache while it loads them: stored wide,
/// they would take several times the traffic.
void InitialGroups::joinScaledRows() {
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
// Stores of attention gradients
//
// On a GPU, one kernel computes the gradients of query, key and value. It
// stores each in the layout and type of its readers at no extra cost: narrowed,
// with heads after positions, and concatenated for GEMMs that read all three.
// This is decided before any other kernel grows.
//
//===----------------------------------------------------------------------===//

/// Returns true if `op`, a reader of a gradient, can be folded into the store.
static bool storesThrough(Operation *op) {
  auto cast = dyn_cast<CastOp>(op);
  return (cast && isNarrowing(cast)) ||
         (isa<TransposeOp>(op) && keepsLastDimension(op));
}

/// Returns true if `value` in row-major order consists of whole runs of `run`
/// elements, each of whole dimensions.
static bool hasRuns(Value value, int64_t run) {
  int64_t elements = 1;
  for (int64_t extent : llvm::reverse(shapeOf(value))) {
    if (elements == run)
      return true;
    elements *= extent;
  }
  return elements == run;
}

/// Returns the attention gradient from which `value` is computed only through
/// foldable ops followed by reshapes, without other readers in between.
static AttentionGradientOp gradientBehind(Value value) {
  bool mayReshape = true;
  while (value.hasOneUse()) {
    Operation *producer = value.getDefiningOp();
    if (!producer || isa<AttentionGradientOp>(producer))
      return cast_if_present<AttentionGradientOp>(producer);
    mayReshape &= isa<ReshapeOp>(producer);
    if (!mayReshape && !storesThrough(producer))
      break;
    value = producer->getOperand(0);
  }
  return {};
}

/// Returns true if the concat joins gradients of one attention. If it is read
/// both wide and narrow, a separate kernel stores both in one pass.
static bool joinsGradients(ConcatOp concat) {
  if (llvm::any_of(concat->getUsers(), [](Operation *user) {
        auto cast = dyn_cast<CastOp>(user);
        return cast && isNarrowing(cast);
      }))
    return false;
  AttentionGradientOp gradient = gradientBehind(concat.getInputs().front());
  return gradient && llvm::all_of(concat.getInputs(), [&](Value input) {
           int64_t run = productOf(shapeOf(input).drop_front(concat.getAxis()));
           return gradientBehind(input) == gradient &&
                  hasRuns(sourceOfReshapes(input), run);
         });
}

/// The same for a concat whose result may be transposed: its inputs have all of
/// the permuted dimensions.
static bool joinsWholeGradients(ConcatOp concat) {
  return joinsGradients(concat) &&
         llvm::none_of(concat.getInputs(), [](Value input) {
           return input.getDefiningOp<ReshapeOp>();
         });
}

bool mpc::isStoredByAttention(Operation *op) {
  if (auto concat = dyn_cast<ConcatOp>(op))
    return joinsGradients(concat);
  if (!isa<TransposeOp>(op) || !keepsLastDimension(op))
    return false;
  Value input = op->getOperand(0);
  auto concat = input.getDefiningOp<ConcatOp>();
  return concat && input.hasOneUse() ? joinsWholeGradients(concat)
                                     : gradientBehind(input) != nullptr;
}

void InitialGroups::joinAttentionGradients() {
  for (Operation *op : ops) {
    auto gradient = dyn_cast<AttentionGradientOp>(op);
    if (!gradient)
      continue;
    FusionGroup *group = graph.groupOf(op);
    ConcatOp joined;
    for (Value value : gradient.getResults()) {
      while (value.hasOneUse() && storesThrough(*value.user_begin())) {
        fuseReader(group, *value.user_begin());
        value = value.user_begin()->getResult(0);
      }
      while (value.hasOneUse() && isa<ReshapeOp>(*value.user_begin()))
        value = value.user_begin()->getResult(0);
      if (value.hasOneUse() && isa<ConcatOp>(*value.user_begin()))
        joined = cast<ConcatOp>(*value.user_begin());
    }
    if (!joined || !joinsGradients(joined))
      continue;
    bool isWhole = joinsWholeGradients(joined);
    for (Value input : joined.getInputs())
      for (; graph.groupOf(input) != group;
           input = input.getDefiningOp()->getOperand(0))
        fuseReader(group, input.getDefiningOp());
    fuseReader(group, joined);
    if (!isWhole || !joined->hasOneUse())
      continue;
    Operation *reader = *joined->user_begin();
    if (isa<TransposeOp>(reader) && keepsLastDimension(reader))
      fuseReader(group, reader);
  }
}

//===----------------------------------------------------------------------===//
// Multi-tensor kernels of a training step
//
// Groups at the end of a training step, formed before any other grows: one
// kernel for all updates of state arguments, whatever their shapes
// (multi-tensor apply), and one for all gradient checks. Otherwise each
// parameter would need its own launches, and a GEMM with a parameter update as
// epilogue could neither be a library call nor wait for the checks.
//
//===----------------------------------------------------------------------===//

/// Maximum buffers of one kernel: a launch passes 4 KiB of pointers.
static constexpr size_t kMostBuffers = 480;

/// Returns true if another kernel computes the input of the cast and can store
/// it in 16 bits, as a gradient's.
static bool isStoredNarrow(CastOp cast) {
  Operation *producer = sourceOfReshapes(cast.getInput()).getDefiningOp();
  return isNarrowing(cast) &&
         bytesPerElement(getElementTypeOrSelf(cast)) == 2 &&
         elementCount(cast.getInput()) > 1 && producer &&
         fusesResultCast(producer, CastFusionTarget());
}

/// Forms groups of kind `kind` from `members`, which are in block order and
/// connected only through members: as few groups as a launch's pointer limit
/// allows, with connected ops together.
void InitialGroups::joinInto(ArrayRef<Operation *> members, FusionKind kind) {
  llvm::SetVector<FusionGroup *> parts;
  for (Operation *op : members)
    graph.groupOf(op)->isJoint = true;
  for (Operation *op : members)
    for (Value operand : op->getOperands())
      if (FusionGroup *source = graph.groupOf(operand);
          source && source->isJoint && elementCount(operand) > 1)
        graph.merge(graph.groupOf(op), source);
  // Scalars first: a path from a scalar to a tensor may pass through others.
  for (bool isTensor : {false, true})
    for (Operation *op : members)
      if (isTensor == (elementCount(op->getResult(0)) > 1))
        parts.insert(graph.groupOf(op));

  FusionGroup *into = nullptr;
  size_t buffers = 0;
  for (FusionGroup *part : parts) {
    part->isJoint = true;
    part->kind = kind;
    llvm::SmallPtrSet<Value, 8> inputs;
    for (Operation *op : part->ops)
      for (Value operand : op->getOperands())
        if (graph.groupOf(operand) != part)
          inputs.insert(operand);
    size_t more = inputs.size() + graph.resultsOf(part).size();
    buffers += more;
    if (!into || buffers > kMostBuffers || !graph.merge(into, part)) {
      into = part;
      buffers = more;
    }
  }
}

/// The kernel of kind `update`: elementwise ops, of any shape, on which only
/// new values of state arguments depend.
void InitialGroups::joinUpdates() {
  auto function = dyn_cast_if_present<FunctionOpInterface>(block.getParentOp());
  llvm::SmallPtrSet<Operation *, 32> updates;
  SmallVector<Operation *> members;
  for (Operation *op : llvm::reverse(ops)) {
    if (graph.groupOf(op)->isLoose ||
        (!isElementwise(op) && !isFreeToRepeat(op)))
      continue;
    bool changesState = false, isReadBeside = false, isReturned = false;
    for (OpOperand &use : op->getUses()) {
      if (returnsState(use, function))
        isReturned = changesState = true;
      else if (updates.contains(use.getOwner()))
        changesState = true;
      else if (!use.getOwner()->hasTrait<OpTrait::IsTerminator>())
        isReadBeside = true;
    }
    if (!changesState || isReadBeside)
      continue;
    if (auto cast = dyn_cast<CastOp>(op);
        cast && !isReturned && isStoredNarrow(cast))
      continue;
    updates.insert(op);
    members.push_back(op);
  }
  std::reverse(members.begin(), members.end());
  joinInto(members, FusionKind::update);
}

/// The kernel that reads all gradients to check that they are finite and to
/// compute their norm. It widens loads and computes the unscaling factor.
void InitialGroups::joinChecks() {
  llvm::SmallPtrSet<Operation *, 16> checks;
  SmallVector<Operation *> members;
  for (Operation *op : llvm::reverse(ops)) {
    auto cast = dyn_cast<CastOp>(op);
    bool isCheck = isa<AllFiniteOp, GlobalNormOp>(op);
    bool isPart = (cast && isWidening(cast)) ||
                  (isElementwise(op) && elementCount(op->getResult(0)) == 1);
    bool isReadByChecks =
        !op->use_empty() && llvm::all_of(op->getUsers(), [&](Operation *user) {
          return checks.contains(user);
        });
    if (!isCheck && !(isPart && isReadByChecks))
      continue;
    checks.insert(op);
    members.push_back(op);
  }
  std::reverse(members.begin(), members.end());
  joinInto(members, FusionKind::reduce);
}

//===----------------------------------------------------------------------===//
// All groups
//===----------------------------------------------------------------------===//

void InitialGroups::form() {
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

void mpc::formInitialGroups(FusionGraph &graph, Block &block,
                            const TargetInfo &target) {
  InitialGroups(graph, block, target).form();
}
