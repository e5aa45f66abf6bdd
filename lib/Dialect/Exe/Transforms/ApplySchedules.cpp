//===- ApplySchedules.cpp - apply tuned schedules -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs after mpc-plan; the target then schedules the remaining kernels.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Exe/Transforms/Passes.h"
#include "mpc/Dialect/Exe/Transforms/ScheduleTable.h"

#include "mlir/AsmParser/AsmParser.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_APPLYSCHEDULESPASS
#include "mpc/Dialect/Exe/Transforms/Passes.h.inc"
} // namespace mpc

/// Returns true for deeper nesting than in any schedule: the parser recurses.
static bool nestsDeeply(StringRef text) {
  constexpr int kMost = 8;
  int depth = 0, deepest = 0;
  for (char c : text) {
    depth += StringRef("([{<").contains(c) - StringRef(")]}>").contains(c);
    deepest = std::max(deepest, depth);
  }
  return deepest > kMost;
}

/// Parses an attribute; returns null on failure.
static Attribute parse(StringRef text, MLIRContext *context) {
  ScopedDiagnosticHandler silence(context,
                                  [](Diagnostic &) { return success(); });
  return nestsDeeply(text) ? Attribute() : parseAttribute(text, context);
}

namespace {
struct ApplySchedulesPass
    : mpc::impl::ApplySchedulesPassBase<ApplySchedulesPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto refuse = [&](const llvm::Twine &why) {
      emitError(module.getLoc()) << why;
      signalPassFailure();
    };
    Result<ScheduleTable> table = ScheduleTable::read(file);
    if (!table.ok())
      return refuse(table.status().toString());
    std::string target = exe::targetOf(module).name();
    if (table->targetName() != target)
      return refuse(file + ": holds schedules for '" + table->targetName() +
                    "', but the target is '" + target +
                    "'; tune for the target");
    for (auto kernel : module.getOps<func::FuncOp>()) {
      if (!kernel->hasAttr(MpcDialect::kKernelKindAttr) ||
          kernel->hasAttr(exe::kScheduleAttr))
        continue;
      const ScheduleTable::Entry *entry =
          table->find(ScheduleTable::keyOf(kernel));
      if (!entry)
        continue;
      Attribute schedule = parse(entry->schedule, &getContext());
      if (!schedule)
        return refuse(file + ": the schedule of '" + entry->name +
                      "' is not an attribute: " +
                      StringRef(entry->schedule).take_front(60));
      kernel->setAttr(exe::kScheduleAttr, schedule);
      ++numApplied;
    }
  }
};
} // namespace
