//===- Pipelines.cpp - the stages of a compilation ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each stage is one function; a comment stands above every ordering constraint.
//
//===----------------------------------------------------------------------===//

#include "mpc/Pipelines/Pipelines.h"

#include "mpc/Dialect/Exe/Transforms/Passes.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/Target/CPU/CpuTarget.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mpc;

static void addVerifier(OpPassManager &func, StringRef stage) {
  VerifyStagePassOptions options;
  options.stage = stage.str();
  func.addPass(createVerifyStagePass(options));
}

static void addFoldConstants(OpPassManager &func,
                             const PipelineOptions &options) {
  FoldConstantsPassOptions fold;
  fold.maxBytes = options.maxFoldBytes;
  func.addPass(createFoldConstantsPass(fold));
}

/// Static shapes, folded shape arithmetic, composites recognised.
static void buildSimplify(OpPassManager &pm, const PipelineOptions &options) {
  OpPassManager &func = pm.nest<func::FuncOp>();
  func.addPass(createCanonicalizerPass());
  // Exporters compute masks and scales by nodes: the patterns below match
  // constants.
  addFoldConstants(func, options);
  func.addPass(createCSEPass());
  // Innermost first: attention contains a softmax.
  func.addPass(createRecognizeSoftmaxPass());
  func.addPass(createRecognizeLayerNormPass());
  func.addPass(createRecognizeGeluPass());
  func.addPass(createRecognizeAttentionPass());
  func.addPass(createFoldBatchNormPass());
  // Folding batch norms leaves arithmetic on weights.
  addFoldConstants(func, options);
  func.addPass(createCanonicalizerPass());
  func.addPass(createCSEPass());
  addVerifier(func, "simplify");
}

/// Every value gets its storage type, every op its compute and accumulate type.
static void buildPrecision(OpPassManager &pm, const PipelineOptions &options) {
  OpPassManager &func = pm.nest<func::FuncOp>();
  AssignPrecisionPassOptions assign;
  assign.policy = options.policy;
  assign.sets.assign(options.sets.begin(), options.sets.end());
  assign.target = options.target;
  func.addPass(createAssignPrecisionPass(assign));
  func.addPass(createCSEPass());
  addVerifier(func, "precision");
}

/// Composites that the target does not run are decomposed; images are channels
/// last and constants in tile layout.
static void buildLayout(OpPassManager &pm, const PipelineOptions &options) {
  OpPassManager &func = pm.nest<func::FuncOp>();
  func.addPass(createDecomposePass());
  addFoldConstants(func, options);
  func.addPass(createCanonicalizerPass());
  func.addPass(createCSEPass());
  // The slices of joint products are what the layout pass moves out of the way.
  func.addPass(createMergeMatmulsPass());
  func.addPass(createAssignLayoutPass());
  // Transposed weights become constants before they are packed.
  addFoldConstants(func, options);
  func.addPass(createCanonicalizerPass());
  func.addPass(createCSEPass());
  PackConstantsPassOptions pack;
  StringRef isa = StringRef(options.target).split(':').second;
  pack.columns = CpuTarget::parse(isa).value_or(CpuTarget()).blockColumns();
  func.addPass(createPackConstantsPass(pack));
  func.addPass(createCSEPass());
  addVerifier(func, "layout");
}

/// Every op ends in a region that becomes one kernel.
static void buildFuse(OpPassManager &pm, const PipelineOptions &) {
  OpPassManager &func = pm.nest<func::FuncOp>();
  func.addPass(createFusePass());
  func.addPass(createCSEPass());
  addVerifier(func, "fuse");
}

/// Buffers with offsets in one arena, an ordered list of launches.
static void buildPlan(OpPassManager &pm, const PipelineOptions &options) {
  PlanPassOptions plan;
  plan.target = options.target;
  pm.addPass(createPlanPass(plan));
}

static constexpr Stage kStages[] = {
    {"simplify", "Static shapes, folded constants, recognised composites",
     buildSimplify},
    {"precision", "Storage, compute and accumulate types by policy",
     buildPrecision},
    {"layout", "Data layout per value, constants packed for the target",
     buildLayout},
    {"fuse", "Regions that become one kernel each", buildFuse},
    {"plan", "One arena and an ordered list of launches", buildPlan},
};

ArrayRef<Stage> mpc::stages() { return kStages; }

const Stage *mpc::findStage(StringRef name) {
  for (const Stage &stage : kStages)
    if (stage.name == name)
      return &stage;
  return nullptr;
}

void mpc::buildPipeline(OpPassManager &pm, StringRef last,
                        const PipelineOptions &options) {
  for (const Stage &stage : kStages) {
    stage.build(pm, options);
    if (stage.name == last)
      return;
  }
}

namespace {
/// PipelineOptions as flags of `--mpc-pipeline-<stage>`.
struct StageFlags : PassPipelineOptions<StageFlags> {
  Option<std::string> policy{*this, "policy",
                             llvm::cl::desc("policy name or file"),
                             llvm::cl::init("float32")};
  ListOption<std::string> sets{*this, "set",
                               llvm::cl::desc("overrides KEY=TYPE")};
  Option<std::string> target{*this, "target",
                             llvm::cl::desc("cpu:avx2 or cpu:avx512"),
                             llvm::cl::init("cpu:avx512")};

  PipelineOptions get() const {
    PipelineOptions options;
    options.policy = policy;
    options.sets.assign(sets.begin(), sets.end());
    options.target = target;
    return options;
  }
};
} // namespace

void mpc::registerPipelines() {
  for (const Stage &stage : kStages)
    PassPipelineRegistration<StageFlags>(
        ("mpc-pipeline-" + stage.name).str(), stage.description,
        [build = stage.build](OpPassManager &pm, const StageFlags &flags) {
          build(pm, flags.get());
        });
}
