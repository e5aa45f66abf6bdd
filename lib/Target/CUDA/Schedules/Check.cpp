//===- Check.cpp - one pass over all gradients ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// all_finite and global_norm, any number of them: each tensor has a range of
// blocks, each block leaves what it found in the scratch buffer, and the last
// one to come joins that and stores the results. Finite is told by a sum of
// x - x, which is 0 exactly where every x is finite. Sums are joined in the
// order of blocks, so that a norm does not depend on who came last.
//
//===----------------------------------------------------------------------===//

#include "Schedule.h"

#include "Target/Kernel/LoopKernels.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;
using arith::CmpIPredicate;

static constexpr int64_t kThreads = 256, kWarp = 32, kVectorBytes = 16;
/// Blocks that fill a multiprocessor, and vectors of a thread that are worth a
/// block of their own.
static constexpr int64_t kBlocksPerProcessor = 8, kLeastSteps = 4;

namespace {
/// One all_finite or global_norm.
struct Check {
  Operation *op;
  SmallVector<Value> gradients;
  Value unscale;
  bool divides = false, isNorm = false;
  /// Of what is summed.
  Type type;
};

/// All of one kernel, and where they leave what in the scratch buffer: counts
/// of blocks, one flag per gradient of each all_finite, one number per block
/// of each global_norm.
struct CheckPlan {
  static std::optional<CheckPlan> of(func::FuncOp kernel);

  SmallVector<Check> checks;
  /// Each argument that is walked, with the gradients that are made of it: the
  /// number of the check, of the gradient in it, and its value.
  struct Use {
    size_t check, number;
    Value value;
  };
  llvm::MapVector<Value, SmallVector<Use>> walks;

  int64_t lanesOf(Value argument) const;
  int64_t items(Value argument) const {
    return llvm::divideCeil(elementCount(argument), lanesOf(argument));
  }
  /// Offsets into the scratch buffer by check; `bytes` is its size.
  SmallVector<int64_t> offsets(int64_t blocks, int64_t &bytes) const;
};

class CheckFamily : public KernelFamily {
public:
  StringRef name() const override { return "check"; }
  std::optional<Schedule> schedule(func::FuncOp kernel,
                                   const CudaTarget &target) const override;
  LogicalResult emit(GpuKernel &kernel) const override;
};

class CheckEmitter {
public:
  CheckEmitter(GpuKernel &kernel, CheckPlan &plan)
      : kernel(kernel), plan(plan), builder(kernel.builder), loc(kernel.loc),
        emitter(builder, loc, cudaElementTarget()), math(builder, loc),
        index{builder, loc} {}
  LogicalResult run();

private:
  LogicalResult walk(Value argument, int64_t first, int64_t blocks);
  FailureOr<Value> unscaled(const Check &check, Value value);
  void leave(const CheckPlan::Use &use, Value sum);
  void finish();
  void finishNorm(size_t check);
  void finishFlags(size_t check);
  /// The sum over a block's threads, in its first thread.
  Value sumOfBlock(Value own);
  Value isFirstThread();
  /// Moves the builder into a new `if`.
  void enter(Value condition);
  Value zero() { return emitter.index(0); }

  GpuKernel &kernel;
  CheckPlan &plan;
  OpBuilder &builder;
  Location loc;
  ElementEmitter emitter;
  ValueMath math;
  IndexMath index;
  /// The counter of blocks, and each check's part of the scratch buffer.
  Value counter;
  SmallVector<Value> left;
};
} // namespace

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

template <typename OpTy> static Check describe(OpTy op) {
  Check check;
  check.op = op;
  llvm::append_range(check.gradients, op.getGradients());
  check.unscale = op.getUnscale();
  check.divides = op.getUnscaleMode() == UnscaleMode::divide;
  check.type = Float32Type::get(op.getContext());
  return check;
}

std::optional<CheckPlan> CheckPlan::of(func::FuncOp kernel) {
  CheckPlan plan;
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
  // Everything that is returned is a check's result.
  for (Value value : kernel.getBody().front().getTerminator()->getOperands())
    if (!isa_and_present<AllFiniteOp, GlobalNormOp>(value.getDefiningOp()))
      return std::nullopt;
  return plan;
}

int64_t CheckPlan::lanesOf(Value argument) const {
  int64_t lanes =
      kVectorBytes / bytesPerElement(getElementTypeOrSelf(argument.getType()));
  return elementCount(argument) % lanes == 0 ? lanes : 1;
}

