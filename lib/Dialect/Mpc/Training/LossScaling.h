//===- LossScaling.h - scaled losses and predicated steps -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRAINING_LOSSSCALING_H
#define MPC_LIB_DIALECT_MPC_TRAINING_LOSSSCALING_H

#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Training/LossScale.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

/// What is done to gradients beside scaling.
struct GradientOptions {
  /// Largest norm and largest magnitude of unscaled gradients.
  std::optional<double> clipNorm, clipValue;
  /// Micro steps of a window.
  int64_t accumulate = 1;
};

/// Rewrites one function; see the description of mpc-scale-loss.
class LossScaling {
public:
  LossScaling(mlir::func::FuncOp function, const LossScalePreset &preset,
              const GradientOptions &options);

  /// Whether there is something to do: a seed, or an optimizer without flag
  /// and unscale.
  bool applies() const;
  /// Fails with a diagnostic, before anything is changed, where the options do
  /// not fit the function.
  mlir::LogicalResult run();

  int64_t seedCount() const { return seeds.size(); }
  int64_t updateCount() const { return optimizers.size(); }

private:
  /// The optimizers of one step counter.
  struct Group {
    mlir::Value step;
    llvm::SmallVector<OptimizerOpInterface> optimizers;
    /// Their gradients in the order in which the step makes them, and the
    /// names of the parameters they belong to.
    llvm::SmallVector<mlir::Value> gradients;
    llvm::SmallVector<std::string> names;
    /// What all_finite says; null without a check.
    mlir::Value finite, record;
    /// Whether the update happens; null where it always does.
    mlir::Value when;
  };

  void collectGroups();
  mlir::LogicalResult check() const;
  bool accumulatesMicroSteps() const;

  //===--------------------------------------------------------------------===//
  // Parts of the rewrite, in order
  //===--------------------------------------------------------------------===//
  void findScale();
  void scaleSeeds();
  void accumulateReturned();
  void checkGradients(Group &group);
  /// Lets the record of `finite`, the check of sums over ranks, tell what each
  /// rank found in its own gradients too; where a rank has pieces of the sums,
  /// all decide by all pieces (LossScalingRanks.cpp).
  void gatherRecords(Group &group, AllFiniteOp finite);
  /// The value that a rank had before the sum; the gradient itself of one.
  static mlir::Value ownOf(mlir::Value gradient);
  static int64_t ranksOf(const Group &group);
  /// Whether each rank updates a piece of every parameter.
  static bool isSharded(const Group &group);
  void unscaleGradients(Group &group);
  void accumulateMicroSteps(Group &group);
  void resetAccumulators();
  void countSteps(Group &group);
  void updateScale();
  /// How many steps were attempted before this one.
  mlir::Value attemptedSteps(mlir::BlockArgument skipped);
  void recordOverflow();
  void holdStatistics();
  /// The gradients of a backward pass that was found in the model: what is
  /// divided by a seed.
  void collectMarked();
  /// Holds all state where one of them is not finite.
  void holdMarkedStep();
  /// The name of an argument whose new value depends on `gradient`.
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
  /// The gradient in its parameter's type, without the scale.
  mlir::Value unscaled(OptimizerOpInterface optimizer);
  /// The reciprocal of the scale in the preset's way, in f32.
  mlir::Value inverseScale();
  /// The norm of all gradients of a group in the preset's way, in f32.
  mlir::Value globalNorm(const Group &group, mlir::ValueRange gradients,
                         mlir::Value unscale, UnscaleMode mode);
  /// The same of gradients of which each rank has a piece.
  mlir::Value normOfPieces(const Group &group, mlir::ValueRange pieces,
                           mlir::Value unscale, UnscaleMode mode);
  /// The factor that clips gradients of this norm, in f32.
  mlir::Value clipFactor(mlir::Value norm);
  /// True where an f32 is finite.
  mlir::Value isFinite(mlir::Value value);
  /// The argument of a field of the loss scale's state, appended where there
  /// is none.
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
  /// Those that collectMarked() found, in the order of the step.
  llvm::SmallVector<mlir::Value> marked;
  llvm::SmallVector<OptimizerOpInterface> optimizers;
  llvm::SmallVector<Group> groups;
  /// The f32 scale; null without one.
  mlir::Value scale;
  mlir::Value inverse;
  /// Whether all gradients of all groups are finite; null without a check.
  mlir::Value allFinite;
};

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRAINING_LOSSSCALING_H
