//===- ParallelPlanCommand.cpp - mpc plan ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ParallelPlanner.h"

#include "Commands.h"
#include "CompiledModel.h"
#include "HelpFormatter.h"
#include "Inputs.h"
#include "MatrixUnitReport.h"

#include "mpc/Target/TargetInfo.h"

#include <cmath>
#include <map>

using namespace mpc;
using namespace mpc::tool;

static constexpr int64_t kMostRanks = 65536;
/// Maximum number of ranks on this machine, all of which are started for
/// measuring.
static constexpr int64_t kMostHostRanks = 256;

static Status bad(const std::string &where, const std::string &text) {
  return Status(StatusCode::InvalidArgument, where, text);
}

//===----------------------------------------------------------------------===//
// Flags
//===----------------------------------------------------------------------===//

void tool::addPlanFlags(CLI::App &command, PlanArguments &arguments) {
  addInputOption(command, arguments.common,
                 "arrays that give shapes, FILE.npz or NAME=FILE.npy. "
                 "Repeatable");
  addModelOptions(command, arguments.common);
  command.get_option("--batch")->description(
      "global batch size. Examples of all ranks together");
  command.get_option("--threads")
      ->description("threads per rank (default: its share of the cores)");
  command
      .add_option("--batch-per-rank", arguments.batchPerRank,
                  "batch size per rank (weak scaling)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 40))
      ->excludes("--batch");
  command
      .add_option("--ranks", arguments.ranks,
                  "numbers of ranks, separated by commas")
      ->option_text("N,...")
      ->required();
  command
      .add_option("--network", arguments.network,
                  "links, such as nvlink+ib400, or host. From the innermost to "
                  "the outermost, separated by +, each with fields (ranks, "
                  "share, latency, bandwidth) after commas: "
                  "pcie4,ranks=4+ib100,share=4; or host: messages on this "
                  "machine, measured once")
      ->option_text("LINKS")
      ->required();
  command
      .add_option("--compute", arguments.compute,
                  "source of launch times. Measured on this machine, from the "
                  "model of the target, or auto: measured where the target is "
                  "this machine's")
      ->check(CLI::IsMember({"auto", "measured", "model"}))
      ->capture_default_str();
  command
      .add_option("--step-ms", arguments.stepMs,
                  "total time of a rank's launches in ms. As reported by mpc "
                  "bench; the times of the cost model are scaled to it")
      ->check(CLI::Range(1e-6, 1e9))
      ->check(finiteNumber());
  command
      .add_option("--cores", arguments.cores,
                  "cores that the ranks of network host share (default: all)")
      ->check(CLI::Range(int64_t(1), int64_t(1024)))
      ->group(kMoreGroup);
  addTrainingFlags(command, arguments.step);
  hideFlags(command, {"--step-loss-scale", "--emulate-units", "--lr",
                      "--schedule", "--weight-decay", "--init"});
}

//===----------------------------------------------------------------------===//
// The report
//===----------------------------------------------------------------------===//

static Json levelsDocument(const Network &network) {
  Json levels = Json::array();
  for (const NetworkLevel &level : network.levels())
    levels.push_back({{"name", level.name},
                      {"ranks", level.ranks},
                      {"latency_seconds", level.latencySeconds},
                      {"bytes_per_second", level.bytesPerSecond},
                      {"share", level.share}});
  return levels;
}

static std::string joined(const std::set<std::string> &words) {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : "; ") + word;
  return text;
}

static std::string percent(double part) {
  return std::to_string(std::lround(100 * part)) + " %";
}

