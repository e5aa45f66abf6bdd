//===- Pipelines.cpp - the stages of a compilation ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each stage is one function; a comment stands above every ordering constraint.
//
//===----------------------------------------------------------------------===//

#include "mpc/Pipelines/Pipelines.h"

#include "Flags.h"

#include "mpc/Analysis/PairedColumns.h"
#include "mpc/Analysis/WeightStorage.h"
#include "mpc/Dialect/Exe/Transforms/Passes.h"
#include "mpc/Dialect/Mpc/Training/Passes.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/Policy/Policy.h"
#include "mpc/Target/CPU/Passes.h"
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

/// Whether the part of a step runs the model with the behaviour that it has in
/// training: dropout, batch statistics.
static bool trains(const TrainingOptions &training) {
  return training.part == TrainingPart::Step ||
         training.part == TrainingPart::ForwardBackward;
}

/// As passes' options hold lists.
static SmallVector<std::string> list(ArrayRef<std::string> texts) {
  return SmallVector<std::string>(texts);
}

static SmallVector<std::string> list(ArrayRef<StringLiteral> texts) {
  return SmallVector<std::string>(texts.begin(), texts.end());
}

/// Weights are arguments, dropouts are back in the model.
static void buildLift(OpPassManager &pm, const PipelineOptions &options) {
  const TrainingOptions training = options.training.value_or(TrainingOptions());
  OpPassManager &func = pm.nest<func::FuncOp>();
  LiftParametersPassOptions lift;
  lift.freeze = list(training.freeze);
  lift.trainable = list(training.trainable);
  lift.parameters = list(training.parameters);
  lift.statistics = trains(training);
  lift.momentum = training.statisticsMomentum;
  lift.constants = training.gradients.empty();
  if (training.initialSeed)
    lift.seed = int64_t(*training.initialSeed);
  func.addPass(createLiftParametersPass(lift));
  if (trains(training) && !training.dropout.empty()) {
    InsertDropoutPassOptions dropout;
    dropout.at = list(pairTexts(training.dropout));
    func.addPass(createInsertDropoutPass(dropout));
  }
  addVerifier(func, "lift");
}

/// Whether the policy multiplies in f16, or sends gradients so, which needs a
/// loss scale.
static bool multipliesHalves(const PipelineOptions &options) {
  llvm::Expected<Policy> policy = Policy::load(options.policy);
  if (policy)
    return policy->getCompute() == PolicyType::Float16 ||
           policy->getGradientWire() == PolicyType::Float16;
  // The precision stage says why.
  llvm::consumeError(policy.takeError());
  return false;
}

/// The policy's type of gradients in messages; empty where each goes as it is
/// stored.
static std::string gradientWire(const PipelineOptions &options) {
  llvm::Expected<Policy> policy = Policy::load(options.policy);
  if (policy)
    return policy->getGradientWire()
               ? stringify(*policy->getGradientWire()).str()
               : "";
  llvm::consumeError(policy.takeError());
  return "";
}

/// The loss scale of a model that is a whole step, where there may be one.
static std::string stepLossScale(const PipelineOptions &options) {
  if (options.training)
    return "none";
  if (!options.stepLossScale.empty())
    return options.stepLossScale;
  return multipliesHalves(options) ? "dynamic" : "none";
}

/// Static shapes, folded shape arithmetic, composites recognised.
static void buildSimplify(OpPassManager &pm, const PipelineOptions &options) {
  OpPassManager &func = pm.nest<func::FuncOp>();
  // Canonicalization multiplies the constants at which cotangents begin into
  // others.
  if (stepLossScale(options) != "none")
    func.addPass(createFindGradientsPass());
  func.addPass(createCanonicalizerPass());
  // Folding makes floats of weights that are dequantised. Gradients want those.
  if (options.target.kernels().multipliesIntegers && !options.training) {
    // Products look for bytes at their operands.
    func.addPass(createSinkDequantizationPass());
    func.addPass(createRecognizeIntegerProductsPass());
    // Sums of weights that several products share are evaluated once.
    func.addPass(createCSEPass());
  }
  // Exporters compute masks and scales by nodes: the patterns below match
  // constants.
  addFoldConstants(func, options);
  func.addPass(createCSEPass());
  // Innermost first: attention contains a softmax.
  func.addPass(createRecognizeSoftmaxPass());
  func.addPass(createRecognizeLayerNormPass());
  func.addPass(createRecognizeGeluPass());
  func.addPass(createRecognizeAttentionPass());
  // Where rows are not joined, a top_k and a scatter are fewer walks.
  if (options.target.kernels().joinsSiblings)
    func.addPass(createRecognizeRoutingPass());
  func.addPass(createFoldBatchNormPass());
  // Folding batch norms leaves arithmetic on weights.
  addFoldConstants(func, options);
  func.addPass(createCanonicalizerPass());
  // Nothing stands any more between attention and what its keys are joined of.
  func.addPass(createSplitAttentionPass());
  func.addPass(createCSEPass());
  addVerifier(func, "simplify");
}

