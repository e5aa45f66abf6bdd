//===- GradientCheckFamily.cpp - finiteness and norm of all gradients -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Any number of all_finite and global_norm ops in one pass over all gradients
// (multi-tensor kernel): each tensor has a range of blocks.
//
//===----------------------------------------------------------------------===//

#include "GradientCheckKernel.h"

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcOptimizerOps.h"

using namespace mlir;
using namespace mpc;

static constexpr int64_t kThreads = 256, kVectorBytes = 16;
/// Blocks per multiprocessor for full utilization, and minimum vectors per
/// thread for another block.
static constexpr int64_t kBlocksPerProcessor = 8, kLeastSteps = 4;

namespace {
class GradientCheckFamily : public KernelFamily {
public:
  StringRef name() const override { return "check"; }
  std::optional<Schedule> schedule(func::FuncOp kernel,
                                   const CudaTarget &target) const override;
  LogicalResult emit(GpuKernel &kernel) const override;
};
} // namespace

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

std::optional<GradientCheckPlan> GradientCheckPlan::of(func::FuncOp kernel) {
  GradientCheckPlan plan;
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

int64_t GradientCheckPlan::lanesOf(Value argument) const {
  int64_t lanes =
      kVectorBytes / bytesPerElement(getElementTypeOrSelf(argument.getType()));
  return elementCount(argument) % lanes == 0 ? lanes : 1;
}

SmallVector<int64_t> GradientCheckPlan::offsets(int64_t blocks,
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

std::string GradientCheckPlan::parameterOf(size_t walk) {
  return "part" + (walk == 0 ? "" : "_" + std::to_string(walk));
}

std::optional<Schedule>
GradientCheckFamily::schedule(func::FuncOp kernel,
                              const CudaTarget &target) const {
  std::optional<GradientCheckPlan> plan = GradientCheckPlan::of(kernel);
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
    schedule.parameters[GradientCheckPlan::parameterOf(number)] = own;
    blocks += own;
  }
  schedule.blocks[0] = std::max<int64_t>(blocks, 1);
  plan->offsets(schedule.blocks[0], schedule.scratchBytes);
  return schedule;
}

LogicalResult GradientCheckFamily::emit(GpuKernel &kernel) const {
  std::optional<GradientCheckPlan> plan = GradientCheckPlan::of(kernel.kernel);
  return plan ? GradientCheckEmitter(kernel, *plan).run() : failure();
}

std::unique_ptr<KernelFamily> mpc::createCheckFamily() {
  return std::make_unique<GradientCheckFamily>();
}
