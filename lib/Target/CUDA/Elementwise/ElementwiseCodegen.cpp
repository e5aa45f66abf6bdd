//===- ElementwiseCodegen.cpp - elementwise codegen, a vector per thread --===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ElementwiseCodegen.h"
#include "../Plan/KernelPlan.h"

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Maximum bytes per access, and per vector of values.
static constexpr int64_t kAccessBytes = 16, kMostVectorBytes = 32;
/// Maximum share of the accesses that wider vectors must reduce to: vectors
/// that are mostly split into scalars only lengthen the code.
static constexpr double kWorthwhile = 0.75;

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

ElementwiseCodegen::ElementwiseCodegen(func::FuncOp kernel, OpBuilder &builder,
                                       ArrayRef<Value> inputs,
                                       ArrayRef<Value> outputs)
    : copy(kernel.clone()), builder(builder),
      emitter(builder, builder.getUnknownLoc(), target) {
  collapseDimensions(copy);
  for (auto [argument, memref] : llvm::zip(copy.getArguments(), inputs))
    emitter.bindMemory(argument, emitter.viewAs(memref, shapeOf(argument)));
  Operation *terminator = copy.getBody().front().getTerminator();
  for (auto [result, memref] : llvm::zip(terminator->getOperands(), outputs)) {
    auto group = llvm::find_if(rootsOf, [&](ArrayRef<Root> roots) {
      return shapeOf(roots.front().tensor) == shapeOf(result);
    });
    if (group == rootsOf.end())
      group = rootsOf.insert(rootsOf.end(), SmallVector<Root>());
    group->push_back({result, emitter.viewAs(memref, shapeOf(result))});
  }
}

bool ElementwiseCodegen::applies() {
  for (Operation &op : copy.getBody().front())
    if (isa<ContractionOpInterface, GroupNormOp, InstanceNormOp>(op))
      return false;
  return llvm::all_of(
      rootsOf, [&](ArrayRef<Root> roots) { return isMap(emitter, roots); });
}

/// Returns the width, in bits, of the widest value in the computation of `op`.
static int64_t computedBits(Operation *op) {
  int64_t bits = 8;
  if (isa<IotaOp, OneHotOp>(op))
    bits = 64;
  SmallVector<Type> types(op->getOperandTypes());
  llvm::append_range(types, op->getResultTypes());
  for (Type type : types) {
    Type carried = carriedType(getElementTypeOrSelf(type));
    bits = std::max<int64_t>(bits, carried.getIntOrFloatBitWidth());
  }
  // Integers are converted to 16-bit floats via f64.
  if (auto cast = dyn_cast<CastOp>(op)) {
    Type from = getElementTypeOrSelf(cast.getInput()),
         to = getElementTypeOrSelf(cast.getResult());
    if (isa<IntegerType>(from) && isa<FloatType>(to) &&
        from.getIntOrFloatBitWidth() > 16 && to.getIntOrFloatBitWidth() == 16)
      bits = 64;
  }
  return bits;
}

int64_t ElementwiseCodegen::widest(size_t group) {
  int64_t narrow = 64, wide = 8;
  llvm::DenseSet<Value> visited;
  SmallVector<Value> work;
  auto stored = [&](Value tensor) {
    if (elementCount(tensor) == 1)
      return;
    int64_t bits = memoryElementType(getElementTypeOrSelf(tensor.getType()))
                       .getIntOrFloatBitWidth();
    narrow = std::min(narrow, bits);
    wide = std::max(wide, bits);
  };
  for (const Root &root : rootsOf[group]) {
    stored(root.tensor);
    work.push_back(root.tensor);
  }
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (!visited.insert(value).second)
      continue;
    Operation *op = value.getDefiningOp();
    if (!op) {
      stored(value);
      continue;
    }
    // Indices are read one at a time.
    bool gathers = isa<GatherOp, GatherNdOp>(op);
    if (!gathers)
      wide = std::max(wide, computedBits(op));
    work.append(op->operand_begin(),
                gathers ? op->operand_begin() + 1 : op->operand_end());
  }
  return std::min(kAccessBytes * 8 / narrow, kMostVectorBytes * 8 / wide);
}

