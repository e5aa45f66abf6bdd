//===- Pipelines.h - compilation stages -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Named stages in order, one builder each. `mpc dump --after STAGE` and
// `mpc-opt --mpc-pipeline-STAGE` run them.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_PIPELINES_PIPELINES_H
#define MPC_PIPELINES_PIPELINES_H

#include "mpc/Policy/NamedPolicy.h"
#include "mpc/Target/TargetInfo.h"
#include "mpc/Training/Options.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// Options of the stages between import and code generation.
struct PipelineOptions {
  /// A built-in policy, or a policy file. Errors of reading it are reported by
  /// the stages `weights` and `precision`.
  NamedPolicy policy;
  /// Overrides `KEY=TYPE` (op:, layer:, name:); their order never matters.
  std::vector<std::string> sets;
  /// Whether overrides may match no op, with a warning.
  bool partOfModel = false;
  /// Type assignment of unconstrained values: `mincut` or `propagate`.
  std::string castPlacement = "mincut";
  /// Whether narrow-then-widen pairs inside a kernel may be dropped.
  bool relaxedRounding = false;
  /// Compilation target, as in the module's `exe.target`.
  TargetInfo target;
  /// Whether GEMMs are library calls if the library has their epilogue (GPUs).
  bool libraryGemms = false;
  /// Path of a schedule table (ScheduleTable); empty: the target's cost model.
  std::string schedules;
  /// Maximum size of a folded constant, in bytes.
  int64_t maxFoldBytes = int64_t(64) << 20;
  /// Loss scale of an imported training step, as TrainingOptions::lossScale;
  /// empty: "dynamic" for policies that compute in f16, else "none". Ignored
  /// with `training`.
  std::string stepLossScale;
  /// Part of a training step to build; nullopt for inference.
  std::optional<TrainingOptions> training;
};

/// Returns the flags of `mpc-pipeline-<stage>` equivalent to `options`:
/// "policy=float32 target=cpu:avx512 training=step ...".
std::string printFlags(const PipelineOptions &options);

/// A stage: IR in, IR out, with a contract that `mpc-verify-stage` checks.
struct Stage {
  llvm::StringLiteral name;
  llvm::StringLiteral description;
  /// Adds the stage's passes to a pass manager on builtin.module.
  void (*build)(mlir::OpPassManager &pm, const PipelineOptions &options);
  /// Whether the stage is only for training steps.
  bool training = false;

  /// Returns true if a compilation with these options runs the stage.
  bool runsFor(const PipelineOptions &options) const {
    return !training || options.training;
  }
};

/// Returns the stages after import, in order, including those of training.
llvm::ArrayRef<Stage> stages();

/// The stage called `name`, or null.
const Stage *findStage(llvm::StringRef name);

/// Adds every stage that runs for `options` up to and including `last`; `last`
/// must name a stage.
void buildPipeline(mlir::OpPassManager &pm, llvm::StringRef last,
                   const PipelineOptions &options);

/// Registers `mpc-pipeline-<stage>`: the passes of that one stage.
void registerPipelines();

} // namespace mpc

#endif // MPC_PIPELINES_PIPELINES_H
