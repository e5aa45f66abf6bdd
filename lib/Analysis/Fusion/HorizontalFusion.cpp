//===- HorizontalFusion.cpp - horizontal fusion of kernels ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Merges independent kernels into one launch, mostly for GPUs. In order of
// gain: rows first, which are then read once.
//
//===----------------------------------------------------------------------===//

#include "FusionRules.h"
#include "QuantizedOperandFusion.h"

#include "mpc/Analysis/CastFusion.h"
#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Analysis/Fusion/HorizontalFusion.h"
#include "mpc/Analysis/GatedMatmulColumns.h"
#include "mpc/Analysis/OperandSums.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Returns the axes of a sum or mean; empty for other ops.
static ArrayRef<int64_t> summedAxes(Operation *op) {
  if (auto sum = dyn_cast_or_null<ReduceSumOp>(op))
    return sum.getAxes();
  if (auto mean = dyn_cast_or_null<ReduceMeanOp>(op))
    return mean.getAxes();
  return {};
}

namespace {
class HorizontalFuser {
public:
  HorizontalFuser(FusionGraph &graph, FusionRules &rules,
                  const TargetInfo &target)
      : graph(graph), target(target), rules(rules), ops(rules.operations()) {}

  /// Fuses a widening cast into the kernel that reads it, so that the producer
  /// of its input stores 16 bits.
  void widenAtReaders();

  void fuseRowReductions();
  /// Row reductions, functions of the rows that use them, and reductions of
  /// those: norm gradients, expert routing. Rows are read once and buffered.
  void fuseRowScalars();
  /// The same for maxima only, by which a KV cache scales its rows.
  void fuseRowMaxima();
  void fuseColumnSums();
  void fuseFilterBiasGradients();
  void fuseMatmulBiasGradients();
  void fuseImageMeans();
  void fuseConcats();
  void fuseEqualSums();
  void fuseSums();
  void fuseLoops();

private:
  using JoinsOp = bool(Operation *);
  using JoinsShape = bool(llvm::ArrayRef<int64_t>);
  /// Merges row reductions along the last dimension by ops that satisfy
  /// `joins`, with functions of the rows that use them, if the row shape
  /// satisfies `joinsShape`.
  void joinRowsOf(JoinsOp *joins, JoinsShape *joinsShape);
  bool isFull(FusionGroup *group, FusionGroup *joining) const {
    return rules.isFull(group, joining);
  }
  void takeWidening(FusionGroup *group, CastOp wide);
  void takeNarrowing(FusionGroup *group, Value value);
  bool takesSum(MatmulOp product, ReduceSumOp sum) const;
  void loadThroughMovement(FusionGroup *group);
  llvm::SmallVector<FusionGroup *> rowsOfSum(Operation *sum) const;

  double secondsAnew(FusionGroup *maker, FusionGroup *reader) const;
  std::optional<llvm::SmallVector<FusionGroup *>>
  viewsBetween(FusionGroup *maker, FusionGroup *reader) const;
  bool readsLoop(FusionGroup *reader, FusionGroup *maker) const;
  llvm::SmallVector<FusionGroup *> loopsBeside(FusionGroup *group) const;

  FusionGraph &graph;
  const TargetInfo &target;
  FusionRules &rules;
  llvm::ArrayRef<Operation *> ops;
};
} // namespace

void HorizontalFuser::widenAtReaders() {
  for (Operation *op : ops) {
    auto cast = dyn_cast<CastOp>(op);
    if (!cast || cast->use_empty() || !isWidening(cast))
      continue;
    OpOperand &use = *cast->getUses().begin();
    FusionGroup *reader = graph.groupOf(use.getOwner());
    if (reader && !reader->isLoose && reader != graph.groupOf(op) &&
        graph.isReadOnlyBy(op, reader) &&
        fusesOperandCast(use.getOwner(), use.getOperandNumber(),
                         CastFusionTarget()))
      graph.move(op, reader);
  }
}

/// Fuses the cast, if any, that widens the group's input from memory.
void HorizontalFuser::takeWidening(FusionGroup *group, CastOp wide) {
  FusionGroup *widened = wide ? graph.groupOf(wide.getOperation()) : group;
  if (widened->ops.size() == 1)
    graph.merge(group, widened);
  else if (widened != group)
    graph.move(wide, group);
}

/// Fuses the cast, if it is a kernel of its own, that narrows the group's
/// `value` and is its only reader.
void HorizontalFuser::takeNarrowing(FusionGroup *group, Value value) {
  auto cast =
      value.hasOneUse() ? dyn_cast<CastOp>(*value.user_begin()) : CastOp();
  FusionGroup *own = cast ? graph.groupOf(cast.getOperation()) : nullptr;
  if (own && own->ops.size() == 1 && !own->isJoint && isNarrowing(cast))
    graph.merge(group, own);
}

