//===- Recurrence.cpp - all steps of a recurrent layer in one launch ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RecurrenceKernel.h"

using namespace mlir;
using namespace mpc;

RecurrenceOp mpc::recurrenceOf(func::FuncOp kernel) {
  return StoredResults::onlyOf<RecurrenceOp>(kernel);
}

static Schedule toSchedule(const RecurrencePlan &plan) {
  Schedule schedule;
  schedule.blocks[0] = plan.blocks();
  schedule.threads = plan.threads;
  schedule.sharedBytes = plan.sharedBytes();
  schedule.scratchBytes = plan.scratchBytes();
  schedule.parameters = {{"rows", plan.rows},
                         {"units", plan.units},
                         {"splits", plan.splits},
                         {"depth", plan.depth},
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
    RecurrenceOp op = recurrenceOf(kernel);
    if (!op)
      return std::nullopt;
    std::optional<RecurrencePlan> plan =
        RecurrencePlan::of(RecurrenceShape::of(op), target.target());
    return plan ? std::optional(toSchedule(*plan)) : std::nullopt;
  }

  /// Rows and units may be given by hand.
  std::optional<Schedule> scheduleAs(func::FuncOp kernel,
                                     const CudaTarget &target,
                                     const Schedule &given) const override {
    RecurrenceOp op = recurrenceOf(kernel);
    if (!op || !given.parameters.count("rows") ||
        !given.parameters.count("units"))
      return schedule(kernel, target);
    std::optional<RecurrencePlan> plan =
        RecurrencePlan::with(RecurrenceShape::of(op), target.target(),
                             given["rows"], given["units"]);
    return plan ? std::optional(toSchedule(*plan)) : std::nullopt;
  }

  LogicalResult emit(GpuKernel &kernel) const override {
    RecurrenceOp op = recurrenceOf(kernel.kernel);
    std::optional<RecurrencePlan> plan =
        RecurrencePlan::with(RecurrenceShape::of(op), kernel.target.target(),
                             kernel.schedule["rows"], kernel.schedule["units"]);
    return plan ? RecurrenceKernel(kernel, op, *plan).emit() : failure();
  }
};
} // namespace

std::unique_ptr<KernelFamily> mpc::createRecurrenceFamily() {
  return std::make_unique<RecurrenceFamily>();
}
