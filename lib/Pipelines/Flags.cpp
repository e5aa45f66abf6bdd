//===- Flags.cpp - pipeline options as flags ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses and prints `--mpc-pipeline-<stage>=...`; the flags accept the output
// of printFlags.
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

#include <functional>
#include <limits>
#include <memory>
#include <type_traits>

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

static constexpr std::pair<TrainingPart, llvm::StringLiteral> kParts[] = {
    {TrainingPart::Step, "step"},
    {TrainingPart::ForwardBackward, "forward-backward"},
    {TrainingPart::Apply, "apply"},
    {TrainingPart::Evaluate, "evaluate"}};

StringRef mpc::shardFileName(TrainingPart part) {
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

/// Returns the shortest text that parses back as `value`.
static std::string textOf(double value) {
  SmallString<32> text;
  llvm::APFloat(value).toString(text);
  return text.str().str();
}

std::vector<std::string>
mpc::pairTexts(const std::map<std::string, double> &numbers) {
  std::vector<std::string> texts;
  texts.reserve(numbers.size());
  for (const auto &[name, value] : numbers)
    texts.push_back(name + "=" + textOf(value));
  return texts;
}

//===----------------------------------------------------------------------===//
// Single list of all options
//===----------------------------------------------------------------------===//

/// Calls `visit(flag, description, field)` for each option of a compilation.
template <typename Visit>
static void visitOptions(PipelineOptions &options, Visit visit) {
  visit("policy", "policy name or file", options.policy);
  visit("target", "cpu:LEVEL or cuda:sm_XX", options.target);
  visit("cast-placement", "mincut or propagate", options.castPlacement);
  visit("relaxed", "drop narrow-then-widen pairs inside kernels",
        options.relaxedRounding);
  visit("library-gemms",
        "replace GEMMs by library calls where the epilogue is supported",
        options.libraryGemms);
  visit("schedules", "table of kernel schedules", options.schedules);
  visit("step-loss-scale", "loss scale of a model that is a training step",
        options.stepLossScale);
  visit("part-of-model", "warn of overrides that match no op",
        options.partOfModel);
  visit("set", "overrides KEY=TYPE", options.sets);
}

/// The same for a part of a training step; an optional field is followed by the
/// value that means absent, negative for all of them.
template <typename Visit>
static void visitOptions(TrainingOptions &training, Visit visit) {
  LossOptions &loss = training.loss;
  OptimizerOptions &optimizer = training.optimizer;
  ScheduleOptions &schedule = training.schedule;
  visit("loss", "kind of loss", loss.kind);
  visit("loss-output", "the output that the loss reads", loss.output);
  visit("labels", "classes or dense; of loss output, an input", loss.labels);
  visit("label-smoothing", "share spread over classes", loss.labelSmoothing);
  visit("ignore-index", "class that the loss ignores", loss.ignoreIndex);
  visit("delta", "delta of huber", loss.delta);
  visit("optimizer", "kind of optimizer", optimizer.kind);
  visit("optimizer-form", "torch or keras", optimizer.form);
  visit("optimizer-numbers", "NAME=VALUE", optimizer.numbers);
  visit("weight-decay", "weight decay; negative takes the form's default",
        optimizer.weightDecay, /*absent=*/-1);
  visit("schedule", "constant, step, cosine, linear", schedule.kind);
  visit("learning-rate", "learning rate", schedule.base);
  visit("warmup", "steps of warm-up", schedule.warmup);
  visit("schedule-steps", "steps of the whole schedule", schedule.steps);
  visit("final-rate", "final value of the schedule", schedule.final);
  visit("period", "steps between drops", schedule.period);
  visit("gamma", "factor of a drop", schedule.gamma);
  visit("loss-scale", "PRESET[,field=value...]", training.lossScale);
  visit("clip-norm", "largest global norm; 0 for any", training.clipNorm,
        /*absent=*/0);
  visit("clip-value", "largest magnitude; 0 for any", training.clipValue,
        /*absent=*/0);
  visit("accumulate", "micro steps per update", training.accumulate);
  visit("ranks", "ranks that train together", training.distribution.ranks);
  visit("sync-batch-norm", "batch norms over all ranks",
        training.distribution.syncBatchNorm);
  visit("shard", "none or optimizer: what is sharded over ranks",
        training.distribution.shard);
  visit("network-latency", "seconds of a message",
        training.distribution.latency);
  visit("network-bandwidth", "bytes per second of a message",
        training.distribution.bandwidth);
  visit("dropout", "NAME=PROBABILITY", training.dropout);
  visit("freeze", "parameters left constant", training.freeze);
  visit("trainable", "parameters trained", training.trainable);
  visit("parameters", "inputs that are parameters", training.parameters);
  visit("gradients", "PARAMETER=RESULT of a model that has gradients",
        training.gradients);
  visit("cotangent", "its input that takes the cotangent of the loss-output",
        training.cotangent);
  visit("init-seed",
        "seed of random initial values; negative keeps the model's",
        training.initialSeed, /*absent=*/-1);
  visit("statistics-momentum", "weight of a batch in running statistics",
        training.statisticsMomentum);
}

//===----------------------------------------------------------------------===//
// From flags
//===----------------------------------------------------------------------===//

static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Numbers = std::map<std::string, double>;
using Strings = std::vector<std::string>;

template <typename T>
static void setField(T &field, const T &value, double = 0) {
  field = value;
}
template <typename T, typename Value>
static void setField(std::optional<T> &field, Value value, double absent) {
  if (value != absent && (value >= 0 || !(absent < 0)))
    field = T(value);
}
static void setField(TargetInfo &field, const std::string &value, double) {
  field = TargetInfo::parse(value).value_or(TargetInfo());
}
static void setField(NamedPolicy &field, const std::string &value, double) {
  field = NamedPolicy(value);
}
/// A text that is not a pair becomes NaN; the pass reports it.
static void setField(Numbers &field, const Strings &texts) {
  for (StringRef text : texts) {
    auto [name, digits] = text.rsplit('=');
    double value = 0;
    if (digits.getAsDouble(value))
      value = kNan;
    field[name.str()] = value;
  }
}

/// Flag type of a field of type T.
template <typename T> struct FlagOf {
  using Type = T;
};
template <typename T> struct FlagOf<std::optional<T>> : FlagOf<T> {};
template <> struct FlagOf<uint64_t> : FlagOf<int64_t> {};
template <> struct FlagOf<TargetInfo> : FlagOf<std::string> {};
template <> struct FlagOf<NamedPolicy> : FlagOf<std::string> {};

namespace {

/// PipelineOptions as flags of `--mpc-pipeline-<stage>`; omitted flags keep the
/// defaults.
struct StageFlags : PassPipelineOptions<StageFlags> {
  StageFlags() {
    PipelineOptions options;
    add(options, compile);
    TrainingOptions training;
    add(training, step);
  }

  Option<std::string> part{
      *this, "training",
      llvm::cl::desc("step, forward-backward, apply or evaluate; empty "
                     "compiles the model itself"),
      llvm::cl::init("")};
  /// Target as given, valid or not.
  std::string target() const {
    return targetFlag->hasValue() ? targetFlag->getValue()
                                  : TargetInfo().name();
  }

  std::optional<TrainingOptions> getTraining() const {
    std::optional<TrainingPart> kind = parsePart(part);
    if (!kind)
      return std::nullopt;
    TrainingOptions training;
    training.part = *kind;
    read(training, step);
    return training;
  }

  PipelineOptions get() const {
    PipelineOptions options;
    read(options, compile);
    options.training = getTraining();
    return options;
  }

private:
  /// Each holds the flag of one field, and sets that field.
  using Readers = std::vector<std::function<void(void *)>>;

  template <typename Options> void add(Options &options, Readers &readers) {
    visitOptions(options, [&]<typename T>(StringRef flag, StringRef text, T &,
                                          double absent = kNan) {
      if constexpr (std::is_same_v<T, Numbers> || std::is_same_v<T, Strings>) {
        auto list = std::make_shared<ListOption<std::string>>(
            *this, flag, llvm::cl::desc(text));
        readers.push_back([list](void *field) {
          setField(*static_cast<T *>(field),
                   Strings(list->begin(), list->end()));
        });
      } else {
        using Value = typename FlagOf<T>::Type;
        auto option =
            std::make_shared<Option<Value>>(*this, flag, llvm::cl::desc(text));
        if constexpr (std::is_same_v<T, TargetInfo>)
          targetFlag = option.get();
        readers.push_back([option, absent](void *field) {
          if (option->hasValue())
            setField(*static_cast<T *>(field), option->getValue(), absent);
        });
      }
    });
  }

  template <typename Options>
  static void read(Options &options, const Readers &readers) {
    auto reader = readers.begin();
    visitOptions(options, [&](StringRef, StringRef, auto &field, double = 0) {
      (*reader++)(&field);
    });
  }

  Readers compile, step;
  const Option<std::string> *targetFlag = nullptr;
};

} // namespace

//===----------------------------------------------------------------------===//
// To flags
//===----------------------------------------------------------------------===//

static std::string textOf(const std::string &value) { return value; }
static std::string textOf(bool value) { return value ? "true" : "false"; }
static std::string textOf(int64_t value) { return std::to_string(value); }
static std::string textOf(uint64_t value) { return std::to_string(value); }
static std::string textOf(const TargetInfo &value) { return value.name(); }
static std::string textOf(const NamedPolicy &value) { return value.name(); }
static std::string textOf(const Strings &value) {
  return llvm::join(value, ",");
}
static std::string textOf(const Numbers &value) {
  return textOf(pairTexts(value));
}
template <typename T> static std::string textOf(const std::optional<T> &value) {
  return value ? textOf(*value) : "";
}

/// Appends the first `always` flags and all with non-default values.
template <typename Options>
static void printOptions(Options options, size_t always, Strings &flags) {
  Options defaults;
  Strings absent;
  visitOptions(defaults, [&](StringRef, StringRef, auto &field, double = 0) {
    absent.push_back(textOf(field));
  });
  size_t number = 0;
  visitOptions(options,
               [&](StringRef flag, StringRef, auto &field, double = 0) {
                 std::string text = textOf(field);
                 if (number < always || text != absent[number])
                   flags.push_back((flag + "=" + text).str());
                 ++number;
               });
}

std::string mpc::printFlags(const PipelineOptions &options) {
  Strings flags;
  printOptions(options, /*always=*/2, flags);
  if (options.training) {
    flags.push_back("training=" + shardFileName(options.training->part).str());
    printOptions(*options.training, /*always=*/0, flags);
  }
  return llvm::join(flags, " ");
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
          // The pass reports an unknown target before the stage runs.
          pm.addPass(createSetTargetPass({flags.target()}));
          build(pm, flags.get());
        });
}
