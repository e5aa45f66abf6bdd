//===- HostNetwork.cpp - network model of this machine --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times collectives as a step performs them, including packing and reductions,
// at three sizes, and fits Hockney's model (latency and bandwidth).
//
//===----------------------------------------------------------------------===//

#include "ParallelPlanCommand.h"
#include "PreparedModel.h"

#include "Runtime/DiskCache.h"
#include "Runtime/Environment.h"
#include "mpc/Runtime/Executable.h"

#include "llvm/TargetParser/Host.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <unistd.h>

using namespace mpc;
using namespace mpc::tool;

static Program messageProgram(int64_t ranks, int64_t elements) {
  Program program;
  program.name = "message";
  program.target = "cpu:native";
  const TensorType type = {ElementType::F32, {elements}};
  program.arguments.push_back({"x", type});
  program.results.push_back({"y", type});
  Launch launch;
  launch.kernel = "mean";
  launch.kind = "message";
  launch.collective = Collective();
  launch.collective->reduction = Collective::Reduction::Mean;
  launch.collective->ranks = ranks;
  launch.buffers = {{BufferRef::Kind::Argument, 0, 0, 4 * elements, false},
                    {BufferRef::Kind::Result, 0, 0, 4 * elements, true}};
  program.launches = {launch};
  return program;
}

/// Returns the median time of a collective of `bytes` on this rank, in seconds.
static Result<double> secondsOf(Communicator &group, int64_t bytes) {
  constexpr int kWarm = 3, kTimed = 21;
  Result<Device> device = Device::cpu({.threads = 1});
  if (!device.ok())
    return device.status();
  Result<Executable> executable = Executable::create(
      *device,
      std::make_shared<const Program>(messageProgram(group.size(), bytes / 4)));
  if (!executable.ok())
    return executable.status();
  std::vector<Buffer> arguments, results;
  for (std::vector<Buffer> *buffers : {&arguments, &results}) {
    Result<Buffer> buffer =
        Buffer::allocate(executable->program().arguments[0].type);
    if (!buffer.ok())
      return buffer.status();
    std::memset(buffer->data(), 0, buffer->size());
    buffers->push_back(std::move(*buffer));
  }
  RunOptions options;
  options.communicator = &group;
  std::vector<double> times;
  for (int i = 0; i < kWarm + kTimed; ++i) {
    auto start = Clock::now();
    if (Status status = executable->runInto(arguments, results, options);
        !status.ok())
      return status;
    if (i >= kWarm)
      times.push_back(1e-3 * millisecondsSince(start));
  }
  std::nth_element(times.begin(), times.begin() + kTimed / 2, times.end());
  return times[kTimed / 2];
}

static Result<NetworkModel> measure(Communicator &group) {
  constexpr int64_t kLeast = 1 << 10, kFew = int64_t(256) << 10,
                    kMany = int64_t(4) << 20;
  Result<double> least = secondsOf(group, kLeast);
  if (!least.ok())
    return least.status();
  Result<double> few = secondsOf(group, kFew);
  if (!few.ok())
    return few.status();
  Result<double> many = secondsOf(group, kMany);
  if (!many.ok())
    return many.status();
  const double rate =
      double(kMany - kFew) / std::max(*many - *few, 1e-3 * *many);
  // Messages that fit the cores' caches are faster than the fitted line.
  return NetworkModel{std::max(*few - double(kFew) / rate, *least), rate};
}

/// Measures among threads of this process; returns the first rank's model.
static Result<NetworkModel> measureThreads(int64_t ranks) {
  std::vector<std::shared_ptr<Communicator>> ends = connectThreads(int(ranks));
  std::vector<std::thread> threads;
  for (size_t rank = 1; rank < ends.size(); ++rank)
    threads.emplace_back([end = ends[rank]] { (void)measure(*end); });
  Result<NetworkModel> model = measure(*ends[0]);
  if (!model.ok())
    ends[0]->abort("failed to measure a message");
  for (std::thread &thread : threads)
    thread.join();
  return model;
}

/// Returns all cores of this machine: a launcher binds a rank to some.
static int64_t onlineCores() {
  return std::max<int64_t>(sysconf(_SC_NPROCESSORS_ONLN), 1);
}

namespace {

/// On-disk cache of measured networks.
class Kept {
public:
  Kept() : cache(folder()) {}

  std::optional<NetworkModel> find(int64_t ranks, const char *how) const {
    auto bytes = cache.find(key(ranks, how));
    NetworkModel model;
    if (!bytes || bytes->size() != sizeof(model))
      return std::nullopt;
    std::memcpy(&model, bytes->data(), sizeof(model));
    if (!(model.latencySeconds > 0) || !(model.bytesPerSecond > 0))
      return std::nullopt;
    return model;
  }
  void store(int64_t ranks, const char *how, const NetworkModel &model) const {
    (void)cache.store(key(ranks, how), std::as_bytes(std::span(&model, 1)));
  }

private:
  static std::string folder() {
    std::string root = detail::cacheFolder();
    return root.empty() ? root : root + "/networks";
  }
  static std::string key(int64_t ranks, const char *how) {
    const std::string count = std::to_string(ranks),
                      cores = std::to_string(onlineCores()),
                      core = llvm::sys::getHostCPUName().str();
    const std::string_view parts[] = {"host network 1", how, count, cores,
                                      core};
    return detail::contentKey(parts);
  }

  detail::DiskCache cache;
};

} // namespace

Result<NetworkModel> tool::hostNetwork(int64_t ranks, Communicator *group,
                                       std::string &how) {
  Kept kept;
  how = "MPI";
  if (group && group->size() == ranks) {
    Result<NetworkModel> model = measure(*group);
    if (model.ok() && group->rank() == 0)
      kept.store(ranks, "mpi", *model);
    return model;
  }
  if (std::optional<NetworkModel> model = kept.find(ranks, "mpi"))
    return *model;
  how = "threads";
  if (std::optional<NetworkModel> model = kept.find(ranks, "threads"))
    return *model;
  Result<NetworkModel> model = measureThreads(ranks);
  if (model.ok())
    kept.store(ranks, "threads", *model);
  return model;
}
