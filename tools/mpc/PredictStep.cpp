//===- PredictStep.cpp - launches of a step and their times ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompiledModel.h"
#include "LaunchCost.h"
#include "ParallelPlanCommand.h"
#include "PreparedModel.h"

#include "JIT/Compiler.h"
#include "JIT/DeviceCompilation.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

using namespace mpc;
using namespace mpc::tool;

//===----------------------------------------------------------------------===//
// Roofline model
//===----------------------------------------------------------------------===//

Result<PredictedStepTime> tool::modelStep(const std::string &model,
                                          const CompileOptions &options) {
  Result<std::unique_ptr<Compiler>> made = Compiler::create(options);
  if (!made.ok())
    return made.status();
  Compiler &compiler = **made;
  const TargetInfo &target = compiler.target();
  if (!target.hasCeilings())
    return Status(StatusCode::Unavailable, "target " + target.name(),
                  "has rates that are not known; give another --target");
  Result<Compiler::Module> module = compiler.import(model);
  if (!module.ok())
    return module.status();
  if (Status status = compiler.runStages(**module, "import", "precision");
      !status.ok())
    return status;
  llvm::StringMap<MathType> multiplied =
      multipliedTypes(Compiler::entry(**module));
  if (Status status = compiler.runStages(**module, "precision", "plan");
      !status.ok())
    return status;
  Result<std::shared_ptr<Program>> program =
      compiler.generate(**module, /*withCode=*/false);
  if (!program.ok())
    return program.status();
  PredictedStepTime step{*program, {}};
  for (const Launch &launch : step.program->launches)
    step.seconds.push_back(
        launch.collective ? 0 : modelledSeconds(launch, target, multiplied));
  return step;
}

//===----------------------------------------------------------------------===//
// Measurement
//===----------------------------------------------------------------------===//

/// Copies `program` with single-rank collectives, so that it runs alone: each
/// output is computed from the rank's own input.
static std::shared_ptr<Program> alone(const Program &program) {
  auto copy = std::make_shared<Program>(program);
  for (Launch &launch : copy->launches) {
    if (!launch.collective)
      continue;
    const size_t count = launch.buffers.size() / 2;
    for (size_t i = 0; i < count; ++i) {
      BufferRef &input = launch.buffers[i], &output = launch.buffers[count + i];
      input.bytes = output.bytes = std::min(input.bytes, output.bytes);
    }
    Collective copied;
    copied.element = copied.accumulate = launch.collective->element;
    // Broadcast supports every type.
    copied.kind = Collective::Kind::Broadcast;
    launch.collective = copied;
  }
  return copy;
}

namespace {

/// Median time of each launch, in seconds.
class LaunchTimes {
public:
  void add(const std::vector<double> &milliseconds) {
    runs.resize(milliseconds.size());
    for (size_t i = 0; i < runs.size(); ++i)
      runs[i].push_back(1e-3 * milliseconds[i]);
  }
  size_t count() const { return runs.empty() ? 0 : runs.front().size(); }
  std::vector<double> medians() {
    std::vector<double> all;
    for (std::vector<double> &times : runs) {
      auto middle = times.begin() + std::ptrdiff_t(times.size() / 2);
      std::nth_element(times.begin(), middle, times.end());
      all.push_back(*middle);
    }
    return all;
  }

private:
  std::vector<std::vector<double>> runs;
};

/// Buffers of a rank.
struct Data {
  std::vector<Buffer> arguments, results;
};

} // namespace

static Result<Data> drawData(const Executable &executable,
                             std::span<const ProgramValue> wanted,
                             uint64_t seed) {
  PreparedModel subject;
  subject.executable = executable;
  std::vector<Status> problems =
      bindCompiledInputs(wanted, {}, /*draw=*/true, seed, subject);
  if (!problems.empty())
    return problems.front();
  Data data{std::move(subject.inputs), {}};
  Result<std::vector<Buffer>> results = executable.run(data.arguments);
  if (!results.ok())
    return results.status();
  data.results = std::move(*results);
  return data;
}

/// Runs until enough runs are timed; `times` is null for a background rank,
/// which runs until `over`.
static Status runRank(const Executable &executable, Data &data,
                      std::atomic<bool> &over, LaunchTimes *times) {
  constexpr size_t kFewest = 5, kMost = 200;
  constexpr double kMilliseconds = 1500;
  RunOptions options;
  std::vector<double> milliseconds;
  options.launchMilliseconds = &milliseconds;
  const auto start = Clock::now();
  while (!over) {
    if (Status status =
            executable.runInto(data.arguments, data.results, options);
        !status.ok())
      return status;
    if (!times)
      continue;
    times->add(milliseconds);
    if (times->count() >= kMost ||
        (times->count() >= kFewest && millisecondsSince(start) > kMilliseconds))
      over = true;
  }
  return {};
}

Result<PredictedStepTime> tool::measureStep(const std::string &model,
                                            const CompileOptions &options,
                                            const Timing &timing,
                                            uint64_t seed) {
  Result<Device> device = Device::cpu({.threads = timing.threads});
  if (!device.ok())
    return device.status();
  Result<std::unique_ptr<DeviceCompilation>> made =
      DeviceCompilation::create(model, options, *device);
  if (!made.ok())
    return made.status();
  DeviceCompilation &compile = **made;
  std::optional<Executable> executable;
  std::vector<ProgramValue> wanted;
  if (std::optional<DeviceCompilation::Found> found = compile.find()) {
    executable = std::move(found->executable);
    wanted.assign(found->file.arguments().begin(),
                  found->file.arguments().end());
  } else {
    if (Status status = compile.import(); !status.ok())
      return status;
    Result<Executable> finished = compile.finish();
    if (!finished.ok())
      return finished.status();
    executable = std::move(*finished);
    wanted = compile.arguments();
  }
  std::shared_ptr<Program> program = alone(executable->program());
  std::vector<Executable> ranks;
  std::vector<Data> data;
  for (int64_t i = 0; i < timing.beside; ++i) {
    Result<Device> own = Device::cpu({.threads = timing.threads});
    if (!own.ok())
      return own.status();
    Result<Executable> bound = Executable::create(*own, program);
    if (!bound.ok())
      return bound.status();
    Result<Data> drawn = drawData(*bound, wanted, seed);
    if (!drawn.ok())
      return drawn.status();
    ranks.push_back(std::move(*bound));
    data.push_back(std::move(*drawn));
  }
  std::atomic<bool> over = false;
  LaunchTimes times;
  std::vector<Status> ends(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < ranks.size(); ++i)
    threads.emplace_back(
        [&, i] { ends[i] = runRank(ranks[i], data[i], over, nullptr); });
  ends[0] = runRank(ranks[0], data[0], over, &times);
  over = true;
  for (std::thread &thread : threads)
    thread.join();
  for (const Status &status : ends)
    if (!status.ok())
      return status;
  PredictedStepTime step{std::make_shared<const Program>(executable->program()),
                         times.medians()};
  for (size_t i = 0; i < step.seconds.size(); ++i)
    if (step.program->launches[i].collective)
      step.seconds[i] = 0;
  return step;
}
