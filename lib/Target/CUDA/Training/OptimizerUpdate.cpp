//===- OptimizerUpdate.cpp - optimizer updates in one kernel --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of kind update: new parameters and optimizer states of a training
// step, as a multi-tensor kernel. Each tensor, with the states that are updated
// along with it, has a range of blocks. A part that sums a gradient first is a
// row kernel. Common scalars (learning rate, bias corrections, unscaling
// factor) are computed by one thread of each block and broadcast through shared
// memory. Results may alias arguments: the thread that writes an element has
// read it, and scalars are written by the last-arriving block, after all reads.
//
//===----------------------------------------------------------------------===//

#include "../Elementwise/ElementwiseCodegen.h"
#include "../Plan/KernelPlan.h"
#include "../Rows/RowReductionPlan.h"
#include "UpdatePartition.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

static constexpr int64_t kUpdateThreads = 256, kFewUpdateThreads = 64;
/// Threads per block of a part with a reduction, and rows of threads of a
/// column sum.
static constexpr int64_t kUpdateRowThreads = 256, kLines = 8;
/// Blocks per multiprocessor for full utilization, and maximum vectors per
/// thread: more do not amortize the scalars further.
static constexpr int64_t kUpdateBlocksPerProcessor = 16, kMostSteps = 16;

namespace {
/// Parameters of the schedule: blocks of each part, and vector width of each
/// elementwise group of all parts.
struct UpdateSchedule {
  SmallVector<int64_t> parts, vectors;

  static void map(auto &schedule, auto field) {
    field("part", schedule.parts);
    field("vector", schedule.vectors, SmallVector<int64_t>());
  }
};
} // namespace

/// Returns the mapping of a part with a reduction to threads, else nullopt.
static std::optional<RowThreadMapping>
geometryOf(const RowReductionPlan *plan) {
  if (!plan)
    return std::nullopt;
  RowThreadMapping geometry;
  geometry.vector = plan->lanes();
  bool isVertical = plan->form().isVertical();
  geometry.group = isVertical ? kLines : kUpdateRowThreads;
  geometry.items = kUpdateRowThreads / geometry.group;
  geometry.steps = llvm::divideCeil(
      plan->length(), geometry.group * (isVertical ? 1 : geometry.vector));
  return geometry;
}

/// Returns the row form of a part with a reduction, else null.
static std::unique_ptr<RowReductionPlan> rowsOf(func::FuncOp part) {
  bool reduces = llvm::any_of(part.getBody().front(), [](Operation &op) {
    return isa<ReduceSumOp, ReduceMeanOp>(op);
  });
  return reduces ? RowReductionPlan::of(part) : nullptr;
}

namespace {
class OptimizerUpdatePlan : public KernelPlan {
public:
  OptimizerUpdatePlan(func::FuncOp kernel, const CudaTarget &target,
                      UpdatePartition parts)
      : KernelPlan(kernel, target), parts(std::move(parts)) {}

  std::optional<Schedule> schedule() const override;
  LogicalResult emit(GpuKernel &gpuKernel) const override;

private:
  UpdatePartition parts;
};

/// Generates the parts of one kernel.
class OptimizerUpdateEmitter {
public:
  OptimizerUpdateEmitter(GpuKernel &kernel, const UpdatePartition &parts)
      : kernel(kernel), parts(parts),
        parameters(kernel.schedule.get<UpdateSchedule>()) {}
  LogicalResult run();

private:
  LogicalResult emitScalars();
  void returnScalars(ArrayRef<Value> sharedScalars);
  LogicalResult emitPart(size_t number, const UpdatePart &part);
  SmallVector<Value> memoryOf(ArrayRef<Value> values) const;

  GpuKernel &kernel;
  const UpdatePartition &parts;
  /// Memory of arguments, scalars and results.
  DenseMap<Value, Value> memory;
  int64_t nextBlock = 0;
  UpdateSchedule parameters;
  size_t nextVector = 0;
};
} // namespace

