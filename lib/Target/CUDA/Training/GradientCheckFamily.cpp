//===- GradientCheckFamily.cpp - finiteness and norm of all gradients -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Any number of all_finite and global_norm ops in one pass over all gradients
// (multi-tensor kernel): each tensor has a range of blocks.
//
//===----------------------------------------------------------------------===//

#include "../Plan/KernelPlan.h"
#include "../Plan/LastArrivingBlock.h"
#include "../Plan/Schedule.h"

#include "Target/Kernel/LoopKernels.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcOptimizerOps.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;
using arith::CmpFPredicate;
using arith::CmpIPredicate;

namespace {
/// One all_finite or global_norm op.
struct GradientCheck {
  Operation *op;
  llvm::SmallVector<Value> gradients;
  Value unscale;
  bool divides = false, isNorm = false;
  /// Type of the accumulators.
  Type type;
};

/// All checks of one kernel. Layout of the scratch buffer: arrival counter, one
/// flag per gradient of each all_finite, one partial sum per block of each
/// global_norm.
struct GradientTraversal {
  static std::optional<GradientTraversal> of(func::FuncOp kernel);

  llvm::SmallVector<GradientCheck> checks;
  /// Arguments to traverse, each with the gradients that use it: index of the
  /// check, index of the gradient in it, and its value.
  struct Use {
    size_t check, number;
    Value value;
  };
  llvm::MapVector<Value, llvm::SmallVector<Use>> walks;

  int64_t lanesOf(Value argument) const;
  int64_t items(Value argument) const {
    return llvm::divideCeil(elementCount(argument), lanesOf(argument));
  }
  /// Returns the scratch offset of each check; sets `bytes` to the total size.
  llvm::SmallVector<int64_t> offsets(int64_t blocks, int64_t &bytes) const;
};

/// Parameters of the schedule: blocks of each argument.
struct GradientCheckSchedule {
  SmallVector<int64_t> parts;

  static void map(auto &schedule, auto field) { field("part", schedule.parts); }
};

/// Generates the kernel.
class GradientCheckEmitter {
public:
  GradientCheckEmitter(GpuKernel &kernel, const GradientTraversal &plan)
      : kernel(kernel), plan(plan),
        blocksOf(kernel.schedule.get<GradientCheckSchedule>().parts),
        builder(kernel.builder), loc(kernel.loc),
        emitter(builder, loc, cudaElementTarget()), math(builder, loc),
        index{builder, loc} {}
  LogicalResult run();

private:
  LogicalResult walk(Value argument, int64_t first, int64_t blocks);
  FailureOr<Value> unscaled(const GradientCheck &check, Value value);
  void leave(const GradientTraversal::Use &use, Value sum);
  void finish();
  void finishNorm(size_t check);
  /// Reduces the partial sums of the blocks [first, first + blocks) for one
  /// tensor, and stores the sum or norm at `place`; by one warp.
  void joinTensor(size_t check, int64_t first, int64_t blocks, Value ofTensors,
                  size_t place);
  void finishFlags(size_t check);
  /// Sums elements of an array, or their squares, in order.
  Value sumOfArray(Value array, Value begin, Value end, int64_t step,
                   bool ofSquares = false);
  /// Sums over the threads of a warp and of a block, in the first thread.
  Value sumOfWarp(Value own);
  Value sumOfBlock(Value own);
  Value isFirstThread();
  Value zero() { return emitter.index(0); }

  GpuKernel &kernel;
  const GradientTraversal &plan;
  /// Blocks of each argument.
  SmallVector<int64_t> blocksOf;
  OpBuilder &builder;
  Location loc;
  ElementEmitter emitter;
  ValueMath math;
  IndexMath index;
  /// Arrival counter, and the scratch array of each check.
  Value counters;
  llvm::SmallVector<Value> left;
};
} // namespace

static constexpr int64_t kCheckThreads = 256;
/// Blocks per multiprocessor for full utilization, and minimum vectors per
/// thread for another block.
static constexpr int64_t kCheckBlocksPerProcessor = 8, kLeastCheckSteps = 4;

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

template <typename OpTy> static GradientCheck describe(OpTy op) {
  GradientCheck check;
  check.op = op;
  llvm::append_range(check.gradients, op.getGradients());
  check.unscale = op.getUnscale();
  check.divides = op.getUnscaleMode() == UnscaleMode::divide;
  check.type = Float32Type::get(op.getContext());
  return check;
}

