//===- CaseChecks.cpp - Checks of one case --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CaseChecks.h"

#include "Commands.h"
#include "CompiledStage.h"
#include "ExactCheck.h"

#include "mpc/JIT/CompileFile.h"
#include "mpc/Support/Files.h"
#include "mpc/Target/TargetInfo.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <limits>
#include <sstream>
#include <unistd.h>

using namespace mpc;
using namespace mpc::smith;

//===----------------------------------------------------------------------===//
// Levels
//===----------------------------------------------------------------------===//

std::vector<std::string> smith::availableLevels() {
  std::vector<std::string> levels;
  for (const TargetInfo &target : TargetInfo::runnable()) {
    llvm::StringRef level = target.member();
    // Skip the emulation of a level that the machine has.
    if (level.consume_back("-emulated") &&
        TargetInfo::parse(("cpu:" + level).str())->runsHere())
      continue;
    levels.push_back(target.member().str());
  }
  return levels;
}

std::vector<std::string> smith::missingLevels() {
  std::vector<std::string> levels;
  for (llvm::StringRef name : TargetInfo::names())
    if (name.consume_front("cpu:") &&
        !llvm::is_contained(availableLevels(), name))
      levels.push_back(name.str());
  return levels;
}

//===----------------------------------------------------------------------===//
// mpc check
//===----------------------------------------------------------------------===//

namespace {

/// JSON holds infinity and NaN as errors above this.
constexpr double kNotFinite = 1e300;

/// The output of a command.
struct CommandOutput {
  int code = 0;
  Json document;
  std::string errors;
};

/// Redirects one of the process's streams to a file (RAII).
class Redirect {
public:
  Redirect(FILE *stream, const std::string &path)
      : stream(stream), number(fileno(stream)) {
    std::fflush(stream);
    kept = dup(number);
    int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    dup2(file, number);
    close(file);
  }
  ~Redirect() {
    std::fflush(stream);
    dup2(kept, number);
    close(kept);
  }

private:
  FILE *stream;
  int number, kept;
};

} // namespace

