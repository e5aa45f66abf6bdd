//===- CastPlacementModel.h - cost model of cast placement ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts a function with planned ops to a cast-placement problem: one node
// per value, costs in bytes from the kernels that the fuser forms.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_CASTPLACEMENTMODEL_H
#define MPC_LIB_ANALYSIS_CASTPLACEMENTMODEL_H

#include "mpc/Analysis/CastPlacement.h"
#include "mpc/Analysis/PlanningAnalyses.h"
#include "mpc/Analysis/PrecisionPlan.h"

#include "llvm/ADT/SetVector.h"

namespace mpc {

/// How an op reads an operand under a plan.
struct OperandReading {
  enum class Kind {
    Exact,  ///< as computed, whatever its storage for other readers
    Wide,   ///< in f32 or wider
    Narrow, ///< in the 16-bit type that the op computes in
    Moved,  ///< in the storage type of the reader's result
    Any,    ///< in its storage type, whatever that is
  };
  Kind kind = Kind::Exact;
  /// Type that an Exact, Wide or Narrow reader needs.
  mlir::FloatType type;
};

OperandReading readingOf(const PrecisionPlan &plan, mlir::OpOperand &use);

/// Returns the type in which an op computes its result; null for an op that
/// keeps its input's.
mlir::FloatType bornType(const PrecisionPlan &plan, mlir::Value value);

/// Returns true if `op` keeps the storage type of its input.
bool isMove(const PrecisionPlan &plan, mlir::Operation *op);

class CastPlacementModel {
public:
  /// `store` is the narrow type of a value that no reader wants narrow. `facts`
  /// are the function's cached analyses, if any.
  CastPlacementModel(mlir::func::FuncOp func, const PrecisionPlan &plan,
                     const CastFusionTarget &target, mlir::FloatType store,
                     const PlanningAnalyses *facts = nullptr);

  /// Hard labels are left to the caller, except for the two terminals.
  PlacementProblem problem;

  /// Types that the readers of a value need, looking through moves.
  struct Demand {
    llvm::SmallSetVector<mlir::FloatType, 2> narrow;
    bool wide = false;
  };
  const Demand &demandOf(mlir::Value value) const {
    return demands.find(value)->second;
  }
  /// Type of the label Low; null if it is not unique.
  mlir::FloatType lowType(mlir::Value value) const {
    return lowTypes.lookup(value);
  }
  /// The eligible non-constant values, in block order, and their nodes.
  llvm::ArrayRef<mlir::Value> getValues() const { return values; }
  unsigned nodeOf(mlir::Value value) const { return nodes.lookup(value); }

  /// Returns labels for all nodes, by `isLow` of each value.
  std::vector<StorageLabel>
  labels(llvm::function_ref<bool(mlir::Value)> isLow) const;

  /// Bytes not moved because `value` is stored narrow, without casts.
  int64_t bytesSaved(mlir::Value value) const;

  /// Bytes of casts of `value` under `labels`.
  int64_t castBytes(mlir::Value value,
                    llvm::ArrayRef<StorageLabel> labels) const;

  /// Returns true if readers that want a high `value` narrow move fewer bytes
  /// with casts of their own than with a shared one.
  bool prefersOwnCasts(mlir::Value value,
                       llvm::ArrayRef<StorageLabel> labels) const;

  /// Bytes that kernels read of constants, each in the type it needs.
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
  const CastFusionTarget &target;
  /// Computed here if not cached.
  std::unique_ptr<const PlanningAnalyses> own;
  /// Fusion groups of the function without casts.
  const FusionGraph &kernels;
  llvm::DenseMap<mlir::Value, Demand> demands;
  llvm::DenseMap<mlir::Value, mlir::FloatType> lowTypes;
  llvm::SmallVector<mlir::Value> values;
  llvm::DenseMap<mlir::Value, unsigned> nodes;
  /// Nodes of readers with a fixed type.
  unsigned highReader = 0, lowReader = 0;
  /// Casts of each value, as indices into the problem's.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<unsigned, 2>> castsOf;
};

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_CASTPLACEMENTMODEL_H