std::optional<GradientTraversal> GradientTraversal::of(func::FuncOp kernel) {
  GradientTraversal plan;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (auto finite = dyn_cast<AllFiniteOp>(op)) {
      plan.checks.push_back(describe(finite));
    } else if (auto norm = dyn_cast<GlobalNormOp>(op)) {
      plan.checks.push_back(describe(norm));
      plan.checks.back().isNorm = true;
      plan.checks.back().type = getElementTypeOrSelf(norm.getResult());
    } else if (!isa<CastOp, mpc::ConstantOp>(op) &&
               !(isa<ElementwiseOpInterface>(op) &&
                 elementCount(op.getResult(0)) == 1)) {
      return std::nullopt;
    }
  }
  if (plan.checks.empty())
    return std::nullopt;
  for (auto [number, check] : llvm::enumerate(plan.checks))
    for (auto [place, gradient] : llvm::enumerate(check.gradients)) {
      Value argument = gradient;
      while (auto cast = argument.getDefiningOp<CastOp>())
        argument = cast.getInput();
      if (!isa<BlockArgument>(argument))
        return std::nullopt;
      if (elementCount(argument) > 0)
        plan.walks[argument].push_back({number, place, gradient});
    }
  // Only results of checks are returned.
  for (Value value : kernel.getBody().front().getTerminator()->getOperands())
    if (!isa_and_present<AllFiniteOp, GlobalNormOp>(value.getDefiningOp()))
      return std::nullopt;
  return plan;
}

int64_t GradientTraversal::lanesOf(Value argument) const {
  int64_t lanes =
      kVectorBytes / bytesPerElement(getElementTypeOrSelf(argument.getType()));
  return elementCount(argument) % lanes == 0 ? lanes : 1;
}

SmallVector<int64_t> GradientTraversal::offsets(int64_t blocks,
                                                int64_t &bytes) const {
  SmallVector<int64_t> list;
  bytes = sizeof(int32_t);
  for (const GradientCheck &check : checks) {
    bytes = llvm::alignTo(bytes, sizeof(double));
    list.push_back(bytes);
    bytes += check.isNorm ? blocks * bytesPerElement(check.type)
                          : int64_t(check.gradients.size() * sizeof(int32_t));
  }
  return list;
}

//===----------------------------------------------------------------------===//
// Reduction per block
//
// Blocks reduce their tensor and store partial results in the scratch buffer;
// the last-arriving block reduces those. The sum of x - x is 0 exactly if every
// x is finite, else NaN. Partial sums are reduced in block order, so norms are
// deterministic.
//===----------------------------------------------------------------------===//

Value GradientCheckEmitter::isFirstThread() {
  return index.less(kernel.thread(), 1);
}

LogicalResult GradientCheckEmitter::run() {
  // Arguments are traversed in one dimension.
  kernel.bindInputs(emitter);
  int64_t blocks = kernel.schedule.blocks[0], bytes = 0;
  Type i32 = builder.getI32Type();
  counters = index.view(kernel.scratch, 0, 1, i32);
  for (auto [check, offset] :
       llvm::zip(plan.checks, plan.offsets(blocks, bytes)))
    left.push_back(kernel.named(
        check.isNorm
            ? index.view(kernel.scratch, offset, blocks, check.type)
            : index.view(kernel.scratch, offset, check.gradients.size(), i32),
        check.isNorm ? "sumsOfBlocks" : "notFinite"));

  int64_t first = 0;
  for (auto [number, entry] : llvm::enumerate(plan.walks)) {
    int64_t own = blocksOf[number];
    if (own > 0 && failed(walk(entry.first, first, own)))
      return failure();
    first += own;
  }
  finish();
  return success();
}