void mpc::fuseHorizontal(FusionGraph &graph, Block &block,
                         const TargetInfo &target) {
  FusionRules rules(graph, block, target);
  HorizontalFuser joiner(graph, rules, target);
  // Exposes kernels with a common narrow input.
  joiner.widenAtReaders();
  bool fusesSiblings = target.kernels().fusesSiblings;
  joiner.fuseRowMaxima();
  if (fusesSiblings) {
    joiner.fuseRowReductions();
    joiner.fuseRowScalars();
    joiner.fuseColumnSums();
    joiner.fuseFilterBiasGradients();
    joiner.fuseMatmulBiasGradients();
    joiner.fuseImageMeans();
  }
  joiner.fuseEqualSums();
  if (!fusesSiblings)
    return;
  joiner.fuseSums();
  joiner.fuseConcats();
  fuseTransposedCopies(graph, rules);
  // Last, so that the inputs of other kernels stay as fused above.
  joiner.fuseLoops();
  fuseLargestMagnitudes(graph, rules);
}

//===----------------------------------------------------------------------===//
// Horizontal fusion of elementwise loops
//
// Loops that one kernel reads run in one launch, whatever their shapes: the
// transposed query, KV caches with new rows appended, narrowed inputs. A loop
// with several readers is recomputed in each if that takes less time than a
// launch, for example the sines and cosines of rotary embeddings.
//===----------------------------------------------------------------------===//

/// Cost of a loop's flop relative to a GEMM's: no FMA, and functions take more
/// flops than they count.
static constexpr double kLoopFlop = 4;

/// Maximum time of recomputation, as a share of a launch.
static constexpr double kShareOfLaunch = 0.5;

/// Returns true if the group can compute any element of its result on demand.
static bool isLoop(FusionGroup *group) {
  return group && !group->anchor && !group->isLoose && !group->isJoint &&
         !group->ops.empty() && !isLastDimensionMoved(group->ops) &&
         llvm::all_of(group->ops, [](Operation *op) {
           return isElementwise(op) || isFreeToRepeat(op) ||
                  isa<MovementOpInterface, ReshapeOp>(op);
         });
}

/// Returns how often elements of an operand are read if each result of `op` is
/// read `count` times: an operand of a concat or pad has a share.
static double countOf(Operation *op, Value operand, double count) {
  double made = elementCount(op->getResult(0));
  return isa<ConcatOp, PadOp>(op) && made > 0
             ? count * std::min(1.0, elementCount(operand) / made)
             : count;
}

/// Returns the additional time of `reader`, in seconds, if it recomputes the
/// results of `maker` instead of loading them.
double HorizontalFuser::secondsAnew(FusionGroup *maker,
                                    FusionGroup *reader) const {
  llvm::DenseMap<Operation *, double> counts;
  for (Value result : graph.resultsOf(reader)) {
    double &count = counts[result.getDefiningOp()];
    count = std::max<double>(count, elementCount(result));
  }
  double flops = 0, bytes = 0;
  auto visit = [&](FusionGroup *group) {
    for (Operation *op : llvm::reverse(group->ops)) {
      auto entry = counts.find(op);
      if (entry == counts.end())
        continue;
      double count = entry->second, made = elementCount(op->getResult(0));
      if (group == maker && made > 0)
        flops += cast<CostOpInterface>(op).getFlops() * count / made;
      for (Value operand : op->getOperands()) {
        double asked = countOf(op, operand, count);
        double size = bytesPerElement(getElementTypeOrSelf(operand));
        if (FusionGroup *source = graph.groupOf(operand);
            source == maker || source == group) {
          counts[operand.getDefiningOp()] += asked;
          if (source != group)
            bytes -= std::min<double>(asked, elementCount(operand)) * size;
        } else if (group == maker) {
          bytes += std::min<double>(asked, elementCount(operand)) * size;
        }
      }
    }
  };
  visit(reader);
  visit(maker);
  return flops * kLoopFlop /
             target.flopsPerSecond(MathType::Float32, /*aligned=*/true) +
         std::max(bytes, 0.0) / target.bytesPerSecond();
}

/// Returns the reshapes through which `reader` reads results of `maker`;
/// nullopt if one of them has another reader.
std::optional<llvm::SmallVector<FusionGroup *>>
HorizontalFuser::viewsBetween(FusionGroup *maker, FusionGroup *reader) const {
  SmallVector<FusionGroup *> views;
  for (Operation *op : reader->ops)
    for (Value value : op->getOperands()) {
      if (graph.groupOf(sourceOfReshapes(value)) != maker)
        continue;
      for (; graph.groupOf(value) != maker && graph.groupOf(value) != reader;
           value = value.getDefiningOp()->getOperand(0)) {
        FusionGroup *view = graph.groupOf(value);
        if (!view->isLoose || !graph.isReadOnlyBy(value, view, reader))
          return std::nullopt;
        views.push_back(view);
      }
    }
  return views;
}

/// Returns true if `reader` reads `maker`, directly or through views.
bool HorizontalFuser::readsLoop(FusionGroup *reader, FusionGroup *maker) const {
  return llvm::any_of(graph.resultsOf(maker), [&](Value result) {
    return llvm::is_contained(graph.readersOf(result), reader);
  });
}

