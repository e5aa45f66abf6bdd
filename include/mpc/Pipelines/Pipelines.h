//===- Pipelines.h - the stages of a compilation ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Named stages in order, one builder each. `mpc dump --after STAGE` and
// `mpc-opt --mpc-pipeline-STAGE` run them.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_PIPELINES_PIPELINES_H
#define MPC_PIPELINES_PIPELINES_H

#include "mpc/Target/TargetInfo.h"
#include "mpc/Training/Options.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// What the stages between import and code generation need to know.
struct PipelineOptions {
  /// Name of a built-in policy, or the path of a policy file (.json).
  std::string policy = "float32";
  /// Overrides `KEY=TYPE` (op:, layer:, name:); their order never matters.
  std::vector<std::string> sets;
  /// How free values get their types: `mincut` or `propagate`.
  std::string castPlacement = "mincut";
  /// Whether narrow-then-widen pairs inside a kernel may be dropped.
  bool relaxedRounding = false;
  /// What the module is compiled for; its `exe.target` says the same.
  TargetInfo target;
  /// Whether products go to the library where it has their epilogue (GPUs).
  bool libraryGemms = false;
  /// File of a table of schedules (ScheduleTable); empty: the target chooses.
  std::string schedules;
  /// Largest constant that folding may make, in bytes.
  int64_t maxFoldBytes = int64_t(64) << 20;
  /// Loss scale of a model that is a whole training step itself, as
  /// TrainingOptions::lossScale; empty takes "dynamic" for policies that
  /// compute in f16, else "none". Not read with `training`.
  std::string stepLossScale;
  /// Set: the model becomes this part of a training step.
  std::optional<TrainingOptions> training;
};

/// The flags of `mpc-pipeline-<stage>` that say the same as `options`:
/// "policy=float32 target=cpu:avx512 training=step ...".
std::string printFlags(const PipelineOptions &options);

/// A stage: IR in, IR out, with a contract that `mpc-verify-stage` checks.
struct Stage {
  llvm::StringLiteral name;
  llvm::StringLiteral description;
  /// Adds the stage's passes to a pass manager on builtin.module.
  void (*build)(mlir::OpPassManager &pm, const PipelineOptions &options);
  /// Whether the stage belongs to a training step only.
  bool training = false;

  /// Whether a compile with these options runs the stage.
  bool runsFor(const PipelineOptions &options) const {
    return !training || options.training;
  }
};

/// The stages after import, in order, those of training among them.
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
