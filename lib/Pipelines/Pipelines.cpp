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
#include "mpc/Target/CUDA/Passes.h"

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
  assign.castPlacement = options.castPlacement;
  func.addPass(createAssignPrecisionPass(assign));
  func.addPass(createCSEPass());
  addVerifier(func, "precision");
}

/// Contractions have the extents that the target's matrix units want.
static void buildPad(OpPassManager &pm, const PipelineOptions &options) {
  OpPassManager &func = pm.nest<func::FuncOp>();
  PadContractionsPassOptions pad;
  pad.target = options.target;
  // Types decide the multiples, so precision comes before; weights are padded
  // where they are still matrices, before layout.
  func.addPass(createPadContractionsPass(pad));
  func.addPass(createCSEPass());
  addVerifier(func, "pad");
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
  func.addPass(createMergeContractionsPass());
  func.addPass(createAssignLayoutPass());
  // Transposed weights become constants before they are packed.
  addFoldConstants(func, options);
  func.addPass(createCanonicalizerPass());
  func.addPass(createCSEPass());
  // Panels are what the CPU's micro-kernels read; matrix units of a GPU load
  // rows.
  auto [kind, isa] = StringRef(options.target).split(':');
  if (kind == "cpu") {
    PackConstantsPassOptions pack;
    pack.columns = CpuTarget::parse(isa).value_or(CpuTarget()).blockColumns();
    func.addPass(createPackConstantsPass(pack));
    func.addPass(createCSEPass());
  }
  addVerifier(func, "layout");
}

/// Every op ends in a region that becomes one kernel.
static void buildFuse(OpPassManager &pm, const PipelineOptions &options) {
  OpPassManager &func = pm.nest<func::FuncOp>();
  FusePassOptions fuse;
  fuse.target = options.target;
  func.addPass(createFusePass(fuse));
  // Only inside fusions is a dropped rounding no change of what memory holds.
  if (options.relaxedRounding)
    func.addPass(createRelaxRoundingPass());
  // Filters in the order of the kernels' loads; the fuser has seen the plain
  // one.
  if (StringRef(options.target).starts_with("cuda"))
    func.addPass(createStoreFiltersPass());
  func.addPass(createCSEPass());
  addVerifier(func, "fuse");
}

/// Buffers with offsets in one arena, an ordered list of launches.
static void buildPlan(OpPassManager &pm, const PipelineOptions &options) {
  PlanPassOptions plan;
  plan.target = options.target;
  pm.addPass(createPlanPass(plan));
  // Kernels and their buffers are known only now.
  if (options.libraryGemms)
    pm.addPass(createSelectGemmsPass());
}

static constexpr Stage kStages[] = {
    {"simplify", "Static shapes, folded constants, recognised composites",
     buildSimplify},
    {"precision", "Storage, compute and accumulate types by policy",
     buildPrecision},
    {"pad", "Extents that the target's matrix units want, where that pays",
     buildPad},
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
                             llvm::cl::desc("cpu:avx2, cpu:avx512 or "
                                            "cuda:sm_XX"),
                             llvm::cl::init("cpu:avx512")};

  Option<std::string> castPlacement{*this, "cast-placement",
                                    llvm::cl::desc("mincut or propagate"),
                                    llvm::cl::init("mincut")};
  Option<bool> libraryGemms{
      *this, "library-gemms",
      llvm::cl::desc(
          "give products to the library where it has their epilogue"),
      llvm::cl::init(false)};
  Option<bool> relaxed{
      *this, "relaxed",
      llvm::cl::desc("drop narrow-then-widen pairs inside kernels"),
      llvm::cl::init(false)};

  PipelineOptions get() const {
    PipelineOptions options;
    options.castPlacement = castPlacement;
    options.relaxedRounding = relaxed;
    options.libraryGemms = libraryGemms;
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