/// Fusion candidates: consumers, and siblings that share a consumer.
llvm::SmallVector<FusionGroup *>
HorizontalFuser::loopsBeside(FusionGroup *group) const {
  llvm::SmallSetVector<FusionGroup *, 8> found;
  for (Value result : graph.resultsOf(group))
    for (FusionGroup *reader : graph.readersOf(result)) {
      if (!reader)
        continue;
      if (isLoop(reader))
        found.insert(reader);
      for (Operation *op : reader->ops)
        for (Value operand : op->getOperands())
          if (FusionGroup *source = graph.groupOf(sourceOfReshapes(operand));
              isLoop(source))
            found.insert(source);
    }
  found.remove(group);
  return found.takeVector();
}

void HorizontalFuser::fuseLoops() {
  if (!target.hasCeilings())
    return;
  double most = kShareOfLaunch * target.launchSeconds();
  auto join = [&](FusionGroup *group, FusionGroup *other) {
    if (isFull(group, other))
      return false;
    if (readsLoop(group, other))
      std::swap(group, other);
    if (readsLoop(other, group)) {
      std::optional<SmallVector<FusionGroup *>> views =
          viewsBetween(group, other);
      if (!views || secondsAnew(group, other) > most)
        return false;
      // Inside the kernel of its only reader, a reshape is free.
      for (FusionGroup *view : *views) {
        graph.closeView(view);
        graph.merge(other, view);
      }
    }
    return graph.merge(group, other);
  };
  for (bool grows = true; grows;) {
    grows = false;
    for (Operation *op : ops) {
      FusionGroup *group = graph.groupOf(op);
      if (group->ops.front() != op || !isLoop(group))
        continue;
      for (FusionGroup *other : loopsBeside(group))
        if (join(group, other)) {
          grows = true;
          break;
        }
    }
  }
}

//===----------------------------------------------------------------------===//
//
//
//--------------------===//
// Fuses kernels over the same rows, so that a row is read once and buffered:
// softmaxes with sums over these rows, as in a loss and its gradient, and row
// reductions with elementwise ops before and after, as in norm gradients, row
// quantization of a KV cache and expert routing.
//===----------------------------------------------------------------------===//

/// Returns the axis of a softmax; nullopt for other ops.
static std::optional<int64_t> softmaxAxis(Operation *op) {
  if (auto softmax = dyn_cast_or_null<SoftmaxOp>(op))
    return softmax.getAxis();
  if (auto softmax = dyn_cast_or_null<LogSoftmaxOp>(op))
    return softmax.getAxis();
  return std::nullopt;
}

/// Fuses softmaxes of one tensor, which read its rows once, and sums over
/// functions of a softmax, which need not read them again.
void HorizontalFuser::fuseRowReductions() {
  for (Operation *op : ops) {
    std::optional<int64_t> axis = softmaxAxis(op);
    FusionGroup *group = graph.groupOf(op);
    if (!axis || group->anchor != op)
      continue;
    for (Operation *user : op->getOperand(0).getUsers()) {
      FusionGroup *other = graph.groupOf(user);
      if (other && other != group && other->anchor == user &&
          softmaxAxis(user) == axis && !isFull(group, other))
        graph.merge(group, other);
    }
    SmallVector<Operation *> members = group->ops;
    for (Operation *member : members)
      for (Operation *user : member->getUsers()) {
        FusionGroup *sums = graph.groupOf(user);
        if (sums && sums != group && sums->anchor == user &&
            summedAxes(user) == ArrayRef<int64_t>(*axis) &&
            shapeOf(user->getOperand(0)) == group->shape &&
            !isFull(group, sums))
          graph.merge(group, sums);
      }
  }
}

static bool isRowSum(Operation *op) {
  return isa<ReduceSumOp, ReduceMeanOp>(op);
}

static bool isRowMaximum(Operation *op) { return isa<ReduceMaxOp>(op); }

static bool isRowNumber(Operation *op) {
  return isRowSum(op) || isRowMaximum(op) ||
         isa<ReduceMinOp, ArgmaxOp, ArgminOp, SoftmaxOp, LogSoftmaxOp>(op);
}

/// Returns true if the group only computes values of shape `full`, reductions
/// of its rows along the last dimension by ops that satisfy `joins`, and
/// elementwise functions of both.
static bool isOfRows(FusionGroup *group, ArrayRef<int64_t> full,
                     llvm::function_ref<bool(Operation *)> joins) {
  if (group->isLoose || group->isJoint)
    return false;
  SmallVector<int64_t> numbers(full);
  numbers.back() = 1;
  return llvm::all_of(group->ops, [&](Operation *op) {
    ArrayRef<int64_t> result = shapeOf(op->getResult(0));
    if (isElementwise(op))
      return result == full || result == ArrayRef<int64_t>(numbers);
    return joins(op) &&
           cast<ReductionOpInterface>(op).getReductionAxes() ==
               ArrayRef<int64_t>(full.size() - 1) &&
           shapeOf(op->getOperand(0)) == full &&
           (result == ArrayRef<int64_t>(numbers) || softmaxAxis(op));
  });
}

/// Longer rows do not fit and are read again by each pass: then separate
/// kernels, which split a row over blocks or buffer it for one softmax, are as
/// fast.
static constexpr int64_t kLongestKept = 8192;

