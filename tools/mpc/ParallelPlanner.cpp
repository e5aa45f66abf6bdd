//===- ParallelPlanner.cpp - modeled steps by number of ranks -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ParallelPlanner.h"

#include "Commands.h"

#include "Runtime/Communication/CollectiveDependences.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace mpc;
using namespace mpc::tool;

int64_t ParallelPlanner::cores() const {
  return arguments.cores.value_or(availableCores());
}

int ParallelPlanner::threads(int64_t ranks) const {
  if (arguments.common.threads)
    return arguments.common.threads;
  return isHost() ? int(std::max<int64_t>(1, cores() / ranks)) : int(cores());
}

double ParallelPlanner::crowding(int64_t ranks) const {
  if (!isHost())
    return 1;
  return std::max(1.0, double(ranks) * threads(ranks) / double(cores()));
}

/// Rounded as a trainer does, so that the compiled step is the same.
static double rounded(double value) {
  return std::exp2(std::floor(std::log2(value)));
}

Result<PredictedStepTime> ParallelPlanner::stepOf(const CompileOptions &own,
                                                  int64_t ranks) const {
  if (!isMeasured)
    return modelStep(arguments.common.model, own);
  Timing timing{threads(ranks), 1};
  if (isHost())
    timing.beside = std::clamp<int64_t>(cores() / timing.threads, 1, ranks);
  return measureStep(arguments.common.model, own, timing,
                     arguments.common.seed);
}

Result<std::vector<ParallelPlanner::Part>>
ParallelPlanner::partsOf(int64_t ranks, int64_t batch) const {
  CompileOptions own = options;
  TrainingOptions &training = *own.training;
  own.batch = batch;
  training.distribution.ranks = ranks;
  NetworkModel line = network.model(ranks);
  if (ranks > 1) {
    training.distribution.latency = rounded(line.latencySeconds);
    training.distribution.bandwidth = rounded(line.bytesPerSecond);
  }
  std::vector<std::pair<TrainingPart, int64_t>> wanted = {
      {TrainingPart::Step, training.accumulate}};
  if (!Trainer::isOneProgram(training))
    wanted = {{TrainingPart::ForwardBackward, training.accumulate},
              {TrainingPart::Apply, 1}};
  std::vector<Part> parts;
  for (auto [part, runs] : wanted) {
    training.part = part;
    Result<PredictedStepTime> step = stepOf(own, ranks);
    if (!step.ok())
      return step.status();
    parts.push_back({std::move(*step), runs});
  }
  return parts;
}

static MessageKind kindOf(const Collective &how) {
  switch (how.kind) {
  case Collective::Kind::AllReduce:
    return MessageKind::AllReduce;
  case Collective::Kind::ReduceScatter:
    return MessageKind::ReduceScatter;
  case Collective::Kind::AllGather:
    return MessageKind::AllGather;
  case Collective::Kind::Broadcast:
    break;
  }
  return MessageKind::Broadcast;
}

/// Size of the whole tensors: the input of an all-gather is one shard.
static int64_t bytesOf(const Launch &launch) {
  int64_t input = 0, output = 0;
  for (size_t i = 0; i < launch.buffers.size(); ++i)
    (i < launch.buffers.size() / 2 ? input : output) += launch.buffers[i].bytes;
  return std::max(input, output);
}

/// Returns the batch size of a step, from its labels.
static int64_t batchIn(const Program &program) {
  for (const char *role : {"label", "input"})
    for (const ProgramValue &value : program.arguments)
      if (value.role == role && !value.type.shape.empty())
        return value.type.shape.front();
  return 0;
}

/// Returns the memory of all programs of a step: arguments and results with
/// equal names share memory.
static int64_t
bytesTogether(const std::vector<std::shared_ptr<const Program>> &programs) {
  int64_t bytes = 0;
  std::set<std::string> known;
  for (const std::shared_ptr<const Program> &program : programs) {
    bytes += program->neededBytes();
    std::set<std::string> own;
    for (const auto *values : {&program->arguments, &program->results})
      for (const ProgramValue &value : *values)
        if (value.alias < 0 && own.insert(value.name).second &&
            known.contains(value.name))
          bytes -= value.type.byteCount().value_or(0);
    known.merge(own);
  }
  return bytes;
}

Result<PlannedRanks> ParallelPlanner::plan(int64_t ranks, int64_t batch) const {
  Result<std::vector<Part>> parts = partsOf(ranks, batch);
  if (!parts.ok())
    return parts.status();
  if (int64_t found = batchIn(*parts->front().step.program); found != batch)
    return Status(StatusCode::InvalidArgument, arguments.common.model,
                  "has batches of " + std::to_string(found) +
                      ", which cannot be divided into batches of " +
                      std::to_string(batch) +
                      "; export it with a dynamic batch dimension");
  PlannedRanks planned;
  planned.ranks = ranks;
  planned.batch = batch;
  planned.batches = options.training->accumulate;
  std::vector<std::shared_ptr<const Program>> programs;
  double scale = crowding(ranks), sum = 0;
  for (const Part &part : *parts) {
    programs.push_back(part.step.program);
    for (double seconds : part.step.seconds)
      sum += double(part.runs) * seconds;
  }
  planned.memoryBytes = bytesTogether(programs);
  if (arguments.stepMs && sum > 0)
    scale *= 1e-3 * *arguments.stepMs / sum;
  std::vector<TimelineItem> items;
  for (const Part &part : *parts) {
    const detail::CollectiveDependences messages(*part.step.program);
    for (int64_t run = 0; run < part.runs; ++run) {
      // A run ends when all its collectives are done.
      const auto before = size_t(planned.messages);
      for (size_t i = 0; i < part.step.seconds.size(); ++i) {
        const Launch &launch = part.step.program->launches[i];
        TimelineItem item{scale * part.step.seconds[i],
                          launch.collective.has_value(),
                          before + messages.needed[i]};
        if (item.isMessage) {
          MessageCost cost =
              network.cost(kindOf(*launch.collective), bytesOf(launch), ranks);
          item.seconds = cost.seconds;
          planned.wireBytes += cost.sentBytes;
          planned.algorithms.insert(cost.algorithm);
          ++planned.messages;
        }
        items.push_back(item);
      }
    }
  }
  // A host collective needs a core, which no rank has to spare.
  const bool takesCores = isHost() && ranks * (threads(ranks) + 1) > cores();
  planned.timeline = simulateStep(items, takesCores ? 1 : 0);
  return planned;
}