FailureOr<Value> GradientCheckEmitter::unscaled(const GradientCheck &check,
                                                Value value) {
  Type f32 = builder.getF32Type();
  if (check.unscale) {
    SmallVector<Value> origin(shapeOf(check.unscale).size(), zero());
    FailureOr<Value> scale = emitter.emit(check.unscale, origin, 1);
    if (failed(scale))
      return failure();
    Value factor = *scale;
    if (factor.getType().isF64())
      factor = math.truncateFloat(factor, f32);
    bool isWide = getElementTypeOrSelf(value.getType()).isF64();
    if (isWide)
      factor = math.extendFloat(factor, builder.getF64Type());
    if (isa<VectorType>(value.getType()))
      factor =
          vector::BroadcastOp::create(builder, loc, value.getType(), factor);
    value = check.divides ? math.div(value, factor) : math.mul(value, factor);
    if (isWide)
      value = math.truncateFloat(value, f32);
  }
  Type from = getElementTypeOrSelf(value.getType());
  // A large f64 is finite even if its f32 is not.
  if (from.isF64() && check.type.isF32() && !check.isNorm)
    value = math.sub(value, value);
  if (from.isF64() && check.type.isF32())
    value = math.truncateFloat(value, check.type);
  else if (from.isF32() && check.type.isF64())
    value = math.extendFloat(value, check.type);
  return value;
}

/// Reduces one argument, by the blocks [first, first + blocks).
LogicalResult GradientCheckEmitter::walk(Value argument, int64_t first,
                                         int64_t blocks) {
  OpBuilder::InsertionGuard guard(builder);
  int64_t threads = kernel.schedule.threads, all = kernel.schedule.blocks[0];
  Value block = kernel.block();
  if (first > 0)
    kernel.enter(index.less(index.constant(first - 1), block));
  if (first + blocks < all)
    kernel.enter(index.less(block, first + blocks));
  Value start =
      index.add(index.mul(index.sub(block, index.constant(first)), threads),
                kernel.thread());

  int64_t lanes = plan.lanesOf(argument), items = plan.items(argument);
  ArrayRef<GradientTraversal::Use> uses = plan.walks.find(argument)->second;
  Value memref =
      emitter.viewAs(emitter.memoryOf(argument), elementCount(argument));
  Carried initial;
  for (const GradientTraversal::Use &use : uses)
    initial.push_back(
        math.constant(lanesOf(plan.checks[use.check].type, lanes), 0));
  LogicalResult result = success();
  Carried sums = index.carry(
      start, index.constant(items), threads * blocks, initial,
      [&](Value item, ValueRange carried) {
        Type element = getElementTypeOrSelf(argument.getType());
        Value loaded =
            emitter.load(memref, element, index.mul(item, lanes), lanes);
        // Upconverting casts only matter for f64.
        Carried next;
        for (auto [use, sum] : llvm::zip(uses, carried)) {
          const GradientCheck &check = plan.checks[use.check];
          Value value = loaded;
          if (getElementTypeOrSelf(use.value.getType()).isF64() &&
              !getElementTypeOrSelf(value.getType()).isF64())
            value = math.extendFloat(value, builder.getF64Type());
          FailureOr<Value> exact = unscaled(check, value);
          if (failed(exact)) {
            result = failure();
            return Carried(carried);
          }
          next.push_back(check.isNorm
                             ? math.fma(*exact, *exact, sum)
                             : math.add(sum, math.sub(*exact, *exact)));
        }
        return next;
      });
  if (failed(result))
    return failure();
  for (auto [use, sum] : llvm::zip(uses, sums)) {
    Value scalar = sum;
    if (lanes > 1)
      scalar = reduceLanes(emitter, sum, [&](ValueRange x, ValueRange y) {
                 return Carried{math.add(x[0], y[0])};
               }).front();
    leave(use, sumOfBlock(scalar));
  }
  return success();
}

Value GradientCheckEmitter::sumOfArray(Value array, Value begin, Value end,
                                       int64_t step, bool ofSquares) {
  Type type = cast<MemRefType>(array.getType()).getElementType();
  return index
      .carry(begin, end, step, math.constant(type, 0),
             [&](Value i, ValueRange sum) {
               Value part = index.load(array, i);
               return Carried{ofSquares ? math.fma(part, part, sum[0])
                                        : math.add(sum[0], part)};
             })
      .front();
}

Value GradientCheckEmitter::sumOfWarp(Value own) {
  return gpu::SubgroupReduceOp::create(builder, loc, own,
                                       gpu::AllReduceOperation::ADD,
                                       /*uniform=*/false, std::nullopt);
}

