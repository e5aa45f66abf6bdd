//===- FullDriver.cpp - sub-commands of a full build ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Generate.h"
#include "HelpFormatter.h"
#include "ParallelPlanCommand.h"
#include "Train.h"

#include "mpc/Policy/Policy.h"

#include "llvm/Config/llvm-config.h"

using namespace mpc;
using namespace mpc::tool;

namespace {

/// Arguments of all sub-commands.
class FullDriver : public Driver {
public:
  void declare(CLI::App &app) override;
  std::string version() const override {
    return "mpc " MPC_VERSION ", LLVM " LLVM_VERSION_STRING;
  }
  std::vector<std::string> policies() const override {
    std::vector<std::string> names = {"auto"};
    for (llvm::StringRef name : Policy::builtinNames())
      names.push_back(name.str());
    return names;
  }
  std::optional<int> refuse(const std::vector<std::string> &words,
                            const Status &why) override {
    return words.size() > 1 && words[1] == "train" ? refuseTraining(words, why)
                                                   : std::nullopt;
  }

private:
  void declareModelCommands(CLI::App &app);
  void declarePrecisionCommands(CLI::App &app);
  void declareTrainingCommands(CLI::App &app);
  void declareCompilerCommands(CLI::App &app);

  CommonOptions passes, policyList;
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
      .add_option("--training", training,
                  verb + " a part of a training step. step, forward-backward, "
                         "apply or evaluate, followed by its flags, those of "
                         "mpc-pipeline-lift (\"step optimizer=sgd\")")
      ->option_text("PART")
      ->check(aPart());
}

/// Adds --inputs of a command that reads samples; `details` describe their
/// purpose.
static CLI::Option *addSamples(CLI::App &command, SampleFiles &samples,
                               const std::string &details = "") {
  CLI::Option *inputs =
      command
          .add_option("--input,--inputs", samples.inputs,
                      "samples, FILE.npz or folders of them. Repeatable" +
                          details)
          ->take_all()
          ->expected(1, 1 << 20)
          ->allow_extra_args(true)
          ->option_text("FILE ...")
          ->group(kModelGroup);
  command
      .add_flag("--stacked", samples.areStacked,
                "a file stacks samples along a first dimension")
      ->group(kModelGroup)
      ->needs(inputs);
  return inputs;
}

/// Adds --html.
static CLI::Option *addHtml(CLI::App &command, std::string &html,
                            const std::string &contents) {
  return command
      .add_option("--html", html,
                  "report to write, as an HTML page. " + contents)
      ->option_text("FILE")
      ->group(kOutputGroup);
}

/// Adds -o.
static CLI::Option *addOutput(CLI::App &command, std::string &output,
                              const std::string &text) {
  return command.add_option("-o,--output", output, text)
      ->option_text("FILE")
      ->check(notEmpty())
      ->group(kOutputGroup);
}

/// Returns why `text` is not a valid training part; empty if it is.
static std::string whyNoTraining(const std::string &text) {
  CompileOptions probe;
  return setTraining(text, probe).text();
}

void FullDriver::declareModelCommands(CLI::App &app) {
  declareRun(app);
  declareBench(app);
  addTraining(*app.get_subcommand("bench"), bench.training, "time")
      ->check(whyNoTraining);

  CLI::App *command = &addCommand(
      app, kModelCommands, "check",
      "compare the compiled model with the float64 oracle", check.common,
      [this] { return checkCommand(check); },
      "mpc check model.onnx --policy mixed_bfloat16 --per-op\n"
      "mpc check model.onnx --input x.npz --expected y.npz");
  addInputOption(*command, check.common);
  addModelOptions(*command, check.common);
  command->get_option("MODEL")->description(kAnyModel);
  command
      ->add_option("--expected", check.expected,
                   "expected outputs, compared in addition to the oracle")
      ->option_text("FILE");
  command
      ->add_option("--against", check.against,
                   "compare SHA-256 digests instead. FILE is the document of "
                   "mpc run --digest --json, from any machine")
      ->option_text("FILE")
      ->excludes("--expected");
  command
      ->add_flag("--per-op", check.perOp,
                 "check every op, in an instrumented compile")
      ->excludes("--against");
  addTraining(*command, check.training, "check")
      ->excludes("--per-op")
      ->excludes("--expected")
      ->excludes("--against");
  command
      ->add_option("--save", check.save,
                   "folder for inputs.npz and expected.npz. The inputs of the "
                   "step, and the oracle's results in float64")
      ->option_text("DIR")
      ->needs("--training");

  compile.common.manyShapes = true;
  command = &addCommand(
      app, kModelCommands, "compile",
      "compile a model into an .mpcx file for one or more targets",
      compile.common, [this] { return compileCommand(compile); },
      "mpc compile model.onnx -o model.mpcx --shape x=1x3x224x224\n"
      "mpc compile model.onnx -o model.mpcx --dim batch=1,8 --target "
      "cuda:sm_90");
  addInputOption(*command, compile.common,
                 "arrays that give shapes, FILE.npz or NAME=FILE.npy. "
                 "Repeatable; an input whose values determine shapes becomes a "
                 "constant");
  addModelOptions(*command, compile.common);
  command->get_option("--target")
      ->description("targets, separated by commas [cpu:native]. cpu:native, "
                    "cpu:avx2, cpu:avx512, cuda:sm_80, cuda:sm_90a, ...");
  addOutput(*command, compile.output, "the .mpcx file to write")->required();
  addTraining(*command, compile.training, "compile");
  command->add_flag("--verify", compile.verify,
                    "prove that the fused program equals the model's graph, "
                    "kernel by kernel; exit code 4 if it does not");
  hideFlags(*command, {"--device", "--isa", "--emulate-units", "--seed"});

  command = &addCommand(
      app, kModelCommands, "generate",
      "generate tokens after a prompt, with a decoder with a KV cache",
      generate.common, [this] { return generateCommand(generate); },
      "mpc generate gpt.onnx --prompt-ids 12,845,9 --tokens 32\n"
      "mpc generate gpt.onnx --prompt-ids p.txt --temperature 0.8 --top-k 40");
  addGenerateFlags(*command, generate);

  command = &addCommand(
      app, kModelCommands, "tune-kernels",
      "time other schedules of kernels, and store the faster ones",
      tuneKernels.common, [this] { return tuneKernelsCommand(tuneKernels); },
      "mpc tune-kernels model.onnx --seconds 300\n"
      "mpc tune-kernels model.onnx --policy bfloat16 -o schedules.json");
  addInputOption(*command, tuneKernels.common);
  addModelOptions(*command, tuneKernels.common);
  command
      ->add_option("--seconds", tuneKernels.seconds,
                   "time limit, after which no further schedule is tried")
      ->check(CLI::Range(0.0, 1e6))
      ->check(finiteNumber())
      ->option_text("X")
      ->capture_default_str();
  addTraining(*command, tuneKernels.training, "tune");
  addOutput(*command, tuneKernels.output,
            "schedule table to write or extend. Default: the one that later "
            "compiles on this machine read");
  hideFlags(*command, {"--schedules", "--target"});
}

void FullDriver::declarePrecisionCommands(CLI::App &app) {
  CLI::App *command = &addCommand(
      app, kPrecisionCommands, "explain",
      "report the type in which each op computes, and the reason",
      explain.common, [this] { return explainCommand(explain); },
      "mpc explain model.onnx --policy mixed_bfloat16\n"
      "mpc explain model.onnx --policy mixed_bfloat16 --why /conv1/Conv");
  addModelOptions(*command, explain.common);
  command
      ->add_option("--why", explain.why,
                   "only the op, input or output of this name. The reason for "
                   "its type, and what would change it")
      ->option_text("NAME");
  command->add_flag("--sass", explain.sass,
                    "analyze the machine code (SASS) of GPU kernels. "
                    "Instructions, registers, bytes and the predicted time");
  addTraining(*command, explain.training, "explain");
  addSamples(*command, explain.samples,
             "; the ranges of values and each op's share of the error are "
             "measured from them")
      ->excludes("--training")
      ->excludes("--why");
  addHtml(*command, explain.html,
          "The graph, drawn by Graphviz, with every decision, range and share "
          "of the error")
      ->excludes("--why");

  command = &addCommand(
      app, kPrecisionCommands, "policies",
      "list the built-in precision policies", policyList,
      [this] { return policiesCommand(policyList); },
      "mpc policies\nmpc policies --json");

  command = &addCommand(
      app, kPrecisionCommands, "lint",
      "find what the policy's low-precision types would break", lint.common,
      [this] { return lintCommand(lint); },
      "mpc lint model.onnx --policy float16\n"
      "mpc lint model.onnx --policy float16 --shape x=1x512 --json");
  addInputOption(*command, lint.common,
                 "arrays that give shapes, FILE.npz or NAME=FILE.npy. "
                 "Repeatable");
  addModelOptions(*command, lint.common);
  hideFlags(*command, {"--device", "--isa", "--emulate-units", "--seed",
                       "--rounding", "--gemm", "--schedules"});

  command = &addCommand(
      app, kPrecisionCommands, "calibrate",
      "measure ranges of values, and what 16-bit types lose of them",
      calibrate.common, [this] { return calibrateCommand(calibrate); },
      "mpc calibrate model.onnx --inputs samples/\n"
      "mpc calibrate model.onnx --inputs samples.npz --stacked -o ranges.json");
  addSamples(*command, calibrate.samples)->required();
  addModelOptions(*command, calibrate.common);
  addOutput(*command, calibrate.output,
            "policy to write (.json): that of --policy plus the ranges");
  addTraining(*command, calibrate.training, "calibrate the gradients of");
  hideFlags(*command,
            {"--device", "--isa", "--emulate-units", "--rounding", "--seed",
             "--gemm", "--schedules", "--cast-placement", "--step-loss-scale"});

  command = &addCommand(
      app, kPrecisionCommands, "tune",
      "search for the cheapest types within an error budget", tune.common,
      [this] { return tuneCommand(tune); },
      "mpc tune model.onnx --inputs samples/ --budget 'rms 1e-3' -o p.json\n"
      "mpc tune decoder/ --text ids.txt --budget 'kl 0.01' -o p.json");
  CLI::Option *samples = addSamples(*command, tune.samples);
  CLI::Option *text =
      command
          ->add_option("--text", tune.text,
                       "token ids of a text, for a decoder. Its next-token "
                       "distributions are compared; numbers in a text file, or "
                       ".npy")
          ->check(notEmpty())
          ->option_text("FILE")
          ->group(kModelGroup)
          ->excludes(samples);
  command
      ->add_option("--window", tune.window,
                   "tokens of the text per run. Without earlier context")
      ->check(CLI::Range(int64_t(2), int64_t(1) << 20))
      ->capture_default_str()
      ->group(kModelGroup)
      ->needs(text);
  command->parse_complete_callback([samples, text] {
    if (samples->empty() && text->empty())
      throw CLI::RequiredError("--inputs, or --text for a decoder,");
  });
  addModelOptions(*command, tune.common);
  command
      ->add_option(
          "--budget", tune.budget,
          "largest error or cost, such as \"rms 1e-3\". Of the outputs against "
          "float64: \"rms 1e-3\", \"max 0.01\", \"kl 1e-4\", \"top1 0.1%\" or "
          "\"cosine 1e-4\"; or cost relative to float32, to minimize the "
          "error: \"time 0.6x\", \"bytes 0.6x\" or \"memory 0.6x\". Of a "
          "text: kl, top1, \"perplexity 1%\" (its rise), bytes, memory, or "
          "\"bits 4.5\" per weight")
      ->option_text("TEXT")
      ->required();
  command
      ->add_option(
          "--objective", tune.objective,
          "cost to minimize (default: bytes, but no slower than a built-in "
          "policy). bytes that kernels move; time, measured if this machine "
          "runs the target's code, else estimated by its roofline; or memory "
          "of weights and of values between kernels")
      ->check(CLI::IsMember({"bytes", "time", "memory"}));
  command
      ->add_option(
          "--types", tune.types,
          "candidate types (default: f16 and bf16). Of matmuls and "
          "convolutions: f16, bf16, tf32; of quantized weights: int16, int8, "
          "int4, float8_e4m3fn; by default for time also tf32, and weights in "
          "int16, int8 and f16 if float32 matmuls are as fast; for a text only "
          "weights in bfloat16, int8 and int4")
      ->option_text("TYPE,...")
      ->delimiter(',');
  command
      ->add_option("--seconds", tune.seconds,
                   "time limit of the search (default: none). The best result "
                   "so far is used")
      ->check(CLI::Range(0.0, 1e6))
      ->check(finiteNumber())
      ->option_text("X");
  addOutput(*command, tune.output, "the policy to write (.json)");
  command->add_flag("--resume", tune.resume,
                    "continue from the measurements of OUTPUT.state");
  command
      ->add_option("--trials", tune.trials,
                   "random type assignments to measure, to compare with the "
                   "first-order error prediction")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str()
      ->group(kMoreGroup);
  addTraining(*command, tune.training, "tune the gradients of")->excludes(text);
  addHtml(*command, tune.html,
          "The Pareto front with the chosen point, and the graph, drawn by "
          "Graphviz, with each op's share of the error");
  hideFlags(*command, {"--policy"});
}

void FullDriver::declareTrainingCommands(CLI::App &app) {
  addTrainFlags(
      addCommand(
          app, kTrainingCommands, "train",
          "train a model on labelled examples, in mixed precision",
          train.common, [this] { return trainCommand(train); },
          "mpc train model.onnx --data mnist/ --policy mixed_bfloat16 "
          "--epochs 3\n"
          "mpc train model.onnx --data d.npz --checkpoint ck --export "
          "out.onnx"),
      train);
  addPlanFlags(
      addCommand(
          app, kTrainingCommands, "plan",
          "predict the time of a training step on given numbers of ranks",
          plan.common, [this] { return planCommand(plan); },
          "mpc plan model.onnx --ranks 8,64 --network nvlink+ib400 "
          "--batch 4096\n"
          "mpc plan model.onnx --ranks 2,4 --network host --batch-per-rank 32"),
      plan);
}

void FullDriver::declareCompilerCommands(CLI::App &app) {
  CLI::App *command = &addCommand(
      app, kCompilerCommands, "dump", "print the IR after a stage", dump.common,
      [this] { return dumpCommand(dump); },
      "mpc dump model.onnx --after precision --policy mixed_bfloat16\n"
      "mpc dump model.onnx --after plan --target cuda:sm_90");
  addInputOption(*command, dump.common,
                 "arrays that give shapes, FILE.npz or NAME=FILE.npy. "
                 "Repeatable");
  addModelOptions(*command, dump.common);
  command
      ->add_option("--after", dump.after,
                   "stage to stop after; mpc passes lists them")
      ->option_text("STAGE")
      ->capture_default_str();
  command->add_flag("--with-weights", dump.withWeights,
                    "print large constants too. Without it constants of more "
                    "than 16 elements are elided");
  addTraining(*command, dump.training, "dump");
  command->add_flag("--dump-fusion", dump.fusion,
                    "print the fusion decisions instead of IR. With the time "
                    "that each saves by the target's cost model");
  hideFlags(*command, {"--device", "--seed"});

  command = &addCommand(
      app, kCompilerCommands, "passes", "list the stages and their passes",
      passes, [this] { return passesCommand(passes); },
      "mpc passes\nmpc passes --json");

  command = &addCommand(
      app, kProgramCommands, "devices",
      "list the devices of this machine and their fast types", devices.common,
      [this] { return devicesCommand(devices); },
      "mpc devices\nmpc devices --quick --json");
  command->add_flag("--quick", devices.withoutCeilings,
                    "skip the measured ceilings");
}

void FullDriver::declare(CLI::App &app) {
  declareModelCommands(app);
  declarePrecisionCommands(app);
  declareTrainingCommands(app);
  declareCompilerCommands(app);
  declareOwn(app);
}

std::unique_ptr<Driver> mpc::tool::makeDriver() {
  return std::make_unique<FullDriver>();
}
