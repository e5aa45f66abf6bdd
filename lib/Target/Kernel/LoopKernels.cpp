//===- LoopKernels.cpp - kernels without a contraction --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Splits a kernel into phases. Most kernels are one phase of parallel items:
// either a map (elementwise, data movement, and reductions and pools computed
// on demand) or rows (softmax, norms). Others run several phases one after
// another, with intermediate values in scratch memory.
//
//===----------------------------------------------------------------------===//

#include "KernelComponents.h"

#include "mpc/Dialect/Exe/IR/InPlace.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcOptimizerOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Tile/IR/TileOps.h"

#include "llvm/ADT/ScopeExit.h"

using namespace mlir;
using namespace mpc;

Value LoopContext::allocate(ArrayRef<int64_t> shape, Type type) {
  int64_t offset = llvm::alignTo(scratchBytes, 64);
  scratchBytes = offset + productOf(shape) * bytesPerElement(type);
  return emitter.viewAs(
      emitter.indexMath().view(scratch, offset, productOf(shape), type), shape);
}

Carried Phase::computeRoots(ValueRange indices, int64_t lanes,
                            LaneRange range) {
  return llvm::map_to_vector<4>(roots, [&](const Root &root) {
    return emitter.valueIn(root.tensor, indices, lanes, range);
  });
}

void Phase::writeRoots(ValueRange values, ValueRange indices, int64_t lanes) {
  for (auto [root, value] : llvm::zip(roots, values))
    emitter.store(value, root.memref, indices, lanes);
}

SmallVector<Value> mpc::tensorsOf(ArrayRef<Root> roots) {
  return llvm::map_to_vector(roots,
                             [](const Root &root) { return root.tensor; });
}

bool mpc::visitDefinitions(const ElementEmitter &emitter, ArrayRef<Root> roots,
                           llvm::function_ref<WalkResult(Operation *)> visit) {
  llvm::DenseSet<Value> visited;
  SmallVector<Value> work = tensorsOf(roots);
  while (!work.empty()) {
    Value value = work.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || emitter.isBound(value) || !visited.insert(value).second)
      continue;
    WalkResult result = visit(op);
    if (result.wasInterrupted())
      return false;
    if (!result.wasSkipped())
      llvm::append_range(work, op->getOperands());
  }
  return true;
}

namespace {
/// Chooses the phases and emits them.
class LoopKernel {
public:
  LoopKernel(func::FuncOp kernel, OpBuilder &builder,
             const KernelMemory &memory, const ElementTarget &target)
      : kernel(kernel), builder(builder), memory(memory),
        emitter(builder, kernel.getLoc(), target),
        context{emitter, memory.scratch} {
    context.inPlace = kernel->hasAttr(exe::kInPlaceAttr);
  }

  /// Returns the bytes of scratch memory.
  FailureOr<int64_t> run();

private:
  using Work = std::unique_ptr<Phase>;

  void bindArguments();
  /// One phase for `wanted`, or null.
  Work singlePhase(ArrayRef<Root> wanted);
  /// Returns phases that can run in any order; empty if there are none.
  SmallVector<Work> independentPhases();
  void emitScalars();
  void emitSerial();
  void emitItems(Phase &phase, bool inOrder);
  Value memoryFor(Value tensor);

  func::FuncOp kernel;
  OpBuilder &builder;
  const KernelMemory &memory;
  ElementEmitter emitter;
  LoopContext context;
  SmallVector<Root> roots;
};
} // namespace

void LoopKernel::bindArguments() {
  for (auto [argument, memref] :
       llvm::zip(kernel.getArguments(), memory.inputs))
    emitter.bindMemory(argument, emitter.viewAs(memref, shapeOf(argument)));
  Operation *terminator = kernel.getBody().front().getTerminator();
  for (auto [result, memref] :
       llvm::zip(terminator->getOperands(), memory.outputs))
    roots.push_back({result, emitter.viewAs(memref, shapeOf(result))});
}

/// Returns true for ops with a phase of their own.
static bool isOpaque(Operation *op) {
  return isa<CumsumOp, TopKOp, ScatterElementsOp, ScatterNdOp, AttentionOp>(op);
}

/// Returns true for ops with two phases of their own.
static bool isCheck(Operation *op) {
  return isa<AllFiniteOp, GlobalNormOp>(op);
}

/// Returns true for ops that are never emitted element by element.
static bool needsPhase(Operation *op) {
  return op->hasTrait<MapsRows>() || isOpaque(op) || isCheck(op);
}

/// Minimum rows to copy a scatter's input with one thread each.
static constexpr int64_t kFewLines = 32;

