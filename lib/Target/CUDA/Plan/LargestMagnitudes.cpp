//===- LargestMagnitudes.cpp - amax of stored tensors ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LargestMagnitudes.h"
#include "LastArrivingBlock.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Analysis/OperandSums.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "Target/Kernel/ElementEmitter.h"
#include "Target/Kernel/ElementMemory.h"
#include "Target/Kernel/IndexMath.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Bytes of the scratch buffer: a counter of blocks and the maxima, aligned as
/// the buffers of other kernels of a launch.
static constexpr int64_t kScratchAlign = 128;

namespace {

/// A largest magnitude that a kernel computes.
struct Magnitude {
  Value result;
  /// The tensor, before ops that keep magnitudes.
  Value tensor;
};

/// The results of a kernel: largest magnitudes and scalars that follow from
/// them, and all others.
struct KernelParts {
  explicit KernelParts(func::FuncOp kernel);

  /// Empty if the kernel has none, or computes more than scalars from them.
  SmallVector<Magnitude> magnitudes;
  SmallVector<unsigned> scalars, others;
};

class MagnitudePlan : public KernelPlan {
public:
  MagnitudePlan(func::FuncOp kernel, const CudaTarget &target,
                KernelParts parts);

  /// Plans the other results; returns whether `family` supports them.
  bool planRest(const KernelFamily &family) {
    plan = family.plan(rest, target);
    return plan != nullptr;
  }

  std::optional<Schedule> schedule() const override {
    return withScratch(plan->schedule());
  }
  std::optional<Schedule> scheduleAs(const Schedule &given) const override {
    Schedule own = given;
    own.scratchBytes = restScratch(given);
    return withScratch(plan->scheduleAs(own));
  }
  LogicalResult emit(GpuKernel &kernel) const override;

private:
  static int64_t blocksOf(const Schedule &schedule) {
    return schedule.blocks[0] * schedule.blocks[1] * schedule.blocks[2];
  }
  int64_t ownScratch(const Schedule &schedule) const {
    int64_t words = 1 + int64_t(parts.magnitudes.size());
    return blocksOf(schedule) == 1 ? 0
                                   : llvm::alignTo(4 * words, kScratchAlign);
  }
  /// Bytes of the scratch buffer before the own ones.
  int64_t restScratch(const Schedule &schedule) const {
    return std::max<int64_t>(schedule.scratchBytes - ownScratch(schedule), 0);
  }
  std::optional<Schedule> withScratch(std::optional<Schedule> chosen) const {
    if (chosen && ownScratch(*chosen))
      chosen->scratchBytes =
          llvm::alignTo(chosen->scratchBytes, kScratchAlign) +
          ownScratch(*chosen);
    return chosen;
  }

  LogicalResult observe(GpuKernel &kernel, Value memory, Value largest,
                        bool isStored) const;
  static SmallVector<Value> reduceBlock(GpuKernel &kernel, Value isFirst,
                                        ArrayRef<Value> largest);
  LogicalResult emitScalars(GpuKernel &kernel, ArrayRef<Value> bits) const;

  KernelParts parts;
  /// The kernel of the other results, followed by the tensors of `magnitudes`
  /// that are not among them.
  OwningOpRef<ModuleOp> module;
  mutable func::FuncOp rest;
  /// Index in the results of `rest`, of the tensor of each magnitude.
  SmallVector<unsigned> tensors;
  std::unique_ptr<KernelPlan> plan;
};

} // namespace

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

/// Returns the tensor that a kernel stores, or else computes first, of those
/// with the magnitudes that `reduce` reads; null if it is an argument.
static Value tensorOf(ReduceMaxOp reduce) {
  Value value = reduce.getInput();
  auto isReturned = [](Operation *user) {
    return user->hasTrait<OpTrait::IsTerminator>();
  };
  while (Operation *op = value.getDefiningOp()) {
    bool isAbs = isa<AbsOp>(op);
    Value operand = isAbs || keepsMagnitudes(op) ? op->getOperand(0) : Value();
    if (!operand || (!isAbs && (!operand.getDefiningOp() ||
                                llvm::any_of(value.getUsers(), isReturned))))
      return value;
    value = operand;
  }
  return {};
}

/// Returns true if storing `value` stores all elements of `tensor`.
static bool holds(Value value, Value tensor) {
  while (value != tensor) {
    Operation *op = value.getDefiningOp();
    if (!op || !keepsMagnitudes(op))
      return false;
    value = op->getOperand(0);
  }
  return true;
}

KernelParts::KernelParts(func::FuncOp kernel) {
  llvm::SmallPtrSet<Value, 8> following;
  Block &body = kernel.getBody().front();
  for (Operation &op : body.without_terminator()) {
    auto reduce = dyn_cast<ReduceMaxOp>(op);
    Value tensor =
        reduce && isLargestMagnitude(reduce) ? tensorOf(reduce) : Value();
    bool follows = llvm::any_of(op.getOperands(), [&](Value operand) {
      return following.contains(operand);
    });
    if (!tensor && !follows)
      continue;
    if (follows && (!(isElementwise(&op) || isa<ReshapeOp>(op)) ||
                    elementCount(op.getResult(0)) != 1)) {
      magnitudes.clear();
      return;
    }
    if (tensor)
      magnitudes.push_back({reduce.getResult(), tensor});
    following.insert_range(op.getResults());
  }
  for (OpOperand &result : body.getTerminator()->getOpOperands())
    (following.contains(result.get()) ? scalars : others)
        .push_back(result.getOperandNumber());
  if (others.empty())
    magnitudes.clear();
}

