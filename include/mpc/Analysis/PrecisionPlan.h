//===- PrecisionPlan.h - which type every value gets ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides, without changing the IR, the compute type of every op and the
// storage type of every value under a policy. mpc-assign-precision carries it
// out.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_PRECISIONPLAN_H
#define MPC_ANALYSIS_PRECISIONPLAN_H

#include "mpc/Analysis/Fusibility.h"
#include "mpc/Analysis/RoundingErrors.h"
#include "mpc/Policy/Policy.h"

#include "llvm/ADT/DenseSet.h"

#include <string>

namespace mpc {

/// The MLIR type of a policy's type; f32 for a compute mode.
mlir::FloatType toFloatType(PolicyType type, mlir::MLIRContext *context);

/// What happens to one op.
struct OpPlan {
  enum class Role {
    Untouched, ///< keeps its types: integers, f64, the model's own 16-bit
               ///< values
    Compute,   ///< reads and yields `compute`
    Multiply,  ///< a contraction: reads `compute`, yields `result`
    Move,      ///< moves elements: takes the type in which its input is stored
  };
  Role role = Role::Untouched;
  /// Types of precision operands and float results (Compute, Multiply).
  mlir::FloatType compute, result;
  /// How a contraction multiplies f32 operands.
  ComputeMode mode = ComputeMode::native;
  PrecisionClass cls = PrecisionClass::High;
  /// Operands that it takes as they were computed, whatever other readers have
  /// them stored in: all (an override in f32), or those whose order decides.
  enum class Unrounded { None, Ordered, All };
  Unrounded unrounded = Unrounded::None;
  /// What #mpc.decision records.
  std::string rule, reason;
  const PolicyOverride *override = nullptr;
  /// Whether the model itself says in which mode it computes.
  bool pinned = false;
  /// The override that decides about the op and that the op cannot obey, and
  /// why not; `override` is null then.
  const PolicyOverride *refused = nullptr;
  std::string refusal;
  /// Bytes that storing the result narrow saves per pass through memory.
  int64_t cost = 0;

  /// Whether no list and no layer has a say in the type it computes in.
  bool isForced() const { return override || pinned; }
};

/// How the types of values that no rule fixes are found.
enum class CastPlacement {
  MinimumCut, ///< the labels that move the fewest bytes
  Propagate,  ///< TensorFlow's painting, as auto_mixed_precision.cc does it
};

/// What became of one override of a policy in one function.
struct OverrideUse {
  /// An op about which the override decides and that cannot take its type.
  struct Refusal {
    mlir::Operation *op = nullptr;
    /// "whose values are integers ...".
    std::string why;
  };

  /// Ops that it speaks of, though a closer one may decide about them.
  int64_t matched = 0;
  /// Ops that take their type from it.
  int64_t obeyed = 0;
  /// Ops about which it decides and that have no type to set: they touch no
  /// float32 value, or are casts of the model.
  int64_t idle = 0;
  llvm::SmallVector<Refusal, 0> refusals;
};

/// Why a value is stored in its type.
struct ValueReason {
  /// An op whose types a rule fixes and that makes or reads the value, at once
  /// or through ops that move it.
  struct Pull {
    mlir::Operation *op = nullptr;
    /// The type in which it makes or takes the value.
    mlir::FloatType type;
    /// Ops between it and the value.
    unsigned distance = 0;
    bool reads = true;
  };

  /// Whether a rule fixes the type; else the minimum cut chose it.
  bool hard = true;
  /// One sentence without a full stop.
  std::string text;
  /// The op that the rule speaks of, or the nearest one that pulls a free value
  /// to its type; null where there is none.
  mlir::Operation *because = nullptr;
  /// Bytes that storing the value narrow keeps from moving, and bytes that its
  /// casts move as it is stored.
  int64_t bytesSaved = 0, castBytes = 0;
  /// Nearest first; those that agree with the type before those that do not.
  llvm::SmallVector<Pull, 0> pulls;
};

/// The plan of one function.
class PrecisionPlan {
public:
  /// Plans `func`. Ambiguous overrides, those that one op cannot obey and
  /// banned ops are diagnostics; what speaks of a whole module is checked by
  /// checkKinds and checkOverrides. With `prices` the minimum cut weighs the
  /// errors of named values against bytes, in place of the rules that protect
  /// bits.
  static mlir::FailureOr<PrecisionPlan>
  create(mlir::func::FuncOp func, const Policy &policy,
         const FusionTarget &target, CastPlacement placement,
         const RoundingPrices *prices = nullptr);