/// Returns true for ops that take more than a few instructions per result
/// element.
static bool isComputed(Operation *op) {
  return llvm::is_contained({FusionClass::Reduction, FusionClass::Pool,
                             FusionClass::Contraction,
                             FusionClass::Convolution},
                            fusionClassOf(op));
}

bool mpc::isMap(const ElementEmitter &emitter, ArrayRef<Root> roots) {
  // A reduced value may be requested once per element of a root: broadcasting
  // or a second reduction would recompute it.
  int64_t size = elementCount(roots.front().tensor);
  return visitDefinitions(emitter, roots, [&](Operation *op) {
    if (needsPhase(op))
      return WalkResult::interrupt();
    if (!isComputed(op))
      return WalkResult::advance();
    if (elementCount(op->getResult(0)) < size)
      return WalkResult::interrupt();
    // Its operands are requested more than once per element.
    SmallVector<Root> operands;
    for (Value operand : op->getOperands())
      operands.push_back({operand, {}});
    bool isCheap = visitDefinitions(emitter, operands, [](Operation *below) {
      return needsPhase(below) || isComputed(below) ? WalkResult::interrupt()
                                                    : WalkResult::advance();
    });
    return isCheap ? WalkResult::skip() : WalkResult::interrupt();
  });
}

/// Returns true if a map would recompute an expensive value for several roots
/// or ops.
static bool repeatsWork(const ElementEmitter &emitter, ArrayRef<Root> roots) {
  llvm::DenseSet<Value> visited;
  SmallVector<Value> work = tensorsOf(roots);
  while (!work.empty()) {
    Value value = work.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || emitter.isBound(value))
      continue;
    if (visited.insert(value).second)
      llvm::append_range(work, op->getOperands());
    else if (isComputed(op))
      return true;
  }
  return false;
}

LoopKernel::Work LoopKernel::singlePhase(ArrayRef<Root> wanted) {
  if (Work columns = makeColumnPhase(context, wanted))
    return columns;
  bool sameShape = llvm::all_of(wanted, [&](const Root &root) {
    return shapeOf(root.tensor) == shapeOf(wanted[0].tensor);
  });
  bool isMapped = sameShape && isMap(emitter, wanted);
  if (isMapped)
    if (Work maxima = makeMaxPoolGradientPhase(context, wanted))
      return maxima;
  if (isMapped && !repeatsWork(emitter, wanted))
    return makeMapPhase(context, wanted);
  if (Work rows = makeRowPhase(context, wanted))
    return rows;
  if (isMapped)
    return makeMapPhase(context, wanted);
  // An op with a phase of its own, whose results are all that is wanted.
  Operation *op = wanted.front().tensor.getDefiningOp();
  if (!op || !isOpaque(op))
    return nullptr;
  SmallVector<Value> memrefs(op->getNumResults());
  for (const Root &root : wanted) {
    if (root.tensor.getDefiningOp() != op)
      return nullptr;
    Value &memref = memrefs[cast<OpResult>(root.tensor).getResultNumber()];
    if (memref)
      return nullptr;
    memref = root.memref;
  }
  if (llvm::is_contained(memrefs, Value()))
    return nullptr;
  for (Operation &other : kernel.getBody().front())
    if (&other != op && (needsPhase(&other) || isComputed(&other)))
      return nullptr;
  // A scatter of few rows is copied in parallel first.
  Work phase = makeSequentialPhase(context, op, memrefs);
  bool isScatter = isa<ScatterElementsOp, ScatterNdOp>(op);
  if (isScatter && emitter.getTarget().lanes == 1 &&
      phase->cost().items < kFewLines)
    return nullptr;
  return phase;
}

/// Roots by their shapes.
static SmallVector<SmallVector<Root>> groupByShape(ArrayRef<Root> roots) {
  SmallVector<SmallVector<Root>> groups;
  for (const Root &root : roots) {
    auto group = llvm::find_if(groups, [&](ArrayRef<Root> group) {
      return shapeOf(group.front().tensor) == shapeOf(root.tensor);
    });
    if (group == groups.end())
      group = groups.insert(groups.end(), SmallVector<Root>());
    group->push_back(root);
  }
  return groups;
}

SmallVector<LoopKernel::Work> LoopKernel::independentPhases() {
  SmallVector<Work> phases;
  for (const KernelComponent &part : partsOf(kernel)) {
    SmallVector<Root> wanted;
    for (unsigned result : part.results)
      wanted.push_back(roots[result]);
    if (wanted.empty())
      continue;
    if (Work phase = singlePhase(wanted)) {
      phases.push_back(std::move(phase));
      continue;
    }
    for (ArrayRef<Root> group : groupByShape(wanted)) {
      if (!isMap(emitter, group))
        return {};
      phases.push_back(makeMapPhase(context, group));
    }
  }
  return phases;
}

