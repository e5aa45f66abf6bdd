//===- TrainFlags.cpp - flags of training ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Train.h"

#include "HelpFormatter.h"

#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

using namespace mpc;
using namespace mpc::tool;

//===----------------------------------------------------------------------===//
// KIND[,field=value...]
//===----------------------------------------------------------------------===//

namespace {

/// A kind and its fields from a flag.
struct KindText {
  std::string kind;
  std::vector<std::pair<std::string, std::string>> fields;
};

} // namespace

static Status badFlag(const std::string &flag, const std::string &text) {
  return Status(StatusCode::InvalidArgument, flag, text);
}

static Result<KindText> splitKind(const std::string &flag,
                                  const std::string &text) {
  KindText result;
  size_t at = text.find(',');
  result.kind = text.substr(0, at);
  while (at != std::string::npos) {
    size_t next = text.find(',', at + 1);
    std::string part =
        text.substr(at + 1, next == std::string::npos ? next : next - at - 1);
    std::string key, value;
    if (!splitPair(part, key, value))
      return badFlag(flag, "'" + part + "' is not FIELD=VALUE");
    result.fields.emplace_back(key, value);
    at = next;
  }
  return result;
}

static std::optional<double> parseDouble(const std::string &text) {
  double value = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() ||
      !std::isfinite(value))
    return std::nullopt;
  return value;
}

using FieldSetters =
    std::map<std::string, std::function<bool(const std::string &)>>;

/// Applies each field by its setter, which returns whether the value is valid.
static Status setFields(const std::string &flag, const KindText &text,
                        const FieldSetters &setters) {
  for (const auto &[key, value] : text.fields) {
    auto setter = setters.find(key);
    if (setter == setters.end()) {
      std::string known;
      for (const auto &entry : setters)
        known += (known.empty() ? "" : ", ") + entry.first;
      return badFlag(flag, "'" + key + "' is not a field of " + text.kind +
                               "; it has " + known);
    }
    if (!setter->second(value))
      return badFlag(flag, "'" + value + "' is not a value of " + key);
  }
  return {};
}

static std::function<bool(const std::string &)> number(double &field) {
  return [&field](const std::string &text) {
    std::optional<double> value = parseDouble(text);
    field = value.value_or(field);
    return value.has_value();
  };
}

/// Setter of an integer of at least `least`.
static std::function<bool(const std::string &)> integer(int64_t &field,
                                                        int64_t least = 0) {
  return [&field, least](const std::string &text) {
    auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), field);
    return error == std::errc() && end == text.data() + text.size() &&
           field >= least;
  };
}