bool mpc::canBufferRowChains(ArrayRef<int64_t> shape) {
  return shape.size() >= 2 && shape.back() > 1 && shape.back() <= kLongestKept;
}

/// Limits for sums and maxima: beyond kVeryLong elements at least kFewRows rows
/// are needed.
static constexpr int64_t kVeryLong = 65536, kFewRows = 64;

static bool areManyRows(ArrayRef<int64_t> shape) {
  return shape.size() >= 2 && shape.back() > 1 &&
         (shape.back() <= kVeryLong ||
          productOf(shape.drop_back()) >= kFewRows);
}

void HorizontalFuser::fuseRowScalars() {
  joinRowsOf(isRowNumber, canBufferRowChains);
  joinRowsOf(isRowSum, areManyRows);
}

void HorizontalFuser::fuseRowMaxima() { joinRowsOf(isRowMaximum, areManyRows); }

void HorizontalFuser::joinRowsOf(JoinsOp *joins, JoinsShape *joinsShape) {
  for (Operation *op : ops) {
    FusionGroup *group = graph.groupOf(op);
    if (group->anchor != op || !joins(op))
      continue;
    ArrayRef<int64_t> full = shapeOf(op->getOperand(0));
    if (!joinsShape(full) || !isOfRows(group, full, joins))
      continue;
    for (bool grows = true; grows;) {
      grows = false;
      SmallVector<FusionGroup *> others;
      for (Operation *member : group->ops) {
        for (Operation *user : member->getUsers())
          others.push_back(graph.groupOf(user));
        for (Value operand : member->getOperands())
          if (FusionGroup *source = graph.groupOf(operand);
              source && source->anchor && joins(source->anchor))
            others.push_back(source);
      }
      for (FusionGroup *other : others)
        if (other && other != group && !other->ops.empty() &&
            isOfRows(other, full, joins) && !isFull(group, other) &&
            graph.merge(group, other)) {
          group->kind = FusionKind::row;
          grows = true;
          break;
        }
    }
  }
}

//===----------------------------------------------------------------------===//
//
//
//-----------------------===//
// A row-wise kernel, which has rows in registers, also reduces over rows: the
// gradient of a norm's bias together with that of its input, the mean of a loss
// together with the norm it uses. A separate kernel would read all rows again.
//===----------------------------------------------------------------------===//

/// Returns how many of its leading dimensions `op` sums over, in f32 or f64:
/// all, or at least one before those that remain. 0 for other ops.
static int64_t summedDimensions(Operation *op) {
  if (!isa<ReduceSumOp, ReduceMeanOp>(op))
    return 0;
  auto reduction = cast<ReductionOpInterface>(op);
  Type type = reduction.getAccumulateType();
  SmallVector<int64_t> axes = reduction.getReductionAxes();
  auto count = static_cast<int64_t>(axes.size());
  bool isLeading = count > 0 && axes.back() == count - 1;
  return isLeading && (type.isF32() || type.isF64()) ? count : 0;
}

/// Returns the number of dimensions of `shape` before those that `op` reduces,
/// if it works on whole rows; 0 for other ops.
static int64_t dimensionsOfRows(Operation *op, ArrayRef<int64_t> shape) {
  if (op->getNumOperands() == 0 || shapeOf(op->getOperand(0)) != shape)
    return 0;
  if (auto norm = dyn_cast<NormGradientOp>(op)) {
    // A scale with broadcast dimensions is summed over other dimensions, and
    // rows of several dimensions are flattened.
    auto last = static_cast<int64_t>(shape.size()) - 1;
    bool fits = static_cast<int64_t>(norm.getAxis()) == last &&
                elementCount(norm.getScale()) == shape.back();
    return fits ? last : 0;
  }
  if (!op->hasTrait<MapsRows>() && !op->hasTrait<ReducesRows>())
    return 0;
  SmallVector<int64_t> axes = cast<ReductionOpInterface>(op).getReductionAxes();
  auto first = static_cast<int64_t>(shape.size() - axes.size());
  return !axes.empty() && axes.front() == first ? first : 0;
}

/// Returns true if `op` compares columns with a row's class, from at most one
/// number per row.
static bool isOfClasses(Operation *op) { return isa<IotaOp, OneHotOp>(op); }

/// Returns the number of dimensions before the rows of `shape` if the group
/// works on these rows and contains otherwise only elementwise ops and sums
/// over rows; else 0.
static int64_t dimensionsOfRows(FusionGroup *group, ArrayRef<int64_t> shape) {
  if (group->isLoose || group->isJoint || !group->anchor)
    return 0;
  int64_t rows = dimensionsOfRows(group->anchor, shape);
  auto length = rows ? productOf(shape.drop_front(rows)) : 0;
  bool fits =
      length > 1 && llvm::all_of(group->ops, [&](Operation *op) {
        if (isElementwise(op) || isOfClasses(op) ||
            dimensionsOfRows(op, shape) == rows)
          return true;
        int64_t summed = summedDimensions(op);
        return summed != 0 && shapeOf(op->getOperand(0)) == shape &&
               (summed == rows || summed == static_cast<int64_t>(shape.size()));
      });
  return fits ? rows : 0;
}