static void report(const std::vector<PlannedRanks> &all,
                   const PlannedRanks &one, Json document, Reporter &reporter) {
  std::vector<std::vector<std::string>> table = {
      {"ranks", "batch", "step ms", "launches", "exposed", "messages",
       "on the wire", "memory", "examples/s", "efficiency", "by"}};
  Json plans = Json::array();
  const double alone = one.examplesPerSecond();
  for (const PlannedRanks &plan : all) {
    const StepTimeline &time = plan.timeline;
    const double efficiency =
        plan.examplesPerSecond() / (double(plan.ranks) * alone);
    table.push_back({std::to_string(plan.ranks), std::to_string(plan.batch),
                     shortNumber(1e3 * time.seconds),
                     shortNumber(1e3 * time.launchSeconds),
                     shortNumber(1e3 * time.exposedSeconds()),
                     std::to_string(plan.messages), shortBytes(plan.wireBytes),
                     shortBytes(double(plan.memoryBytes)),
                     shortNumber(plan.examplesPerSecond()), percent(efficiency),
                     joined(plan.algorithms)});
    plans.push_back({{"ranks", plan.ranks},
                     {"batch", plan.batch * plan.ranks},
                     {"batch_per_rank", plan.batch},
                     {"batches", plan.batches},
                     {"step_ms", 1e3 * time.seconds},
                     {"launches_ms", 1e3 * time.launchSeconds},
                     {"exposed_ms", 1e3 * time.exposedSeconds()},
                     {"messages_ms", 1e3 * time.messageSeconds},
                     {"messages", plan.messages},
                     {"wire_bytes", std::llround(plan.wireBytes)},
                     {"memory_bytes", plan.memoryBytes},
                     {"examples_per_second", plan.examplesPerSecond()},
                     {"efficiency", efficiency},
                     {"algorithms", plan.algorithms}});
  }
  document["plans"] = std::move(plans);
  std::vector<bool> right(table.front().size(), true);
  right.back() = false;
  reporter.lines(formatTable(table, right));
  reporter.document(document);
}

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

/// Parses and checks numbers of ranks, in order.
static Result<std::vector<int64_t>> parseRanks(const std::string &text) {
  std::vector<int64_t> ranks = parseExtents(text);
  for (int64_t count : ranks)
    if (count > kMostRanks)
      ranks.clear();
  if (ranks.empty())
    return bad("--ranks " + text,
               "is not a list of numbers from 1 to " +
                   std::to_string(kMostRanks) +
                   ", separated by commas, such as 8,64,1024");
  return ranks;
}

/// Returns the batch size per rank for `ranks` ranks.
static Result<int64_t> batchOf(const PlanArguments &arguments, int64_t ranks) {
  if (arguments.batchPerRank)
    return *arguments.batchPerRank;
  const int64_t batch = *arguments.common.batch;
  if (batch % ranks || batch < ranks)
    return bad("batch", "of " + std::to_string(batch) +
                            " examples cannot be divided evenly among " +
                            std::to_string(ranks) +
                            " ranks; use a multiple of " +
                            std::to_string(ranks) + ", or --batch-per-rank");
  return batch / ranks;
}

static Result<Network> makeNetwork(const PlanArguments &arguments,
                                   const TargetInfo &target,
                                   const std::vector<int64_t> &ranks,
                                   Communicator *group, Reporter &reporter) {
  const std::string where = "--network " + arguments.network;
  if (arguments.network != "host") {
    if (group)
      return bad(where, "cannot be measured; run mpc plan without a launcher, "
                        "or use --network host");
    llvm::Expected<Network> parsed =
        Network::parse(arguments.network, target.facts().computeCapability);
    if (!parsed)
      return bad(where, llvm::toString(parsed.takeError()));
    for (int64_t count : ranks)
      if (std::string why = parsed->whyNot(count); !why.empty())
        return bad(where, why);
    return *parsed;
  }
  if (group && (ranks.size() > 1 || ranks.front() != group->size()))
    return bad("--ranks",
               "must equal the number of ranks that the launcher started, " +
                   std::to_string(group->size()) +
                   ", to measure their messages");
  if (target.isGpu())
    return bad(
        where,
        "measures CPU ranks; name the links of GPUs, such as nvlink+ib400");
  std::map<int64_t, NetworkModel> models;
  for (int64_t count : ranks) {
    if (count > kMostHostRanks)
      return bad(where, "connects at most " + std::to_string(kMostHostRanks) +
                            " ranks, not " + std::to_string(count));
    if (count == 1)
      continue;
    std::string how;
    Result<NetworkModel> model = hostNetwork(count, group, how);
    if (!model.ok())
      return model.status();
    models[count] = *model;
    reporter.note(
        "network host: " + std::to_string(count) + " ranks have a latency of " +
        shortNumber(1e6 * model->latencySeconds) + " us and a bandwidth of " +
        shortBytes(model->bytesPerSecond) + "/s, measured with " + how +
        (how == "threads" ? "; 'mpirun -n " + std::to_string(count) +
                                " mpc plan' measures MPI"
                          : ""));
  }
  if (models.empty()) // a single rank
    models[2] = {0, 1e12};
  return Network::measured("host", std::move(models));
}

/// Under a launcher: reports the measured network.
static int reportNetwork(const Network &network, int64_t ranks,
                         Reporter &reporter) {
  NetworkModel model = network.model(ranks);
  reporter.line("stored; 'mpc plan' without a launcher uses it");
  reporter.document({{"network", network.name()},
                     {"ranks", ranks},
                     {"latency_seconds", model.latencySeconds},
                     {"bytes_per_second", model.bytesPerSecond}});
  return reporter.finish(kDone);
}