static std::function<bool(const std::string &)> word(std::string &field) {
  return [&field](const std::string &text) {
    field = text;
    return true;
  };
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

static Status setLoss(const std::string &text, LossOptions &loss) {
  Result<KindText> split = splitKind("--loss", text);
  if (!split.ok())
    return split.status();
  loss.kind = split->kind;
  // Labels are classes or dense; for the model's own loss, the name of an
  // input.
  FieldSetters setters = {{"output", word(loss.output)},
                          {"labels", word(loss.labels)}};
  if (loss.kind.ends_with("cross_entropy"))
    setters["label_smoothing"] = number(loss.labelSmoothing);
  if (loss.kind == "softmax_cross_entropy")
    setters["ignore_index"] = [&](const std::string &value) {
      return integer(loss.ignoreIndex.emplace(),
                     std::numeric_limits<int64_t>::min())(value);
    };
  if (loss.kind == "huber")
    setters["delta"] = number(loss.delta);
  return setFields("--loss", *split, setters);
}

static Status setOptimizer(const std::string &text,
                           OptimizerOptions &optimizer) {
  Result<KindText> split = splitKind("--optimizer", text);
  if (!split.ok())
    return split.status();
  optimizer.kind = split->kind;
  // The optimizers validate their own hyperparameters.
  for (const auto &[key, value] : split->fields) {
    std::optional<double> parsed = parseDouble(value);
    if (key == "form")
      optimizer.form = value;
    else if (parsed)
      optimizer.numbers[key] = *parsed;
    else
      return badFlag("--optimizer",
                     "'" + value + "' is not a number for " + key);
  }
  return {};
}

static Status setSchedule(const std::string &text, ScheduleOptions &schedule) {
  Result<KindText> split = splitKind("--schedule", text);
  if (!split.ok())
    return split.status();
  schedule.kind = split->kind;
  FieldSetters setters = {{"warmup", integer(schedule.warmup)}};
  if (schedule.kind == "cosine" || schedule.kind == "linear") {
    setters["steps"] = integer(schedule.steps);
    setters["final"] = number(schedule.final);
  } else if (schedule.kind == "step") {
    setters["period"] = integer(schedule.period);
    setters["gamma"] = number(schedule.gamma);
  }
  return setFields("--schedule", *split, setters);
}

Result<TrainingOptions> tool::makeTrainingOptions(const TrainingFlags &flags) {
  TrainingOptions options;
  if (Status status = setLoss(flags.loss, options.loss); !status.ok())
    return status;
  if (Status status = setOptimizer(flags.optimizer, options.optimizer);
      !status.ok())
    return status;
  if (Status status = setSchedule(flags.schedule, options.schedule);
      !status.ok())
    return status;
  options.schedule.base = flags.rate;
  options.optimizer.weightDecay = flags.weightDecay;
  options.clipNorm = flags.clipNorm;
  options.clipValue = flags.clipValue;
  options.accumulate = flags.accumulate;
  options.distribution.syncBatchNorm = flags.syncBatchNorm;
  options.distribution.shard = flags.shard;
  options.lossScale = flags.lossScale;
  options.freeze = flags.freeze;
  options.trainable = flags.trainable;
  options.parameters = flags.parameters;
  if (flags.init != "file") {
    int64_t seed = 0;
    if (!integer(seed)(flags.init))
      return badFlag("--init",
                     "'" + flags.init + "' is neither a file nor a seed");
    options.initialSeed = uint64_t(seed);
  }
  for (const std::string &text : flags.dropout) {
    std::string name, value;
    std::optional<double> probability;
    if (splitPair(text, name, value))
      probability = parseDouble(value);
    if (!probability || *probability < 0 || *probability >= 1)
      return badFlag("--dropout",
                     "'" + text + "' is not NAME=P with P in [0, 1)");
    options.dropout[name] = *probability;
  }
  return options;
}

//===----------------------------------------------------------------------===//
// Flags
//===----------------------------------------------------------------------===//

/// Validates KIND; the rest after the first comma is free.
static CLI::Validator kindOf(const std::vector<std::string> &kinds) {
  return CLI::Validator(
      [kinds](std::string &text) {
        std::string kind = text.substr(0, text.find(',')), known;
        for (const std::string &name : kinds) {
          if (kind == name)
            return std::string();
          known += (known.empty() ? "" : ", ") + name;
        }
        return "'" + kind + "' is not one of " + known;
      },
      "KIND[,field=value...]");
}

/// Fields after the kind of a flag, for help.
static constexpr const char *kKind = "KIND,...";

void tool::addTrainingFlags(CLI::App &command, TrainingFlags &flags) {
  command
      .add_option(
          "--loss", flags.loss,
          "loss and its fields. softmax_cross_entropy, sigmoid_cross_entropy, "
          "mean_squared_error, mean_absolute_error, huber, or output for a "
          "model that computes its loss; fields: output, labels, "
          "label_smoothing, ignore_index, delta")
      ->check(kindOf({"softmax_cross_entropy", "sigmoid_cross_entropy",
                      "mean_squared_error", "mean_absolute_error", "huber",
                      "output"}))
      ->option_text(kKind)
      ->capture_default_str();
  command
      .add_option("--optimizer", flags.optimizer,
                  "sgd, adam, adamw, rmsprop or adagrad. Fields: its "
                  "hyperparameters (momentum, beta1, epsilon, ...) and "
                  "form=torch or keras")
      ->check(kindOf({"sgd", "adam", "adamw", "rmsprop", "adagrad"}))
      ->option_text(kKind)
      ->capture_default_str();
  command.add_option("--lr", flags.rate, "learning rate")
      ->check(atLeastZero())
      ->capture_default_str();
  command
      .add_option("--schedule", flags.schedule,
                  "constant, step, cosine or linear. Fields: warmup, steps, "
                  "final, period, gamma, in updates (default length: that of "
                  "the training)")
      ->check(kindOf({"constant", "step", "cosine", "linear"}))
      ->option_text(kKind)
      ->capture_default_str();
  command
      .add_option("--weight-decay", flags.weightDecay,
                  "weight decay; decoupled for adamw")
      ->check(atLeastZero());
  command
      .add_option("--clip-norm", flags.clipNorm,
                  "largest global norm of the gradients")
      ->check(positiveNumber());
  command
      .add_option("--accumulate", flags.accumulate,
                  "batches averaged into one update. The mean of their "
                  "gradients is applied")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20))
      ->capture_default_str();
  command
      .add_option("--loss-scale", flags.lossScale,
                  "preset and its fields. dynamic, torch, keras3, tf_keras, "
                  "apex, static=N or none (default: dynamic for policies that "
                  "compute in float16, else none)")
      ->option_text(kKind);
  auto more = [](CLI::Option *option) { return option->group(kMoreGroup); };
  more(command.add_option("--clip-value", flags.clipValue,
                          "largest magnitude of a gradient's elements"))
      ->check(positiveNumber());
  more(command.add_flag(
      "--sync-batch-norm", flags.syncBatchNorm,
      "normalize with the batch statistics of all ranks (SyncBN)"));
  more(command.add_option("--shard", flags.shard,
                          "none, or optimizer: each rank stores and updates a "
                          "shard of the float32 parameters and optimizer "
                          "states (ZeRO-1)"))
      ->check(CLI::IsMember({"none", "optimizer"}))
      ->capture_default_str();
  more(command.add_option(
           "--init", flags.init,
           "file of initial parameters, or a seed for random ones"))
      ->option_text("FILE|N")
      ->capture_default_str();
  more(addList(command, "--dropout", flags.dropout,
               "insert dropout after that op or value"))
      ->option_text("NAME=P");
  more(addList(command, "--freeze", flags.freeze,
               "weight, by name or regular expression, that is not trained"))
      ->option_text("NAME");
  more(addList(command, "--trainable", flags.trainable,
               "train only this weight, by name or regular expression "
               "(default: the parameters of the model, not its buffers)"))
      ->option_text("NAME");
  more(addList(command, "--parameters", flags.parameters,
               "input, by name or regular expression, that is a parameter"))
      ->option_text("NAME");
}