Value GradientCheckEmitter::sumOfBlock(Value own) {
  int64_t warps = kernel.schedule.threads / kWarp;
  Value sum = sumOfWarp(own);
  Value ofWarps = kernel.shared({warps}, own.getType(), "sumOfWarps");
  Value lane = gpu::LaneIdOp::create(builder, loc, /*upper_bound=*/nullptr);
  Value warp = gpu::SubgroupIdOp::create(builder, loc, /*upper_bound=*/nullptr);
  {
    OpBuilder::InsertionGuard guard(builder);
    kernel.enter(index.less(lane, 1));
    memref::StoreOp::create(builder, loc, sum, ofWarps, warp);
  }
  kernel.barrier();
  // In warp order, by every thread.
  return sumOfArray(ofWarps, zero(), emitter.index(warps), 1);
}

/// Stores a block's result for the last block.
void GradientCheckEmitter::leave(const GradientTraversal::Use &use, Value sum) {
  OpBuilder::InsertionGuard guard(builder);
  Value array = left[use.check];
  if (plan.checks[use.check].isNorm) {
    kernel.enter(isFirstThread());
    memref::StoreOp::create(builder, loc, sum, array, kernel.block());
    return;
  }
  kernel.enter(
      arith::AndIOp::create(builder, loc, isFirstThread(),
                            math.compare(CmpFPredicate::UNO, sum, sum)));
  memref::AtomicRMWOp::create(builder, loc, arith::AtomicRMWKind::ori,
                              math.integer(builder.getI32Type(), 1), array,
                              index.constant(use.number));
}

//===----------------------------------------------------------------------===//
// Last block
//===----------------------------------------------------------------------===//

void GradientCheckEmitter::finish() {
  auto join = [&] {
    for (size_t check = 0; check < plan.checks.size(); ++check)
      if (plan.checks[check].isNorm)
        finishNorm(check);
      else
        finishFlags(check);
    return success();
  };
  if (int64_t blocks = kernel.schedule.blocks[0]; blocks > 1) {
    (void)inLastBlock(kernel, counters, zero(), blocks, join);
    return;
  }
  kernel.barrier();
  (void)join();
}

/// Returns the memory of a result of the kernel; null if it is not returned.
static Value outputOf(GpuKernel &kernel, Value value) {
  Operation *terminator = kernel.kernel.getBody().front().getTerminator();
  for (auto [returned, memref] :
       llvm::zip(terminator->getOperands(), kernel.outputs))
    if (returned == value)
      return memref;
  return {};
}

/// Computes each tensor's sum by a warp, then reduces in the order of tensors,
/// as global_norm specifies.
void GradientCheckEmitter::finishNorm(size_t number) {
  const GradientCheck &check = plan.checks[number];
  auto norm = cast<GlobalNormOp>(check.op);
  struct Part {
    size_t gradient;
    int64_t first, blocks;
  };
  SmallVector<Part> parts;
  int64_t first = 0;
  for (auto [place, entry] : llvm::enumerate(plan.walks)) {
    int64_t blocks = blocksOf[place];
    for (const GradientTraversal::Use &use : entry.second)
      if (use.check == number)
        parts.push_back({use.number, first, blocks});
    first += blocks;
  }
  llvm::sort(parts, [](const Part &lhs, const Part &rhs) {
    return lhs.gradient < rhs.gradient;
  });

  Value total = math.constant(check.type, 0);
  if (!parts.empty()) {
    auto count = static_cast<int64_t>(parts.size());
    Value ofTensors = kernel.shared({count}, check.type, "sumOfTensors");
    for (auto [place, part] : llvm::enumerate(parts))
      joinTensor(number, part.first, part.blocks, ofTensors, place);
    kernel.barrier();
    total = sumOfArray(ofTensors, zero(), emitter.index(count), 1,
                       norm.getOfNorms());
  }
  Value root = math.sqrt(total);
  Value output = outputOf(kernel, norm);
  OpBuilder::InsertionGuard guard(builder);
  kernel.enter(isFirstThread());
  if (output)
    emitter.store(root, output, {}, 1);
}