static std::string readText(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Runs `command`, which returns its exit code and writes JSON.
static CommandOutput run(const std::string &folder,
                         llvm::function_ref<int()> command) {
  CommandOutput said;
  {
    Redirect out(stdout, folder + "/out.json"),
        errors(stderr, folder + "/errors.txt");
    said.code = command();
  }
  said.document = Json::parse(readText(folder + "/out.json"), nullptr,
                              /*allow_exceptions=*/false);
  said.errors = readText(folder + "/errors.txt");
  return said;
}

static CommandOutput runCheck(const tool::CheckArguments &arguments,
                              const std::string &folder) {
  return run(folder, [&] { return tool::checkCommand(arguments); });
}

/// The first line of `text`.
static std::string firstLine(const std::string &text) {
  return text.substr(0, text.find('\n'));
}

/// The errors of `output`, an entry of a check's document, in one metric.
static PooledError pooledOf(const std::string &step, const Json &output,
                            const char *errorField,
                            const char *toleranceField) {
  PooledError row = {step, output.value("name", "")};
  row.isFloat = output.value("type", "").find('f') != std::string::npos;
  double error = output.value(errorField, 0.0),
         tolerance = output.value(toleranceField, 0.0);
  // A tolerance of 1 or more means that the terms cancel down to their rounding
  // errors (as in the gradient of a shift before a softmax), of which only the
  // magnitude is predictable.
  row.tolerance = std::pow(tolerance >= 1 ? 16 * tolerance : tolerance, 2);
  // NaN, infinity and integer mismatches are never rounding errors.
  if (error > kNotFinite || row.tolerance == 0)
    row.mismatches =
        output.value("ok", true)
            ? 0
            : std::max<int64_t>(output.value("mismatches", int64_t(0)), 1);
  else
    row.error = error * error;
  return row;
}

/// The outputs listed in `said`, floats in all metrics.
static std::vector<PooledError> outputsOf(const std::string &step,
                                          const CommandOutput &said) {
  std::vector<PooledError> rows;
  for (const Json &output : said.document.value("outputs", Json::array())) {
    rows.push_back(pooledOf(step, output, "rms_relative_error", "tolerance"));
    if (!output.contains("componentwise_error"))
      continue;
    rows.push_back(pooledOf(step, output, "componentwise_error",
                            "componentwise_tolerance"));
    rows.back().name += " (componentwise)";
    rows.push_back(
        pooledOf(step, output, "largest_error", "largest_tolerance"));
    rows.back().name += " (largest)";
  }
  return rows;
}

/// Checks the ops of an instrumented compile: reports those whose error is
/// statistically significant.
static std::vector<Finding> judgeOps(const std::string &step,
                                     const CommandOutput &said) {
  std::vector<Finding> findings;
  const Json list = said.document.value("ops", Json::array());
  for (const Json &op : list)
    for (auto [errorField, toleranceField] :
         {std::pair("rms_relative_error", "tolerance"),
          std::pair("componentwise_error", "componentwise_tolerance"),
          std::pair("largest_error", "largest_tolerance")}) {
      double error = op.value(errorField, 0.0),
             tolerance = op.value(toleranceField, 0.0);
      if (op.value("ok", true) || error <= 16 * tolerance)
        continue;
      findings.push_back({step,
                          op.value("kind", "") + " '" + op.value("name", "") +
                              "' has " + errorField + " " +
                              tool::shortNumber(error) + " over " +
                              tool::shortNumber(tolerance),
                          /*notFinite=*/error > kNotFinite});
    }
  return findings;
}

static std::vector<Finding> judgeCheck(const std::string &step,
                                       tool::CheckArguments arguments,
                                       const std::string &folder) {
  CommandOutput first = runCheck(arguments, folder);
  if (first.code == tool::kDone)
    return {};
  if (first.code != tool::kCheckFailed)
    return {{step, "ends with " + std::to_string(first.code) + ": " +
                       firstLine(first.errors)}};
  uint64_t seed = arguments.common.seed;
  arguments.perOp = false;
  // The inputs may not affect an output, as when a mask hides everything;
  // perturb the weights too.
  const std::string model = arguments.common.model,
                    redrawn = folder + "/redrawn.mlir";
  std::vector<Finding> findings = checkOverSeeds(seed, [&](uint64_t drawn) {
    if (drawn == seed)
      return outputsOf(step, first);
    arguments.common.seed = drawn;
    if (perturbWeights(model, redrawn, drawn).ok()) {
      arguments.common.model = redrawn;
      std::vector<PooledError> rows =
          outputsOf(step, runCheck(arguments, folder));
      // Perturbed weights may change an order (sort, arg max).
      if (!rows.empty() && !hasMismatch(rows))
        return rows;
    }
    arguments.common.model = model;
    return outputsOf(step, runCheck(arguments, folder));
  });
  return findings.empty() ? judgeOps(step + " per op", first) : findings;
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

CompileOptions smith::compileOptions(const Setting &setting,
                                     const std::string &policyPath) {
  CompileOptions options;
  options.policy = setting.policyText.empty() ? setting.policy : policyPath;
  for (const std::string &set : setting.sets) {
    std::string key, type;
    tool::splitPair(set, key, type);
    options.sets.emplace_back(key, type);
  }
  options.target = setting.target;
  options.rounding = setting.rounding == "relaxed" ? RoundingMode::Relaxed
                                                   : RoundingMode::Strict;
  options.castPlacement = setting.castPlacement;
  options.gemm = setting.gemm;
  options.threads = 1;
  return options;
}

static tool::CheckArguments checkArguments(const Setting &setting,
                                           const std::string &model,
                                           const std::string &policyPath) {
  tool::CheckArguments arguments;
  tool::CommonOptions &common = arguments.common;
  common.model = model;
  common.json = common.quiet = true;
  common.threads = 1;
  common.policy = setting.policyText.empty() ? setting.policy : policyPath;
  common.sets = setting.sets;
  common.rounding = setting.rounding;
  common.castPlacement = setting.castPlacement;
  common.seed = setting.inputSeed;
  common.device = "cpu";
  if (!setting.target.empty()) {
    common.device = "cuda-host";
    common.target = setting.target;
    common.gemm = setting.gemm;
  }
  arguments.training = setting.training;
  arguments.perOp = setting.perOp;
  return arguments;
}

//===----------------------------------------------------------------------===//
// Cases
//===----------------------------------------------------------------------===//

/// Compilation must be deterministic.
static std::vector<Finding> judgeTwice(const std::string &model,
                                       const CompileOptions &given,
                                       const std::string &folder) {
  // GPU code needs NVIDIA's compiler; a CPU's plan does not.
  if (!given.target.empty())
    return {};
  CompileOptions options = given;
  options.gemm = "own";
  std::string bytes[2];
  for (int i = 0; i < 2; ++i) {
    std::string path = folder + "/twice" + std::to_string(i) + ".mpcx";
    Result<CompiledFile> made =
        compileToFile(model, path, {"cpu:avx2"}, options);
    if (!made.ok())
      return {{"compile", made.status().toString()}};
    bytes[i] = readText(path);
  }
  if (bytes[0] != bytes[1])
    return {{"compile twice", "gives other bytes"}};
  return {};
}

/// Whether the compile rejects an override by name: its op has been folded away
/// or is pinned by the model, or two overrides name ops that were merged.
static bool refusesOverride(const std::vector<Finding> &findings) {
  return !findings.empty() &&
         (findings[0].text.find("override '") != std::string::npos ||
          findings[0].text.find("overrides '") != std::string::npos);
}

static std::vector<Finding> judgeSetting(const Case &drawn,
                                         const CheckContext &context) {
  const Setting &setting = drawn.setting;
  std::string model = context.folder + "/case.mlir",
              policyPath = context.folder + "/policy.json";
  std::ofstream(model, std::ios::binary) << drawn.text;
  std::ofstream(policyPath, std::ios::binary) << setting.policyText;
  CompileOptions options = compileOptions(setting, policyPath);

  if (drawn.kind == Kind::Exact) {
    for (const std::string &level : availableLevels()) {
      std::string step = "bits cpu:" + level;
      context.onStep(step);
      options.target = "cpu:" + level;
      std::string wrong = exactCheck(drawn.text, options, setting.inputSeed);
      if (!wrong.empty())
        return {{step, firstLine(wrong)}};
    }
    return {};
  }
  if (setting.training.empty()) {
    context.onStep("stages");
    std::vector<Finding> findings =
        checkStageSemantics(model, options, setting.inputSeed);
    if (findings.empty() && !setting.sets.empty()) {
      context.onStep("overrides");
      findings = checkPolicyOverrides(model, options);
    }
    if (findings.empty() && setting.sets.empty() &&
        setting.castPlacement == "mincut") {
      context.onStep("placement");
      findings = checkPlacementOptimal(model, options);
    }
    if (!findings.empty())
      return findings;
  }
  // Evaluation computes no gradients.
  if (!setting.training.empty() && setting.training.rfind("evaluate", 0) != 0) {
    context.onStep("gradients");
    if (Status status = tool::setTraining(setting.training, options);
        !status.ok())
      return {{"gradients", status.toString()}};
    std::vector<Finding> findings =
        checkGradientsNumerically(model, options, setting.inputSeed);
    if (findings.empty() &&
        setting.training.find("loss-scale=") != std::string::npos) {
      context.onStep("loss scale");
      findings = checkLossScaleInvariance(model, options, setting.inputSeed);
    }
    if (!findings.empty())
      return findings;
  }
  tool::CheckArguments arguments = checkArguments(setting, model, policyPath);
  if (!setting.target.empty()) {
    std::string step = "check " + setting.target;
    context.onStep(step);
    return judgeCheck(step, arguments, context.folder);
  }
  for (const std::string &level : availableLevels()) {
    std::string step = "check cpu:" + level;
    context.onStep(step);
    arguments.common.isa = level;
    std::vector<Finding> findings = judgeCheck(step, arguments, context.folder);
    if (!findings.empty())
      return findings;
  }
  if (setting.twice && setting.training.empty()) {
    context.onStep("compile twice");
    return judgeTwice(model, options, context.folder);
  }
  return {};
}

/// Whether `mpc lint` warns that a constant of the model is infinite in a type
/// of the policy, such as the fill value of a mask in float16.
static bool isOverflowPredicted(const Case &drawn,
                                const CheckContext &context) {
  context.onStep("lint");
  tool::LintArguments arguments;
  arguments.common =
      checkArguments(drawn.setting, context.folder + "/case.mlir",
                     context.folder + "/policy.json")
          .common;
  CommandOutput said =
      run(context.folder, [&] { return tool::lintCommand(arguments); });
  return llvm::any_of(said.document.value("warnings", Json::array()),
                      [](const Json &warning) {
                        return llvm::StringRef(warning.value("code", ""))
                            .ends_with("_overflow");
                      });
}

std::vector<Finding> smith::judge(const Case &drawn,
                                  const CheckContext &context) {
  std::vector<Finding> findings = judgeSetting(drawn, context);
  bool overflows =
      !findings.empty() && llvm::all_of(findings, [](const Finding &finding) {
        return finding.notFinite;
      });
  if (overflows && isOverflowPredicted(drawn, context))
    return {};
  if (drawn.setting.sets.empty() || !refusesOverride(findings))
    return findings;
  // The error is reported correctly; check the graph without the overrides.
  Case plain = drawn;
  plain.setting.sets.clear();
  return judgeSetting(plain, context);
}