/// Whether the policy is that of another system. One that cannot be read is the
/// precision stage's to tell of.
static bool imitates(const PipelineOptions &options) {
  llvm::Expected<Policy> policy = Policy::load(options.policy);
  if (policy)
    return policy->getAlgorithm() != PolicyAlgorithm::MinimumCut;
  llvm::consumeError(policy.takeError());
  return false;
}

/// The loss, its gradients, and what the optimizer makes of them.
static void buildDifferentiate(OpPassManager &pm,
                               const PipelineOptions &options) {
  const TrainingOptions training = options.training.value_or(TrainingOptions());
  OpPassManager &func = pm.nest<func::FuncOp>();
  // Else they would be copied together in every step.
  if (trains(training) && options.target.kernels().joinsParameters) {
    MergeContractionsPassOptions merge;
    merge.parameters = true;
    func.addPass(createMergeContractionsPass(merge));
  }
  if (training.part != TrainingPart::Apply) {
    AttachLossPassOptions loss;
    loss.loss = training.loss.kind;
    loss.output = training.loss.output;
    loss.labels = training.loss.labels;
    loss.labelSmoothing = training.loss.labelSmoothing;
    if (training.loss.ignoreIndex)
      loss.ignoreIndex = std::to_string(*training.loss.ignoreIndex);
    loss.delta = training.loss.delta;
    loss.bypass = training.gradients.empty();
    func.addPass(createAttachLossPass(loss));
  }
  // Elsewhere the steps of a recurrent layer are kernels of their own, which
  // derivatives of single ops fit; and what policies of other systems say of a
  // layer that learns, they say of its steps.
  if (trains(training)) {
    DifferentiatePassOptions differentiate;
    differentiate.splitRecurrent =
        options.target.kernels().keepsStates && !imitates(options);
    differentiate.gradients = list(training.gradients);
    differentiate.cotangent = training.cotangent;
    differentiate.output = training.loss.output;
    func.addPass(createDifferentiatePass(differentiate));
  }
  if (training.part != TrainingPart::Evaluate) {
    AttachOptimizerPassOptions attach;
    attach.part = partName(training.part).str();
    attach.optimizer = training.optimizer.kind;
    attach.form = training.optimizer.form;
    attach.numbers = list(pairTexts(training.optimizer.numbers));
    attach.weightDecay = training.optimizer.weightDecay.value_or(-1);
    attach.learningRate = training.schedule.base;
    attach.schedule = training.schedule.kind;
    attach.warmup = training.schedule.warmup;
    attach.steps = training.schedule.steps;
    attach.finalRate = training.schedule.final;
    attach.period = training.schedule.period;
    attach.gamma = training.schedule.gamma;
    func.addPass(createAttachOptimizerPass(attach));
  }
  func.addPass(createCanonicalizerPass());
  func.addPass(createCSEPass());
  // Constants that derivatives repeat are one after CSE; ops on them may be.
  if (trains(training))
    func.addPass(createShareRepeatedOpsPass());
  addVerifier(func, "differentiate");
}

/// Whether the policy stores weights narrow. A policy that cannot be read is
/// the precision stage's to tell of.
static bool narrowsWeights(const PipelineOptions &options) {
  llvm::Expected<Policy> policy = Policy::load(options.policy);
  if (policy)
    return policy->narrowsWeights();
  llvm::consumeError(policy.takeError());
  return false;
}

