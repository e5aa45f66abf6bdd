//===- main.cpp - Random graph fuzzer -------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Exit codes: 0 no findings, 1 bad input, 2 bad usage, 4 findings.
//
//===----------------------------------------------------------------------===//

#include "Campaign.h"

#include "mpc/Support/EscapedText.h"
#include "mpc/Support/Files.h"

#include <CLI/CLI.hpp>

#include <charconv>
#include <cstdio>
#include <fstream>
#include <sstream>

using namespace mpc;
using namespace mpc::smith;

static bool parseNumber(const std::string &text, uint64_t &number) {
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

/// "7" or "1..100", both inclusive.
static std::string parseSeeds(const std::string &text, uint64_t &first,
                              uint64_t &last) {
  size_t dots = text.find("..");
  bool usable = parseNumber(text.substr(0, dots), first);
  last = first;
  if (dots != std::string::npos)
    usable &= parseNumber(text.substr(dots + 2), last);
  return usable && first <= last ? "" : "'" + text + "' is neither A nor A..B";
}

static int fail(int code, const std::string &text) {
  std::fprintf(stderr, "error: %s\n", text.c_str());
  return code;
}

static int judgeFile(const std::string &path, const CampaignOptions &options) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  std::optional<Case> drawn = fromFile(text.str());
  if (!file || !drawn)
    return fail(tool::kBadInput,
                path + ": is no file that mpc-smith has written");
  Scratch scratch;
  Outcome outcome = checkInChildProcess(*drawn, scratch.path(), options.limits);
  if (options.json) {
    std::printf("%s\n", jsonText(toJson(*drawn, outcome)).c_str());
  } else {
    for (const Finding &finding : outcome.findings)
      std::printf("%s: %s\n", finding.step.c_str(), finding.text.c_str());
    if (!outcome.failed())
      std::printf("nothing is wrong\n");
  }
  return outcome.failed() ? tool::kCheckFailed : tool::kDone;
}

int main(int argc, char **argv) {
  CLI::App app("mpc-smith: draws graphs, compiles and runs them, and compares "
               "them with the float64 oracle",
               "mpc-smith");
  CampaignOptions options;
  std::string seeds, print, file;
  app.add_option("--seeds,--seed", seeds, "A or A..B: the graphs to draw")
      ->default_str("1..100");
  CLI::Option *minutes =
      app.add_option("--minutes", options.minutes,
                     "end after so many minutes; seeds then go on from the "
                     "first")
          ->check(CLI::PositiveNumber);
  app.add_flag("--print", options.print,
               "print the graphs with their settings, judge nothing");
  app.add_option("--judge", file, "judge a file that this program has written");
  app.add_option("--jobs", options.jobs, "cases at once")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--cuda-host", options.plan.cudaHost,
                 "percent of graphs that become kernels for a GPU, run on the "
                 "host")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  app.add_option("--training", options.plan.training,
                 "percent of graphs that become training steps")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  app.add_option("--exact", options.plan.exact,
                 "percent of graphs whose bits are compared")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  app.add_option("--ops", options.plan.ops, "most ops of a graph")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  app.add_option("--cpu-seconds", options.limits.cpuSeconds,
                 "what one graph may compute")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--wall-seconds", options.limits.wallSeconds,
                 "what one graph may take")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--failures", options.folder,
                 "folder that receives what was found, reduced");
  app.add_option("--reduce-seconds", options.reduceSeconds,
                 "what reducing one failure may take; 0 keeps it as it is")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--most-failures", options.mostFailures,
                 "end after so many; 0 for never")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_flag("--json", options.json, "print one JSON document on stdout");
  app.add_flag("--quiet", options.quiet, "print no progress");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0)
      return app.exit(error);
    return fail(tool::kBadUsage, error.what());
  }
  if (!file.empty())
    return judgeFile(file, options);
  if (seeds.empty())
    seeds = "1..100";
  if (std::string wrong = parseSeeds(seeds, options.first, options.last);
      !wrong.empty())
    return fail(tool::kBadUsage, "--seeds: " + wrong);
  if (minutes->count() > 0)
    options.last = UINT64_MAX;
  const Plan &plan = options.plan;
  if (plan.cudaHost + plan.training + plan.exact > 100)
    return fail(
        tool::kBadUsage,
        "--cuda-host, --training and --exact are more than 100 percent");
  if (options.print) {
    for (uint64_t seed = options.first; seed <= options.last; ++seed)
      std::printf("%s", toFile(drawCase(seed, plan), {}).c_str());
    return tool::kDone;
  }
  if (!options.folder.empty())
    if (Status status = makeFolder(options.folder); !status.ok())
      return fail(tool::kBadInput, status.toString());
  return runCampaign(options);
}
