//===- PlanBuilder.h - planners fill a precision plan -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the planners of this folder share: the function, the policy, the target
// and the plan that they fill. A planner is a free function on a PlanBuilder;
// PrecisionPlan::create picks the planners by the policy's algorithm.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_PLANBUILDER_H
#define MPC_LIB_ANALYSIS_PLANBUILDER_H

#include "mpc/Analysis/PlanningFacts.h"
#include "mpc/Analysis/PrecisionPlan.h"

#include <optional>

namespace mpc {

bool isFloatTensor(mlir::Value value);
/// Whether a policy may change the type in which `op` reads operand `index`.
bool isPrecisionOperand(mlir::Operation *op, unsigned index);
/// Whether `op` multiplies its precision operands and sums the products.
bool isContraction(mlir::Operation *op);

/// The parts of a plan while it is made.
class PlanBuilder {
public:
  PlanBuilder(PrecisionPlan &plan, mlir::func::FuncOp func,
              const Policy &policy, const FusionTarget &target,
              const RoundingPrices *prices = nullptr)
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
  /// The plan of `op`, made where there is none.
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
  /// `op` rounds operand `index` to `type` before it computes.
  void setRounding(mlir::Operation *op, unsigned index, mlir::FloatType type) {
    plan.roundings[{op, index}] = type;
  }

  /// Ops whose results are stored in f32 where a reader takes them so.
  void addWidePart(mlir::Operation *op) { wideParts.insert(op); }
  bool isWidePart(mlir::Operation *op) const { return wideParts.contains(op); }

  /// What no policy changes, where it is known; else null.
  const PlanningFacts *facts() const {
    return prices ? prices->facts : nullptr;
  }

  /// Whether `value` carries integers that 16 bits may not hold.
  bool carriesIntegers(mlir::Value value) const {
    return getIntegers().contains(value);
  }
  /// Whether an index, a length or a count is computed from `value`.
  bool feedsIntegers(mlir::Value value) const {
    return getIntegers().feedsIntegers(value);
  }

  /// The override that decides about `op`, or null. A diagnostic where
  /// overrides contradict each other.
  mlir::FailureOr<const PolicyOverride *> findOverride(mlir::Operation *op);
  /// The override that keeps what `op` reads in float32, or null.
  const PolicyOverride *findInputs(mlir::Operation *op) const;
  /// Whether `op` belongs to a backward pass; false of all where the policy
  /// says nothing of one.
  bool isBackward(mlir::Operation *op) const;

  /// Records that `op` cannot obey `override`, which decides about it. One by
  /// name speaks of this op alone: a diagnostic.
  mlir::LogicalResult refuse(mlir::Operation *op,
                             const PolicyOverride &override,
                             const llvm::Twine &why);
  /// What became of `override` in this function.
  OverrideUse &useOf(const PolicyOverride &override) {
    return plan.uses[&override - policy.getOverrides().data()];
  }

  /// Where the model itself leaves no choice (integers, f64, its own 16-bit
  /// values, casts that stand in it), records that as the plan of `op` and
  /// returns true. An override that contradicts it is refused.
  mlir::FailureOr<bool> keepModelTypes(mlir::Operation *op,
                                       const PolicyOverride *override);

  mlir::func::FuncOp func;
  const Policy &policy;
  const FusionTarget &target;
  /// What errors cost; null where rules stand in their place.
  const RoundingPrices *prices;
  /// f32, the policy's compute type and its storage type.
  mlir::FloatType wide, low, store;

private:
  /// Computed at the first call; planning changes no op of the function.
  const IntegerValues &getIntegers() const {
    if (facts())
      return facts()->getIntegers();
    if (!integers)
      integers.emplace(func);
    return *integers;
  }

