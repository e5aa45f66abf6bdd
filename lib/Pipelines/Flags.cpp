//===- Flags.cpp - pipeline options as flags ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `--mpc-pipeline-<stage>=...` and back: what printFlags writes, the flags
// read.
//
//===----------------------------------------------------------------------===//

#include "Flags.h"

#include "mpc/Dialect/Exe/Transforms/Passes.h"
#include "mpc/Pipelines/Pipelines.h"
#include "mpc/Pipelines/TrainingFlags.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <limits>

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Texts
//===----------------------------------------------------------------------===//

static constexpr std::pair<TrainingPart, llvm::StringLiteral> kParts[] = {
    {TrainingPart::Step, "step"},
    {TrainingPart::ForwardBackward, "forward-backward"},
    {TrainingPart::Apply, "apply"},
    {TrainingPart::Evaluate, "evaluate"}};

StringRef mpc::partName(TrainingPart part) {
  for (auto &[known, name] : kParts)
    if (known == part)
      return name;
  return {};
}

std::optional<TrainingPart> mpc::parsePart(StringRef name) {
  for (auto &[part, known] : kParts)
    if (known == name)
      return part;
  return std::nullopt;
}

std::string mpc::exactText(double value) {
  SmallString<32> text;
  llvm::APFloat(value).toString(text);
  return text.str().str();
}

static std::vector<std::string>
pairTexts(const std::map<std::string, double> &numbers) {
  std::vector<std::string> texts;
  for (const auto &[name, value] : numbers)
    texts.push_back(name + "=" + exactText(value));
  return texts;
}

std::vector<std::string> mpc::dropoutTexts(const TrainingOptions &training) {
  return pairTexts(training.dropout);
}

std::vector<std::string> mpc::numberTexts(const TrainingOptions &training) {
  return pairTexts(training.optimizer.numbers);
}

//===----------------------------------------------------------------------===//
// Flags
//===----------------------------------------------------------------------===//