SmallVector<int64_t> CheckPlan::offsets(int64_t blocks, int64_t &bytes) const {
  SmallVector<int64_t> list;
  bytes = sizeof(int32_t);
  for (const Check &check : checks) {
    bytes = llvm::alignTo(bytes, sizeof(double));
    list.push_back(bytes);
    bytes += check.isNorm ? blocks * bytesPerElement(check.type)
                          : int64_t(check.gradients.size() * sizeof(int32_t));
  }
  return list;
}

static std::string numbered(size_t number) {
  return "part" + (number == 0 ? "" : "_" + std::to_string(number));
}

std::optional<Schedule> CheckFamily::schedule(func::FuncOp kernel,
                                              const CudaTarget &target) const {
  std::optional<CheckPlan> plan = CheckPlan::of(kernel);
  if (!plan)
    return std::nullopt;
  int64_t all = 0;
  for (auto &[argument, uses] : plan->walks)
    all += plan->items(argument);
  int64_t share = std::max<int64_t>(
      kThreads * kLeastSteps,
      llvm::divideCeil(all, kBlocksPerProcessor * target.multiprocessors()));
  Schedule schedule;
  schedule.threads = kThreads;
  int64_t blocks = 0;
  for (auto [number, walk] : llvm::enumerate(plan->walks)) {
    int64_t own = llvm::divideCeil(plan->items(walk.first), share);
    schedule.parameters[numbered(number)] = own;
    blocks += own;
  }
  schedule.blocks[0] = std::max<int64_t>(blocks, 1);
  plan->offsets(schedule.blocks[0], schedule.scratchBytes);
  return schedule;
}

LogicalResult CheckFamily::emit(GpuKernel &kernel) const {
  std::optional<CheckPlan> plan = CheckPlan::of(kernel.kernel);
  return plan ? CheckEmitter(kernel, *plan).run() : failure();
}

//===----------------------------------------------------------------------===//
// Walks
//===----------------------------------------------------------------------===//

void CheckEmitter::enter(Value condition) {
  auto inside = scf::IfOp::create(builder, loc, condition);
  builder.setInsertionPoint(inside.thenBlock()->getTerminator());
}

Value CheckEmitter::isFirstThread() { return index.less(kernel.thread(), 1); }

LogicalResult CheckEmitter::run() {
  // Arguments are walked in one dimension.
  for (auto [argument, memref] :
       llvm::zip(kernel.kernel.getArguments(), kernel.inputs))
    emitter.bindMemory(argument, memref);
  int64_t blocks = kernel.schedule.blocks[0], bytes = 0;
  Type i32 = builder.getI32Type();
  counter = kernel.named(index.view(kernel.scratch, 0, 1, i32), "counter");
  for (auto [check, offset] :
       llvm::zip(plan.checks, plan.offsets(blocks, bytes)))
    left.push_back(kernel.named(
        check.isNorm
            ? index.view(kernel.scratch, offset, blocks, check.type)
            : index.view(kernel.scratch, offset, check.gradients.size(), i32),
        check.isNorm ? "sumsOfBlocks" : "notFinite"));

  int64_t first = 0;
  for (auto [number, entry] : llvm::enumerate(plan.walks)) {
    int64_t own = kernel.schedule[numbered(number)];
    if (own > 0 && failed(walk(entry.first, first, own)))
      return failure();
    first += own;
  }
  finish();
  return success();
}

FailureOr<Value> CheckEmitter::unscaled(const Check &check, Value value) {
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
  // A large f64 is finite although its f32 is not.
  if (from.isF64() && check.type.isF32() && !check.isNorm)
    value = math.sub(value, value);
  if (from.isF64() && check.type.isF32())
    value = math.truncateFloat(value, check.type);
  else if (from.isF32() && check.type.isF64())
    value = math.extendFloat(value, check.type);
  return value;
}

