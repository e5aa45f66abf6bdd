//===- PrecisionPlan.h - compute and storage types --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides, without changing the IR, the compute type of every op and the
// storage type of every value under a policy. mpc-assign-precision applies the
// plan.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_PRECISIONPLAN_H
#define MPC_ANALYSIS_PRECISIONPLAN_H

#include "mpc/Analysis/CastFusion.h"
#include "mpc/Analysis/RoundingErrorModel.h"
#include "mpc/Policy/Policy.h"

#include "llvm/ADT/DenseSet.h"

#include <string>

namespace mpc {

/// Returns true for types below 32 bits; false for null.
inline bool isNarrow(mlir::FloatType type) {
  return type && type.getWidth() < 32;
}

/// Returns the MLIR type of a policy's type; f32 for a compute mode.
mlir::FloatType toFloatType(PolicyType type, mlir::MLIRContext *context);

/// Planned types of one op.
struct OpPlan {
  enum class Role {
    Untouched, ///< keeps its types: integers, f64, the model's own 16-bit
               ///< values
    Compute,   ///< reads and yields `compute`
    Multiply,  ///< a contraction: reads `compute`, yields `result`
    Move,      ///< moves elements: takes the type in which its input is stored
  };
  Role role = Role::Untouched;
  /// Types of precision operands and of float results (Compute, Multiply).
  mlir::FloatType compute, result;
  /// How a contraction multiplies f32 operands.
  ComputeMode mode = ComputeMode::native;
  PrecisionClass cls = PrecisionClass::High;
  /// Operands read unrounded, whatever the storage for other readers: all (an
  /// override in f32), or those whose order matters.
  enum class Unrounded { None, Ordered, All };
  Unrounded unrounded = Unrounded::None;
  /// Contents of #mpc.decision.
  std::string rule, reason;
  const PolicyOverride *override = nullptr;
  /// Whether the model itself specifies the compute mode.
  bool pinned = false;
  /// The override that applies to the op and that the op cannot follow, and the
  /// reason; `override` is null then.
  const PolicyOverride *refused = nullptr;
  std::string refusal;
  /// Bytes saved per pass over the result by storing it narrow.
  int64_t cost = 0;

  /// Returns true if the compute type depends on no list and no layer.
  bool isForced() const { return override || pinned; }
};

/// Algorithm that chooses the types of values that no rule fixes.
enum class CastPlacement {
  MinimumCut, ///< the labels of least memory traffic (minimum cut)
  Propagate,  ///< TensorFlow's color propagation (auto_mixed_precision.cc)
};

/// Effect of one override of a policy in one function.
struct OverrideUse {
  /// An op that the override applies to and that cannot take its type.
  struct Refusal {
    mlir::Operation *op = nullptr;
    /// "whose values are integers ...".
    std::string why;
  };

  /// Ops that the override matches, even if a more specific one applies to
  /// them.
  int64_t matched = 0;
  /// Ops that take their type from the override.
  int64_t obeyed = 0;
  /// Ops that the override applies to without a type to set: ops without
  /// float32 values, and casts of the model itself.
  int64_t idle = 0;
  llvm::SmallVector<Refusal, 0> refusals;
};

/// Why a value has its storage type.
struct ValueReason {
  /// An op with types fixed by a rule that produces or reads the value,
  /// directly or through data movement.
  struct Pull {
    mlir::Operation *op = nullptr;
    /// Type in which it produces or reads the value.
    mlir::FloatType type;
    /// Distance to the value, in ops.
    unsigned distance = 0;
    bool reads = true;
  };

  /// Whether a rule fixes the type; otherwise the minimum cut chose it.
  bool hard = true;
  /// One sentence without a final period.
  std::string text;
  /// The op that the rule refers to, or the nearest op that pulls a free value
  /// to its type; null if there is none.
  mlir::Operation *because = nullptr;
  /// Bytes saved by storing the value narrow, and bytes moved by its casts.
  int64_t bytesSaved = 0, castBytes = 0;
  /// Nearest first; pulls towards the chosen type before others.
  llvm::SmallVector<Pull, 0> pulls;
};

/// The plan of one function.
class PrecisionPlan {
public:
  /// Plans `func`. Reports ambiguous overrides, overrides that one op cannot
  /// follow and banned ops; module-wide properties are checked by checkKinds
  /// and checkOverrides. With `prices` the minimum cut weighs the errors of
  /// named values against bytes, instead of the rules that protect precision.
  static mlir::FailureOr<PrecisionPlan>
  create(mlir::func::FuncOp func, const Policy &policy,
         const CastFusionTarget &target, CastPlacement placement,
         const RoundingErrorPrices *prices = nullptr);

  const OpPlan &getPlan(mlir::Operation *op) const { return plans.at(op); }
  bool hasPlan(mlir::Operation *op) const { return plans.contains(op); }

  /// Returns true if the policy may change the type of `value`, an f32.
  bool isEligible(mlir::Value value) const { return eligible.contains(value); }

  /// Storage type of an eligible value; f32 by default. Constants have none:
  /// each reader uses the type it needs.
  mlir::FloatType getStorage(mlir::Value value) const;

  /// Type to which `op` rounds operand `index` before it computes, if narrower
  /// than both types; else null. Example: a bias that a 16-bit layer rounds and
  /// adds to an f32 accumulator.
  mlir::FloatType getRounding(mlir::Operation *op, unsigned index) const {
    return roundings.lookup({op, index});
  }

  /// Returns true if readers of `value` that need another type each cast it in
  /// their own kernels, because that moves fewer bytes than a shared cast.
  bool hasOwnCasts(mlir::Value value) const { return ownCasts.contains(value); }

  /// Returns why an eligible value has its storage type.
  const ValueReason &getReason(mlir::Value value) const;

  /// Effects of the overrides, in the order of Policy::getOverrides.
  llvm::ArrayRef<OverrideUse> getOverrideUses() const { return uses; }

  /// Returns the predicted bytes that the kernels of `func` read and write of
  /// its eligible values under this plan, casts included. `func` is the planned
  /// function, before the plan is applied; `facts` are its analyses, if cached.
  int64_t placementBytes(mlir::func::FuncOp func,
                         const CastFusionTarget &target,
                         const PlanningAnalyses *facts = nullptr) const;

  /// Returns the predicted bytes of constants plus the peak of values that are
  /// live between kernels. `func` is the planned function, with its analyses.
  int64_t memoryBytes(mlir::func::FuncOp func,
                      const PlanningAnalyses &facts) const;

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

/// Checks that the dialect has the op kinds that the policy names.
mlir::LogicalResult checkKinds(mlir::Location loc, const Policy &policy);

/// Checks that the overrides of `policy` have an effect in a module whose
/// `functions` have `plans`. Error: an override that no op can follow, or a
/// name on the command line that no function has. Warning: only some ops cannot
/// follow it, or such a name if the module is a `partOfModel`; the override is
/// then the diagnostic's metadata.
mlir::LogicalResult checkOverrides(mlir::Location loc, const Policy &policy,
                                   llvm::ArrayRef<const PrecisionPlan *> plans,
                                   llvm::ArrayRef<mlir::func::FuncOp> functions,
                                   bool partOfModel = false);

/// Warns about names under `products`, `values` and `weights` of `policy` that
/// no op of `functions` has.
void warnOfUnknownNames(mlir::Location loc, const Policy &policy,
                        llvm::ArrayRef<mlir::func::FuncOp> functions);

} // namespace mpc

#endif // MPC_ANALYSIS_PRECISIONPLAN_H
