//===- Campaign.cpp - Fuzzing campaigns -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Campaign.h"

#include "mpc/Support/EscapedText.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>
#include <unistd.h>

using namespace mpc;
using namespace mpc::smith;
namespace fs = std::filesystem;

Scratch::Scratch() {
  std::error_code error;
  std::string pattern =
      (fs::temp_directory_path(error) / "mpc-smith-XXXXXX").string();
  if (mkdtemp(pattern.data()))
    folder = pattern;
}

Scratch::~Scratch() {
  std::error_code ignored;
  if (!folder.empty())
    fs::remove_all(folder, ignored);
}

Json smith::toJson(const Case &drawn, const Outcome &outcome) {
  Json findings = Json::array();
  for (const Finding &finding : outcome.findings)
    findings.push_back({{"step", finding.step}, {"text", finding.text}});
  return {{"seed", drawn.seed},
          {"kind", kindName(drawn.kind)},
          {"seconds", outcome.seconds},
          {"findings", findings}};
}

namespace {

/// The state of a campaign.
class Campaign {
public:
  explicit Campaign(const CampaignOptions &options) : options(options) {}
  int run();

private:
  void take(const Case &drawn, const Outcome &outcome);
  void keep(const Case &drawn, const Outcome &outcome);
  void progress(bool last);
  bool over() const;
  int summary();

  const CampaignOptions &options;
  Scratch scratch;
  std::map<std::string, int> counts;
  Json failures = Json::array();
  double began = now(), lastLine = 0, slowest = 0;
  uint64_t next = 0, slowestSeed = 0;
  int judged = 0;
};

} // namespace

bool Campaign::over() const {
  if (options.minutes > 0 && now() - began > options.minutes * 60)
    return true;
  return options.mostFailures > 0 &&
         int(failures.size()) >= options.mostFailures;
}

int Campaign::run() {
  next = options.first;
  bool exhausted = false;
  std::vector<Worker> workers;
  workers.resize(size_t(options.jobs));
  for (;;) {
    bool any = false;
    for (Worker &worker : workers) {
      Outcome outcome;
      if (worker.finished(/*wait=*/false, outcome))
        take(worker.current(), outcome);
      if (!worker.busy() && !exhausted && !over()) {
        worker.start(drawCase(next, options.plan), scratch.path(),
                     options.limits);
        exhausted = next == options.last;
        ++next;
      }
      any |= worker.busy();
    }
    if (!any)
      break;
    progress(/*last=*/false);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  progress(/*last=*/true);
  return summary();
}

void Campaign::take(const Case &drawn, const Outcome &outcome) {
  ++judged;
  ++counts[kindName(drawn.kind)];
  if (outcome.seconds > slowest) {
    slowest = outcome.seconds;
    slowestSeed = drawn.seed;
  }
  if (!outcome.failed())
    return;
  failures.push_back(toJson(drawn, outcome));
  const Finding &finding = outcome.findings.front();
  if (!options.json)
    std::printf("seed %llu, %s: %s: %s\n", (unsigned long long)drawn.seed,
                kindName(drawn.kind), printable(finding.step).c_str(),
                printable(finding.text).c_str());
  std::fflush(stdout);
  if (!options.folder.empty())
    keep(drawn, outcome);
}

void Campaign::keep(const Case &drawn, const Outcome &outcome) {
  const Finding &finding = outcome.findings.front();
  Case small = drawn;
  if (options.reduceSeconds > 0)
    small = reduceCase(drawn, finding, scratch.path(), options.limits,
                       options.reduceSeconds);
  std::string name = "seed-" + std::to_string(drawn.seed);
  std::string policy = name + ".json";
  std::vector<std::string> comments = {
      "seed " + std::to_string(drawn.seed) + ", " + finding.step + ": " +
          finding.text,
      "again: mpc-smith --judge " + name + ".mlir",
      "       " + checkCommandLine(small, name + ".mlir", policy)};
  std::ofstream(options.folder + "/" + name + ".mlir", std::ios::binary)
      << toFile(small, comments);
  if (!drawn.setting.policyText.empty())
    std::ofstream(options.folder + "/" + policy, std::ios::binary)
        << drawn.setting.policyText << "\n";
}

void Campaign::progress(bool last) {
  if (options.quiet || (!last && now() - lastLine < 10))
    return;
  lastLine = now();
  std::fprintf(stderr, "%d graphs, up to seed %llu, %zu failures, %.0f s\n",
               judged, (unsigned long long)(next - 1), failures.size(),
               now() - began);
}

int Campaign::summary() {
  Json kinds = Json::object();
  for (const auto &[kind, count] : counts)
    kinds[kind] = count;
  if (options.json) {
    Json document = {{"first_seed", options.first},
                     {"last_seed", next - 1},
                     {"graphs", kinds},
                     {"levels", availableLevels()},
                     {"levels_skipped", missingLevels()},
                     {"seconds", now() - began},
                     {"failures", failures}};
    std::printf("%s\n", jsonText(document).c_str());
    return failures.empty() ? tool::kDone : tool::kCheckFailed;
  }
  auto list = [](const std::vector<std::string> &words) {
    std::string text;
    for (const std::string &word : words)
      text += (text.empty() ? "" : ", ") + word;
    return text.empty() ? "none" : text;
  };
  std::string graphs;
  for (const auto &[kind, count] : counts)
    graphs += (graphs.empty() ? "" : ", ") + std::to_string(count) + " " + kind;
  std::printf("seeds %llu..%llu: %d graphs (%s)\n",
              (unsigned long long)options.first, (unsigned long long)(next - 1),
              judged, graphs.c_str());
  std::printf("levels of the CPU: %s; skipped: %s\n",
              list(availableLevels()).c_str(), list(missingLevels()).c_str());
  std::printf("slowest: seed %llu, %.1f s\n", (unsigned long long)slowestSeed,
              slowest);
  std::string seeds;
  for (const Json &failure : failures)
    seeds += " " + std::to_string(failure["seed"].get<uint64_t>());
  std::printf("%zu failures%s%s\n", failures.size(), seeds.empty() ? "" : ":",
              seeds.c_str());
  return failures.empty() ? tool::kDone : tool::kCheckFailed;
}

int smith::runCampaign(const CampaignOptions &options) {
  return Campaign(options).run();
}