/// Returns the values of `shape` that the group reads or, on request, computes.
static llvm::SmallPtrSet<Value, 8> valuesOf(const FusionGraph &graph,
                                            FusionGroup *group,
                                            ArrayRef<int64_t> shape,
                                            bool withComputed) {
  llvm::SmallPtrSet<Value, 8> values;
  for (Operation *op : group->ops) {
    for (Value operand : op->getOperands())
      if (shapeOf(operand) == shape && graph.groupOf(operand) != group)
        values.insert(operand);
    for (Value result : op->getResults())
      if (withComputed && shapeOf(result) == shape)
        values.insert(result);
  }
  return values;
}

/// Returns true if `reader` reads a disallowed result of `maker`.
static bool readsFrom(const FusionGraph &graph, FusionGroup *reader,
                      FusionGroup *maker,
                      llvm::function_ref<bool(Value)> isAllowed) {
  return llvm::any_of(reader->ops, [&](Operation *op) {
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      return graph.groupOf(operand) == maker && !isAllowed(operand);
    });
  });
}

/// Returns true if the group of `sum` only computes the input of the sum, the
/// sum, and its consumers.
static bool isPlainSum(FusionGroup *group, Operation *sum) {
  if (group->anchor != sum || group->isJoint)
    return false;
  ArrayRef<int64_t> shape = shapeOf(sum->getOperand(0));
  llvm::SmallPtrSet<Operation *, 8> after = {sum};
  return llvm::all_of(group->ops, [&](Operation *op) {
    if (op == sum)
      return true;
    ArrayRef<int64_t> result = shapeOf(op->getResult(0));
    bool isAfter = llvm::any_of(op->getOperands(), [&](Value operand) {
      return after.contains(operand.getDefiningOp());
    });
    if (isAfter)
      after.insert(op);
    return isOfClasses(op) ||
           (isElementwise(op) &&
            result == (isAfter ? shapeOf(sum->getResult(0)) : shape));
  });
}

/// Returns the row kernels that have the sum's inputs, those with the most
/// first, then norm gradients, which already contain column sums.
SmallVector<FusionGroup *> HorizontalFuser::rowsOfSum(Operation *sum) const {
  FusionGroup *group = graph.groupOf(sum);
  int64_t summed = summedDimensions(sum);
  if (summed == 0)
    return {};
  ArrayRef<int64_t> shape = shapeOf(sum->getOperand(0));
  if (elementCount(sum->getOperand(0)) == 0 || !isPlainSum(group, sum))
    return {};
  llvm::SmallPtrSet<Value, 8> inputs =
      valuesOf(graph, group, shape, /*withComputed=*/false);
  llvm::SetVector<FusionGroup *> candidates;
  for (Operation *op : group->ops)
    for (Value input : op->getOperands()) {
      if (!inputs.contains(input))
        continue;
      candidates.insert(graph.groupOf(input));
      for (Operation *user : input.getUsers())
        candidates.insert(graph.groupOf(user));
    }
  SmallVector<std::pair<int64_t, FusionGroup *>> kernels;
  for (FusionGroup *candidate : candidates) {
    if (!candidate || candidate == group)
      continue;
    int64_t rows = dimensionsOfRows(candidate, shape);
    if (rows == 0 ||
        (summed != rows && summed != static_cast<int64_t>(shape.size())) ||
        isFull(candidate, group))
      continue;
    // Column sums are complete after the last row: no row and no other sum may
    // depend on them.
    auto isOfRow = [&](Value value) {
      return shapeOf(value) == shape ||
             elementCount(value) == productOf(shape.take_front(rows));
    };
    if (readsFrom(graph, candidate, group, [](Value) { return false; }) ||
        readsFrom(graph, group, candidate, isOfRow))
      continue;
    int64_t shared =
        llvm::count_if(valuesOf(graph, candidate, shape, /*withComputed=*/true),
                       [&](Value value) { return inputs.contains(value); });
    kernels.push_back(
        {2 * shared + isa<NormGradientOp>(candidate->anchor), candidate});
  }
  llvm::sort(kernels, [](const auto &a, const auto &b) {
    return std::pair(-a.first, a.second->last) <
           std::pair(-b.first, b.second->last);
  });
  return llvm::to_vector(llvm::make_second_range(kernels));
}

/// Fuses sums over all rows, per column or of everything, into the kernel that
/// reads the rows.
void HorizontalFuser::fuseColumnSums() {
  for (Operation *op : ops) {
    SmallVector<FusionGroup *> kernels = rowsOfSum(op);
    auto *taken = llvm::find_if(kernels, [&](FusionGroup *kernel) {
      return graph.merge(kernel, graph.groupOf(op));
    });
    if (taken == kernels.end())
      continue;
    FusionGroup *group = *taken;
    group->kind = FusionKind::row;
    takeNarrowing(group, op->getResult(0));
  }
}