namespace {

/// PipelineOptions as flags of `--mpc-pipeline-<stage>`. Negative numbers stand
/// for absent ones where nothing negative makes sense.
struct StageFlags : PassPipelineOptions<StageFlags> {
  Option<std::string> policy{*this, "policy",
                             llvm::cl::desc("policy name or file"),
                             llvm::cl::init("float32")};
  ListOption<std::string> sets{*this, "set",
                               llvm::cl::desc("overrides KEY=TYPE")};
  Option<std::string> target{*this, "target",
                             llvm::cl::desc("cpu:LEVEL or cuda:sm_XX"),
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

  Option<std::string> part{
      *this, "training",
      llvm::cl::desc("step, forward-backward, apply or evaluate; empty "
                     "compiles the model itself"),
      llvm::cl::init("")};
  Option<std::string> loss{*this, "loss", llvm::cl::desc("kind of loss"),
                           llvm::cl::init(LossOptions().kind)};
  Option<std::string> lossOutput{*this, "loss-output",
                                 llvm::cl::desc("the output that is judged"),
                                 llvm::cl::init("")};
  Option<std::string> labels{
      *this, "labels", llvm::cl::desc("classes or dense"), llvm::cl::init("")};
  Option<double> labelSmoothing{*this, "label-smoothing",
                                llvm::cl::desc("share spread over classes"),
                                llvm::cl::init(0.0)};
  Option<int64_t> ignoreIndex{*this, "ignore-index",
                              llvm::cl::desc("class that does not count"),
                              llvm::cl::init(kNoIndex)};
  Option<double> delta{*this, "delta", llvm::cl::desc("delta of huber"),
                       llvm::cl::init(LossOptions().delta)};
  Option<std::string> optimizer{*this, "optimizer",
                                llvm::cl::desc("kind of optimizer"),
                                llvm::cl::init(OptimizerOptions().kind)};
  Option<std::string> form{*this, "optimizer-form",
                           llvm::cl::desc("torch or keras"),
                           llvm::cl::init(OptimizerOptions().form)};
  ListOption<std::string> numbers{*this, "optimizer-numbers",
                                  llvm::cl::desc("NAME=VALUE")};
  Option<double> weightDecay{*this, "weight-decay",
                             llvm::cl::desc("weight decay; negative takes the "
                                            "form's default"),
                             llvm::cl::init(-1.0)};
  Option<std::string> schedule{*this, "schedule",
                               llvm::cl::desc("constant, step, cosine, linear"),
                               llvm::cl::init(ScheduleOptions().kind)};
  Option<double> base{*this, "learning-rate", llvm::cl::desc("learning rate"),
                      llvm::cl::init(ScheduleOptions().base)};
  Option<int64_t> warmup{*this, "warmup", llvm::cl::desc("steps of warm-up"),
                         llvm::cl::init(0)};
  Option<int64_t> steps{*this, "schedule-steps",
                        llvm::cl::desc("steps of the whole schedule"),
                        llvm::cl::init(0)};
  Option<double> finalRate{*this, "final-rate",
                           llvm::cl::desc("where the schedule ends"),
                           llvm::cl::init(0.0)};
  Option<int64_t> period{*this, "period", llvm::cl::desc("steps between drops"),
                         llvm::cl::init(0)};
  Option<double> gamma{*this, "gamma", llvm::cl::desc("factor of a drop"),
                       llvm::cl::init(ScheduleOptions().gamma)};
  Option<std::string> lossScale{*this, "loss-scale",
                                llvm::cl::desc("PRESET[,field=value...]"),
                                llvm::cl::init("")};
  Option<double> clipNorm{*this, "clip-norm",
                          llvm::cl::desc("largest global norm; 0 for any"),
                          llvm::cl::init(0.0)};
  Option<double> clipValue{*this, "clip-value",
                           llvm::cl::desc("largest magnitude; 0 for any"),
                           llvm::cl::init(0.0)};
  Option<int64_t> accumulate{*this, "accumulate",
                             llvm::cl::desc("micro steps per update"),
                             llvm::cl::init(1)};
  ListOption<std::string> dropout{*this, "dropout",
                                  llvm::cl::desc("NAME=PROBABILITY")};
  ListOption<std::string> freeze{*this, "freeze",
                                 llvm::cl::desc("parameters left constant")};
  ListOption<std::string> trainable{*this, "trainable",
                                    llvm::cl::desc("parameters trained")};
  Option<int64_t> seed{*this, "init-seed",
                       llvm::cl::desc("draw initial values from this seed; "
                                      "negative keeps the model's"),
                       llvm::cl::init(-1)};
  Option<double> momentum{
      *this, "statistics-momentum",
      llvm::cl::desc("weight of a batch in running statistics"),
      llvm::cl::init(TrainingOptions().statisticsMomentum)};

  /// What `ignore-index` is where no class is ignored.
  static constexpr int64_t kNoIndex = std::numeric_limits<int64_t>::min();

  std::optional<TrainingOptions> getTraining() const {
    std::optional<TrainingPart> kind = parsePart(part);
    if (!kind)
      return std::nullopt;
    TrainingOptions training;
    training.part = *kind;
    training.loss.kind = loss;
    training.loss.output = lossOutput;
    training.loss.labels = labels;
    training.loss.labelSmoothing = labelSmoothing;
    if (ignoreIndex != kNoIndex)
      training.loss.ignoreIndex = ignoreIndex;
    training.loss.delta = delta;
    training.optimizer.kind = optimizer;
    training.optimizer.form = form;
    readPairs(numbers, training.optimizer.numbers);
    if (weightDecay >= 0)
      training.optimizer.weightDecay = weightDecay;
    training.schedule.kind = schedule;
    training.schedule.base = base;
    training.schedule.warmup = warmup;
    training.schedule.steps = steps;
    training.schedule.final = finalRate;
    training.schedule.period = period;
    training.schedule.gamma = gamma;
    training.lossScale = lossScale;
    if (clipNorm != 0)
      training.clipNorm = clipNorm;
    if (clipValue != 0)
      training.clipValue = clipValue;
    training.accumulate = accumulate;
    readPairs(dropout, training.dropout);
    training.freeze.assign(freeze.begin(), freeze.end());
    training.trainable.assign(trainable.begin(), trainable.end());
    if (seed >= 0)
      training.initialSeed = uint64_t(int64_t(seed));
    training.statisticsMomentum = momentum;
    return training;
  }

  PipelineOptions get() const {
    PipelineOptions options;
    options.castPlacement = castPlacement;
    options.relaxedRounding = relaxed;
    options.libraryGemms = libraryGemms;
    options.policy = policy;
    options.sets.assign(sets.begin(), sets.end());
    options.target = TargetInfo::parse(target).value_or(TargetInfo());
    options.training = getTraining();
    return options;
  }

private:
  /// A text that is no pair reaches the pass, which names it, as NAN.
  static void readPairs(ArrayRef<std::string> texts,
                        std::map<std::string, double> &numbers) {
    for (StringRef text : texts) {
      auto [name, digits] = text.rsplit('=');
      double value = 0;
      if (digits.getAsDouble(value))
        value = std::numeric_limits<double>::quiet_NaN();
      numbers[name.str()] = value;
    }
  }
};

/// Flags joined by blanks.
class FlagPrinter {
public:
  void add(StringRef name, const Twine &value) {
    if (!text.empty())
      text += " ";
    text += (name + "=" + value).str();
  }
  void addIf(bool given, StringRef name, const Twine &value) {
    if (given)
      add(name, value);
  }
  void addText(StringRef name, const std::string &value,
               const std::string &absent = "") {
    addIf(value != absent, name, value);
  }
  void addNumber(StringRef name, double value, double absent) {
    addIf(value != absent, name, exactText(value));
  }
  void addCount(StringRef name, int64_t value, int64_t absent) {
    addIf(value != absent, name, Twine(value));
  }
  void addList(StringRef name, ArrayRef<std::string> values) {
    addIf(!values.empty(), name, llvm::join(values, ","));
  }

