//===- ElementwiseFamily.cpp - elementwise kernels, a vector per thread ---===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementwise chains, data movement, gather, pooling and small reductions:
// every thread computes a few contiguous elements of each result, as many as
// one or two 128-bit accesses transfer. Adjacent threads have adjacent vectors.
//
//===----------------------------------------------------------------------===//

#include "ElementwiseCodegen.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Threads per block, and the same for small kernels, to use more
/// multiprocessors.
static constexpr int64_t kThreads = 256, kFewThreads = 64;

namespace {
class ElementwiseFamily : public KernelFamily {
public:
  StringRef name() const override { return "map"; }
  std::optional<Schedule> schedule(func::FuncOp kernel,
                                   const CudaTarget &target) const override;
  std::optional<Schedule> scheduleAs(func::FuncOp kernel,
                                     const CudaTarget &target,
                                     const Schedule &given) const override {
    std::optional<Schedule> chosen = schedule(kernel, target);
    return chosen ? onGridOf(given, *chosen) : chosen;
  }
  LogicalResult emit(GpuKernel &kernel) const override;

private:
  static std::string lanesName(size_t group) {
    return group == 0 ? "vector" : "vector_" + std::to_string(group);
  }
};
} // namespace

std::optional<Schedule>
ElementwiseFamily::schedule(func::FuncOp kernel,
                            const CudaTarget &target) const {
  Schedule schedule;
  int64_t items = 0;
  TrialCodegen first(kernel);
  ElementwiseCodegen shapes(kernel, first.builder, first.memory.inputs,
                            first.memory.outputs);
  if (!shapes.applies())
    return std::nullopt;
  for (size_t group = 0; group < shapes.groups(); ++group) {
    std::optional<ElementwiseCodegen::Width> width =
        ElementwiseCodegen::chooseWidth(kernel, group);
    if (!width)
      return std::nullopt;
    schedule.parameters[lanesName(group)] = width->lanes;
    items = std::max(items, width->items);
  }
  bool few = items < 2 * kThreads * target.multiprocessors();
  schedule.threads = few ? kFewThreads : kThreads;
  schedule.blocks[0] =
      std::max<int64_t>(llvm::divideCeil(items, schedule.threads), 1);
  return schedule;
}

LogicalResult ElementwiseFamily::emit(GpuKernel &kernel) const {
  OpBuilder &builder = kernel.builder;
  ElementwiseCodegen map(kernel.kernel, builder, kernel.inputs, kernel.outputs);
  IndexMath math{builder, kernel.loc};
  int64_t threads = kernel.schedule.threads, blocks = kernel.schedule.blocks[0];
  Value item = kernel.thread();
  if (blocks > 1)
    item = math.add(math.mul(kernel.block(), threads), item);
  kernel.named(item, "item");
  auto setName = [&](Value value, StringRef name) {
    if (value != item && value.getLoc() == kernel.loc)
      kernel.named(value, name);
  };
  for (size_t group = 0; group < map.groups(); ++group) {
    int64_t lanes = kernel.schedule[lanesName(group)],
            items = map.items(group, lanes);
    if (items == 0)
      continue;
    OpBuilder::InsertionGuard guard(builder);
    if (items < threads * blocks) {
      auto inside =
          scf::IfOp::create(builder, kernel.loc, math.less(item, items));
      builder.setInsertionPoint(inside.thenBlock()->getTerminator());
    }
    if (failed(map.emit(group, lanes, item, setName)))
      return failure();
  }
  return success();
}

std::unique_ptr<KernelFamily> mpc::createMapFamily() {
  return std::make_unique<ElementwiseFamily>();
}
