//===- Bench.cpp - mpc bench ----------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompiledModel.h"
#include "HtmlReport.h"
#include "PeakRates.h"
#include "PreparedModel.h"
#include "RunCommands.h"

#include "mpc/Runtime/Executable.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <optional>
#include <sys/resource.h>

using namespace mpc;
using namespace mpc::tool;

/// Returns true if the policy, by its name, multiplies bf16: its kernels are
/// compared with the bf16 peak.
static bool multipliesBf16(const std::string &policy) {
  return policy.find("bfloat16") != std::string::npos;
}

static double medianOf(std::vector<double> values) {
  if (values.empty())
    return 0;
  size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + middle, values.end());
  return values[middle];
}

namespace {

/// Launches that share a kernel.
struct KernelRow {
  std::string name, kind;
  int64_t count = 0, flops = 0, bytes = 0;
  /// Total time of its launches in ms, per run.
  std::vector<double> milliseconds;
};

/// Times of all runs.
struct Timing {
  std::vector<double> milliseconds;
  std::vector<KernelRow> kernels;
  /// Time of each launch in ms, per run.
  std::vector<std::vector<double>> launches;
  /// Number of runs excluded from `milliseconds` because the thread was
  /// preempted.
  int64_t disturbed = 0;
  /// Number of all runs.
  int64_t runs = 0;
  /// Number of rotating buffer sets.
  size_t sets = 1;
};

} // namespace

/// Rotating buffer sets whose total size far exceeds a GPU's L2, as in
/// tools/gpu/bench_worker.py: no run finds its inputs in the cache.
static constexpr size_t kRotatedBytes = size_t(256) << 20, kMostSets = 32;

/// Returns the number of sets: one if a run updates its arguments, which then
/// differ each time.
static size_t countSets(const Program &program,
                        const std::vector<Buffer> &inputs) {
  size_t bytes = 0;
  for (const Buffer &input : inputs)
    bytes += input.size();
  for (const ProgramValue &value : program.results) {
    if (value.alias >= 0)
      return 1;
    bytes += size_t(value.type.byteCount().value_or(0));
  }
  return std::min(kMostSets, 1 + kRotatedBytes / std::max<size_t>(bytes, 1));
}

/// Allocates buffers for `inputs` and results on the stream's device.
static Status placeOnDevice(const Executable &executable,
                            const std::vector<Buffer> &inputs,
                            const Stream &stream, RunBuffers &set) {
  for (const Buffer &input : inputs) {
    Result<Buffer> buffer = Buffer::allocateOn(stream, input.type());
    if (!buffer.ok())
      return buffer.status();
    if (Status status = buffer->copyFrom(input, stream); !status.ok())
      return status;
    set.arguments.push_back(std::move(*buffer));
  }
  for (const ProgramValue &value : executable.program().results) {
    if (value.alias >= 0) { // aliases the argument
      set.results.push_back(set.arguments[size_t(value.alias)]);
      continue;
    }
    Result<Buffer> buffer = Buffer::allocateOn(stream, value.type);
    if (!buffer.ok())
      return buffer.status();
    set.results.push_back(std::move(*buffer));
  }
  return {};
}

/// Times runs on a device with its own memory, by its clock: inputs and results
/// stay on the device.
static Status measureOnDevice(const Executable &executable,
                              const std::vector<Buffer> &inputs, int runs,
                              Timing &timing) {
  Result<Stream> stream = Stream::create(executable.device());
  if (!stream.ok())
    return stream.status();
  timing.sets = countSets(executable.program(), inputs);
  std::vector<RunBuffers> sets(timing.sets);
  for (RunBuffers &set : sets)
    if (Status status = placeOnDevice(executable, inputs, *stream, set);
        !status.ok())
      return status;
  // Estimate how many runs fit into a second.
  std::vector<double> times(runs > 0 ? runs : 20);
  auto start = Clock::now();
  if (Status status = executable.timeRuns(sets, *stream, times); !status.ok())
    return status;
  if (runs == 0) {
    double each = millisecondsSince(start) / double(times.size());
    times.resize(size_t(std::clamp(1000 / std::max(each, 1e-3), 20.0, 1e4)));
    if (Status status = executable.timeRuns(sets, *stream, times); !status.ok())
      return status;
  }
  timing.milliseconds = std::move(times);
  timing.runs = int64_t(timing.milliseconds.size());
  return {};
}

/// Returns the CPU time of the calling thread in ms.
static double processorMilliseconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) * 1e3 + double(time.tv_nsec) * 1e-6;
}