void GradientCheckEmitter::joinTensor(size_t number, int64_t first,
                                      int64_t blocks, Value ofTensors,
                                      size_t place) {
  OpBuilder::InsertionGuard guard(builder);
  int64_t warps = kernel.schedule.threads / kWarp;
  Value lane = gpu::LaneIdOp::create(builder, loc, /*upper_bound=*/nullptr);
  Value warp = gpu::SubgroupIdOp::create(builder, loc, /*upper_bound=*/nullptr);
  kernel.enter(
      math.compare(CmpIPredicate::eq, warp,
                   index.constant(static_cast<int64_t>(place) % warps)));
  const GradientCheck &check = plan.checks[number];
  Value sum = sumOfArray(left[number], index.add(lane, first),
                         index.constant(first + blocks), kWarp);
  // With one block only the first lane has a value.
  if (blocks > 1)
    sum = sumOfWarp(sum);
  kernel.enter(index.less(lane, 1));
  if (cast<GlobalNormOp>(check.op).getOfNorms())
    sum = math.sqrt(sum);
  memref::StoreOp::create(builder, loc, sum, ofTensors,
                          index.constant(static_cast<int64_t>(place)));
}

/// Reads the flags from the last gradient to the first, and clears them.
void GradientCheckEmitter::finishFlags(size_t number) {
  const GradientCheck &check = plan.checks[number];
  Type i32 = builder.getI32Type(), i64 = builder.getI64Type();
  auto count = static_cast<int64_t>(check.gradients.size());
  OpBuilder::InsertionGuard guard(builder);
  kernel.enter(isFirstThread());
  Carried found = index.carry(
      zero(), emitter.index(count), 1,
      {math.integer(i64, -1), math.integer(i64, 0)},
      [&](Value i, ValueRange carried) {
        Value place = index.sub(index.constant(count - 1), i);
        Value flag = memref::LoadOp::create(builder, loc, left[number], place);
        memref::StoreOp::create(builder, loc, math.integer(i32, 0),
                                left[number], place);
        Value isBad =
            math.compare(CmpIPredicate::ne, flag, math.integer(i32, 0));
        Value gradient = arith::IndexCastOp::create(builder, loc, i64, place);
        return Carried{math.select(isBad, gradient, carried[0]),
                       math.select(isBad, math.add(carried[1], 1), carried[1])};
      });
  if (Value finite = outputOf(kernel, check.op->getResult(0)))
    emitter.store(
        math.compare(CmpIPredicate::eq, found[1], math.integer(i64, 0)), finite,
        {}, 1);
  if (Value record = outputOf(kernel, check.op->getResult(1))) {
    emitter.store(found[0], record, zero(), 1);
    emitter.store(found[1], record, emitter.index(1), 1);
  }
}

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

namespace {
class GradientCheckPlan : public KernelPlan {
public:
  GradientCheckPlan(func::FuncOp kernel, const CudaTarget &target,
                    GradientTraversal traversal)
      : KernelPlan(kernel, target), traversal(std::move(traversal)) {}

  std::optional<Schedule> schedule() const override {
    int64_t all = 0;
    for (const auto &[argument, uses] : traversal.walks)
      all += traversal.items(argument);
    int64_t share =
        std::max<int64_t>(kCheckThreads * kLeastCheckSteps,
                          llvm::divideCeil(all, kCheckBlocksPerProcessor *
                                                    target.multiprocessors()));
    Schedule schedule;
    schedule.threads = kCheckThreads;
    GradientCheckSchedule parameters;
    int64_t blocks = 0;
    for (const auto &[argument, uses] : traversal.walks) {
      parameters.parts.push_back(
          llvm::divideCeil(traversal.items(argument), share));
      blocks += parameters.parts.back();
    }
    schedule.set(parameters);
    schedule.blocks[0] = std::max<int64_t>(blocks, 1);
    traversal.offsets(schedule.blocks[0], schedule.scratchBytes);
    return schedule;
  }

  LogicalResult emit(GpuKernel &gpuKernel) const override {
    return GradientCheckEmitter(gpuKernel, traversal).run();
  }

private:
  GradientTraversal traversal;
};
} // namespace

std::unique_ptr<KernelPlan> cuda::planGradientCheck(func::FuncOp kernel,
                                                    const CudaTarget &target) {
  std::optional<GradientTraversal> traversal = GradientTraversal::of(kernel);
  return traversal ? std::make_unique<GradientCheckPlan>(kernel, target,
                                                         std::move(*traversal))
                   : nullptr;
}
