//===- LossScaling.h - scaled losses and predicated steps -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRAINING_LOSSSCALING_H
#define MPC_LIB_DIALECT_MPC_TRAINING_LOSSSCALING_H

#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Training/LossScale.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {
class AllFiniteOp;

/// Gradient processing besides loss scaling.
struct GradientOptions {
  /// Maximum norm and maximum magnitude of unscaled gradients.
  std::optional<double> clipNorm, clipValue;
  /// Accumulation window, in micro steps.
  int64_t accumulate = 1;
};

/// Rewrites one function as described for mpc-scale-loss.
class LossScaling {
public:
  LossScaling(mlir::func::FuncOp function, const LossScalePreset &preset,
              const GradientOptions &options);

  /// Returns true if there is a seed, or an optimizer without flag and unscale.
  bool applies() const;
  /// Rewrites the function. Emits an error, before any change, if the options
  /// do not fit the function.
  mlir::LogicalResult run();

  int64_t seedCount() const { return seeds.size(); }
  int64_t updateCount() const { return optimizers.size(); }

private:
  /// Optimizers that share a step counter.
  struct Group {
    mlir::Value step;
    llvm::SmallVector<OptimizerOpInterface> optimizers;
    /// Gradients in program order, and the names of their parameters.
    llvm::SmallVector<mlir::Value> gradients;
    llvm::SmallVector<std::string> names;
    /// Results of all_finite; null without a check.
    mlir::Value finite, record;
    /// Update predicate; null if unconditional.
    mlir::Value when;
  };

  void collectGroups();
  mlir::LogicalResult check() const;
  bool accumulatesMicroSteps() const;

  //===--------------------------------------------------------------------===//
  // Stages of the rewrite, in order
  //===--------------------------------------------------------------------===//
  void findScale();
  void scaleSeeds();
  void accumulateReturned();
  void checkGradients(Group &group);
  /// Adds per-rank results to the overflow record of `finite`, which checks the
  /// reduced gradients; with sharded gradients, all ranks decide by all shards.
  void gatherRecords(Group &group, AllFiniteOp finite);
  /// Returns the rank's gradient before the reduction, or the gradient itself.
  static mlir::Value ownOf(mlir::Value gradient);
  static int64_t ranksOf(const Group &group);
  /// Returns true if each rank updates a shard of every parameter.
  static bool isSharded(const Group &group);
  void unscaleGradients(Group &group);
  void accumulateMicroSteps(Group &group);
  void resetAccumulators();
  void countSteps(Group &group);
  void updateScale();
  /// Returns the number of steps attempted before this one.
  mlir::Value attemptedSteps(mlir::BlockArgument skipped);
  void recordOverflow();
  void predicateStatistics();
  /// Collects the gradients of a detected backward pass: the values divided by
  /// a seed.
  void collectMarked();
  /// Preserves all state if one of these gradients is not finite.
  void predicateMarkedStep();
  /// Returns the name of an argument whose update depends on `gradient`.
  std::string dependentOf(mlir::Value gradient) const;

  //===--------------------------------------------------------------------===//
  // Values
  //===--------------------------------------------------------------------===//
  template <typename OpTy, typename... Args>
  mlir::Value create(Args &&...args) {
    return OpTy::create(builder, loc, std::forward<Args>(args)...)
        ->getResult(0);
  }
  mlir::Value constant(mlir::Type element, double value);
  mlir::Value zerosOf(mlir::Value tensor);
  mlir::Value castTo(mlir::Value value, mlir::Type element);
  /// Gradient in its parameter's type, unscaled.
  mlir::Value unscaled(OptimizerOpInterface optimizer);
  /// Reciprocal of the scale, computed as the preset does, in f32.
  mlir::Value inverseScale();
  /// Norm of all gradients of a group, computed as the preset does, in f32.
  mlir::Value globalNorm(const Group &group, mlir::ValueRange gradients,
                         mlir::Value unscale, UnscaleMode mode);
  /// Norm of gradients sharded over ranks.
  mlir::Value normOfPieces(const Group &group, mlir::ValueRange pieces,
                           mlir::Value unscale, UnscaleMode mode);
  /// Clipping factor for this norm, in f32.
  mlir::Value clipFactor(mlir::Value norm);
  /// Returns true if an f32 is finite.
  mlir::Value isFinite(mlir::Value value);
  /// Returns the argument of a loss-scale state field, appended if missing.
  mlir::BlockArgument field(llvm::StringRef name, mlir::Type type,
                            mlir::ElementsAttr initial);
  mlir::BlockArgument counter(llvm::StringRef name, unsigned width,
                              int64_t initial = 0);

  StepFunction step;
  LossScalePreset preset;
  GradientOptions options;
  mlir::OpBuilder builder;
  mlir::Location loc;
  llvm::SmallVector<GradientSeedOp> seeds;
  /// Gradients found by collectMarked(), in program order.
  llvm::SmallVector<mlir::Value> marked;
  llvm::SmallVector<OptimizerOpInterface> optimizers;
  llvm::SmallVector<Group> groups;
  /// Loss scale in f32; null without one.
  mlir::Value scale;
  mlir::Value inverse;
  /// Whether all gradients of all groups are finite; null without a check.
  mlir::Value allFinite;
};

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRAINING_LOSSSCALING_H