/// One argument, by the blocks [first, first + blocks).
LogicalResult CheckEmitter::walk(Value argument, int64_t first,
                                 int64_t blocks) {
  OpBuilder::InsertionGuard guard(builder);
  int64_t threads = kernel.schedule.threads, all = kernel.schedule.blocks[0];
  Value block = kernel.block();
  if (first > 0)
    enter(index.less(index.constant(first - 1), block));
  if (first + blocks < all)
    enter(index.less(block, first + blocks));
  Value start =
      index.add(index.mul(index.sub(block, index.constant(first)), threads),
                kernel.thread());

  int64_t lanes = plan.lanesOf(argument), items = plan.items(argument);
  ArrayRef<CheckPlan::Use> uses = plan.walks[argument];
  Value memref =
      emitter.viewAs(emitter.memoryOf(argument), elementCount(argument));
  Carried initial;
  for (const CheckPlan::Use &use : uses)
    initial.push_back(
        math.constant(lanesOf(plan.checks[use.check].type, lanes), 0));
  FailureOr<Carried> sums = carryLoop(
      emitter, start, index.constant(items), threads * blocks, initial,
      [&](Value item, ValueRange carried) -> FailureOr<Carried> {
        Type element = getElementTypeOrSelf(argument.getType());
        Value loaded =
            emitter.load(memref, element, index.mul(item, lanes), lanes);
        // Casts that widen change no carried value but to f64.
        Carried next;
        for (auto [use, sum] : llvm::zip(uses, carried)) {
          const Check &check = plan.checks[use.check];
          Value value = loaded;
          if (getElementTypeOrSelf(use.value.getType()).isF64() &&
              !getElementTypeOrSelf(value.getType()).isF64())
            value = math.extendFloat(value, builder.getF64Type());
          FailureOr<Value> exact = unscaled(check, value);
          if (failed(exact))
            return failure();
          next.push_back(math.add(sum, check.isNorm
                                           ? math.mul(*exact, *exact)
                                           : math.sub(*exact, *exact)));
        }
        return next;
      });
  if (failed(sums))
    return failure();
  for (auto [use, sum] : llvm::zip(uses, *sums)) {
    Value scalar = sum;
    if (lanes > 1)
      scalar = joinLanes(emitter, sum, [&](ValueRange x, ValueRange y) {
                 return Carried{math.add(x[0], y[0])};
               }).front();
    leave(use, sumOfBlock(scalar));
  }
  return success();
}

Value CheckEmitter::sumOfBlock(Value own) {
  auto warpSum = [&](Value value) -> Value {
    return gpu::SubgroupReduceOp::create(builder, loc, value,
                                         gpu::AllReduceOperation::ADD,
                                         /*uniform=*/false, std::nullopt);
  };
  int64_t warps = kernel.schedule.threads / kWarp;
  Value sum = warpSum(own);
  Value ofWarps = kernel.shared({warps}, own.getType(), "sumOfWarps");
  Value lane = gpu::LaneIdOp::create(builder, loc, /*upper_bound=*/nullptr);
  Value warp = gpu::SubgroupIdOp::create(builder, loc, /*upper_bound=*/nullptr);
  {
    OpBuilder::InsertionGuard guard(builder);
    enter(index.less(lane, 1));
    memref::StoreOp::create(builder, loc, sum, ofWarps, warp);
  }
  kernel.barrier();
  // In the order of warps, by every thread.
  return carryLoop(emitter, zero(), emitter.index(warps), 1,
                   math.constant(own.getType(), 0),
                   [&](Value i, ValueRange carried) -> FailureOr<Carried> {
                     Value part =
                         memref::LoadOp::create(builder, loc, ofWarps, i);
                     return Carried{math.add(carried[0], part)};
                   })
      ->front();
}

/// What a block found, where the last one finds it.
void CheckEmitter::leave(const CheckPlan::Use &use, Value sum) {
  OpBuilder::InsertionGuard guard(builder);
  Value array = left[use.check];
  if (plan.checks[use.check].isNorm) {
    enter(isFirstThread());
    memref::StoreOp::create(builder, loc, sum, array, kernel.block());
    return;
  }
  enter(arith::AndIOp::create(builder, loc, isFirstThread(),
                              math.compare(CmpFPredicate::UNO, sum, sum)));
  memref::AtomicRMWOp::create(builder, loc, arith::AtomicRMWKind::ori,
                              math.integer(builder.getI32Type(), 1), array,
                              index.constant(use.number));
}

//===----------------------------------------------------------------------===//
// The last block
//===----------------------------------------------------------------------===//