//===----------------------------------------------------------------------===//
// Horizontal fusion of reductions
//
// Merges sums over the same dimensions of functions of one tensor, and merges
// the small sums at the end of a step with the updates.
//===----------------------------------------------------------------------===//

/// Maximum elements per sum that a block reduces while other blocks update
/// parameters.
static constexpr int64_t kMostSummed = 512;

/// Returns true if the group only sums over `axes` of tensors of `shape`, with
/// elementwise ops before and after.
static bool isOfSums(FusionGroup *group, ArrayRef<int64_t> shape,
                     ArrayRef<int64_t> axes) {
  return !group->isLoose && !group->isJoint &&
         llvm::all_of(group->ops, [&](Operation *op) {
           if (summedAxes(op) == axes)
             return shapeOf(op->getOperand(0)) == shape;
           return isElementwise(op) &&
                  (shapeOf(op->getResult(0)) == shape ||
                   elementCount(op->getResult(0)) < productOf(shape));
         });
}

/// Fuses sums over the same dimensions of functions of one tensor, which is
/// then read once: the gradients of a batch norm's scale and bias.
void HorizontalFuser::fuseEqualSums() {
  for (Operation *op : ops) {
    FusionGroup *group = graph.groupOf(op);
    ArrayRef<int64_t> axes = summedAxes(op);
    if (axes.empty() || group->anchor != op)
      continue;
    ArrayRef<int64_t> shape = shapeOf(op->getOperand(0));
    if (!isOfSums(group, shape, axes))
      continue;
    llvm::SetVector<FusionGroup *> others;
    for (Operation *member : group->ops)
      for (Value operand : member->getOperands())
        if (shapeOf(operand) == shape && graph.groupOf(operand) != group)
          for (Operation *user : operand.getUsers())
            others.insert(graph.groupOf(user));
    for (FusionGroup *other : others)
      if (other && other != group && other->anchor &&
          summedAxes(other->anchor) == axes && isOfSums(other, shape, axes) &&
          !isFull(group, other))
        graph.merge(group, other);
  }
}

/// Short sums that only the updates or the caller read get blocks of their own
/// in the update kernel.
void HorizontalFuser::fuseSums() {
  FusionGroup *updates = nullptr;
  for (Operation *op : ops)
    if (FusionGroup *group = graph.groupOf(op);
        group->isJoint && group->kind == FusionKind::update)
      updates = group;
  if (!updates)
    return;
  for (Operation *op : ops) {
    FusionGroup *group = graph.groupOf(op);
    if (group->anchor != op || summedAxes(op).empty())
      continue;
    int64_t summed = elementCount(op->getOperand(0)) /
                     std::max<int64_t>(elementCount(op->getResult(0)), 1);
    bool isLast = llvm::all_of(group->ops, [&](Operation *member) {
      return llvm::all_of(member->getUsers(), [&](Operation *user) {
        FusionGroup *reader = graph.groupOf(user);
        if (reader == updates)
          return shapeOf(user->getResult(0)) == shapeOf(op->getResult(0));
        return reader == group || !reader;
      });
    });
    if (isLast && summed <= kMostSummed)
      graph.merge(updates, group);
  }
}

//===----------------------------------------------------------------------===//
// Concats fused into GEMMs
//
// If the last part of a concat to be computed is the result of a GEMM or
// convolution, its kernel stores that part in place and copies the others: the
// layers of a dense block are concatenated, in the caller's layout, without an
// extra launch.
//===----------------------------------------------------------------------===//

/// GEMM tile size that occupies a small machine; bytes that a block copies in a
/// fraction of a launch's time.
static constexpr int64_t kTileRows = 32, kTileColumns = 64,
                         kBytesOfBlock = 96 * 1024;

/// Returns true if the group is a loop around `concat` of data movement and
/// elementwise ops with one result element per element.
static bool isLoopAround(FusionGroup *group, ConcatOp concat) {
  return group && !group->anchor && !group->isLoose && !group->isJoint &&
         llvm::all_of(group->ops, [&](Operation *op) {
           return op == concat || isElementwise(op) || isa<TransposeOp>(op);
         });
}

/// Returns the operand of `concat` through which all readers of `value` use it,
/// with elementwise ops of the group in between.
static Value partOf(const FusionGraph &graph, FusionGroup *group,
                    ConcatOp concat, Value value) {
  while (!llvm::is_contained(concat.getInputs(), value)) {
    if (!value.hasOneUse())
      return {};
    Operation *user = *value.user_begin();
    if (graph.groupOf(user) != group || !isElementwise(user) ||
        shapeOf(user->getResult(0)) != shapeOf(value))
      return {};
    value = user->getResult(0);
  }
  return value.hasOneUse() ? value : Value();
}

/// Returns true if the kernel of `anchor` is tiled.
static bool hasTiles(Operation *anchor) {
  if (auto conv = dyn_cast<ConvOp>(anchor))
    return conv.getLayout() == ImageLayout::channels_last &&
           shapeOf(conv.getFilter())[1] > 1;
  auto product = dyn_cast<MatmulOp>(anchor);
  return product && !GatedMatmulColumns::of(product);
}