void tool::addTrainFlags(CLI::App &command, TrainArguments &arguments) {
  addModelOptions(command, arguments.common);
  addInputOption(command, arguments.common,
                 "initial values of --parameters, FILE.npz or NAME=FILE.npy. "
                 "Repeatable");
  command.get_option("--json")->description("print JSON lines on stdout");
  command.get_option("--seed")->description(
      "seed of the order of examples and of dropout");
  command.get_option("--batch")->description(
      "examples in a batch (default: the model's)");
  command
      .add_option(
          "--data", arguments.data,
          "folder or file of examples. A folder with idx files (plain or .gz) "
          "of MNIST's names, or with train.npz and test.npz; FILE.npz with "
          "x_train, y_train, x_test, y_test; or tokens: FILE.npy, FILE.bin (16 "
          "bits each), or a folder with train and test in these formats")
      ->option_text("PATH")
      ->group(kModelGroup)
      ->required();
  addTrainingFlags(command, arguments.step);
  command.add_option("--epochs", arguments.epochs, "passes over the data")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 30))
      ->capture_default_str();
  command
      .add_option("--steps", arguments.steps,
                  "stop after this many updates. Those before a resume count")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 40));
  command
      .add_option("--checkpoint", arguments.checkpoint,
                  "folder of checkpoints, written after each epoch. And when "
                  "training is interrupted")
      ->option_text("DIR")
      ->group(kOutputGroup);
  command
      .add_flag("--resume", arguments.resume,
                "continue from the newest intact checkpoint")
      ->needs("--checkpoint");
  command
      .add_option("--export", arguments.exported,
                  "file for the model with the trained weights (.onnx)")
      ->option_text("FILE")
      ->group(kOutputGroup);
  auto more = [](CLI::Option *option) { return option->group(kMoreGroup); };
  more(command.add_option("--normalize", arguments.normalize,
                          "unit (bytes to [0, 1]), standard (mean 0, deviation "
                          "1), none, or MEAN/DEVIATION of the unit range"))
      ->option_text("HOW")
      ->capture_default_str();
  more(command.add_flag("--in-order", arguments.inOrder,
                        "do not shuffle the examples"));
  more(command.add_option("--patience", arguments.patience,
                          "stop after this many epochs without a lower test "
                          "loss (early stopping)"))
      ->check(CLI::Range(int64_t(0), int64_t(1) << 30));
  more(command.add_option("--log-every", arguments.logEvery,
                          "updates between two log lines"))
      ->check(CLI::Range(int64_t(1), int64_t(1) << 30))
      ->capture_default_str();
  more(command.add_option("--checkpoint-every", arguments.checkpointEvery,
                          "also write a checkpoint every this many updates"))
      ->check(CLI::Range(int64_t(0), int64_t(1) << 40))
      ->needs("--checkpoint");
  more(command.add_option("--tensorboard", arguments.tensorboard,
                          "folder that receives an event file for "
                          "TensorBoard"))
      ->option_text("DIR");
  more(command.add_option("--html", arguments.html,
                          "report to write, as an HTML page: the curves, and "
                          "the step's graph, drawn by Graphviz"))
      ->option_text("FILE");
  more(command.add_option("--rank-timeout", arguments.rankTimeout,
                          "seconds that a rank waits for another before all "
                          "ranks stop"))
      ->check(positiveNumber())
      ->capture_default_str();
  more(command.add_option("--trace", arguments.trace,
                          "FILE.json that receives a trace of a multi-rank "
                          "step, for Perfetto"))
      ->option_text("FILE");
  command.add_option("--relay", arguments.relay,
                     "DESCRIPTOR,RANK,RANKS: a socket to the process that "
                     "communicates for this rank, such as python -m mpc.train");
  hideFlags(command, {"--step-loss-scale", "--relay", "--target"});
  for (const char *flag : {"--rounding", "--reproducible", "--input"})
    command.get_option(flag)->group(kMoreGroup);
}