/// Constants of contractions hold what the policy's weights do.
static void buildWeights(OpPassManager &pm, const PipelineOptions &options) {
  // Before types are assigned, so that the graph in float64 is the reference of
  // what the types do to it.
  if (!narrowsWeights(options))
    return;
  OpPassManager &func = pm.nest<func::FuncOp>();
  NarrowWeightsPassOptions narrow;
  narrow.policy = options.policy;
  narrow.sets.assign(options.sets.begin(), options.sets.end());
  func.addPass(createNarrowWeightsPass(narrow));
  addVerifier(func, "simplify");
}

/// Every value gets its storage type, every op its compute and accumulate type.
static void buildPrecision(OpPassManager &pm, const PipelineOptions &options) {
  AssignPrecisionPassOptions assign;
  assign.policy = options.policy;
  assign.sets.assign(options.sets.begin(), options.sets.end());
  assign.castPlacement = options.castPlacement;
  assign.libraryProducts = options.libraryGemms;
  // Overrides speak of the module.
  pm.addPass(createAssignPrecisionPass(assign));
  OpPassManager &func = pm.nest<func::FuncOp>();
  func.addPass(createCSEPass());
  addVerifier(func, "precision");
  // Types say which parameters are read in 16 bits.
  if (options.training)
    func.addPass(createCopyParametersPass());
  // Of a model that is a step itself; a part of a step has a stage for this.
  std::string scale = stepLossScale(options);
  if (scale != "none")
    pm.addPass(createScaleLossPass({.lossScale = scale}));
}

/// Gradients are means over all ranks.
static void buildDistribute(OpPassManager &pm, const PipelineOptions &options) {
  const TrainingOptions training = options.training.value_or(TrainingOptions());
  const DistributionOptions &distribution = training.distribution;
  // The step of one rank is what it is without this stage.
  if (distribution.ranks == 1)
    return;
  OpPassManager &func = pm.nest<func::FuncOp>();
  // Statistics that all ranks have alike need no mean.
  if (distribution.syncBatchNorm)
    func.addPass(createSyncBatchNormPass({distribution.ranks}));
  DistributePassOptions distribute;
  distribute.ranks = distribution.ranks;
  distribute.latency = distribution.latency;
  distribute.bandwidth = distribution.bandwidth;
  distribute.wire = gradientWire(options);
  func.addPass(createDistributePass(distribute));
  // Messages are those that the gradients' order asks for.
  if (distribution.shard != "none")
    func.addPass(
        createShardOptimizerPass({distribution.ranks, distribution.shard}));
  addVerifier(func, "distribute");
}

/// The loss is scaled, gradients are checked, steps are predicated.
static void buildLossScale(OpPassManager &pm, const PipelineOptions &options) {
  const TrainingOptions training = options.training.value_or(TrainingOptions());
  ScaleLossPassOptions scale;
  scale.lossScale = training.lossScale;
  // A function of updates alone does not show the types of the backward pass.
  if (scale.lossScale.empty())
    scale.lossScale = multipliesHalves(options) ? "dynamic" : "none";
  scale.clipNorm = training.clipNorm.value_or(0);
  scale.clipValue = training.clipValue.value_or(0);
  scale.accumulate = training.accumulate;
  pm.addPass(createScaleLossPass(scale));
  OpPassManager &func = pm.nest<func::FuncOp>();
  func.addPass(createCanonicalizerPass());
  func.addPass(createCSEPass());
  addVerifier(func, "loss-scale");
}

/// Contractions have the extents that the target's matrix units want.
static void buildPad(OpPassManager &pm, const PipelineOptions &options) {
  OpPassManager &func = pm.nest<func::FuncOp>();
  // Types decide the multiples, so precision comes before; weights are padded
  // where they are still matrices, before layout.
  // The input's product of a recurrent layer is one of those that are padded.
  func.addPass(createSplitRecurrentPass());
  func.addPass(createPadContractionsPass());
  func.addPass(createCSEPass());
  addVerifier(func, "pad");
}