int64_t ElementwiseCodegen::items(size_t group, int64_t lanes) {
  ArrayRef<int64_t> shape = shapeOf(rootsOf[group].front().tensor);
  if (lanes == 1)
    return productOf(shape);
  if (shape.empty() || shape.back() < lanes)
    return 0;
  // A single row may end in a partial vector.
  if (productOf(shape.drop_back()) == 1)
    return llvm::divideCeil(shape.back(), lanes);
  return shape.back() % lanes == 0 ? productOf(shape) / lanes : 0;
}

LogicalResult ElementwiseCodegen::store(size_t group, ArrayRef<Value> indices,
                                        int64_t lanes) {
  // Compute all values before the first store, to share loads.
  SmallVector<Value> values;
  for (const Root &root : rootsOf[group]) {
    FailureOr<Value> value = emitter.emit(root.tensor, indices, lanes);
    if (failed(value))
      return failure();
    values.push_back(*value);
  }
  for (auto [root, value] : llvm::zip(rootsOf[group], values))
    emitter.store(value, root.memref, indices, lanes);
  return success();
}

LogicalResult ElementwiseCodegen::emit(size_t group, int64_t lanes,
                                       Value item) {
  ArrayRef<int64_t> shape = shapeOf(rootsOf[group].front().tensor);
  IndexMath math{builder, emitter.getLoc()};
  auto setName = [&](Value value, StringRef name) {
    if (value != item && value.getLoc() == math.loc)
      value.setLoc(NameLoc::get(builder.getStringAttr(name)));
  };
  if (shape.empty())
    return store(group, {}, 1);
  // Dimensions of extent 1 have no index.
  SmallVector<int64_t> extents;
  for (int64_t extent : shape)
    if (extent != 1)
      extents.push_back(extent);
  if (extents.empty())
    extents.push_back(1);
  bool even = extents.back() % lanes == 0;
  extents.back() = llvm::divideCeil(extents.back(), lanes);
  SmallVector<Value> position = math.delinearize(item, extents), indices;
  position.back() = math.mul(position.back(), lanes);
  size_t next = 0;
  for (int64_t extent : shape)
    indices.push_back(extent == 1 ? emitter.index(0) : position[next++]);
  if (shape.back() != 1)
    setName(indices.back(), extents.size() == 1 ? "i" : "column");
  if (extents.size() == 2)
    setName(position.front(), "row");
  if (even || lanes == 1)
    return store(group, indices, lanes);

  // Partial vector at the end of the row.
  Value first = indices.back();
  LogicalResult result = success();
  math.branch(
      math.less(math.add(first, lanes - 1), shape.back()),
      [&] { result = store(group, indices, lanes); },
      [&] {
        math.loop(first, math.constant(shape.back()), 1, [&](Value i) {
          indices.back() = i;
          if (succeeded(result))
            result = store(group, indices, 1);
        });
      });
  return result;
}

//===----------------------------------------------------------------------===//
// Vector width
//===----------------------------------------------------------------------===//

/// Returns the number of memory accesses in the code.
static int64_t countAccesses(ModuleOp module) {
  int64_t count = 0;
  module.walk([&](Operation *op) {
    count +=
        isa<memref::LoadOp, memref::StoreOp, vector::LoadOp, vector::StoreOp>(
            op);
  });
  return count;
}

std::optional<ElementwiseCodegen::Width>
ElementwiseCodegen::chooseWidth(func::FuncOp kernel, size_t group) {
  TrialCodegen first(kernel);
  ElementwiseCodegen shapes(kernel, first);
  Width best{1, shapes.items(group, 1)};
  double fewest = std::numeric_limits<double>::infinity();
  for (int64_t lanes = 1; lanes <= shapes.widest(group); lanes *= 2) {
    int64_t count = shapes.items(group, lanes);
    if (count == 0)
      continue;
    TrialCodegen trial(kernel);
    ElementwiseCodegen map(kernel, trial);
    if (failed(map.emit(group, lanes, trial.item)))
      return std::nullopt;
    double accesses = static_cast<double>(countAccesses(*trial.module)) /
                      static_cast<double>(lanes);
    if (accesses <= kWorthwhile * fewest) {
      fewest = accesses;
      best = {lanes, count};
    }
  }
  return best;
}

