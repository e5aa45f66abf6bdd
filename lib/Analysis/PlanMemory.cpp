//===- PlanMemory.cpp - peak memory of a precision plan -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Constants are resident all the time, once per type that readers need; values
// between kernels are live from their producer to their last reader, also
// through views. Inputs and outputs belong to the caller.
//
//===----------------------------------------------------------------------===//

#include "CastPlacementModel.h"
#include "PlanBuilder.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

#include <algorithm>

using namespace mlir;
using namespace mpc;

/// Bytes of a constant, once per type that readers need.
static int64_t constantBytes(const PrecisionPlan &plan, ConstantOp constant) {
  Value value = constant.getResult();
  if (!plan.isEligible(value))
    return byteCount(value.getType());
  if (splatValue(constant.getValue()))
    return 0;
  llvm::SmallSetVector<FloatType, 2> types;
  for (OpOperand &use : value.getUses()) {
    OperandReading reading = readingOf(plan, use);
    types.insert(reading.kind == OperandReading::Kind::Narrow
                     ? reading.type
                     : Float32Type::get(value.getContext()));
  }
  int64_t bytes = 0;
  for (FloatType type : types)
    bytes += elementCount(value) * (type.getWidth() / 8);
  return bytes;
}

int64_t PrecisionPlan::memoryBytes(func::FuncOp func,
                                   const PlanningAnalyses &facts) const {
  const FusionGraph &kernels = facts.getKernels();
  llvm::DenseMap<const FusionGroup *, int64_t> order;
  for (FusionGroup *group : kernels.inOrder())
    order.try_emplace(group, order.size());
  int64_t constants = 0;
  // Change of the live bytes before each kernel.
  std::vector<int64_t> change(order.size() + 2);
  for (Operation &op : func.getBody().front().without_terminator()) {
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      constants += constantBytes(*this, constant);
      continue;
    }
    if (fusionClassOf(&op) == FusionClass::View)
      continue;
    for (Value value : op.getResults()) {
      FusionGroup *producer = kernels.groupOf(value);
      if (!producer || kernels.isInternal(value))
        continue;
      int64_t first = order.lookup(producer), last = -1;
      bool isReturned = false;
      for (FusionGroup *reader : kernels.readersOf(value)) {
        isReturned |= reader == nullptr;
        if (reader)
          last = std::max(last, order.lookup(reader));
      }
      if (isReturned || last < first)
        continue;
      int64_t bytes = byteCount(value.getType());
      if (isEligible(value))
        bytes = elementCount(value) * (getStorage(value).getWidth() / 8);
      change[first] += bytes;
      change[last + 1] -= bytes;
    }
  }
  int64_t live = 0, most = 0;
  for (int64_t step : change) {
    live += step;
    most = std::max(most, live);
  }
  return constants + most;
}