void HorizontalFuser::fuseConcats() {
  for (Operation *op : ops) {
    auto concat = dyn_cast<ConcatOp>(op);
    FusionGroup *loop = graph.groupOf(op);
    if (!concat || !isLoopAround(loop, concat) ||
        graph.resultsOf(loop).size() != 1)
      continue;
    Value result = graph.resultsOf(loop).front();
    // The last GEMM: the other parts are complete when it starts.
    FusionGroup *last = nullptr;
    for (Operation *member : loop->ops)
      for (Value operand : member->getOperands()) {
        FusionGroup *maker = graph.groupOf(operand);
        if (!maker || maker == loop || maker->isLoose || maker->isJoint ||
            !maker->anchor || !hasTiles(maker->anchor) ||
            graph.resultsOf(maker).size() != 1 ||
            !graph.isReadOnlyBy(operand, maker, loop))
          continue;
        if (Value part = partOf(graph, loop, concat, operand);
            part && shapeOf(part) == shapeOf(maker->anchor->getResult(0)) &&
            (!last || maker->last > last->last))
          last = maker;
      }
    if (!last || isFull(last, loop))
      continue;
    Value made = last->anchor->getResult(0);
    int64_t columns = shapeOf(made).back(),
            rows = elementCount(made) / std::max<int64_t>(columns, 1),
            blocks = llvm::divideCeil(rows, kTileRows) *
                     llvm::divideCeil(columns, kTileColumns),
            rest = 0;
    for (Value part : concat.getInputs())
      rest += byteCount(part.getType());
    rest += byteCount(result.getType()) - byteCount(made.getType());
    if (elementCount(made) == 0 || rest > blocks * kBytesOfBlock)
      continue;
    if (graph.merge(last, loop))
      last->shape = shapeOf(result);
  }
}

//===----------------------------------------------------------------------===//
//
//
//-----------------===//
// Fuses the mean over each image of a squeeze-and-excitation block into the
// kernel of the depthwise convolution that computes the image: it has every
// element in registers, and a separate kernel would read all of them again.
//===----------------------------------------------------------------------===//

/// Returns the depthwise convolution that computes `value`, or null.
static ConvOp convolutionOf(const FusionGraph &graph, Value value) {
  FusionGroup *group = graph.groupOf(value);
  if (!group || group->isJoint || group->kind != FusionKind::convolution)
    return {};
  return dyn_cast_or_null<ConvOp>(group->anchor);
}

void HorizontalFuser::fuseImageMeans() {
  for (Operation *op : ops) {
    FusionGroup *pool = graph.groupOf(op);
    if (pool->anchor != op || pool->isJoint || summedAxes(op).empty())
      continue;
    // The sum widens the results that the kernel stores narrow.
    auto wide = op->getOperand(0).getDefiningOp<CastOp>();
    if (wide && graph.groupOf(wide.getOperation()) != pool)
      wide = {};
    auto isPart = [&](Operation *member) {
      return member == op || member == wide ||
             isMadeElementwise(member->getResult(0), op->getResult(0));
    };
    ConvOp conv =
        convolutionOf(graph, wide ? wide.getInput() : op->getOperand(0));
    if (!conv || !llvm::all_of(pool->ops, isPart) || !poolsImages(op, conv))
      continue;
    FusionGroup *group = graph.groupOf(conv.getOperation());
    // A kernel supports one sum.
    bool hasSum = llvm::any_of(group->ops, [](Operation *member) {
      return !summedAxes(member).empty();
    });
    if (hasSum || !graph.merge(group, pool))
      continue;
    takeNarrowing(group, op->getResult(0));
  }
}

//===----------------------------------------------------------------------===//
//
//
//-------===//
// Fuses the gradient of a bias into the GEMM of the weight's gradient, which
// reads the same values.
//===----------------------------------------------------------------------===//

/// The GEMMs that multiply `value` or reshapes and concats of it, in order.
static void addProductsOf(Value value, llvm::SetVector<Operation *> &products) {
  for (Operation *user : value.getUsers()) {
    if (isa<MatmulOp>(user))
      products.insert(user);
    else if (isa<ReshapeOp, ConcatOp>(user))
      addProductsOf(user->getResult(0), products);
  }
}

/// Returns true if everything between an operand of the GEMM and `part`, from
/// which it is computed, is inside the group.
static bool reachesInside(const FusionGraph &graph, FusionGroup *group,
                          Value operand, Value part) {
  if (operand == part)
    return true;
  Operation *maker = operand.getDefiningOp();
  return isa_and_present<ReshapeOp, ConcatOp>(maker) &&
         graph.groupOf(maker) == group &&
         llvm::any_of(maker->getOperands(), [&](Value input) {
           return reachesInside(graph, group, input, part);
         });
}

