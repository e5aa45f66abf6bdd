//===- PlanBuilder.h - shared state of the precision planners ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The function, the policy, the target and the plan under construction. A
// planner is a free function on a PlanBuilder; PrecisionPlan::create picks the
// planners by the policy's algorithm.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_PLANBUILDER_H
#define MPC_LIB_ANALYSIS_PLANBUILDER_H

#include "mpc/Analysis/PlanningAnalyses.h"
#include "mpc/Analysis/PrecisionPlan.h"

#include <optional>

namespace mpc {

/// Returns true if a policy may change the type of operand `index` of `op`.
bool isPrecisionOperand(mlir::Operation *op, unsigned index);
/// Returns true if `op` sums products of its precision operands.
bool isContraction(mlir::Operation *op);
/// Returns true if `op` only moves elements.
bool movesElements(mlir::Operation *op);

/// A plan under construction.
class PlanBuilder {
public:
  PlanBuilder(PrecisionPlan &plan, mlir::func::FuncOp func,
              const Policy &policy, const CastFusionTarget &target,
              const RoundingErrorPrices *prices = nullptr)
      : func(func), policy(policy), target(target), prices(prices),
        wide(mlir::Float32Type::get(func.getContext())),
        low(toFloatType(policy.getCompute(), func.getContext())),
        store(toFloatType(policy.getStore(), func.getContext())), plan(plan) {}

  mlir::Block &body() { return func.getBody().front(); }
  mlir::Block &getBody() const {
    mlir::func::FuncOp function = func;
    return function.getBody().front();
  }
  mlir::MLIRContext *context() const { return wide.getContext(); }

  bool isEligible(mlir::Value value) const { return plan.isEligible(value); }
  /// The plan of `op`, created on demand.
  OpPlan &planOf(mlir::Operation *op) { return plan.plans[op]; }
  /// The plan of `op`, or null.
  const OpPlan *findPlan(mlir::Operation *op) const {
    auto it = plan.plans.find(op);
    return it == plan.plans.end() ? nullptr : &it->second;
  }
  mlir::FloatType getStorage(mlir::Value value) const {
    return plan.getStorage(value);
  }
  void setStorage(mlir::Value value, mlir::FloatType type) {
    plan.storage[value] = type;
  }
  void setReason(mlir::Value value, ValueReason reason) {
    plan.reasons[value] = std::move(reason);
  }
  void setOwnCasts(mlir::Value value) { plan.ownCasts.insert(value); }
  const PrecisionPlan &getPlan() const { return plan; }
  /// Records that `op` rounds operand `index` to `type` before it computes.
  void setRounding(mlir::Operation *op, unsigned index, mlir::FloatType type) {
    plan.roundings[{op, index}] = type;
  }

  /// Ops whose results are stored in f32 if a reader needs f32.
  void addWidePart(mlir::Operation *op) { wideParts.insert(op); }
  bool isWidePart(mlir::Operation *op) const { return wideParts.contains(op); }

  /// Cached policy-independent analyses, or null.
  const PlanningAnalyses *facts() const {
    return prices ? prices->facts : nullptr;
  }

  /// Returns true if `value` carries integers that 16 bits may not represent.
  bool carriesIntegers(mlir::Value value) const {
    return getIntegers().contains(value);
  }
  /// Returns true if an index, a length or a count is computed from `value`.
  bool feedsIntegers(mlir::Value value) const {
    return getIntegers().feedsIntegers(value);
  }

  /// Returns the override that applies to `op`, or null. Reports conflicts.
  mlir::FailureOr<const PolicyOverride *> findOverride(mlir::Operation *op);
  /// Returns the override that keeps the operands of `op` in float32, or null.
  const PolicyOverride *findInputs(mlir::Operation *op) const;
  /// Returns true if `op` belongs to a backward pass; always false if the
  /// policy does not mention one.
  bool isBackward(mlir::Operation *op) const;

  /// Records that `op` cannot follow `override`, which applies to it. An
  /// override by name is an error, since it is about this op only.
  mlir::LogicalResult refuse(mlir::Operation *op,
                             const PolicyOverride &override,
                             const llvm::Twine &why);
  /// The recorded effect of `override` in this function.
  OverrideUse &useOf(const PolicyOverride &override) {
    return plan.uses[&override - policy.getOverrides().data()];
  }

  /// If the model itself fixes the types (integers, f64, its own 16-bit values
  /// and casts), records them as the plan of `op` and returns true. Refuses an
  /// override that contradicts them.
  mlir::FailureOr<bool> keepModelTypes(mlir::Operation *op,
                                       const PolicyOverride *override);

