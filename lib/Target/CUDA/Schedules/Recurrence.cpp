//===- Recurrence.cpp - persistent kernels of recurrent layers ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcRecurrentOps.h"

#include "RecurrenceGradientKernel.h"
#include "RecurrenceKernel.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Returns the kernel's only recurrent op, if all its results can be stored;
/// else null.
static Operation *recurrenceOf(func::FuncOp kernel) {
  if (Operation *op = ContractionEpilogue::onlyOf<RecurrenceOp>(kernel))
    return op;
  if (Operation *op = ContractionEpilogue::onlyOf<RecurrenceTrainingOp>(kernel))
    return op;
  return ContractionEpilogue::onlyOf<RecurrenceGradientOp>(kernel);
}

static Schedule toSchedule(const PersistentRnnPlan &plan) {
  Schedule schedule;
  schedule.blocks[0] = plan.blocks();
  schedule.threads = plan.threads;
  schedule.sharedBytes = plan.sharedBytes();
  schedule.scratchBytes = plan.scratchBytes();
  schedule.parameters = {{"rows", plan.rows},
                         {"units", plan.units},
                         {"splits", plan.splits},
                         {"depth", plan.depth()},
                         {"matrix_units", plan.usesMatrixUnits},
                         {"weights_in_registers", plan.keepsFragments}};
  if (plan.meets())
    schedule.parameters[Schedule::kCooperative] = 1;
  return schedule;
}

namespace {
class RecurrenceFamily : public KernelFamily {
public:
  StringRef name() const override { return "recurrence"; }

  std::optional<Schedule> schedule(func::FuncOp kernel,
                                   const CudaTarget &target) const override {
    Operation *op = recurrenceOf(kernel);
    if (!op)
      return std::nullopt;
    std::optional<PersistentRnnPlan> plan =
        PersistentRnnPlan::of(*RecurrenceShape::of(op), target.target());
    return plan ? std::optional(toSchedule(*plan)) : std::nullopt;
  }

  /// Users may provide rows and units.
  std::optional<Schedule> scheduleAs(func::FuncOp kernel,
                                     const CudaTarget &target,
                                     const Schedule &given) const override {
    Operation *op = recurrenceOf(kernel);
    if (!op || !given.parameters.count("rows") ||
        !given.parameters.count("units"))
      return schedule(kernel, target);
    std::optional<PersistentRnnPlan> plan =
        PersistentRnnPlan::with(*RecurrenceShape::of(op), target.target(),
                                given["rows"], given["units"]);
    return plan ? std::optional(toSchedule(*plan)) : std::nullopt;
  }

  LogicalResult emit(GpuKernel &kernel) const override {
    Operation *op = recurrenceOf(kernel.kernel);
    std::optional<PersistentRnnPlan> plan = PersistentRnnPlan::with(
        *RecurrenceShape::of(op), kernel.target.target(),
        kernel.schedule["rows"], kernel.schedule["units"]);
    if (!plan)
      return failure();
    if (auto gradient = dyn_cast<RecurrenceGradientOp>(op))
      return RecurrenceGradientKernel(kernel, gradient, *plan).emit();
    return RecurrenceKernel(kernel, op, *RecurrenceSteps::of(op), *plan).emit();
  }
};
} // namespace

std::unique_ptr<KernelFamily> cuda::createRecurrenceFamily() {
  return std::make_unique<RecurrenceFamily>();
}