/// Computes scalars once per call: if results may alias arguments, loads cannot
/// be hoisted out of the loops.
void LoopKernel::emitScalars() {
  llvm::DenseSet<Value> known;
  for (BlockArgument argument : kernel.getArguments())
    if (shapeOf(argument).empty())
      known.insert(argument);
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    bool isScalar = isa<ConstantOp, ElementwiseOpInterface>(op) &&
                    shapeOf(op.getResult(0)).empty() &&
                    llvm::all_of(op.getOperands(), [&](Value operand) {
                      return known.contains(operand);
                    });
    if (isScalar) {
      emitter.value(op.getResult(0), {}, 1);
      known.insert(op.getResult(0));
    }
  }
}

void LoopKernel::emitItems(Phase &phase, bool inOrder) {
  PhaseCost cost = phase.cost();
  auto own = tile::ForEachOp::create(builder, emitter.getLoc(), cost.items,
                                     cost.cyclesPerItem, inOrder);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(own.getBody().front().getTerminator());
  phase.emit(own.getItem());
}

/// The output for `tensor`, or private memory.
Value LoopKernel::memoryFor(Value tensor) {
  for (const Root &root : roots)
    if (root.tensor == tensor)
      return root.memref;
  return context.allocate(
      shapeOf(tensor),
      memoryElementType(getElementTypeOrSelf(tensor.getType())));
}

void LoopKernel::emitSerial() {
  // Values to materialize: results of ops that need a phase, and computed
  // values that are read more often than they have elements.
  for (Operation &op : kernel.getBody().front()) {
    if (op.getNumResults() == 0 || (!needsPhase(&op) && !isComputed(&op)))
      continue;
    SmallVector<Value> memrefs;
    for (Value result : op.getResults())
      memrefs.push_back(memoryFor(result));
    SmallVector<Work> phases;
    Root root{op.getResult(0), memrefs.front()};
    if (isCheck(&op)) {
      phases = makeCheckPhases(context, &op, memrefs);
    } else if (emitter.getTarget().lanes == 1 &&
               isa<ScatterElementsOp, ScatterNdOp>(op)) {
      phases.push_back(
          makeMapPhase(context, Root{op.getOperand(0), memrefs[0]}));
      phases.push_back(
          makeScatterPhase(context, &op, memrefs[0], /*copies=*/false));
    } else if (isOpaque(&op)) {
      phases.push_back(makeSequentialPhase(context, &op, memrefs));
    } else {
      phases.push_back(isComputed(&op) ? makeMapPhase(context, root)
                                       : makeRowPhase(context, root));
    }
    for (const Work &phase : phases) {
      if (phase)
        emitItems(*phase, /*inOrder=*/true);
      else
        emitter.fail(op.getResult(0), "has no form as loops", 1);
    }
    for (auto [result, memref] : llvm::zip(op.getResults(), memrefs))
      emitter.bindMemory(result, memref);
  }
  SmallVector<Root> rest;
  for (const Root &root : roots)
    if (emitter.memoryOf(root.tensor) != root.memref)
      rest.push_back(root);
  for (ArrayRef<Root> group : groupByShape(rest))
    emitItems(*makeMapPhase(context, group), /*inOrder=*/true);
}

FailureOr<int64_t> LoopKernel::run() {
  bindArguments();
  SmallVector<Work> phases = independentPhases();
  bool serial = phases.empty() && !roots.empty();
  if (!serial && emitter.getTarget().lanes > 1)
    emitScalars();
  if (serial)
    emitSerial();
  for (const Work &phase : phases)
    emitItems(*phase, /*inOrder=*/false);
  return failed(emitter.status()) ? FailureOr<int64_t>() : context.scratchBytes;
}

KernelMemory KernelMemory::of(func::FuncOp kernel, func::FuncOp impl) {
  auto arguments = impl.getArguments();
  auto outputs = arguments.drop_front(kernel.getNumArguments());
  return {
      llvm::to_vector_of<Value>(arguments.take_front(kernel.getNumArguments())),
      llvm::to_vector_of<Value>(outputs.take_front(kernel.getNumResults())),
      arguments.back()};
}

FailureOr<int64_t> mpc::emitLoops(func::FuncOp kernel, OpBuilder &builder,
                                  const KernelMemory &memory,
                                  const ElementTarget &target) {
  // Do not change the kernel itself.
  func::FuncOp copy = kernel.clone();
  llvm::scope_exit erase([&] { copy.erase(); });
  // Only values of the model's ops carry its names.
  copy->setLoc(builder.getUnknownLoc());
  expandGroupedNorms(copy);
  collapseDimensions(copy);
  if (target.canonicalSums)
    flattenReducedDimensions(copy);
  return LoopKernel(copy, builder, memory, target).run();
}
