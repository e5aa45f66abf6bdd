//===- Loop.cpp - items of loop kernels, one per thread -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What no other family takes. Phases that do not depend on each other share the
// threads of the grid; phases in order are run by one block with a barrier
// between them.
//
//===----------------------------------------------------------------------===//

#include "Schedule.h"

#include "Target/Kernel/IndexMath.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

namespace {
/// Threads of a block where blocks are independent, and of the one block that
/// runs phases in order.
constexpr int64_t kThreads = 128, kPhaseThreads = 512;

/// Counts items and emits their code for a first thread.
class CountingRunner : public ItemRunner {
public:
  void parallel(OpBuilder &builder, Location loc, ArrayRef<PhaseCost> phases,
                llvm::function_ref<void(size_t, Value)> body) override {
    IndexMath math{builder, loc};
    for (auto [i, phase] : llvm::enumerate(phases)) {
      items = std::max(items, phase.items);
      body(i, math.constant(0));
    }
  }

  void inOrder(OpBuilder &builder, Location loc, const PhaseCost &phase,
               llvm::function_ref<void(Value)> body) override {
    IndexMath math{builder, loc};
    items = std::max(items, phase.items);
    phased = true;
    body(math.constant(0));
  }

  int64_t items = 0;
  bool phased = false;
};

/// Runs the items as the schedule says.
class ThreadRunner : public ItemRunner {
public:
  explicit ThreadRunner(GpuKernel &kernel) : kernel(kernel) {}

  void parallel(OpBuilder &builder, Location loc, ArrayRef<PhaseCost> phases,
                llvm::function_ref<void(size_t, Value)> body) override {
    IndexMath math{builder, loc};
    int64_t threads = kernel.schedule.threads,
            all = threads * kernel.schedule.blocks[0];
    Value item = kernel.thread();
    if (kernel.schedule.blocks[0] > 1)
      item = math.add(math.mul(kernel.block(), threads), item);
    kernel.named(item, "item");
    for (auto [i, phase] : llvm::enumerate(phases)) {
      if (phase.items >= all) {
        body(i, item);
        continue;
      }
      auto guard =
          scf::IfOp::create(builder, loc, math.less(item, phase.items));
      OpBuilder::InsertionGuard inside(builder);
      builder.setInsertionPoint(guard.thenBlock()->getTerminator());
      body(i, item);
    }
  }

  void inOrder(OpBuilder &builder, Location loc, const PhaseCost &phase,
               llvm::function_ref<void(Value)> body) override {
    IndexMath math{builder, loc};
    kernel.builder.setInsertionPoint(builder.getInsertionBlock(),
                                     builder.getInsertionPoint());
    if (!first)
      kernel.barrier();
    first = false;
    math.loop(kernel.thread(), math.constant(phase.items),
              kernel.schedule.threads, body);
  }

private:
  GpuKernel &kernel;
  bool first = true;
};

ElementTarget scalarTarget() {
  ElementTarget target = cudaElementTarget();
  target.lanes = 1;
  return target;
}

class LoopFamily : public KernelFamily {
public:
  StringRef name() const override { return "loop"; }
  std::optional<Schedule> schedule(func::FuncOp kernel,
                                   const CudaTarget &target) const override;
  LogicalResult emit(GpuKernel &kernel) const override;
};
} // namespace

std::optional<Schedule> LoopFamily::schedule(func::FuncOp kernel,
                                             const CudaTarget &target) const {
  // Items and scratch memory are known once the code has been written.
  MemoryTrial trial(kernel);
  CountingRunner runner;
  FailureOr<int64_t> scratch =
      emitLoops(kernel, trial.builder, trial.memory, runner, scalarTarget());
  if (failed(scratch))
    return std::nullopt;
  Schedule schedule;
  schedule.scratchBytes = *scratch;
  int64_t most = runner.phased ? kPhaseThreads : kThreads;
  schedule.threads =
      std::clamp<int64_t>(llvm::alignTo(runner.items, 32), 32, most);
  if (!runner.phased)
    schedule.blocks[0] =
        std::max<int64_t>(llvm::divideCeil(runner.items, schedule.threads), 1);
  return schedule;
}

LogicalResult LoopFamily::emit(GpuKernel &kernel) const {
  ThreadRunner runner(kernel);
  KernelMemory memory;
  memory.inputs = kernel.inputs;
  memory.outputs = kernel.outputs;
  memory.scratch = kernel.scratch;
  OpBuilder builder = kernel.builder;
  return emitLoops(kernel.kernel, builder, memory, runner, scalarTarget());
}

std::unique_ptr<KernelFamily> mpc::createLoopFamily() {
  return std::make_unique<LoopFamily>();
}
