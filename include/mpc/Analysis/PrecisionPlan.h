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
#include "mpc/Policy/Policy.h"

#include "llvm/ADT/DenseSet.h"

#include <string>

namespace mpc {

/// The MLIR type of a policy's type.
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
  PrecisionClass cls = PrecisionClass::High;
  /// What #mpc.decision records.
  std::string rule, reason;
  const PolicyOverride *override = nullptr;
  /// Bytes that storing the result narrow saves per pass through memory.
  int64_t cost = 0;
};

/// The plan of one function.
class PrecisionPlan {
public:
  /// Plans `func`. Wrong or ambiguous overrides and banned ops are diagnostics.
  static mlir::FailureOr<PrecisionPlan> create(mlir::func::FuncOp func,
                                               const Policy &policy,
                                               const FusionTarget &target);

  const OpPlan &getPlan(mlir::Operation *op) const { return plans.at(op); }
  bool hasPlan(mlir::Operation *op) const { return plans.contains(op); }

  /// Whether the policy may give `value` another type: it was f32 when planned.
  bool isEligible(mlir::Value value) const { return eligible.contains(value); }

  /// The type in which an eligible value stands in memory; f32 where the plan
  /// says nothing else. Constants have none: each reader takes the type it
  /// wants.
  mlir::FloatType getStorage(mlir::Value value) const;

private:
  PrecisionPlan(mlir::func::FuncOp func, const Policy &policy,
                const FusionTarget &target);

  mlir::LogicalResult classify(mlir::Operation *op);
  void markUnrounded();
  void assignStorage(mlir::Operation *op, const KernelPrediction &kernels);

  /// The narrow types in which readers want a value, looking through ops that
  /// move it, and whether some reader wants f32.
  struct Demand {
    llvm::SmallSetVector<mlir::FloatType, 2> narrow;
    bool wide = false;
  };
  void collectDemand(mlir::Value value, Demand &demand,
                     llvm::SmallPtrSetImpl<mlir::Operation *> &seen) const;

  mlir::func::FuncOp func;
  const Policy &policy;
  const FusionTarget &target;
  mlir::FloatType wide, store;
  llvm::DenseMap<mlir::Operation *, OpPlan> plans;
  llvm::DenseSet<mlir::Value> eligible;
  /// Values that some reader needs exactly as they were computed.
  llvm::DenseSet<mlir::Value> unrounded;
  llvm::DenseMap<mlir::Value, mlir::FloatType> storage;
  llvm::SmallPtrSet<const PolicyOverride *, 4> usedOverrides;
};

} // namespace mpc

#endif // MPC_ANALYSIS_PRECISIONPLAN_H