  PrecisionPlan &plan;
  mutable std::optional<IntegerValues> integers;
  mutable std::optional<llvm::DenseSet<mlir::Operation *>> backward;
  llvm::DenseSet<mlir::Operation *> wideParts;
};

/// Whether `op` keeps the books of a training step: what it computes is not the
/// model's.
bool keepsBooks(mlir::Operation *op);

/// Whether `op` has a compute mode, as contractions have.
bool hasComputeMode(mlir::Operation *op);

/// Checks that `op` can compute in `type`, which `source` asks for (an override
/// or a policy, for messages); a diagnostic where no kernel or no meaning
/// exists. `aimed`: the source speaks of this op or its kind.
mlir::LogicalResult checkComputeType(PlanBuilder &builder, mlir::Operation *op,
                                     PolicyType type, const llvm::Twine &source,
                                     bool aimed);

/// Checks that the target can sum as the policy says where `op` is a
/// contraction in `type`; a diagnostic where not.
mlir::LogicalResult checkSum(PlanBuilder &builder, mlir::Operation *op,
                             PolicyType type);

/// Gives `op` the plan of an op that computes in `type`; a contraction sums in
/// `accumulate` where that is the same type, else in f32.
void computeIn(PlanBuilder &builder, mlir::Operation *op, PolicyType type,
               PolicyType accumulate);

/// Records what the model's own types and overrides decide about `op`; true
/// where they do, so that no list and no layer has a say.
mlir::FailureOr<bool> planFixed(PlanBuilder &builder, mlir::Operation *op);

/// The policy of the layer that `op` stands in; a diagnostic where two entries
/// of the policy's map fit.
mlir::FailureOr<const Policy *> layerPolicyOf(PlanBuilder &builder,
                                              mlir::Operation *op);

/// Whether `value` holds a parameter: an argument that training replaces or a
/// constant that is no literal of the graph.
bool isParameter(mlir::Value value);

/// Rounds parameters to the variable type of the policy (of the reader's layer)
/// where that is narrower than f32, and outputs to the policy's output type;
/// neither where they carry integers.
void roundVariablesAndOutputs(PlanBuilder &builder);

/// After every op has its plan by mpc's own lists or by layers: keeps what
/// makes a loss in f32, and under mpc's own lists the steps of softmax.
void settleWideParts(PlanBuilder &builder);

/// After every op has its plan: where the target takes them as they are, lets
/// attention read 8-bit numbers times a scale of their row without rounding the
/// products again (ScaledRows.cpp).
void settleScaledRows(PlanBuilder &builder);

/// Where a library computes products, the 16-bit type in which it sums the
/// gradient of `parameter`, a bias that nothing but sums of products reads: the
/// type of its weight's gradient. Null elsewhere.
mlir::FloatType libraryGradientType(const PlanBuilder &builder,
                                    mlir::Value parameter);

/// After values have their types, where a library computes products: rounds
/// biases to the type of the result that they are a part of.
void roundLibraryBiases(PlanBuilder &builder);

/// After every op has its plan: keeps losses and what surrounds updates in f32,
/// and rounds the gradients of parameters that are read in 16 bits alone.
void settleTraining(PlanBuilder &builder);

/// Gives each op role, compute and result type by overrides, pins and the
/// policy's classes.
mlir::LogicalResult classifyByLists(PlanBuilder &builder);

/// After classifyByLists: gives each value its storage type by a minimum cut
/// over the free ones.
void placeByMinimumCut(PlanBuilder &builder);

/// After classifyByLists: gives each value its type by TensorFlow's painting.
void placeByPropagation(PlanBuilder &builder);

/// The whole plan as torch.autocast types each op.
mlir::LogicalResult planTorchAutocast(PlanBuilder &builder);

/// The whole plan as TensorFlow's auto_mixed_precision paints the graph.
mlir::LogicalResult planTensorFlowPainting(PlanBuilder &builder);

/// The whole plan as Keras types layers.
mlir::LogicalResult planKerasLayers(PlanBuilder &builder);

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_PLANBUILDER_H
