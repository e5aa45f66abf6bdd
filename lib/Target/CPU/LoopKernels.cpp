//===- LoopKernels.cpp - kernels without a contraction --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel is cut into phases. Most are one phase whose items run in parallel:
// a map (elementwise, data movement, reductions and pools that are computed
// where they are asked for) or rows (softmax, norms). Whatever does not fit is
// run by several phases through private memory, as one item.
//
//===----------------------------------------------------------------------===//

#include "LoopKernels.h"

#include "llvm/ADT/ScopeExit.h"

using namespace mlir;
using namespace mpc;

Value LoopContext::allocate(ArrayRef<int64_t> shape, Type type) {
  int64_t offset = llvm::alignTo(scratchBytes, 64);
  scratchBytes = offset + productOf(shape) * bytesPerElement(type);
  IndexMath math{builder, loc};
  Value flat = math.view(scratch, offset, productOf(shape), type);
  return emitter.viewAs(flat, shape);
}

namespace {
/// Decides on phases and emits them.
class LoopKernel {
public:
  LoopKernel(func::FuncOp kernel, func::FuncOp impl, const CpuTarget &target)
      : kernel(kernel), builder(impl.getContext()), arguments(kernel, impl),
        emitter(builder, kernel.getLoc(), target),
        context{builder, kernel.getLoc(), target, emitter, arguments.scratch} {
    builder.setInsertionPoint(impl.getBody().front().getTerminator());
  }

  FailureOr<EmittedKernel> run();

private:
  using Work = std::unique_ptr<Phase>;

  void bindArguments();
  /// One phase for everything, or null.
  Work singlePhase();
  /// Whether `roots` are computed well element by element.
  bool isMap(ArrayRef<Root> roots);
  FailureOr<EmittedKernel> emitSingle(Phase &phase);
  /// Independent maps of different shapes, items one after the other.
  FailureOr<EmittedKernel> emitMaps();
  FailureOr<EmittedKernel> emitSerial();
  LogicalResult runAll(Phase &phase);
  Value memoryFor(Value tensor);

  func::FuncOp kernel;
  OpBuilder builder;
  ImplArguments arguments;
  ElementEmitter emitter;
  LoopContext context;
  SmallVector<Root> roots;
};
} // namespace

void LoopKernel::bindArguments() {
  for (auto [argument, memref] :
       llvm::zip(kernel.getArguments(), arguments.inputs()))
    emitter.bindMemory(argument, emitter.viewAs(memref, shapeOf(argument)));
  Operation *terminator = kernel.getBody().front().getTerminator();
  for (auto [result, memref] :
       llvm::zip(terminator->getOperands(), arguments.outputs()))
    roots.push_back({result, emitter.viewAs(memref, shapeOf(result))});
}

/// Ops that are never emitted element by element.
static bool needsPhase(Operation *op) {
  return isa<SoftmaxOp, LogSoftmaxOp, LayerNormOp, RmsNormOp, CumsumOp, TopKOp,
             ScatterElementsOp, ScatterNdOp>(op);
}

/// Ops that cost more than a few instructions per result element.
static bool isComputed(Operation *op) {
  return isa<ReduceSumOp, ReduceMeanOp, ReduceProdOp, ReduceMaxOp, ReduceMinOp,
             ArgmaxOp, ArgminOp, MaxPoolOp, AvgPoolOp>(op);
}

bool LoopKernel::isMap(ArrayRef<Root> roots) {
  // A computed value may be asked for once per element of a root: broadcasting
  // or a second reduction above it would compute it again and again.
  llvm::DenseSet<Value> visited;
  SmallVector<Value> work;
  int64_t size = elementCount(roots.front().tensor);
  for (const Root &root : roots)
    work.push_back(root.tensor);
  while (!work.empty()) {
    Value value = work.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || emitter.isBound(value) || !visited.insert(value).second)
      continue;
    if (needsPhase(op))
      return false;
    if (isComputed(op)) {
      if (elementCount(op->getResult(0)) < size)
        return false;
      // What it reads is asked for more than once per element.
      llvm::DenseSet<Value> seen;
      SmallVector<Value> below(op->getOperands());
      while (!below.empty()) {
        Value operand = below.pop_back_val();
        Operation *definition = operand.getDefiningOp();
        if (!definition || emitter.isBound(operand) ||
            !seen.insert(operand).second)
          continue;
        if (needsPhase(definition) || isComputed(definition))
          return false;
        llvm::append_range(below, definition->getOperands());
      }
      continue;
    }
    llvm::append_range(work, op->getOperands());
  }
  return true;
}