std::optional<Schedule> OptimizerUpdatePlan::schedule() const {
  Schedule schedule;
  UpdateSchedule parameters;
  // Threads of each part, or blocks of a part with a reduction.
  SmallVector<int64_t> items, rowBlocks;
  for (auto [number, part] : llvm::enumerate(parts.tensors)) {
    std::unique_ptr<RowReductionPlan> rows = rowsOf(*part.function);
    if (std::optional<RowThreadMapping> geometry = geometryOf(rows.get())) {
      items.push_back(0);
      rowBlocks.push_back(
          llvm::divideCeil(rows->items(geometry->vector), geometry->items));
      continue;
    }
    rowBlocks.push_back(0);
    auto widths = ElementwiseCodegen::chooseWidths(*part.function);
    if (!widths)
      return std::nullopt;
    items.push_back(0);
    for (ElementwiseCodegen::Width width : *widths) {
      parameters.vectors.push_back(width.lanes);
      items.back() = std::max(items.back(), width.items);
    }
  }

  int64_t all = 0;
  for (int64_t count : items)
    all += count;
  bool few = all < 2 * kUpdateThreads * target.multiprocessors();
  bool hasRows = llvm::any_of(rowBlocks, [](int64_t count) { return count; });
  schedule.threads = hasRows ? kUpdateRowThreads
                     : few   ? kFewUpdateThreads
                             : kUpdateThreads;
  int64_t steps = std::clamp<int64_t>(
      llvm::divideCeil(all, schedule.threads * kUpdateBlocksPerProcessor *
                                target.multiprocessors()),
      1, kMostSteps);
  int64_t blocks = 0;
  for (auto [number, count] : llvm::enumerate(items)) {
    int64_t own = rowBlocks[number];
    if (own == 0)
      own = llvm::divideCeil(count, schedule.threads * steps);
    parameters.parts.push_back(own);
    blocks += own;
  }
  schedule.set(parameters);
  schedule.blocks[0] = std::max<int64_t>(blocks, 1);
  bool returnsScalars = llvm::any_of(kernel.getResultTypes(), [](Type type) {
    return cast<RankedTensorType>(type).getRank() == 0;
  });
  if (returnsScalars && blocks > 1)
    schedule.scratchBytes = sizeof(int32_t);
  return schedule;
}

LogicalResult OptimizerUpdatePlan::emit(GpuKernel &gpuKernel) const {
  return OptimizerUpdateEmitter(gpuKernel, parts).run();
}

SmallVector<Value>
OptimizerUpdateEmitter::memoryOf(ArrayRef<Value> values) const {
  SmallVector<Value> memrefs;
  for (Value value : values)
    memrefs.push_back(memory.lookup(value));
  return memrefs;
}

