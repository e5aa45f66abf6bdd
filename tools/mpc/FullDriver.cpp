//===- FullDriver.cpp - sub-commands of a full build ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Generate.h"
#include "ParallelPlanCommand.h"
#include "Train.h"

#include <CLI/CLI.hpp>

using namespace mpc;
using namespace mpc::tool;

namespace {

/// Arguments of all sub-commands.
class FullDriver : public Driver {
public:
  void declare(CLI::App &app) override;
  std::optional<int> refuse(const std::vector<std::string> &words,
                            const Status &why) override {
    return words.size() > 1 && words[1] == "train" ? refuseTraining(words, why)
                                                   : std::nullopt;
  }

private:
  CommonOptions passes;
  CheckArguments check;
  CompileArguments compile;
  ExplainArguments explain;
  CalibrateArguments calibrate;
  TuneArguments tune;
  LintArguments lint;
  TuneKernelsArguments tuneKernels;
  DevicesArguments devices;
  DumpArguments dump;
  TrainArguments train;
  PlanArguments plan;
  GenerateArguments generate;
};

} // namespace

/// An empty text does not select the model itself.
static CLI::Validator aPart() {
  return CLI::Validator(
      [](const std::string &text) -> std::string {
        return text.empty()
                   ? "is empty; give step, forward-backward, apply or evaluate"
                   : "";
      },
      "");
}

/// Adds --training; `verb` describes what the command does to the step.
static CLI::Option *addTraining(CLI::App &command, std::string &training,
                                const std::string &verb) {
  return command
      .add_option(
          "--training", training,
          verb + " a part of a training step: step, forward-backward, apply or "
                 "evaluate, followed by its flags (\"step optimizer=sgd\")")
      ->check(aPart());
}

/// Adds --inputs of a command that reads samples; `to` describes their purpose.
static CLI::Option *addSamples(CLI::App &command, SampleFiles &samples,
                               const std::string &to = "") {
  CLI::Option *inputs =
      command
          .add_option("--input,--inputs", samples.inputs,
                      "a sample, FILE.npz, or a folder of samples" + to +
                          "; repeatable")
          ->take_all()
          ->expected(1, 1 << 20)
          ->allow_extra_args(true);
  command.add_flag(
      "--stacked", samples.areStacked,
      "the arrays of a file stack samples along their first dimension");
  return inputs;
}

/// Returns why `text` is not a valid training part; empty if it is.
static std::string whyNoTraining(const std::string &text) {
  CompileOptions probe;
  return setTraining(text, probe).text();
}

