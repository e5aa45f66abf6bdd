//===- Compile.cpp - mpc compile ------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "CompiledModel.h"
#include "Inputs.h"
#include "MatrixUnitReport.h"

#include "mpc/JIT/CompileFile.h"
#include "mpc/Policy/NamedPolicy.h"
#include "mpc/Support/Files.h"

#include <algorithm>
#include <chrono>
#include <sstream>

using namespace mpc;
using namespace mpc::tool;

/// Splits "A,B,C".
static std::vector<std::string> splitList(const std::string &text) {
  std::vector<std::string> entries;
  std::istringstream stream(text);
  // "cuda:" is optional for further architectures.
  for (std::string entry; std::getline(stream, entry, ',');)
    entries.push_back(entry.rfind("sm_", 0) == 0 ? "cuda:" + entry : entry);
  return entries;
}

/// Adds the target's matrix unit for the policy's type, if there is one.
static void addFastUnit(Json &target, const CompileOptions &options) {
  std::optional<TargetInfo> info =
      TargetInfo::parse(target["name"].get<std::string>());
  NamedPolicy policy(options.policy);
  if (!info)
    return;
  if (std::optional<std::string> unit = fastUnit(policy->getCompute(), *info)) {
    target["fast_type"] = shortTypeName(policy->getCompute());
    target["fast_unit"] = *unit;
  }
}

/// Formats the targets of one specialization; adds rows to `table`.
static Json describe(const CompiledSpecialisation &part,
                     const CompileOptions &options,
                     std::vector<std::vector<std::string>> &table) {
  Json list = Json::array();
  std::string dims;
  for (const auto &[name, extent] : part.dims)
    dims += (dims.empty() ? "" : " ") + name + "=" + std::to_string(extent);
  for (const StoredTarget &target : part.targets) {
    list.push_back({{"name", target.name},
                    {"kernels", target.kernels},
                    {"code_bytes", target.codeBytes},
                    {"constant_bytes", target.constantBytes},
                    {"arena_bytes", target.arenaBytes}});
    addFastUnit(list.back(), options);
    table.push_back({target.name, std::to_string(target.kernels),
                     shortBytes(double(target.codeBytes)),
                     shortBytes(double(target.constantBytes)),
                     shortBytes(double(target.arenaBytes)), dims});
  }
  return list;
}

/// Prints and formats the result of translation validation of all programs.
static Json describe(const std::vector<Validation> &validations,
                     Reporter &reporter) {
  Validation sum;
  for (const Validation &validation : validations) {
    sum.kernels += validation.kernels;
    sum.proved += validation.proved;
    sum.tested += validation.tested;
    sum.milliseconds += validation.milliseconds;
  }
  double share =
      sum.kernels ? 100.0 * double(sum.proved) / double(sum.kernels) : 100.0;
  std::string line = "verified: " + std::to_string(sum.proved) + " of " +
                     std::to_string(sum.kernels) + " kernels proved (" +
                     shortNumber(share) + " %)";
  if (sum.tested)
    line += ", " + std::to_string(sum.tested) + " tested";
  reporter.line(line + ", in " + shortNumber(sum.milliseconds) + " ms");
  return {{"kernels", sum.kernels},
          {"proved", sum.proved},
          {"tested", sum.tested},
          {"verify_ms", sum.milliseconds}};
}

static void report(const CompiledFile &file, const CompileOptions &options,
                   const std::string &output, double milliseconds,
                   const std::vector<Validation> &validations,
                   Reporter &reporter) {
  Json specialisations = Json::array();
  std::vector<std::vector<std::string>> table = {
      {"target", "kernels", "code", "constants", "arena", ""}};
  int64_t constantBytes = 0, arenaBytes = 0;
  for (const CompiledSpecialisation &part : file.specialisations) {
    specialisations.push_back(
        {{"dims", part.dims}, {"targets", describe(part, options, table)}});
    for (const StoredTarget &target : part.targets) {
      constantBytes = std::max(constantBytes, target.constantBytes);
      arenaBytes = std::max(arenaBytes, target.arenaBytes);
    }
  }
  bool several = file.specialisations.size() > 1;
  for (std::vector<std::string> &row : table)
    if (!several)
      row.pop_back();
  std::vector<bool> numbers = {false, true, true, true, true};
  if (several)
    numbers.push_back(false);
  reporter.lines(formatTable(table, numbers));
  reporter.line(output + ": " + shortBytes(double(file.fileBytes)) + " in " +
                shortNumber(milliseconds) + " ms");
  Json document = {{"output", output},
                   {"targets", specialisations.front()["targets"]},
                   {"constant_bytes", constantBytes},
                   {"arena_bytes", arenaBytes},
                   {"file_bytes", file.fileBytes},
                   {"compile_ms", milliseconds}};
  if (several)
    document["specialisations"] = specialisations;
  if (!validations.empty())
    document["verification"] = describe(validations, reporter);
  reporter.document(document);
}

int tool::compileCommand(const CompileArguments &arguments) {
  Reporter reporter(arguments.common.json, arguments.common.quiet);
  CommonOptions common = arguments.common;
  std::vector<std::string> targets =
      splitList(common.target.empty() ? "cpu:native" : common.target);
  if (!isStoredModel(arguments.output))
    return reporter.fail(Status(StatusCode::InvalidArgument, arguments.output,
                                "must end in .mpcx, by which run and bench "
                                "know a compiled model"));
  if (!common.isa.empty())
    return reporter.fail(
        Status(StatusCode::InvalidArgument, "--isa " + common.isa,
               "is for running; compile takes --target cpu:" + common.isa));
  if (Status status = checkWritable(arguments.output); !status.ok())
    return reporter.fail(status);
  // An automatic policy and warnings are for the first target. The GEMM library
  // applies to GPU targets only.
  common.target = targets.front();
  bool forGpu = std::any_of(
      targets.begin(), targets.end(),
      [](const std::string &target) { return target.rfind("cuda:", 0) == 0; });
  if (forGpu)
    common.gemm = "own";
  Result<CompileOptions> options = makeCompileOptions(common, reporter);
  if (!options.ok())
    return reporter.fail(options.status());
  if (Status status = setTraining(arguments.training, *options); !status.ok()) {
    reporter.fail(status);
    return kBadUsage;
  }
  if (Status status = passInputShapes(common, *options); !status.ok())
    return reporter.fail(status);
  options->gemm = arguments.common.gemm;
  reportFastPath(*options, reporter, !common.choosesPolicy);

  std::vector<Validation> validations;
  if (arguments.verify)
    options->onValidation = [&](const Validation &validation) {
      validations.push_back(validation);
    };
  auto start = std::chrono::steady_clock::now();
  Result<CompiledFile> file =
      compileToFile(common.model, arguments.output, targets, *options);
  std::chrono::duration<double, std::milli> took =
      std::chrono::steady_clock::now() - start;
  if (!validations.empty() && !validations.back().difference.empty())
    return reporter.failCheck("difference", file.status().where(),
                              validations.back().difference);
  if (!file.ok())
    return reporter.fail(file.status());

  report(*file, *options, arguments.output, took.count(), validations,
         reporter);
  return reporter.finish(kDone);
}