LogicalResult OptimizerUpdateEmitter::run() {
  for (auto [argument, memref] :
       llvm::zip(kernel.kernel.getArguments(), kernel.inputs))
    memory[argument] = memref;
  if (parts.scalars.function && failed(emitScalars()))
    return failure();
  Operation *terminator = kernel.kernel.getBody().front().getTerminator();
  for (auto [value, memref] :
       llvm::zip(terminator->getOperands(), kernel.outputs))
    memory.try_emplace(value, memref);
  for (auto [number, part] : llvm::enumerate(parts.tensors))
    if (failed(emitPart(number, part)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

/// Returns the name, in the model, of the op that defines the value, or
/// `otherwise`.
static std::string nameOf(Value value, StringRef otherwise) {
  if (auto named = dyn_cast<NameLoc>(value.getLoc());
      named && !named.getName().empty())
    return named.getName().str();
  return otherwise.str();
}

LogicalResult OptimizerUpdateEmitter::emitScalars() {
  const UpdatePart &part = parts.scalars;
  SmallVector<Value> inputs = memoryOf(part.inputs), sharedScalars;
  for (Value scalar : part.outputs) {
    auto type = cast<RankedTensorType>(scalar.getType());
    sharedScalars.push_back(
        kernel.shared(type.getShape(), memoryElementType(type.getElementType()),
                      nameOf(scalar, "common")));
  }
  {
    OpBuilder::InsertionGuard guard(kernel.builder);
    IndexMath math{kernel.builder, kernel.loc};
    kernel.enter(math.less(kernel.thread(), 1));
    ElementwiseCodegen map(*part.function, kernel.builder, inputs,
                           sharedScalars);
    for (size_t group = 0; group < map.groups(); ++group)
      if (failed(map.emit(group, 1, math.constant(0))))
        return failure();
    returnScalars(sharedScalars);
  }
  kernel.barrier();
  for (auto [scalar, memref] : llvm::zip(part.outputs, sharedScalars))
    memory[scalar] = memref;
  return success();
}

/// The last block that has read all scalars stores those that the kernel
/// returns.
void OptimizerUpdateEmitter::returnScalars(ArrayRef<Value> sharedScalars) {
  OpBuilder &builder = kernel.builder;
  Location loc = kernel.loc;
  SmallVector<std::pair<Value, Value>> stores;
  Operation *terminator = kernel.kernel.getBody().front().getTerminator();
  for (auto [value, memref] :
       llvm::zip(terminator->getOperands(), kernel.outputs))
    for (auto [scalar, lies] : llvm::zip(parts.scalars.outputs, sharedScalars))
      if (scalar == value)
        stores.push_back({lies, memref});
  if (stores.empty())
    return;
  OpBuilder::InsertionGuard guard(builder);
  Value counter;
  if (kernel.scratch) {
    IndexMath math{builder, loc};
    Type i32 = builder.getI32Type();
    counter = kernel.named(math.view(kernel.scratch, 0, 1, i32), "counter");
    cuda::FenceOp::create(builder, loc);
    Value one = arith::ConstantIntOp::create(builder, loc, i32, 1);
    Value before =
        memref::AtomicRMWOp::create(builder, loc, arith::AtomicRMWKind::addi,
                                    one, counter, math.constant(0));
    Value last = arith::ConstantIntOp::create(builder, loc, i32,
                                              kernel.schedule.blocks[0] - 1);
    kernel.enter(arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                       before, last));
    memref::StoreOp::create(builder, loc,
                            arith::ConstantIntOp::create(builder, loc, i32, 0),
                            counter, math.constant(0));
  }
  for (auto [from, to] : stores) {
    Value value = memref::LoadOp::create(builder, loc, from);
    memref::StoreOp::create(builder, loc, value, to);
  }
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

LogicalResult OptimizerUpdateEmitter::emitPart(size_t number,
                                               const UpdatePart &part) {
  OpBuilder &builder = kernel.builder;
  Location loc = kernel.loc;
  IndexMath math{builder, loc};
  OpBuilder::InsertionGuard guard(builder);
  int64_t threads = kernel.schedule.threads, first = nextBlock,
          blocks = parameters.parts[number];
  nextBlock += blocks;
  if (blocks == 0)
    return success();
  // Blocks [first, nextBlock).
  Value block = kernel.block();
  if (first > 0 && nextBlock < kernel.schedule.blocks[0])
    kernel.enter(arith::AndIOp::create(
        builder, loc, math.less(math.constant(first - 1), block),
        math.less(block, nextBlock)));
  else if (first > 0)
    kernel.enter(math.less(math.constant(first - 1), block));
  else if (nextBlock < kernel.schedule.blocks[0])
    kernel.enter(math.less(block, nextBlock));
  std::unique_ptr<RowReductionPlan> rows = rowsOf(*part.function);
  if (std::optional<RowThreadMapping> geometry = geometryOf(rows.get())) {
    GpuKernel own{
        {kernel.function, builder, loc, /*scratch=*/{}, /*firstBlock=*/first},
        *part.function,
        kernel.target,
        kernel.schedule,
        memoryOf(part.inputs),
        memoryOf(part.outputs)};
    return emitRows(own, *rows, geometry->team(*rows, first));
  }
  block = math.sub(block, math.constant(first));
  Value start = math.add(math.mul(block, threads), kernel.thread());

  ElementwiseCodegen map(*part.function, builder, memoryOf(part.inputs),
                         memoryOf(part.outputs));
  for (size_t group = 0; group < map.groups(); ++group) {
    int64_t lanes = parameters.vectors[nextVector++],
            items = map.items(group, lanes);
    LogicalResult result = success();
    auto body = [&](Value item) { result = map.emit(group, lanes, item); };
    if (items > threads * blocks) {
      math.loop(start, math.constant(items), threads * blocks, body);
    } else if (items > 0) {
      OpBuilder::InsertionGuard inner(builder);
      if (items < threads * blocks)
        kernel.enter(math.less(start, items));
      body(start);
    }
    if (failed(result))
      return failure();
  }
  return success();
}

std::unique_ptr<KernelPlan>
cuda::planOptimizerUpdate(func::FuncOp kernel, const CudaTarget &target) {
  auto kind =
      kernel->getAttrOfType<FusionKindAttr>(MpcDialect::kKernelKindAttr);
  if (!kind || kind.getValue() != FusionKind::update)
    return nullptr;
  std::optional<UpdatePartition> parts = UpdatePartition::of(kernel);
  if (!parts || (parts->scalars.function &&
                 !ElementwiseCodegen::chooseWidths(*parts->scalars.function)))
    return nullptr;
  return std::make_unique<OptimizerUpdatePlan>(kernel, target,
                                               std::move(*parts));
}