void FullDriver::declare(CLI::App &app) {
  declareRun(app);
  CLI::App *command = app.add_subcommand(
      "check", "compare the compiled model with the float64 oracle");
  addOutputOptions(*command, check.common);
  addModelOptions(*command, check.common);
  command
      ->add_option(
          "--input,--inputs", check.inputs,
          "FILE.npz or NAME=FILE.npy (default: random values, see --seed)")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command->add_option(
      "--expected", check.expected,
      "FILE.npz with expected outputs, compared in addition to the oracle");
  command->add_flag("--per-op", check.perOp,
                    "check every op, in an instrumented compile");
  addTraining(*command, check.training, "check")
      ->excludes("--per-op")
      ->excludes("--expected");
  command
      ->add_option("--save", check.save,
                   "folder that receives inputs.npz, the inputs of the step, "
                   "and expected.npz, the oracle's results in float64")
      ->needs("--training");
  command->callback(
      [this] { chosen = [this] { return checkCommand(check); }; });

  command = app.add_subcommand(
      "compile", "compile a model into an .mpcx file for one or more targets");
  addOutputOptions(*command, compile.common);
  compile.common.manyShapes = true;
  addModelOptions(*command, compile.common);
  command->get_option("--target")
      ->description("targets, separated by commas: cpu:native, cpu:avx2, "
                    "cpu:avx512, cuda:sm_80, cuda:sm_90a, ... (default: "
                    "cpu:native)");
  command->add_option("-o,--output", compile.output, "the .mpcx file to write")
      ->required();
  addTraining(*command, compile.training, "compile");
  command->callback(
      [this] { chosen = [this] { return compileCommand(compile); }; });

  command = app.add_subcommand(
      "explain", "report the type in which each op computes, and the reason");
  addOutputOptions(*command, explain.common);
  addModelOptions(*command, explain.common);
  command->add_option("--why", explain.why,
                      "only the op, input or output of this name: the reason "
                      "for its type, and what would change it");
  command->add_flag("--sass", explain.sass,
                    "analyze the machine code (SASS) of GPU kernels: "
                    "instructions, registers, bytes and the predicted time");
  addTraining(*command, explain.training, "explain");
  addSamples(*command, explain.samples,
             ", from which the ranges of values and each op's share of the "
             "error are measured")
      ->excludes("--training")
      ->excludes("--why");
  command
      ->add_option(
          "--html", explain.html,
          "FILE that receives the report as an HTML page: the graph, drawn by "
          "Graphviz, with every decision, range and share of the error")
      ->excludes("--why");
  command->callback(
      [this] { chosen = [this] { return explainCommand(explain); }; });

  command = app.add_subcommand("calibrate",
                               "measure the ranges of values over samples, and "
                               "what 16-bit types would lose");
  addOutputOptions(*command, calibrate.common);
  addModelOptions(*command, calibrate.common);
  addSamples(*command, calibrate.samples)->required();
  command->add_option(
      "-o,--output", calibrate.output,
      "the policy to write (.json): that of --policy plus the ranges");
  addTraining(*command, calibrate.training, "calibrate the gradients of");
  command->callback(
      [this] { chosen = [this] { return calibrateCommand(calibrate); }; });

  command =
      app.add_subcommand("tune", "search for the cheapest types within an "
                                 "error budget, and write them as a policy");
  addOutputOptions(*command, tune.common);
  addModelOptions(*command, tune.common);
  addSamples(*command, tune.samples)->required();
  command
      ->add_option(
          "--budget", tune.budget,
          "largest error of the outputs against float64: \"rms 1e-3\", \"max "
          "0.01\", \"kl 1e-4\", \"top1 0.1%\" or \"cosine 1e-4\"; or largest "
          "cost relative to float32, to minimize the error: \"time 0.6x\", "
          "\"bytes 0.6x\" or \"memory 0.6x\"")
      ->required();
  command
      ->add_option(
          "--objective", tune.objective,
          "cost to minimize: bytes that kernels move; time, measured if this "
          "machine runs the target's code, else estimated by its roofline; or "
          "memory of weights and of values between kernels (default: bytes, "
          "without being slower than the best built-in policy if this machine "
          "runs the target's code)")
      ->check(CLI::IsMember({"bytes", "time", "memory"}));
  command
      ->add_option(
          "--types", tune.types,
          "candidate types of matmuls and convolutions: f16, bf16, tf32, and "
          "of quantized weights: int16, int8, int4, float8_e4m3fn (default: "
          "f16 and bf16, for time also tf32; weights in int16, int8 and f16 if "
          "float32 matmuls are as fast)")
      ->delimiter(',');
  command
      ->add_option("--seconds", tune.seconds,
                   "time limit of the search, after which the best result so "
                   "far is used (default: none)")
      ->check(CLI::Range(0.0, 1e6))
      ->check(finiteNumber());
  command->add_option("-o,--output", tune.output,
                      "the policy to write (.json)");
  command->add_flag("--resume", tune.resume,
                    "continue an unfinished search with this output from its "
                    "measurements (OUTPUT.state)");
  command
      ->add_option("--trials", tune.trials,
                   "random type assignments to measure, to compare with the "
                   "first-order error prediction")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  addTraining(*command, tune.training, "tune the gradients of");
  command->add_option("--html", tune.html,
                      "FILE that receives the report as an HTML page: the "
                      "Pareto front with the chosen point, and the graph, "
                      "drawn by Graphviz, with each op's share of the error");
  command->callback([this] { chosen = [this] { return tuneCommand(tune); }; });

  command = app.add_subcommand(
      "lint", "find what the policy's low-precision types would break");
  addOutputOptions(*command, lint.common);
  addModelOptions(*command, lint.common);
  command->callback([this] { chosen = [this] { return lintCommand(lint); }; });

  command = app.add_subcommand(
      "tune-kernels",
      "measure other schedules of a model's kernels and store the faster ones");
  addOutputOptions(*command, tuneKernels.common);
  addModelOptions(*command, tuneKernels.common);
  command
      ->add_option(
          "--input,--inputs", tuneKernels.inputs,
          "FILE.npz or NAME=FILE.npy (default: random values, see --seed)")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command
      ->add_option("--seconds", tuneKernels.seconds,
                   "time limit, after which no further schedule is tried")
      ->check(CLI::Range(0.0, 1e6))
      ->check(finiteNumber())
      ->capture_default_str();
  addTraining(*command, tuneKernels.training, "tune");
  command->add_option("-o,--output", tuneKernels.output,
                      "the schedule table to write or extend (default: the one "
                      "that later compiles on this machine read)");
  command->callback(
      [this] { chosen = [this] { return tuneKernelsCommand(tuneKernels); }; });

  command = app.add_subcommand(
      "train", "train a model on labelled examples, in mixed precision");
  addTrainFlags(*command, train);
  command->callback(
      [this] { chosen = [this] { return trainCommand(train); }; });

  command = app.add_subcommand(
      "plan", "predict the time of a training step on given numbers of ranks");
  addPlanFlags(*command, plan);
  command->callback([this] { chosen = [this] { return planCommand(plan); }; });

  command = app.add_subcommand(
      "generate",
      "generate tokens after a prompt, with a decoder with a KV cache");
  addGenerateFlags(*command, generate);
  command->callback(
      [this] { chosen = [this] { return generateCommand(generate); }; });

  declareBench(app);
  addTraining(*app.get_subcommand("bench"), bench.training, "time")
      ->check(whyNoTraining);
  command = app.add_subcommand(
      "devices", "list the devices of this machine and their fast types");
  addOutputOptions(*command, devices.common);
  command->add_flag("--quick", devices.withoutCeilings,
                    "skip the measured ceilings");
  command->callback(
      [this] { chosen = [this] { return devicesCommand(devices); }; });

  command = app.add_subcommand("dump", "print the IR after a stage");
  command->add_flag("--quiet", dump.common.quiet, "print no warnings");
  addModelOptions(*command, dump.common);
  command
      ->add_option("--after", dump.after,
                   "stage to stop after; `mpc passes` lists them")
      ->capture_default_str();
  command
      ->add_option("--training", dump.training,
                   "dump a part of a training step: step, forward-backward, "
                   "apply or evaluate, followed by flags of mpc-pipeline-lift "
                   "(\"step optimizer=sgd\")")
      ->check(aPart());
  command->add_flag("--dump-fusion", dump.fusion,
                    "print the fusion decisions and the time that each saves "
                    "by the target's cost model, instead of IR");
  command->callback([this] { chosen = [this] { return dumpCommand(dump); }; });

  command = app.add_subcommand("passes", "list the stages and their passes");
  addOutputOptions(*command, passes);
  command->callback(
      [this] { chosen = [this] { return passesCommand(passes); }; });
}

std::unique_ptr<Driver> mpc::tool::makeDriver() {
  return std::make_unique<FullDriver>();
}