/// Times runs on the CPU until `enough(done)`. A run of a single thread whose
/// CPU time is less than its wall time was preempted: it counts only if all
/// runs were. With several threads one may wait for another.
template <typename Enough>
static Status
measureHere(const Executable &executable, const std::vector<Buffer> &inputs,
            std::vector<Buffer> &outputs, Enough enough, Timing &timing) {
  bool alone = executable.device().threads() == 1;
  std::vector<double> disturbed;
  auto start = Clock::now();
  std::vector<double> &calm = timing.milliseconds;
  // On a busy machine few runs are undisturbed.
  while (!enough(calm.size() + disturbed.size(), calm.empty() ? 4000 : 1000,
                 start)) {
    double used = processorMilliseconds();
    auto before = Clock::now();
    if (Status status = executable.runInto(inputs, outputs); !status.ok())
      return status;
    double took = millisecondsSince(before);
    used = processorMilliseconds() - used;
    bool isCalm = !alone || took - used < 0.02 * took + 0.02;
    (isCalm ? calm : disturbed).push_back(took);
  }
  timing.disturbed = int64_t(disturbed.size());
  timing.runs = int64_t(calm.size() + disturbed.size());
  if (calm.empty())
    calm = std::move(disturbed);
  return {};
}

/// Runs `runs` times, or for about a second if `runs` is 0.
static Status measure(const Executable &executable,
                      const std::vector<Buffer> &inputs, int runs,
                      Timing &timing) {
  std::vector<Buffer> outputs;
  Result<std::vector<Buffer>> first = executable.run(inputs);
  if (!first.ok())
    return first.status();
  outputs = std::move(*first);
  // Time whole runs first: timing each launch has a small cost.
  auto enough = [&](size_t done, double budget, Clock::time_point start) {
    if (runs > 0)
      return done >= size_t(runs);
    return done >= 5 && (millisecondsSince(start) > budget || done >= 10000);
  };
  if (executable.device().hasOwnMemory()) {
    if (Status status = measureOnDevice(executable, inputs, runs, timing);
        !status.ok())
      return status;
  } else if (Status status =
                 measureHere(executable, inputs, outputs, enough, timing);
             !status.ok())
    return status;

  const std::vector<Launch> &launches = executable.program().launches;
  std::map<std::string, size_t> rowOf;
  std::vector<size_t> rows;
  for (const Launch &launch : launches) {
    auto [entry, isNew] = rowOf.emplace(launch.kernel, timing.kernels.size());
    if (isNew)
      timing.kernels.push_back({launch.kernel, launch.kind, 0, 0, 0, {}});
    KernelRow &row = timing.kernels[entry->second];
    ++row.count;
    row.flops += launch.flops;
    row.bytes += launch.bytes;
    rows.push_back(entry->second);
  }
  auto start = Clock::now();
  RunOptions timed;
  std::vector<double> perLaunch;
  timed.launchMilliseconds = &perLaunch;
  for (size_t done = 0; !enough(done, 500, start); ++done) {
    if (Status status = executable.runInto(inputs, outputs, timed);
        !status.ok())
      return status;
    std::vector<double> perKernel(timing.kernels.size(), 0);
    timing.launches.resize(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      perKernel[rows[i]] += perLaunch[i];
      timing.launches[i].push_back(perLaunch[i]);
    }
    for (size_t i = 0; i < perKernel.size(); ++i)
      timing.kernels[i].milliseconds.push_back(perKernel[i]);
  }
  return {};
}

