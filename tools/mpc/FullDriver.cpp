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
        return text.empty() ? "names no part; use step, forward-backward, "
                              "apply or evaluate"
                            : "";
      },
      "");
}

/// Adds --training; `verb` describes what the command does to the step.
static CLI::Option *addTraining(CLI::App &command, std::string &training,
                                const std::string &verb) {
  return command
      .add_option("--training", training,
                  verb + " a part of a training step: step, forward-backward, "
                         "apply or evaluate, and flags behind it (\"step "
                         "optimizer=sgd\")")
      ->check(aPart());
}

/// Adds --inputs of a command that reads samples; `to` describes their purpose.
static CLI::Option *addSamples(CLI::App &command, SampleFiles &samples,
                               const std::string &to = "") {
  CLI::Option *inputs =
      command
          .add_option("--input,--inputs", samples.inputs,
                      "FILE.npz, a sample, or a folder of samples" + to +
                          "; repeatable")
          ->take_all()
          ->expected(1, 1 << 20)
          ->allow_extra_args(true);
  command.add_flag("--stacked", samples.areStacked,
                   "a file holds a sample for each index of its arrays' first "
                   "dimension");
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
      ->add_option("--input,--inputs", check.inputs,
                   "FILE.npz or NAME=FILE.npy (default: drawn by --seed)")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command->add_option("--expected", check.expected,
                      "FILE.npz to compare the outputs with as well");
  command->add_flag("--per-op", check.perOp,
                    "judge every op in an instrumented compile");
  addTraining(*command, check.training, "judge, from the start,")
      ->excludes("--per-op")
      ->excludes("--expected");
  command
      ->add_option("--save", check.save,
                   "folder that receives inputs.npz, what the step was given, "
                   "and expected.npz, the oracle's answers in float64")
      ->needs("--training");
  command->callback(
      [this] { chosen = [this] { return checkCommand(check); }; });

  command = app.add_subcommand(
      "compile", "compile a model into an .mpcx file for one or more targets");
  addOutputOptions(*command, compile.common);
  compile.common.manyShapes = true;
  addModelOptions(*command, compile.common);
  command->get_option("--target")
      ->description("targets with commas between: cpu:native, cpu:avx2, "
                    "cpu:avx512, cuda:sm_80, cuda:sm_90a, ... (default: "
                    "cpu:native)");
  command->add_option("-o,--output", compile.output, "the .mpcx file to write")
      ->required();
  addTraining(*command, compile.training, "compile");
  command->callback(
      [this] { chosen = [this] { return compileCommand(compile); }; });

  command = app.add_subcommand("explain",
                               "say in which type each op computes, and why");
  addOutputOptions(*command, explain.common);
  addModelOptions(*command, explain.common);
  command->add_option("--why", explain.why,
                      "only the op, input or output of this name: why it has "
                      "its type, and what would change it");
  command->add_flag("--sass", explain.sass,
                    "read the machine code of a GPU's kernels: instructions, "
                    "registers, bytes, and the time that they predict");
  addTraining(*command, explain.training, "explain");
  addSamples(*command, explain.samples,
             ", from which the ranges of values and each op's share of the "
             "error are found")
      ->excludes("--training")
      ->excludes("--why");
  command
      ->add_option("--html", explain.html,
                   "FILE that receives the report as a page: the graph, drawn "
                   "by Graphviz, with every decision, range and share of the "
                   "error")
      ->excludes("--why");
  command->callback(
      [this] { chosen = [this] { return explainCommand(explain); }; });

  command = app.add_subcommand(
      "calibrate", "say how large values become over samples, and what 16-bit "
                   "types would lose of them");
  addOutputOptions(*command, calibrate.common);
  addModelOptions(*command, calibrate.common);
  addSamples(*command, calibrate.samples)->required();
  command->add_option("-o,--output", calibrate.output,
                      "a policy to write (.json): that of --policy with the "
                      "ranges");
  addTraining(*command, calibrate.training, "look at the gradients of");
  command->callback(
      [this] { chosen = [this] { return calibrateCommand(calibrate); }; });

  command = app.add_subcommand(
      "tune", "find the cheapest types that keep a budget of error, and write "
              "them as a policy");
  addOutputOptions(*command, tune.common);
  addModelOptions(*command, tune.common);
  addSamples(*command, tune.samples)->required();
  command
      ->add_option(
          "--budget", tune.budget,
          "what outputs may err against float64: \"rms 1e-3\", \"max "
          "0.01\", \"kl 1e-4\", \"top1 0.1%\" or \"cosine 1e-4\"; or what "
          "the model may "
          "cost beside float32, for the least error: \"time 0.6x\", "
          "\"bytes 0.6x\" or \"memory 0.6x\"")
      ->required();
  command
      ->add_option("--objective", tune.objective,
                   "bytes that kernels move; time, measured where the target's "
                   "code runs here, else by its ceilings; or memory of weights "
                   "and of values between kernels (default: bytes, of what "
                   "takes no longer than the best built-in policy where the "
                   "target's code runs here)")
      ->check(CLI::IsMember({"bytes", "time", "memory"}));
  command
      ->add_option(
          "--types", tune.types,
          "types that products may have: f16, bf16, tf32, and forms of "
          "weights: int16, int8, int4, float8_e4m3fn (default: f16 and bf16, "
          "for time also tf32; as weights int16, int8 and f16 where products "
          "in float32 are as fast)")
      ->delimiter(',');
  command
      ->add_option("--seconds", tune.seconds,
                   "time after which the best so far is taken (default: no "
                   "limit)")
      ->check(CLI::Range(0.0, 1e6))
      ->check(finiteNumber());
  command->add_option("-o,--output", tune.output,
                      "the policy to write (.json)");
  command->add_flag("--resume", tune.resume,
                    "go on from what an earlier, unfinished search with this "
                    "output has measured (OUTPUT.state)");
  command
      ->add_option("--trials", tune.trials,
                   "drawn choices of types to measure beside what first-order "
                   "errors foretell of them")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  addTraining(*command, tune.training, "tune the gradients of");
  command->add_option("--html", tune.html,
                      "FILE that receives the report as a page: the front with "
                      "what was chosen, and the graph, drawn by Graphviz, with "
                      "each op's share of the error");
  command->callback([this] { chosen = [this] { return tuneCommand(tune); }; });

  command = app.add_subcommand(
      "lint", "find what the policy's narrow types would break");
  addOutputOptions(*command, lint.common);
  addModelOptions(*command, lint.common);
  command->callback([this] { chosen = [this] { return lintCommand(lint); }; });

  command = app.add_subcommand(
      "tune-kernels", "measure other schedules of a model's kernels and keep "
                      "those that are faster");
  addOutputOptions(*command, tuneKernels.common);
  addModelOptions(*command, tuneKernels.common);
  command
      ->add_option("--input,--inputs", tuneKernels.inputs,
                   "FILE.npz or NAME=FILE.npy (default: drawn by --seed)")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command
      ->add_option("--seconds", tuneKernels.seconds,
                   "time after which no further schedule is tried")
      ->check(CLI::Range(0.0, 1e6))
      ->check(finiteNumber())
      ->capture_default_str();
  addTraining(*command, tuneKernels.training, "tune");
  command->add_option("-o,--output", tuneKernels.output,
                      "the table to write or add to (default: the one that "
                      "later compiles for this machine read)");
  command->callback(
      [this] { chosen = [this] { return tuneKernelsCommand(tuneKernels); }; });

  command = app.add_subcommand(
      "train", "train a model on labelled examples, in mixed precision");
  addTrainFlags(*command, train);
  command->callback(
      [this] { chosen = [this] { return trainCommand(train); }; });

  command = app.add_subcommand(
      "plan", "say what a training step takes on numbers of ranks, and why");
  addPlanFlags(*command, plan);
  command->callback([this] { chosen = [this] { return planCommand(plan); }; });

  command = app.add_subcommand(
      "generate", "write tokens behind a prompt, by a decoder with a cache");
  addGenerateFlags(*command, generate);
  command->callback(
      [this] { chosen = [this] { return generateCommand(generate); }; });

  declareBench(app);
  addTraining(*app.get_subcommand("bench"), bench.training, "time")
      ->check(whyNoTraining);
  command = app.add_subcommand(
      "devices", "list the devices of this machine and what they do fast");
  addOutputOptions(*command, devices.common);
  command->add_flag("--quick", devices.withoutCeilings,
                    "leave out the ceilings that are measured");
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
                   "dump a part of a training step: step, "
                   "forward-backward, apply or evaluate, and flags of "
                   "mpc-pipeline-lift behind it (\"step optimizer=sgd\")")
      ->check(aPart());
  command->add_flag("--dump-fusion", dump.fusion,
                    "print what shares a kernel with what, and the time that "
                    "the target's model says is saved, instead of IR");
  command->callback([this] { chosen = [this] { return dumpCommand(dump); }; });

  command = app.add_subcommand("passes", "list the stages and their passes");
  addOutputOptions(*command, passes);
  command->callback(
      [this] { chosen = [this] { return passesCommand(passes); }; });
}

std::unique_ptr<Driver> mpc::tool::makeDriver() {
  return std::make_unique<FullDriver>();
}
