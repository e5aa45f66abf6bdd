//===- Recurrence.cpp - persistent kernels of recurrent layers ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcRecurrentOps.h"

#include "../Plan/KernelPlan.h"
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

namespace {
/// Parameters of the schedule (PersistentRnnPlan).
struct RecurrenceSchedule {
  int64_t rows = 0, units = 0, splits = 0, depth = 0;
  bool matrixUnits = false, weightsInRegisters = false, cooperative = false;

  static void map(auto &schedule, auto field) {
    field("rows", schedule.rows);
    field("units", schedule.units);
    field("splits", schedule.splits);
    field("depth", schedule.depth);
    field("matrix_units", schedule.matrixUnits);
    field("weights_in_registers", schedule.weightsInRegisters);
    field(Schedule::kCooperative, schedule.cooperative, false);
  }
};

class RecurrencePlan : public KernelPlan {
public:
  RecurrencePlan(func::FuncOp kernel, const CudaTarget &target, Operation *op)
      : KernelPlan(kernel, target), op(op) {}

  std::optional<Schedule> schedule() const override {
    return toSchedule(
        PersistentRnnPlan::of(*RecurrenceShape::of(op), target.target()));
  }
  /// Users may provide rows and units.
  std::optional<Schedule> scheduleAs(const Schedule &given) const override {
    return given.has("rows") && given.has("units") ? toSchedule(planAs(given))
                                                   : schedule();
  }
  LogicalResult emit(GpuKernel &gpuKernel) const override {
    std::optional<PersistentRnnPlan> plan = planAs(gpuKernel.schedule);
    if (!plan)
      return failure();
    if (auto gradient = dyn_cast<RecurrenceGradientOp>(op))
      return RecurrenceGradientKernel(gpuKernel, gradient, *plan).emit();
    return RecurrenceKernel(gpuKernel, op, *RecurrenceSteps::of(op), *plan)
        .emit();
  }

private:
  std::optional<PersistentRnnPlan> planAs(const Schedule &given) const {
    auto parameters = given.get<RecurrenceSchedule>();
    return PersistentRnnPlan::with(*RecurrenceShape::of(op), target.target(),
                                   parameters.rows, parameters.units);
  }
  static std::optional<Schedule>
  toSchedule(const std::optional<PersistentRnnPlan> &plan) {
    if (!plan)
      return std::nullopt;
    Schedule schedule;
    schedule.blocks[0] = plan->blocks();
    schedule.threads = plan->threads;
    schedule.sharedBytes = plan->sharedBytes();
    schedule.scratchBytes = plan->scratchBytes();
    schedule.set(RecurrenceSchedule{plan->rows, plan->units, plan->splits,
                                    plan->depth(), plan->usesMatrixUnits,
                                    plan->keepsFragments, plan->meets()});
    return schedule;
  }

  Operation *op;
};
} // namespace

std::unique_ptr<KernelPlan> cuda::planRecurrence(func::FuncOp kernel,
                                                 const CudaTarget &target) {
  Operation *op = recurrenceOf(kernel);
  return op ? std::make_unique<RecurrencePlan>(kernel, target, op) : nullptr;
}