int tool::benchCommand(const BenchArguments &arguments) {
  Reporter reporter(arguments.common.json, arguments.common.quiet);
  Result<Device> device = makeDevice(arguments.common);
  if (!device.ok())
    return reporter.fail(device.status());
  if (Status status =
          checkHtml(arguments.html,
                    /*hasGraph=*/!isStoredModel(arguments.common.model));
      !status.ok())
    return reporter.fail(status);
  Result<std::vector<NamedArray>> arrays =
      loadArrays(arguments.common.inputs, arguments.common.maxMemory);
  if (!arrays.ok())
    return reporter.fail(arrays.status());
  PreparedModel subject;
  std::vector<Status> problems =
      prepareSubject(arguments.common, *arrays, /*draw=*/true, *device,
                     reporter, subject, arguments.training);
  if (!problems.empty())
    return reporter.fail(problems);
  const Executable &executable = *subject.executable;

  Timing timing;
  if (Status status =
          measure(executable, subject.inputs, arguments.runs, timing);
      !status.ok())
    return reporter.fail(status);
  const Program &plan = executable.program();
  // Peak rates are measured where the kernels run, on the CPU only.
  std::optional<PeakRates> ceilings;
  if (device->architecture().empty())
    ceilings = measurePeakRates(subject.isa, multipliesBf16(subject.policy),
                                device->threads());

  double median = medianOf(timing.milliseconds);
  double least =
      *std::min_element(timing.milliseconds.begin(), timing.milliseconds.end());
  auto rate = [&](double amount) {
    return median > 0 ? amount / median * 1e-6 : 0;
  };
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);

  Json bounds;
  if (ceilings) {
    Json bandwidths = Json::array();
    for (auto [size, rate] : ceilings->bytesPerSecond)
      bandwidths.push_back(
          {{"working_set", size}, {"gigabytes_per_second", rate * 1e-9}});
    bounds = {{"gflops", ceilings->flopsPerSecond * 1e-9},
              {"bandwidths", bandwidths}};
  }
  Json kernels = Json::array();
  std::vector<std::vector<std::string>> table = {
      {"kernel", "kind", "count", "ms", "GFLOP/s", "GB/s", "of ceiling"}};
  for (const KernelRow &row : timing.kernels) {
    double ms = medianOf(row.milliseconds);
    // Per launch: its working set determines the relevant cache level.
    double atLeast = ceilings
                         ? ceilings->leastSeconds(double(row.flops) / row.count,
                                                  double(row.bytes) / row.count)
                         : 0;
    double fraction = ms > 0 ? atLeast * row.count * 1e3 / ms : 0;
    kernels.push_back(
        {{"name", row.name},
         {"kind", row.kind},
         {"count", row.count},
         {"median_ms", ms},
         {"flops", row.flops},
         {"bytes", row.bytes},
         {"fraction_of_ceiling", ceilings ? Json(fraction) : Json()}});
    table.push_back(
        {row.name, row.kind, std::to_string(row.count), shortNumber(ms),
         shortNumber(ms > 0 ? double(row.flops) / ms * 1e-6 : 0),
         shortNumber(ms > 0 ? double(row.bytes) / ms * 1e-6 : 0),
         ceilings ? std::to_string(std::lround(fraction * 100)) + " %" : "-"});
  }
  Json launches = Json::array();
  for (size_t i = 0; i < plan.launches.size(); ++i)
    launches.push_back({{"kernel", plan.launches[i].kernel},
                        {"kind", plan.launches[i].kind},
                        {"ops", plan.launches[i].ops},
                        {"median_ms", medianOf(timing.launches[i])}});
  reporter.lines(
      formatTable(table, {false, false, true, true, true, true, true}));
  reporter.line("");
  reporter.line("median " + shortNumber(median) + " ms, least " +
                shortNumber(least) + " ms of " + std::to_string(timing.runs) +
                " runs, " + std::to_string(timing.disturbed) + " disturbed; " +
                shortNumber(rate(double(plan.flops()))) + " GFLOP/s, " +
                shortBytes(double(plan.bytesMoved())) +
                (isStoredModel(arguments.common.model) ? " moved; loaded in "
                 : subject.isCached ? " moved; found in the cache in "
                                    : " moved; compiled in ") +
                shortNumber(subject.compileMs) + " ms");
  Json document = {{"model", arguments.common.model},
                   {"policy", subject.policy},
                   {"device", device->name()},
                   {"isa", subject.isa},
                   {"threads", device->threads()},
                   {"runs", timing.runs},
                   {"disturbed_runs", timing.disturbed},
                   {"median_ms", median},
                   {"min_ms", least},
                   {"buffer_sets", timing.sets},
                   {"flops", plan.flops()},
                   {"gflops", rate(double(plan.flops()))},
                   {"bytes", plan.bytesMoved()},
                   {"compile_ms", subject.compileMs},
                   {"cached", subject.isCached},
                   {"verified", arguments.common.verifyFiles},
                   {"arena_bytes", plan.arenaBytes},
                   {"arena_live_bytes", plan.liveArenaBytes()},
                   {"constant_bytes", plan.constantBytes()},
                   {"peak_rss_bytes", int64_t(usage.ru_maxrss) * 1024},
                   {"ceilings", bounds},
                   {"kernels", kernels},
                   {"launches", launches}};
  if (!arguments.training.empty())
    document["training"] = arguments.training;
  if (!arguments.html.empty()) {
    Result<Json> explanation =
        explainSubject(arguments.common, *arrays, *device, arguments.training);
    if (!explanation.ok())
      return reporter.fail(explanation.status());
    if (!explanation->is_null())
      document["explanation"] = std::move(*explanation);
    if (Status status = writeHtml(arguments.html, "bench", document);
        !status.ok())
      return reporter.fail(status);
  }
  reporter.document(document);
  return reporter.finish(kDone);
}
