//===- PlacementModel.h - what storing values costs -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns a function whose ops have their types into a placement problem: one
// node per value, costs in bytes by the kernels that the fuser forms.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_PLACEMENTMODEL_H
#define MPC_LIB_ANALYSIS_PLACEMENTMODEL_H

#include "mpc/Analysis/CastPlacement.h"
#include "mpc/Analysis/PlanningFacts.h"
#include "mpc/Analysis/PrecisionPlan.h"

#include "llvm/ADT/SetVector.h"

namespace mpc {

/// How an op takes an operand under a plan.
struct Reading {
  enum class Kind {
    Exact,  ///< as the op that made it left it, whatever others store it in
    Wide,   ///< in f32 or wider
    Narrow, ///< in the 16 bits that the op computes in
    Moved,  ///< in the type that the reader's result is stored in
    Any,    ///< in whatever type it is stored
  };
  Kind kind = Kind::Exact;
  /// The type that an Exact, Wide or Narrow reader takes.
  mlir::FloatType type;
};

Reading readingOf(const PrecisionPlan &plan, mlir::OpOperand &use);

/// The type that an op's result is born in; null for an op that takes its
/// input's.
mlir::FloatType bornType(const PrecisionPlan &plan, mlir::Value value);

/// Whether `op` takes the type in which its input is stored.
bool isMove(const PrecisionPlan &plan, mlir::Operation *op);

class PlacementModel {
public:
  /// `store` is the narrow type of a value that no reader wants narrow. `facts`
  /// are the function's, where they are known.
  PlacementModel(mlir::func::FuncOp func, const PrecisionPlan &plan,
                 const FusionTarget &target, mlir::FloatType store,
                 const PlanningFacts *facts = nullptr);

  /// Hard labels are left to the caller, but for the two terminals.
  PlacementProblem problem;

  /// What the readers of a value want, looking through moves.
  struct Demand {
    llvm::SmallSetVector<mlir::FloatType, 2> narrow;
    bool wide = false;
  };
  const Demand &demandOf(mlir::Value value) const {
    return demands.find(value)->second;
  }
  /// The type that the label Low means; null where there is no one such type.
  mlir::FloatType lowType(mlir::Value value) const {
    return lowTypes.lookup(value);
  }
  /// The eligible values that are no constants, in block order, and their
  /// nodes.
  llvm::ArrayRef<mlir::Value> getValues() const { return values; }
  unsigned nodeOf(mlir::Value value) const { return nodes.lookup(value); }

  /// Labels for all nodes, where `isLow` says so of a value.
  std::vector<StorageLabel>
  labels(llvm::function_ref<bool(mlir::Value)> isLow) const;

  /// Bytes that storing `value` narrow keeps from moving, casts aside.
  int64_t bytesSaved(mlir::Value value) const;

  /// Bytes of casts of `value` under `labels`.
  int64_t castBytes(mlir::Value value,
                    llvm::ArrayRef<StorageLabel> labels) const;

  /// Whether readers that want a high `value` narrow do better with casts of
  /// their own than with one that they share.
  bool prefersOwnCasts(mlir::Value value,
                       llvm::ArrayRef<StorageLabel> labels) const;

  /// Bytes that kernels read of constants: each in the type that it wants.
  int64_t constantBytes() const;

  bool isInternal(mlir::Value value) const { return kernels.isInternal(value); }

private:
  struct Readers;
  void collectDemands();
  void chooseLowTypes(mlir::FloatType store);
  Readers readersOf(mlir::Value value) const;
  void addValue(mlir::Value value);
  void addCasts(mlir::Value value, const Readers &readers);
  void addMove(mlir::Operation *op);
  int64_t lowBytes(mlir::Value value) const;

  mlir::func::FuncOp func;
  const PrecisionPlan &plan;
  const FusionTarget &target;
  /// Found here where nobody knew them.
  std::unique_ptr<const PlanningFacts> own;
  /// What the fuser makes of the function before any cast is in it.
  const FusionGraph &kernels;
  llvm::DenseMap<mlir::Value, Demand> demands;
  llvm::DenseMap<mlir::Value, mlir::FloatType> lowTypes;
  llvm::SmallVector<mlir::Value> values;
  llvm::DenseMap<mlir::Value, unsigned> nodes;
  /// Nodes of readers whose type is fixed.
  unsigned highReader = 0, lowReader = 0;
  /// Casts of each value, as indices into the problem's.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<unsigned, 2>> castsOf;
};

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_PLACEMENTMODEL_H
