//===- Pipelines.cpp - compilation stages ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One function per stage; comments explain the ordering constraints.
//
//===----------------------------------------------------------------------===//

#include "mpc/Pipelines/Pipelines.h"

#include "Flags.h"

#include "mpc/Analysis/GatedMatmulColumns.h"
#include "mpc/Analysis/QuantizedWeightStorage.h"
#include "mpc/Dialect/Exe/Transforms/Passes.h"
#include "mpc/Dialect/Mpc/Training/Passes.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"
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

/// Returns true if the part runs the model in training mode: dropout, batch
/// statistics.
static bool trains(const TrainingOptions &training) {
  return training.part == TrainingPart::Step ||
         training.part == TrainingPart::ForwardBackward;
}

/// Converts to the list type of pass options.
static SmallVector<std::string> list(ArrayRef<std::string> texts) {
  return SmallVector<std::string>(texts);
}

static SmallVector<std::string> list(ArrayRef<StringLiteral> texts) {
  return SmallVector<std::string>(texts.begin(), texts.end());
}

/// Weights become arguments; dropout is restored.
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

/// Returns the loss scale of a step that chooses none: f16 products and
/// messages of gradients need one.
static std::string defaultLossScale(const PipelineOptions &options) {
  return options.policy->getCompute() == PolicyType::Float16 ||
                 options.policy->getGradientWire() == PolicyType::Float16
             ? "dynamic"
             : "none";
}

/// Returns the loss scale of an imported training step, if any.
static std::string stepLossScale(const PipelineOptions &options) {
  if (options.training)
    return "none";
  if (!options.stepLossScale.empty())
    return options.stepLossScale;
  return defaultLossScale(options);
}

/// Returns true if the backward pass of an imported training step matters: its
/// loss is scaled, or gradients are quantized in a type of their own.
static bool needsBackward(const PipelineOptions &options) {
  return !options.training && (stepLossScale(options) != "none" ||
                               options.policy->quantizesOperands());
}

/// Static shapes, folded shape arithmetic, recognized composites.
static void buildSimplify(OpPassManager &pm, const PipelineOptions &options) {
  OpPassManager &func = pm.nest<func::FuncOp>();
  // Canonicalization folds the constants from which cotangents start.
  if (needsBackward(options))
    func.addPass(createDetectBackwardPass());
  func.addPass(createCanonicalizerPass());
  // Folding turns dequantized weights into floats, which gradients need.
  if (!options.training) {
    bool integers = options.target.kernels().multipliesIntegers;
    // Integer matmuls match quantized values at their operands.
    if (integers)
      func.addPass(createSinkDequantizationPass());
    func.addPass(createRecognizeQuantizedMatmulsPass({integers}));
    // Evaluate weight sums shared by several matmuls once.
    func.addPass(createCSEPass());
  }
  // Exporters compute masks and scales by nodes, but the patterns below match
  // constants.
  addFoldConstants(func, options);
  func.addPass(createCSEPass());
  // Innermost first: attention contains a softmax.
  func.addPass(createRecognizeSoftmaxPass());
  func.addPass(createRecognizeLayerNormPass());
  func.addPass(createRecognizeGeluPass());
  func.addPass(createRecognizeAttentionPass());
  // Without row fusion, a top_k and a scatter need fewer passes over the row.
  if (options.target.kernels().fusesSiblings)
    func.addPass(createRecognizeExpertRoutingPass());
  func.addPass(createFoldBatchNormPass());
  // Folding batch norms leaves arithmetic on weights.
  addFoldConstants(func, options);
  func.addPass(createCanonicalizerPass());
  // Nothing is left between attention and the concats of its keys.
  func.addPass(createSplitAttentionPass());
  func.addPass(createCSEPass());
  addVerifier(func, "simplify");
}