  std::string text;
};

} // namespace

static void printTraining(FlagPrinter &flags, const TrainingOptions &training) {
  const TrainingOptions absent;
  const LossOptions &loss = training.loss;
  const OptimizerOptions &optimizer = training.optimizer;
  const ScheduleOptions &schedule = training.schedule;
  flags.add("training", partName(training.part));
  flags.addText("loss", loss.kind, absent.loss.kind);
  flags.addText("loss-output", loss.output);
  flags.addText("labels", loss.labels);
  flags.addNumber("label-smoothing", loss.labelSmoothing, 0);
  if (loss.ignoreIndex)
    flags.add("ignore-index", Twine(*loss.ignoreIndex));
  flags.addNumber("delta", loss.delta, absent.loss.delta);
  flags.addText("optimizer", optimizer.kind, absent.optimizer.kind);
  flags.addText("optimizer-form", optimizer.form, absent.optimizer.form);
  flags.addList("optimizer-numbers", numberTexts(training));
  if (optimizer.weightDecay)
    flags.add("weight-decay", exactText(*optimizer.weightDecay));
  flags.addText("schedule", schedule.kind, absent.schedule.kind);
  flags.addNumber("learning-rate", schedule.base, absent.schedule.base);
  flags.addCount("warmup", schedule.warmup, 0);
  flags.addCount("schedule-steps", schedule.steps, 0);
  flags.addNumber("final-rate", schedule.final, 0);
  flags.addCount("period", schedule.period, 0);
  flags.addNumber("gamma", schedule.gamma, absent.schedule.gamma);
  flags.addText("loss-scale", training.lossScale);
  flags.addNumber("clip-norm", training.clipNorm.value_or(0), 0);
  flags.addNumber("clip-value", training.clipValue.value_or(0), 0);
  flags.addCount("accumulate", training.accumulate, 1);
  flags.addList("dropout", dropoutTexts(training));
  flags.addList("freeze", training.freeze);
  flags.addList("trainable", training.trainable);
  if (training.initialSeed)
    flags.add("init-seed", Twine(*training.initialSeed));
  flags.addNumber("statistics-momentum", training.statisticsMomentum,
                  absent.statisticsMomentum);
}

std::string mpc::printFlags(const PipelineOptions &options) {
  FlagPrinter flags;
  flags.add("policy", options.policy);
  flags.add("target", options.target.name());
  flags.addText("cast-placement", options.castPlacement, "mincut");
  flags.addIf(options.relaxedRounding, "relaxed", "true");
  flags.addIf(options.libraryGemms, "library-gemms", "true");
  flags.addList("set", options.sets);
  if (options.training)
    printTraining(flags, *options.training);
  return flags.text;
}

llvm::Expected<TrainingOptions> mpc::parseTraining(StringRef text) {
  StageFlags flags;
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (failed(flags.parseFromString(("training=" + text).str(), stream)))
    return llvm::createStringError(StringRef(message).rtrim());
  std::optional<TrainingOptions> training = flags.getTraining();
  if (!training)
    return llvm::createStringError("the part of a step is '" +
                                   text.split(' ').first +
                                   "'; use step, forward-backward, apply or "
                                   "evaluate");
  return std::move(*training);
}

void mpc::registerPipelines() {
  for (const Stage &stage : stages())
    PassPipelineRegistration<StageFlags>(
        ("mpc-pipeline-" + stage.name).str(), stage.description,
        [build = stage.build](OpPassManager &pm, const StageFlags &flags) {
          // An unknown target is told by the pass, before the stage runs.
          pm.addPass(createSetTargetPass({flags.target}));
          build(pm, flags.get());
        });
}
