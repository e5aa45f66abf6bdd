//===- PrecisionPlan.cpp - compute and storage types ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dispatches to the planners of the policy's algorithm.
//
//===----------------------------------------------------------------------===//

#include "CastPlacementModel.h"
#include "PlanBuilder.h"

#include "mpc/Analysis/PrecisionPlan.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

#include <algorithm>

using namespace mlir;
using namespace mpc;

FloatType mpc::toFloatType(PolicyType type, MLIRContext *context) {
  switch (type) {
  case PolicyType::Float32:
  case PolicyType::TensorFloat32:
  case PolicyType::BFloat16x2:
  case PolicyType::BFloat16x3:
    return Float32Type::get(context);
  case PolicyType::Float64:
    return Float64Type::get(context);
  case PolicyType::Float8E4M3FN:
    return Float8E4M3FNType::get(context);
  case PolicyType::Float8E5M2:
    return Float8E5M2Type::get(context);
  case PolicyType::Float16:
    return Float16Type::get(context);
  case PolicyType::BFloat16:
    return BFloat16Type::get(context);
  }
  return {};
}

bool mpc::isPrecisionOperand(Operation *op, unsigned index) {
  auto precision = dyn_cast<PrecisionOpInterface>(op);
  return precision ? precision.isPrecisionOperand(index)
                   : isFloatTensor(op->getOperand(index));
}

bool mpc::isContraction(Operation *op) {
  return isa<ContractionOpInterface>(op) ||
         fusionClassOf(op) == FusionClass::Recurrent;
}

bool mpc::movesElements(Operation *op) {
  FusionClass family = fusionClassOf(op);
  return family == FusionClass::View || family == FusionClass::IndexMap ||
         family == FusionClass::Gather;
}

FloatType PrecisionPlan::getStorage(Value value) const {
  auto it = storage.find(value);
  return it == storage.end() ? wide : it->second;
}

const ValueReason &PrecisionPlan::getReason(Value value) const {
  static const ValueReason none;
  auto it = reasons.find(value);
  return it == reasons.end() ? none : it->second;
}

/// Reason of a value without a minimum cut: its op's rule.
static ValueReason reasonByRule(const PlanBuilder &builder, Value value) {
  ValueReason reason;
  Operation *op = value.getDefiningOp();
  const OpPlan *plan = op ? builder.findPlan(op) : nullptr;
  reason.because = op;
  if (!op)
    reason.text = "the function's signature never changes";
  else if (!plan || plan->role == OpPlan::Role::Untouched)
    reason.text = "the policy does not apply to its op";
  else
    reason.text = ("rule '" + llvm::Twine(plan->rule) + "' of policy '" +
                   builder.policy.getName() + "'" +
                   (plan->reason.empty() ? "" : "; ") + plan->reason)
                      .str();
  return reason;
}

FailureOr<PrecisionPlan>
PrecisionPlan::create(func::FuncOp func, const Policy &policy,
                      const CastFusionTarget &target, CastPlacement placement,
                      const RoundingErrorPrices *prices) {
  PrecisionPlan plan(Float32Type::get(func.getContext()));
  plan.uses.resize(policy.getOverrides().size());
  auto note = [&](Value value) {
    if (getElementTypeOrSelf(value.getType()) == plan.wide)
      plan.eligible.insert(value);
  };
  Block &body = func.getBody().front();
  llvm::for_each(body.getArguments(), note);
  for (Operation &op : body)
    llvm::for_each(op.getResults(), note);

  PlanBuilder builder(plan, func, policy, target, prices);
  LogicalResult planned = success();
  switch (policy.getAlgorithm()) {
  case PolicyAlgorithm::MinimumCut:
    planned = classifyByLists(builder);
    if (succeeded(planned)) {
      keepSubgraphsInFloat32(builder);
      planQuantizedCacheRows(builder);
      // Before the cut: the operands of updates affect it.
      planTrainingTypes(builder);
      if (placement == CastPlacement::MinimumCut)
        assignStorageByMinimumCut(builder);
      else
        assignStorageByPainting(builder);
      roundLibraryBiases(builder);
    }
    break;
  case PolicyAlgorithm::TorchAutocast:
    planned = planTorchAutocast(builder);
    break;
  case PolicyAlgorithm::TensorFlowPainting:
    planned = planTensorFlowPainting(builder);
    break;
  case PolicyAlgorithm::KerasLayers:
    planned = planKerasLayers(builder);
    if (succeeded(planned))
      keepSubgraphsInFloat32(builder);
    break;
  }
  if (failed(planned))
    return failure();
  if (policy.getAlgorithm() != PolicyAlgorithm::MinimumCut)
    planTrainingTypes(builder);
  roundVariablesAndModelOutputs(builder);
  if (prices)
    return plan;
  for (Value value : plan.eligible)
    if (!value.getDefiningOp<ConstantOp>() && !plan.reasons.contains(value))
      builder.setReason(value, reasonByRule(builder, value));
  return plan;
}

//===----------------------------------------------------------------------===//
// Memory
//
// Constants are resident all the time, once per type that readers need; values
// between kernels are live from their producer to their last reader, also
// through views. Inputs and outputs belong to the caller.
//===----------------------------------------------------------------------===//

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