  const OpPlan &getPlan(mlir::Operation *op) const { return plans.at(op); }
  bool hasPlan(mlir::Operation *op) const { return plans.contains(op); }

  /// Whether the policy may give `value` another type: it was f32 when planned.
  bool isEligible(mlir::Value value) const { return eligible.contains(value); }

  /// The type in which an eligible value stands in memory; f32 where the plan
  /// says nothing else. Constants have none: each reader takes the type it
  /// wants.
  mlir::FloatType getStorage(mlir::Value value) const;

  /// The type to which `op` rounds what it reads as operand `index` before it
  /// computes, where that is narrower than both; null elsewhere. A bias that a
  /// 16-bit layer rounds and adds to an f32 sum is one.
  mlir::FloatType getRounding(mlir::Operation *op, unsigned index) const {
    return roundings.lookup({op, index});
  }

  /// Whether the readers of `value` that want another type each have a cast of
  /// their own, in their kernels, because that moves less than one that they
  /// share.
  bool hasOwnCasts(mlir::Value value) const { return ownCasts.contains(value); }

  /// Why an eligible value is stored in its type.
  const ValueReason &getReason(mlir::Value value) const;

  /// What became of each override, in the order of Policy::getOverrides.
  llvm::ArrayRef<OverrideUse> getOverrideUses() const { return uses; }

  /// Bytes that the kernels of `func`, as far as predicted, read and write of
  /// its eligible values under this plan, casts included. `func` is the
  /// function that was planned, before the plan is carried out; `facts` are
  /// its, where they are known.
  int64_t placementBytes(mlir::func::FuncOp func, const FusionTarget &target,
                         const PlanningFacts *facts = nullptr) const;

  /// Bytes of constants, and of the values that stand between kernels at once
  /// where that is most, as far as predicted. `func` is the function that was
  /// planned, with its facts.
  int64_t memoryBytes(mlir::func::FuncOp func,
                      const PlanningFacts &facts) const;

private:
  friend class PlanBuilder;
  explicit PrecisionPlan(mlir::FloatType wide) : wide(wide) {}

  mlir::FloatType wide;
  llvm::DenseMap<mlir::Operation *, OpPlan> plans;
  llvm::DenseSet<mlir::Value> eligible;
  llvm::DenseMap<mlir::Value, mlir::FloatType> storage;
  llvm::DenseMap<mlir::Value, ValueReason> reasons;
  llvm::DenseSet<mlir::Value> ownCasts;
  llvm::SmallVector<OverrideUse, 0> uses;
  llvm::DenseMap<std::pair<mlir::Operation *, unsigned>, mlir::FloatType>
      roundings;
};

/// Checks the kinds that the policy names against the dialect's ops.
mlir::LogicalResult checkKinds(mlir::Location loc, const Policy &policy);

/// Checks that the overrides of `policy` do something in a module whose
/// functions have `plans`: an error where one can be honoured nowhere, or names
/// on the command line what no function has; a warning where only some ops
/// cannot obey one.
mlir::LogicalResult checkOverrides(mlir::Location loc, const Policy &policy,
                                   llvm::ArrayRef<const PrecisionPlan *> plans);

/// Warns of names under `products`, `values` and `weights` of `policy` that no
/// op of `functions` has.
void warnOfUnknownNames(mlir::Location loc, const Policy &policy,
                        llvm::ArrayRef<mlir::func::FuncOp> functions);

} // namespace mpc

#endif // MPC_ANALYSIS_PRECISIONPLAN_H