/// Composites that the target does not run are decomposed; images are channels
/// last and constants in tile layout.
static void buildLayout(OpPassManager &pm, const PipelineOptions &options) {
  OpPassManager &func = pm.nest<func::FuncOp>();
  const KernelModel &kernels = options.target.kernels();
  DecomposePassOptions decompose;
  decompose.keep = list(kernels.composites);
  func.addPass(createDecomposePass(decompose));
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
  // What hands out the halves stays as it is from here on. A library has no
  // epilogue that meets two sums.
  if (int64_t block = PairedColumns::blockFor(kernels);
      block && !options.libraryGemms)
    func.addPass(createPairContractionsPass({block}));
  if (kernels.panelColumns) {
    PackConstantsPassOptions pack;
    pack.columns = kernels.panelColumns;
    if (const MathUnit *unit = options.target.unit(MathType::BFloat16))
      pack.bf16Depth = unit->depth;
    if (const MathUnit *unit = options.target.unit(MathType::Int8)) {
      pack.int8Depth = unit->depth;
      // Tiles multiply bytes of any signs.
      if (unit->tiles.count)
        pack.otherInt8Depth = unit->depth;
    }
    if (const MathUnit *unit = options.target.unit(MathType::Float16))
      pack.f16Depth = unit->depth;
    func.addPass(createPackConstantsPass(pack));
    // Of what a policy rounded all is stored narrow, of other constants what
    // makes products wait for memory.
    NarrowPanelsPassOptions narrow;
    constexpr int64_t kMostRows = 8;
    narrow.mostRows = narrowsWeights(options) ? 0 : kMostRows;
    if (const MathUnit *unit = options.target.unit(MathType::Int8);
        unit && unit->depth == 4)
      narrow.int8Depth = unit->depth;
    func.addPass(createNarrowPanelsPass(narrow));
    func.addPass(createCSEPass());
  } else if (unpacksMatrices(options.target) && !options.libraryGemms) {
    // A library reads what it multiplies.
    func.addPass(createNarrowMatricesPass());
    func.addPass(createCSEPass());
  }
  addVerifier(func, "layout");
}

/// Every op ends in a region that becomes one kernel.
static void buildFuse(OpPassManager &pm, const PipelineOptions &options) {
  OpPassManager &func = pm.nest<func::FuncOp>();
  addFusionPasses(func);
  const KernelModel &kernels = options.target.kernels();
  if (!kernels.openComposites.empty()) {
    std::vector<StringLiteral> closed = kernels.composites;
    llvm::erase_if(closed, [&](StringRef name) {
      return llvm::is_contained(kernels.openComposites, name);
    });
    DecomposePassOptions decompose;
    decompose.keep = list(closed);
    func.addPass(createDecomposePass(decompose));
  }
  // Only inside fusions is a dropped rounding no change of what memory holds.
  if (options.relaxedRounding)
    func.addPass(createRelaxRoundingPass());
  if (options.libraryGemms)
    func.addPass(createSplitProductsPass());
  // The fuser has seen the plain order.
  if (kernels.storesFilters)
    func.addPass(createStoreFiltersPass());
  if (kernels.panelColumns)
    func.addPass(createPackOperandsPass());
  func.addPass(createCSEPass());
  // Nothing moves an op between fusions from here on, and a joint fusion reads
  // what its parts do.
  func.addPass(createAttachIndexChecksPass());
  // Grids follow from what kernels have become. A library's products are calls
  // of their own.
  if (kernels.joinsSiblings && !options.libraryGemms)
    func.addPass(createJoinLaunchesPass());
  addVerifier(func, "fuse");
}

/// Buffers with offsets in one arena, an ordered list of launches.
static void buildPlan(OpPassManager &pm, const PipelineOptions &options) {
  pm.addPass(createPlanPass());
  // Kernels and their buffers are known only now.
  if (options.libraryGemms)
    pm.addPass(createSelectGemmsPass());
  if (!options.schedules.empty())
    pm.addPass(createApplySchedulesPass({options.schedules}));
}

static constexpr Stage kStages[] = {
    {"lift", "Weights and running statistics as arguments of a training step",
     buildLift, /*training=*/true},
    {"simplify", "Static shapes, folded constants, recognised composites",
     buildSimplify},
    {"differentiate", "A loss, its gradients and the optimizer's updates",
     buildDifferentiate, /*training=*/true},
    {"weights", "Weights in the form in which the policy stores them",
     buildWeights},
    {"precision", "Storage, compute and accumulate types by policy",
     buildPrecision},
    // Types say what goes over the wire; flags, norms and clipping are of
    // means.
    {"distribute", "Gradients averaged over ranks", buildDistribute,
     /*training=*/true},
    {"loss-scale", "Scaled loss, checked gradients, predicated updates",
     buildLossScale, /*training=*/true},
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
    if (stage.runsFor(options))
      stage.build(pm, options);
    if (stage.name == last)
      return;
  }
}