/// The loss, its gradients, and the parameter updates.
static void buildDifferentiate(OpPassManager &pm,
                               const PipelineOptions &options) {
  const TrainingOptions training = options.training.value_or(TrainingOptions());
  OpPassManager &func = pm.nest<func::FuncOp>();
  // Otherwise every step would concatenate the parameters.
  if (trains(training) && options.target.kernels().concatenatesParameters) {
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
  // Other targets have a kernel per time step, which derivatives of single ops
  // fit; and policies of other systems type the time steps of a trained layer.
  if (trains(training)) {
    DifferentiatePassOptions differentiate;
    differentiate.splitRecurrent =
        options.target.kernels().hasPersistentRecurrence &&
        options.policy->getAlgorithm() == PolicyAlgorithm::MinimumCut;
    differentiate.gradients = list(training.gradients);
    differentiate.cotangent = training.cotangent;
    differentiate.output = training.loss.output;
    func.addPass(createDifferentiatePass(differentiate));
  }
  if (training.part != TrainingPart::Evaluate) {
    AttachOptimizerPassOptions attach;
    attach.part = shardFileName(training.part).str();
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
  addVerifier(func, "differentiate");
}

/// Quantizes constants of contractions to the policy's weight format, and
/// operands of contractions by its recipe.
static void buildWeights(OpPassManager &pm, const PipelineOptions &options) {
  // Before types are assigned, so that the float64 run of this graph is the
  // reference for the typed one.
  OpPassManager &func = pm.nest<func::FuncOp>();
  if (options.policy->narrowsWeights()) {
    QuantizeWeightsPassOptions narrow;
    narrow.policy = options.policy;
    narrow.sets.assign(options.sets.begin(), options.sets.end());
    func.addPass(createQuantizeWeightsPass(narrow));
  }
  if (options.policy->quantizesOperands()) {
    QuantizeOperandsPassOptions quantize;
    quantize.policy = options.policy;
    quantize.sets.assign(options.sets.begin(), options.sets.end());
    if (options.training)
      quantize.ranks = options.training->distribution.ranks;
    func.addPass(createQuantizeOperandsPass(quantize));
    // Scales of constants are known.
    addFoldConstants(func, options);
    func.addPass(createCSEPass());
  }
  if (options.policy->narrowsWeights() || options.policy->quantizesOperands())
    addVerifier(func, "simplify");
}

/// Every value gets its storage type, every op its compute and accumulate type.
static void buildPrecision(OpPassManager &pm, const PipelineOptions &options) {
  AssignPrecisionPassOptions assign;
  assign.policy = options.policy;
  assign.sets.assign(options.sets.begin(), options.sets.end());
  assign.partOfModel = options.partOfModel;
  assign.castPlacement = options.castPlacement;
  assign.libraryProducts = options.libraryGemms;
  // Overrides apply to the whole module.
  pm.addPass(createAssignPrecisionPass(assign));
  OpPassManager &func = pm.nest<func::FuncOp>();
  func.addPass(createCSEPass());
  func.addPass(createMultiplyFloat8Pass());
  addVerifier(func, "precision");
  // Types determine which parameters are read in 16 bits.
  if (options.training)
    func.addPass(createCopyParametersPass());
  // For an imported training step; a part of a step has its own stage.
  if (needsBackward(options))
    pm.addPass(createScaleLossPass({.lossScale = stepLossScale(options)}));
}

/// Gradients are averaged over all ranks.
static void buildDistribute(OpPassManager &pm, const PipelineOptions &options) {
  const TrainingOptions training = options.training.value_or(TrainingOptions());
  const DistributionOptions &distribution = training.distribution;
  // Single-rank steps are unaffected.
  if (distribution.ranks == 1)
    return;
  OpPassManager &func = pm.nest<func::FuncOp>();
  // Statistics that are equal on all ranks need no averaging.
  if (distribution.syncBatchNorm)
    func.addPass(createSyncBatchNormPass({distribution.ranks}));
  DistributePassOptions distribute;
  distribute.ranks = distribution.ranks;
  distribute.latency = distribution.latency;
  distribute.bandwidth = distribution.bandwidth;
  if (std::optional<PolicyType> wire = options.policy->getGradientWire())
    distribute.wire = stringify(*wire);
  func.addPass(createDistributePass(distribute));
  // After messages are formed in gradient order.
  if (distribution.shard != "none")
    func.addPass(
        createShardOptimizerPass({distribution.ranks, distribution.shard}));
  addVerifier(func, "distribute");
}

/// Scales the loss, checks gradients and predicates updates.
static void buildLossScale(OpPassManager &pm, const PipelineOptions &options) {
  const TrainingOptions training = options.training.value_or(TrainingOptions());
  ScaleLossPassOptions scale;
  scale.lossScale = training.lossScale;
  // A function of updates only does not show the types of the backward pass.
  if (scale.lossScale.empty())
    scale.lossScale = defaultLossScale(options);
  scale.clipNorm = training.clipNorm.value_or(0);
  scale.clipValue = training.clipValue.value_or(0);
  scale.accumulate = training.accumulate;
  pm.addPass(createScaleLossPass(scale));
  OpPassManager &func = pm.nest<func::FuncOp>();
  func.addPass(createCanonicalizerPass());
  func.addPass(createCSEPass());
  addVerifier(func, "loss-scale");
}

/// Pads contractions to the tile sizes of the target's matrix units.
static void buildPad(OpPassManager &pm, const PipelineOptions &options) {
  OpPassManager &func = pm.nest<func::FuncOp>();
  // After precision, since types determine the multiples; before layout, while
  // weights are still matrices. The input GEMM of a recurrent layer is padded
  // as well.
  func.addPass(createSplitRecurrentPass());
  func.addPass(createPadContractionsPass());
  func.addPass(createCSEPass());
  addVerifier(func, "pad");
}

/// Decomposes unsupported composites, assigns channels-last layout and packs
/// constants.
static void buildLayout(OpPassManager &pm, const PipelineOptions &options) {
  OpPassManager &func = pm.nest<func::FuncOp>();
  const KernelCapabilities &kernels = options.target.kernels();
  DecomposePassOptions decompose;
  decompose.keep = list(kernels.composites);
  func.addPass(createDecomposePass(decompose));
  addFoldConstants(func, options);
  func.addPass(createCanonicalizerPass());
  func.addPass(createCSEPass());
  // A rank owns whole segments of the global batch.
  constexpr int64_t kSegments = 8;
  if (options.training && trains(*options.training) &&
      options.target.facts().isReproducible)
    if (int64_t ranks = options.training->distribution.ranks;
        kSegments % ranks == 0)
      func.addPass(createSegmentBatchSumsPass({kSegments / ranks}));
  // The layout pass sinks the slices of merged matmuls.
  func.addPass(createMergeContractionsPass());
  func.addPass(createAssignLayoutPass());
  // Transposed weights become constants before they are packed.
  addFoldConstants(func, options);
  func.addPass(createCanonicalizerPass());
  func.addPass(createCSEPass());
  // The slices of the halves are final from here on. Library epilogues cannot
  // combine two accumulators.
  if (int64_t block = GatedMatmulColumns::blockFor(kernels);
      block && !options.libraryGemms)
    func.addPass(createFuseGatedMatmulsPass({block}));
  if (kernels.panelColumns) {
    PackConstantsPassOptions pack;
    pack.columns = kernels.panelColumns;
    if (const MathUnit *unit = options.target.unit(MathType::BFloat16))
      pack.bf16Depth = unit->depth;
    if (const MathUnit *unit = options.target.unit(MathType::Int8)) {
      pack.int8Depth = unit->depth;
      // Matrix tiles multiply 8-bit integers of any signedness.
      if (unit->tiles.count)
        pack.otherInt8Depth = unit->depth;
    }
    if (const MathUnit *unit = options.target.unit(MathType::Float16))
      pack.f16Depth = unit->depth;
    func.addPass(createPackConstantsPass(pack));
    // Stores all constants quantized by the policy in low precision, and other
    // constants of memory-bound GEMMs.
    CompressPanelsPassOptions narrow;
    constexpr int64_t kMostRows = 8, kMostByteRows = 64;
    // The number of rows must not decide how a reproducible GEMM multiplies.
    bool isReproducible = options.target.facts().isReproducible;
    if (!options.policy->narrowsWeights() &&
        !options.policy->quantizesOperands() && !isReproducible) {
      narrow.mostRows = kMostRows;
      narrow.mostByteRows = kMostByteRows;
    }
    if (const MathUnit *unit = options.target.unit(MathType::Int8);
        unit && unit->depth == 4 && !isReproducible)
      narrow.int8Depth = unit->depth;
    func.addPass(createCompressPanelsPass(narrow));
    func.addPass(createCompressTablesPass());
    func.addPass(createCSEPass());
  } else if (dequantizesMatrices(options.target) && !options.libraryGemms) {
    // Library GEMMs need unpacked operands.
    func.addPass(createCompressMatricesPass());
    func.addPass(createCompressTablesPass());
    func.addPass(createCSEPass());
  }
  addVerifier(func, "layout");
}

/// Every op becomes part of a region that becomes one kernel.
static void buildFuse(OpPassManager &pm, const PipelineOptions &options) {
  OpPassManager &func = pm.nest<func::FuncOp>();
  addFusionPasses(func);
  const KernelCapabilities &kernels = options.target.kernels();
  if (!kernels.decomposedComposites.empty()) {
    std::vector<StringLiteral> closed = kernels.composites;
    llvm::erase_if(closed, [&](StringRef name) {
      return llvm::is_contained(kernels.decomposedComposites, name);
    });
    DecomposePassOptions decompose;
    decompose.keep = list(closed);
    func.addPass(createDecomposePass(decompose));
  }
  // Only inside fusions does dropping a rounding not change values in memory.
  if (options.relaxedRounding)
    func.addPass(createRelaxRoundingPass());
  if (options.libraryGemms)
    func.addPass(createSplitLibraryGemmsPass());
  // After grouping, which assumes the plain order.
  if (kernels.choosesFilterLayouts)
    func.addPass(createChooseFilterLayoutsPass());
  if (kernels.panelColumns)
    func.addPass(createPackOperandsPass());
  func.addPass(createCSEPass());
  // No pass moves ops between fusions from here on, and a fused launch reads
  // the operands of its parts.
  func.addPass(createAddIndexChecksPass());
  // Grids depend on the final kernels. Library GEMMs are separate calls.
  if (kernels.fusesSiblings && !options.libraryGemms)
    func.addPass(createFuseLaunchesPass());
  addVerifier(func, "fuse");
}

/// Buffers with offsets in one arena, and an ordered list of launches.
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
    {"weights", "Quantized weights according to the policy", buildWeights},
    {"precision", "Storage, compute and accumulate types by policy",
     buildPrecision},
    // Types determine the wire format; flags, norms and clipping use the
    // averaged gradients.
    {"distribute", "Gradients all-reduced over ranks", buildDistribute,
     /*training=*/true},
    {"loss-scale", "Scaled loss, checked gradients, predicated updates",
     buildLossScale, /*training=*/true},
    {"pad", "Contractions padded for the target's matrix units, if profitable",
     buildPad},
    {"layout", "Data layout per value, constants packed for the target",
     buildLayout},
    {"fuse", "Fused regions, one per kernel", buildFuse},
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