MagnitudePlan::MagnitudePlan(func::FuncOp kernel, const CudaTarget &target,
                             KernelParts given)
    : KernelPlan(kernel, target), parts(std::move(given)),
      module(ModuleOp::create(kernel.getLoc())) {
  if (auto parent = kernel->getParentOfType<ModuleOp>())
    (*module)->setDiscardableAttrs(parent->getDiscardableAttrDictionary());
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  IRMapping mapping;
  rest = cast<func::FuncOp>(builder.clone(*kernel, mapping));
  Operation *terminator = kernel.getBody().front().getTerminator();
  SmallVector<Value> results;
  for (unsigned number : parts.others)
    results.push_back(terminator->getOperand(number));
  for (const Magnitude &magnitude : parts.magnitudes) {
    auto *stored = llvm::find_if(
        results, [&](Value result) { return holds(result, magnitude.tensor); });
    tensors.push_back(stored - results.begin());
    if (stored == results.end())
      results.push_back(magnitude.tensor);
  }
  Operation *end = rest.getBody().front().getTerminator();
  for (Value &result : results)
    result = mapping.lookup(result);
  end->setOperands(results);
  rest.setFunctionType(builder.getFunctionType(rest.getArgumentTypes(),
                                               ValueRange(results).getTypes()));
  rest.removeResAttrsAttr();
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(rest.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

std::unique_ptr<KernelPlan> cuda::planWithMagnitudes(const KernelFamily &family,
                                                     func::FuncOp kernel,
                                                     const CudaTarget &target) {
  KernelParts parts(kernel);
  if (parts.magnitudes.empty())
    return family.plan(kernel, target);
  auto plan = std::make_unique<MagnitudePlan>(kernel, target, std::move(parts));
  return plan->planRest(family) ? std::move(plan) : nullptr;
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

/// Updates the thread's maximum `largest` at every store to `memory`, which is
/// removed unless `isStored`.
LogicalResult MagnitudePlan::observe(GpuKernel &kernel, Value memory,
                                     Value largest, bool isStored) const {
  for (Operation *user : llvm::make_early_inc_range(memory.getUsers())) {
    if (isa<memref::ReinterpretCastOp, memref::SubViewOp>(user)) {
      if (failed(observe(kernel, user->getResult(0), largest, isStored)))
        return failure();
      if (!isStored)
        user->erase();
      continue;
    }
    if (isStored && isa<memref::LoadOp, vector::LoadOp>(user))
      continue;
    Value value;
    if (auto store = dyn_cast<memref::StoreOp>(user))
      value = store.getValueToStore();
    else if (auto store = dyn_cast<vector::StoreOp>(user))
      value = store.getValueToStore();
    if (!value || !isa<FloatType>(getElementTypeOrSelf(value)))
      return user->emitOpError("uses a tensor whose largest magnitude the "
                               "kernel computes, and is no store of floats");
    OpBuilder builder(user);
    Location loc = kernel.loc;
    auto vector = dyn_cast<VectorType>(value.getType());
    Type f32 = builder.getF32Type();
    if (!getElementTypeOrSelf(value).isF32())
      value = arith::ExtFOp::create(builder, loc,
                                    vector ? vector.clone(f32) : f32, value);
    value = math::AbsFOp::create(builder, loc, value);
    if (vector)
      value = vector::ReductionOp::create(
          builder, loc, vector::CombiningKind::MAXIMUMF, value);
    Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
    Value known = memref::LoadOp::create(builder, loc, largest, zero);
    memref::StoreOp::create(
        builder, loc, arith::MaximumFOp::create(builder, loc, known, value),
        largest, zero);
    if (!isStored)
      user->erase();
  }
  return success();
}

static Value isZero(GpuKernel &kernel, Value index) {
  OpBuilder &builder = kernel.builder;
  return arith::CmpIOp::create(
      builder, kernel.loc, arith::CmpIPredicate::eq, index,
      arith::ConstantIndexOp::create(builder, kernel.loc, 0));
}

/// Returns the bits of the block's maxima from those of threads.
SmallVector<Value> MagnitudePlan::reduceBlock(GpuKernel &kernel, Value isFirst,
                                              ArrayRef<Value> largest) {
  OpBuilder &builder = kernel.builder;
  Location loc = kernel.loc;
  IndexMath index{builder, loc};
  Type i32 = builder.getI32Type();
  Value zero = index.constant(0);
  Value words = kernel.shared({int64_t(largest.size())}, i32, "largestOfBlock");
  kernel.within(isFirst, [&] {
    Value none =
        arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(0));
    for (size_t i = 0; i < largest.size(); ++i)
      memref::StoreOp::create(builder, loc, none, words, index.constant(i));
  });
  kernel.barrier();
  bool hasWholeWarps = kernel.schedule.threads % kWarp == 0;
  SmallVector<Value> values;
  for (Value array : largest) {
    Value value = memref::LoadOp::create(builder, loc, array, zero);
    if (hasWholeWarps)
      value = gpu::SubgroupReduceOp::create(builder, loc, value,
                                            gpu::AllReduceOperation::MAXIMUMF,
                                            /*uniform=*/false, std::nullopt);
    values.push_back(arith::BitcastOp::create(builder, loc, i32, value));
  }
  Value isLeader;
  if (hasWholeWarps)
    isLeader = isZero(kernel, gpu::LaneIdOp::create(builder, loc, nullptr));
  kernel.within(isLeader, [&] {
    for (auto [i, value] : llvm::enumerate(values))
      memref::AtomicRMWOp::create(builder, loc, arith::AtomicRMWKind::maxu,
                                  value, words, index.constant(i));
  });
  kernel.barrier();
  SmallVector<Value> bits;
  for (size_t i = 0; i < largest.size(); ++i)
    bits.push_back(
        memref::LoadOp::create(builder, loc, words, index.constant(i)));
  return bits;
}

/// Stores the scalars that follow from largest magnitudes with these bits.
LogicalResult MagnitudePlan::emitScalars(GpuKernel &gpuKernel,
                                         ArrayRef<Value> bits) const {
  OpBuilder &builder = gpuKernel.builder;
  ElementEmitter emitter(builder, gpuKernel.loc, cudaElementTarget());
  gpuKernel.bindInputs(emitter);
  for (auto [magnitude, word] : llvm::zip_equal(parts.magnitudes, bits))
    emitter.bindValue(magnitude.result,
                      arith::BitcastOp::create(builder, gpuKernel.loc,
                                               builder.getF32Type(), word));
  Operation *terminator = kernel.getBody().front().getTerminator();
  for (unsigned number : parts.scalars) {
    Value result = terminator->getOperand(number);
    SmallVector<Value> indices(shapeOf(result).size(), emitter.index(0));
    FailureOr<Value> value = emitter.emit(result, indices, 1);
    if (failed(value))
      return failure();
    emitter.store(*value,
                  emitter.viewAs(gpuKernel.outputs[number], shapeOf(result)),
                  indices, 1);
  }
  return success();
}

LogicalResult MagnitudePlan::emit(GpuKernel &kernel) const {
  OpBuilder &builder = kernel.builder;
  Location loc = kernel.loc;
  IndexMath index{builder, loc};
  Operation *terminator = &*builder.getInsertionPoint();
  SmallVector<Value> largest;
  for (size_t i = 0; i < parts.magnitudes.size(); ++i) {
    largest.push_back(kernel.local({1}, builder.getF32Type(), "largest"));
    memref::StoreOp::create(
        builder, loc,
        arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0)),
        largest.back(), index.constant(0));
  }
  SmallVector<Value> outputs;
  for (unsigned number : parts.others)
    outputs.push_back(kernel.outputs[number]);
  size_t stored = outputs.size();
  for (Type type : rest.getResultTypes().drop_front(stored))
    outputs.push_back(memref::AllocaOp::create(builder, loc, memoryType(type)));
  GpuKernel own{
      {kernel.function, builder, loc, kernel.scratch, kernel.firstBlock},
      rest,
      kernel.target,
      kernel.schedule,
      kernel.inputs,
      outputs};
  if (failed(plan->emit(own)))
    return failure();
  for (auto [array, tensor] : llvm::zip_equal(largest, tensors))
    if (failed(observe(kernel, outputs[tensor], array, tensor < stored)))
      return failure();
  for (Value memory : ArrayRef(outputs).drop_front(stored))
    memory.getDefiningOp()->erase();

  builder.setInsertionPoint(terminator);
  Value isFirst = isZero(kernel, kernel.thread());
  SmallVector<Value> bits = reduceBlock(kernel, isFirst, largest);
  int64_t blocks = blocksOf(kernel.schedule);
  LogicalResult result = success();
  if (blocks == 1) {
    kernel.within(isFirst, [&] { result = emitScalars(kernel, bits); });
    return result;
  }
  Type i32 = builder.getI32Type();
  Value counters = index.view(kernel.scratch, restScratch(kernel.schedule),
                              1 + int64_t(bits.size()), i32);
  kernel.within(isFirst, [&] {
    for (auto [i, word] : llvm::enumerate(bits))
      memref::AtomicRMWOp::create(builder, loc, arith::AtomicRMWKind::maxu,
                                  word, counters, index.constant(1 + i));
  });
  return inLastBlock(kernel, counters, index.constant(0), blocks, [&] {
    kernel.within(isFirst, [&] {
      Value none =
          arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(0));
      for (auto [i, word] : llvm::enumerate(bits)) {
        Value at = index.constant(1 + i);
        word = memref::LoadOp::create(builder, loc, counters, at);
        memref::StoreOp::create(builder, loc, none, counters, at);
      }
      result = emitScalars(kernel, bits);
    });
    return result;
  });
}