std::optional<SmallVector<ElementwiseCodegen::Width>>
ElementwiseCodegen::chooseWidths(func::FuncOp kernel) {
  TrialCodegen trial(kernel);
  ElementwiseCodegen map(kernel, trial);
  if (!map.applies())
    return std::nullopt;
  SmallVector<Width> widths;
  for (size_t group = 0; group < map.groups(); ++group) {
    std::optional<Width> width = chooseWidth(kernel, group);
    if (!width)
      return std::nullopt;
    widths.push_back(*width);
  }
  return widths;
}

//===----------------------------------------------------------------------===//
// Kernel family
//
// Elementwise chains, data movement, gather, pooling and small reductions:
// every thread computes a few contiguous elements of each result, as many as
// one or two 128-bit accesses transfer. Adjacent threads have adjacent vectors.
//===----------------------------------------------------------------------===//

/// Threads per block, and the same for small kernels, to use more
/// multiprocessors.
static constexpr int64_t kElementwiseThreads = 256, kFewElementwiseThreads = 64;

namespace {
/// Parameters of the schedule: vector width of each group of results.
struct ElementwiseSchedule {
  SmallVector<int64_t> vectors;

  static void map(auto &schedule, auto field) {
    field("vector", schedule.vectors);
  }
};

class ElementwisePlan : public KernelPlan {
public:
  using KernelPlan::KernelPlan;

  std::optional<Schedule> schedule() const override;
  std::optional<Schedule> scheduleAs(const Schedule &given) const override {
    std::optional<Schedule> chosen = schedule();
    return chosen ? onGridOf(given, *chosen) : chosen;
  }
  LogicalResult emit(GpuKernel &kernel) const override;
};
} // namespace

std::optional<Schedule> ElementwisePlan::schedule() const {
  Schedule schedule;
  ElementwiseSchedule parameters;
  int64_t items = 0;
  auto widths = ElementwiseCodegen::chooseWidths(kernel);
  if (!widths)
    return std::nullopt;
  for (ElementwiseCodegen::Width width : *widths) {
    parameters.vectors.push_back(width.lanes);
    items = std::max(items, width.items);
  }
  bool few = items < 2 * kElementwiseThreads * target.multiprocessors();
  schedule.threads = few ? kFewElementwiseThreads : kElementwiseThreads;
  schedule.blocks[0] =
      std::max<int64_t>(llvm::divideCeil(items, schedule.threads), 1);
  schedule.set(parameters);
  return schedule;
}

LogicalResult ElementwisePlan::emit(GpuKernel &kernel) const {
  OpBuilder &builder = kernel.builder;
  ElementwiseCodegen map(kernel.kernel, builder, kernel.inputs, kernel.outputs);
  IndexMath math{builder, kernel.loc};
  auto parameters = kernel.schedule.get<ElementwiseSchedule>();
  int64_t threads = kernel.schedule.threads, blocks = kernel.schedule.blocks[0];
  Value item = kernel.thread();
  if (blocks > 1)
    item = math.add(math.mul(kernel.block(), threads), item);
  kernel.named(item, "item");
  for (size_t group = 0; group < map.groups(); ++group) {
    int64_t lanes = parameters.vectors[group], items = map.items(group, lanes);
    if (items == 0)
      continue;
    OpBuilder::InsertionGuard guard(builder);
    if (items < threads * blocks)
      kernel.enter(math.less(item, items));
    if (failed(map.emit(group, lanes, item)))
      return failure();
  }
  return success();
}

std::unique_ptr<KernelPlan> cuda::planElementwise(func::FuncOp kernel,
                                                  const CudaTarget &target) {
  return std::make_unique<ElementwisePlan>(kernel, target);
}