LoopKernel::Work LoopKernel::singlePhase() {
  bool sameShape = llvm::all_of(roots, [&](const Root &root) {
    return shapeOf(root.tensor) == shapeOf(roots[0].tensor);
  });
  if (sameShape && isMap(roots))
    return makeMapPhase(context, roots);
  if (Work rows = makeRowPhase(context, roots))
    return rows;
  // An op that is a phase of its own, whose results are all that is wanted.
  Operation *op = roots.front().tensor.getDefiningOp();
  if (!op || !isa<CumsumOp, TopKOp, ScatterElementsOp, ScatterNdOp>(op))
    return nullptr;
  SmallVector<Value> memrefs(op->getNumResults());
  for (const Root &root : roots) {
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
  return makeOpaquePhase(context, op, memrefs);
}

FailureOr<EmittedKernel> LoopKernel::emitSingle(Phase &phase) {
  PhaseCost cost = phase.cost();
  if (failed(phase.emit(arguments.begin, arguments.end)))
    return failure();
  return EmittedKernel{cost.items, grainOf(cost.cyclesPerItem),
                       context.scratchBytes};
}

FailureOr<EmittedKernel> LoopKernel::emitMaps() {
  IndexMath math{builder, context.loc};
  int64_t offset = 0;
  double cycles = 1;
  for (const Root &root : roots) {
    Work phase = makeMapPhase(context, root);
    PhaseCost cost = phase->cost();
    cycles = std::max(cycles, cost.cyclesPerItem);
    auto clip = [&](Value position) {
      return math.min(math.subOrZero(position, offset), cost.items);
    };
    if (failed(phase->emit(clip(arguments.begin), clip(arguments.end))))
      return failure();
    offset += cost.items;
  }
  return EmittedKernel{offset, grainOf(cycles), context.scratchBytes};
}

LogicalResult LoopKernel::runAll(Phase &phase) {
  return phase.emit(emitter.index(0), emitter.index(phase.cost().items));
}

/// The output that `tensor` is written to, or private memory.
Value LoopKernel::memoryFor(Value tensor) {
  for (const Root &root : roots)
    if (root.tensor == tensor)
      return root.memref;
  return context.allocate(
      shapeOf(tensor),
      memoryElementType(getElementTypeOrSelf(tensor.getType())));
}

FailureOr<EmittedKernel> LoopKernel::emitSerial() {
  // Values that get memory: results of ops that need a phase, computed values
  // that are read more often than there are elements of them.
  for (Operation &op : kernel.getBody().front()) {
    if (op.getNumResults() == 0 || (!needsPhase(&op) && !isComputed(&op)))
      continue;
    SmallVector<Value> memrefs;
    for (Value result : op.getResults())
      memrefs.push_back(memoryFor(result));
    Work phase;
    if (isa<CumsumOp, TopKOp, ScatterElementsOp, ScatterNdOp>(op)) {
      phase = makeOpaquePhase(context, &op, memrefs);
    } else {
      Root root{op.getResult(0), memrefs.front()};
      phase = isComputed(&op) ? makeMapPhase(context, root)
                              : makeRowPhase(context, root);
    }
    if (!phase)
      return op.emitOpError("has no loop form on the CPU"), failure();
    if (failed(runAll(*phase)))
      return failure();
    for (auto [result, memref] : llvm::zip(op.getResults(), memrefs))
      emitter.bindMemory(result, memref);
  }
  for (const Root &root : roots) {
    if (emitter.memoryOf(root.tensor) == root.memref)
      continue;
    Work phase = makeMapPhase(context, root);
    if (failed(runAll(*phase)))
      return failure();
  }
  // Only the first item does anything: there is one.
  return EmittedKernel{1, 1, context.scratchBytes};
}

FailureOr<EmittedKernel> LoopKernel::run() {
  bindArguments();
  if (roots.empty())
    return EmittedKernel{0, 1, 0};
  if (Work phase = singlePhase())
    return emitSingle(*phase);
  if (llvm::all_of(roots, [&](const Root &root) { return isMap(root); }))
    return emitMaps();
  return emitSerial();
}

FailureOr<EmittedKernel> mpc::emitLoops(func::FuncOp kernel, func::FuncOp impl,
                                        const CpuTarget &target) {
  // The kernel itself stays as it is.
  func::FuncOp copy = kernel.clone();
  llvm::scope_exit erase([&] { copy.erase(); });
  expandGroupedNorms(copy);
  collapseDimensions(copy);
  return LoopKernel(copy, impl, target).run();
}