static Result<CompileOptions> makeOptions(const PlanArguments &arguments,
                                          Reporter &reporter) {
  if (isStoredModel(arguments.common.model))
    return bad(arguments.common.model,
               "is already compiled; plan the model that it was compiled from");
  if (!arguments.common.batch && !arguments.batchPerRank)
    return bad("--batch",
               "is required: the global batch size, or --batch-per-rank");
  Result<CompileOptions> options =
      makeCompileOptions(arguments.common, reporter);
  if (!options.ok())
    return options;
  if (Status status = passInputShapes(arguments.common, *options); !status.ok())
    return status;
  Result<TrainingOptions> training = makeTrainingOptions(arguments.step);
  if (!training.ok())
    return training.status();
  // The schedule's end does not affect the time.
  if (training->schedule.steps == 0)
    training->schedule.steps = 1000;
  options->training = std::move(*training);
  return options;
}

static int plan(const PlanArguments &arguments, Reporter &reporter,
                Communicator *group) {
  // All ranks of a launcher have the same arguments: one reports.
  const bool isHelper = group && group->rank() != 0;
  auto fail = [&](const Status &status) {
    return isHelper ? int(kBadInput) : reporter.fail(status);
  };
  Result<std::vector<int64_t>> ranks = parseRanks(arguments.ranks);
  if (!ranks.ok()) {
    (void)fail(ranks.status());
    return kBadUsage;
  }
  Result<CompileOptions> options = makeOptions(arguments, reporter);
  if (!options.ok())
    return fail(options.status());
  std::optional<TargetInfo> target = TargetInfo::parse(
      options->target.empty() ? "cpu:native" : options->target);
  if (!target)
    return fail(bad("--target " + options->target,
                    TargetInfo::describeUnknown(options->target)));
  const bool runsHere = !target->isGpu() && target->runsHere();
  if (arguments.compute == "measured" && !runsHere)
    return fail(bad("--compute measured", "measures this machine's CPU, not " +
                                              target->name() +
                                              "; use model or --step-ms"));
  const bool isMeasured =
      arguments.compute == "measured" ||
      (arguments.compute == "auto" && runsHere && !arguments.stepMs);
  Result<Network> network =
      makeNetwork(arguments, *target, *ranks, group, reporter);
  if (!network.ok())
    return fail(network.status());
  // A launcher binds ranks to cores, where the others busy-wait: measure
  // launches without one.
  if (group)
    return isHelper ? int(kDone)
                    : reportNetwork(*network, group->size(), reporter);
  reportFastPath(*options, reporter, !arguments.common.choosesPolicy);
  const std::string policy = options->policy;
  ParallelPlanner planner(arguments, std::move(*options), *network, isMeasured);
  std::vector<PlannedRanks> all;
  std::optional<PlannedRanks> one;
  std::vector<int64_t> wanted = *ranks;
  wanted.push_back(1); // for comparison
  for (int64_t count : wanted) {
    const bool isLast = all.size() == ranks->size();
    if (isLast && one)
      break;
    Result<int64_t> batch = batchOf(arguments, count);
    if (!batch.ok())
      return fail(batch.status());
    Result<PlannedRanks> planned = planner.plan(count, *batch);
    if (!planned.ok())
      return fail(planned.status());
    if (count == 1)
      one = *planned;
    if (!isLast)
      all.push_back(std::move(*planned));
  }
  Json document = {{"model", arguments.common.model},
                   {"policy", policy},
                   {"target", target->name()},
                   {"network", arguments.network},
                   {"levels", levelsDocument(*network)},
                   {"compute", arguments.stepMs ? "given"
                               : isMeasured     ? "measured"
                                                : "model"}};
  report(all, *one, std::move(document), reporter);
  return reporter.finish(kDone);
}

int tool::planCommand(const PlanArguments &arguments) {
  std::shared_ptr<Communicator> group;
  if (isStartedByMpi()) {
    Result<std::shared_ptr<Communicator>> joined = joinMpi();
    if (!joined.ok())
      return Reporter(arguments.common.json, arguments.common.quiet)
          .fail(joined.status());
    group = *joined;
  }
  Reporter reporter(arguments.common.json, arguments.common.quiet,
                    group ? group->rank() : 0);
  int code = plan(arguments, reporter, group.get());
  if (group)
    group->part();
  return code;
}