/// Returns true if the kernel of `product` can also compute `sum`.
bool HorizontalFuser::takesSum(MatmulOp product, ReduceSumOp sum) const {
  FusionGroup *group = graph.groupOf(product.getOperation());
  std::optional<OperandSum> part = operandSumOf(sum, product);
  if (!part || group->anchor != product || group->isJoint ||
      isFull(group, graph.groupOf(sum.getOperation())))
    return false;
  // A GEMM with a norm prologue does not support sums.
  if (llvm::any_of(group->ops, [](Operation *member) {
        return member->hasTrait<MapsRows>();
      }))
    return false;
  // Sums of one operand only.
  bool sumsOther = llvm::any_of(group->ops, [&](Operation *member) {
    auto other = dyn_cast<ReduceSumOp>(member);
    std::optional<OperandSum> with =
        other ? operandSumOf(other, product) : std::nullopt;
    return other && (!with || with->isLeft != part->isLeft);
  });
  Value operand = part->isLeft ? product.getLhs() : product.getRhs();
  return !sumsOther && reachesInside(graph, group, operand, summedValue(sum));
}

/// Fuses the index maps and casts before the operands of a kernel that has
/// become their only reader.
void HorizontalFuser::loadThroughMovement(FusionGroup *group) {
  for (bool grows = true; grows;) {
    SmallVector<FusionCandidate> candidates = rules.operandsOf(group);
    grows = llvm::any_of(candidates, [&](const FusionCandidate &candidate) {
      return candidate.saving.seconds >= 0 && rules.apply(candidate);
    });
  }
}

/// A GEMM that contracts all rows reads every row of its operands, so it can
/// also sum one operand over them. It narrows the sum if only that is read.
void HorizontalFuser::fuseMatmulBiasGradients() {
  for (Operation *op : ops) {
    auto sum = dyn_cast<ReduceSumOp>(op);
    FusionGroup *sums = graph.groupOf(op);
    if (!sum || sums->anchor != op || sums->isJoint)
      continue;
    Value summed = summedValue(sum);
    auto wide = summed == sum.getInput()
                    ? CastOp()
                    : sum.getInput().getDefiningOp<CastOp>();
    auto isPart = [&](Operation *member) {
      auto cast = dyn_cast<CastOp>(member);
      return member == op || member == wide ||
             (cast && cast.getInput() == sum.getResult() && isNarrowing(cast));
    };
    if ((wide && !wide->hasOneUse()) || !llvm::all_of(sums->ops, isPart))
      continue;
    llvm::SetVector<Operation *> products;
    addProductsOf(summed, products);
    for (Operation *product : products) {
      FusionGroup *group = graph.groupOf(product);
      if (!takesSum(cast<MatmulOp>(product), sum) || !graph.merge(group, sums))
        continue;
      takeWidening(group, wide);
      takeNarrowing(group, sum.getResult());
      loadThroughMovement(group);
      break;
    }
  }
}

//===----------------------------------------------------------------------===//
//
//
//--------===//
// Fuses the gradient of a convolution's bias into the kernel of its filter's
// gradient, which reads the same values.
//===----------------------------------------------------------------------===//

/// Returns true if `op` sums f32 over all image dimensions but channels.
static bool sumsChannels(ReduceSumOp op, ImageLayout layout) {
  int64_t rank = op.getInput().getType().getRank();
  SmallVector<int64_t> axes;
  for (int64_t d = 0; d < rank; ++d)
    if (d != (layout == ImageLayout::channels_last ? rank - 1 : 1))
      axes.push_back(d);
  return op.getAxes() == ArrayRef<int64_t>(axes) && sumsInFloat32(op);
}

/// The filter-gradient kernel reads every gradient, so it can also sum them for
/// the bias. It narrows the image that it loads and the result that it stores.
void HorizontalFuser::fuseFilterBiasGradients() {
  for (Operation *op : ops) {
    auto filter = dyn_cast<ConvFilterGradientOp>(op);
    if (!filter)
      continue;
    FusionGroup *group = graph.groupOf(op);
    if (auto cast = filter.getInput().getDefiningOp<CastOp>())
      if (FusionGroup *source = graph.groupOf(cast.getOperation());
          rules.convertsInput(cast) && source->ops.size() == 1 &&
          graph.isReadOnlyBy(source, group))
        graph.merge(group, source);
    if (!filter.getResult().getType().getElementType().isF32() ||
        elementCount(filter.getInput()) == 0)
      continue;
    takeNarrowing(group, filter.getResult());

    SmallVector<Operation *> readers(filter.getGradient().getUsers());
    for (size_t i = 0; i < readers.size(); ++i) {
      if (auto cast = dyn_cast<CastOp>(readers[i]);
          cast && isWidening(cast) && cast->hasOneUse())
        readers.push_back(*cast->user_begin());
      auto sum = dyn_cast<ReduceSumOp>(readers[i]);
      if (!sum || !sumsChannels(sum, filter.getLayout()))
        continue;
      auto cast = sum.getInput() == filter.getGradient()
                      ? CastOp()
                      : sum.getInput().getDefiningOp<CastOp>();
      FusionGroup *sums = graph.groupOf(sum.getOperation());
      if (!sums || sums->anchor != sum || sums->isJoint ||
          !llvm::all_of(sums->ops,
                        [&](Operation *member) {
                          return member == sum || member == cast;
                        }) ||
          !graph.merge(group, sums))
        continue;
      takeWidening(group, cast);
      takeNarrowing(group, sum.getResult());
      break;
    }
  }
}