void CheckEmitter::finish() {
  Type i32 = builder.getI32Type();
  int64_t blocks = kernel.schedule.blocks[0];
  if (blocks > 1) {
    cuda::FenceOp::create(builder, loc);
    kernel.barrier();
    Value before = kernel.shared({1}, i32, "blocksBefore");
    {
      OpBuilder::InsertionGuard guard(builder);
      enter(isFirstThread());
      Value count =
          memref::AtomicRMWOp::create(builder, loc, arith::AtomicRMWKind::addi,
                                      math.integer(i32, 1), counter, zero());
      memref::StoreOp::create(builder, loc, count, before, zero());
    }
    kernel.barrier();
    enter(math.compare(CmpIPredicate::eq,
                       memref::LoadOp::create(builder, loc, before, zero()),
                       math.integer(i32, blocks - 1)));
    cuda::FenceOp::create(builder, loc);
  } else {
    kernel.barrier();
  }
  for (size_t check = 0; check < plan.checks.size(); ++check)
    if (plan.checks[check].isNorm)
      finishNorm(check);
    else
      finishFlags(check);
  OpBuilder::InsertionGuard guard(builder);
  enter(isFirstThread());
  memref::StoreOp::create(builder, loc, math.integer(i32, 0), counter, zero());
}

/// The memory of a value that the kernel returns; null where it does not.
static Value outputOf(GpuKernel &kernel, Value value) {
  Operation *terminator = kernel.kernel.getBody().front().getTerminator();
  for (auto [returned, memref] :
       llvm::zip(terminator->getOperands(), kernel.outputs))
    if (returned == value)
      return memref;
  return {};
}

void CheckEmitter::finishNorm(size_t number) {
  const Check &check = plan.checks[number];
  // Blocks that walk something else left nothing.
  Value sum = math.constant(check.type, 0);
  int64_t first = 0;
  for (auto [place, entry] : llvm::enumerate(plan.walks)) {
    int64_t blocks = kernel.schedule[numbered(place)];
    for (const CheckPlan::Use &use : entry.second)
      if (use.check == number)
        sum = carryLoop(emitter, index.add(kernel.thread(), first),
                        index.constant(first + blocks), kernel.schedule.threads,
                        sum,
                        [&](Value i, ValueRange carried) -> FailureOr<Carried> {
                          Value part = memref::LoadOp::create(builder, loc,
                                                              left[number], i);
                          return Carried{math.add(carried[0], part)};
                        })
                  ->front();
    first += blocks;
  }
  Value norm = math.sqrt(sumOfBlock(sum));
  Value output = outputOf(kernel, check.op->getResult(0));
  OpBuilder::InsertionGuard guard(builder);
  enter(isFirstThread());
  if (output)
    emitter.store(norm, output, {}, 1);
}

/// Reads the flags from the last gradient to the first, and leaves them clear.
void CheckEmitter::finishFlags(size_t number) {
  const Check &check = plan.checks[number];
  Type i32 = builder.getI32Type(), i64 = builder.getI64Type();
  auto count = static_cast<int64_t>(check.gradients.size());
  OpBuilder::InsertionGuard guard(builder);
  enter(isFirstThread());
  FailureOr<Carried> found = carryLoop(
      emitter, zero(), emitter.index(count), 1,
      {math.integer(i64, -1), math.integer(i64, 0)},
      [&](Value i, ValueRange carried) -> FailureOr<Carried> {
        Value place = index.sub(index.constant(count - 1), i);
        Value flag = memref::LoadOp::create(builder, loc, left[number], place);
        memref::StoreOp::create(builder, loc, math.integer(i32, 0),
                                left[number], place);
        Value isBad =
            math.compare(CmpIPredicate::ne, flag, math.integer(i32, 0));
        Value gradient = arith::IndexCastOp::create(builder, loc, i64, place);
        return Carried{
            math.select(isBad, gradient, carried[0]),
            math.select(isBad, math.addInt(carried[1], 1), carried[1])};
      });
  if (Value finite = outputOf(kernel, check.op->getResult(0)))
    emitter.store(
        math.compare(CmpIPredicate::eq, (*found)[1], math.integer(i64, 0)),
        finite, {}, 1);
  if (Value record = outputOf(kernel, check.op->getResult(1))) {
    emitter.store((*found)[0], record, zero(), 1);
    emitter.store((*found)[1], record, emitter.index(1), 1);
  }
}

std::unique_ptr<KernelFamily> mpc::createCheckFamily() {
  return std::make_unique<CheckFamily>();
}