  mlir::func::FuncOp func;
  const Policy &policy;
  const CastFusionTarget &target;
  /// Prices of errors; null to use rules instead.
  const RoundingErrorPrices *prices;
  /// f32, the policy's compute type and its storage type.
  mlir::FloatType wide, low, store;

private:
  /// Computed at the first call; planning changes no op of the function.
  const IntegerValuedFloats &getIntegers() const {
    if (facts())
      return facts()->getIntegers();
    if (!integers)
      integers.emplace(func);
    return *integers;
  }

  PrecisionPlan &plan;
  mutable std::optional<IntegerValuedFloats> integers;
  mutable std::optional<llvm::DenseSet<mlir::Operation *>> backward;
  llvm::DenseSet<mlir::Operation *> wideParts;
};

/// Returns true if `op` computes a bookkeeping scalar of a training step, not
/// part of the model.
bool isBookkeepingOp(mlir::Operation *op);

/// Returns true if `op` has a compute mode, as contractions have.
bool hasComputeMode(mlir::Operation *op);

/// Checks that `op` can compute in `type`, as required by `source` (an override
/// or a policy, for messages); reports a type without a kernel or a meaning.
/// `aimed`: the source is about this op or its kind.
mlir::LogicalResult checkComputeType(PlanBuilder &builder, mlir::Operation *op,
                                     PolicyType type, const llvm::Twine &source,
                                     bool aimed);

/// Checks that the target can accumulate as the policy says if `op` is a
/// contraction in `type`; reports a failure.
mlir::LogicalResult checkSum(PlanBuilder &builder, mlir::Operation *op,
                             PolicyType type);

/// Plans `op` to compute in `type`; a contraction accumulates in `accumulate`
/// if that is the same type, else in f32.
void computeIn(PlanBuilder &builder, mlir::Operation *op, PolicyType type,
               PolicyType accumulate);

/// Records the types of `op` that the model or an override fixes; returns true
/// if there are any, so that no list and no layer applies.
mlir::FailureOr<bool> planFixed(PlanBuilder &builder, mlir::Operation *op);

/// Returns the policy of the layer of `op`; reports an ambiguous match in the
/// policy's map.
mlir::FailureOr<const Policy *> layerPolicyOf(PlanBuilder &builder,
                                              mlir::Operation *op);

/// Returns true if `value` is a parameter: an argument that training replaces
/// or a constant that is no literal of the graph.
bool isParameter(mlir::Value value);

/// Rounds parameters to the variable type of the policy (of the reader's layer)
/// if that is narrower than f32, and outputs to the policy's output type,
/// except values that carry integers.
void roundVariablesAndModelOutputs(PlanBuilder &builder);

/// After mpc's own lists or layers have planned every op: keeps losses in f32,
/// and under mpc's own lists the steps of softmax.
void keepSubgraphsInFloat32(PlanBuilder &builder);

/// After every op is planned: if the target supports it, attention reads 8-bit
/// rows times their scale without rounding the products again
/// (QuantizedCacheRows.cpp).
void planQuantizedCacheRows(PlanBuilder &builder);

/// Returns, if a library computes GEMMs, the 16-bit type in which it sums the
/// gradient of `parameter`, a bias without other readers: the type of its
/// weight's gradient. Null otherwise.
mlir::FloatType libraryGradientType(const PlanBuilder &builder,
                                    mlir::Value parameter);

/// After values are typed, if a library computes GEMMs: rounds biases to the
/// type of the result that they are added to.
void roundLibraryBiases(PlanBuilder &builder);

/// After every op is planned: keeps losses and the ops around updates in f32,
/// and rounds the gradients of parameters that are only read in 16 bits.
void planTrainingTypes(PlanBuilder &builder);

/// Assigns each op a role, compute and result type by overrides, pins and the
/// policy's classes.
mlir::LogicalResult classifyByLists(PlanBuilder &builder);

/// After classifyByLists: assigns storage types by a minimum cut.
void assignStorageByMinimumCut(PlanBuilder &builder);

/// After classifyByLists: assigns types by TensorFlow's color propagation.
void assignStorageByPainting(PlanBuilder &builder);

/// Plans as torch.autocast types each op.
mlir::LogicalResult planTorchAutocast(PlanBuilder &builder);

/// Plans as TensorFlow's auto_mixed_precision types the graph.
mlir::LogicalResult planTensorFlowPainting(PlanBuilder &builder);

/// Plans as Keras types layers.
mlir::LogicalResult planKerasLayers(PlanBuilder &builder);

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_PLANBUILDER_H
