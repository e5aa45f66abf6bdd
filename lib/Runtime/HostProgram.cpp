//===- HostProgram.cpp - programs on host-memory devices ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared by devices whose kernels run on host memory: pooled memory and
// synchronous streams.
//
//===----------------------------------------------------------------------===//

#include "Communication/CollectiveThread.h"
#include "DeviceImpl.h"
#include "RunChecks.h"

#include <chrono>
#include <cstring>
#include <mutex>

using namespace mpc;
using namespace mpc::detail;

namespace {

/// Pool of blocks with the arena, followed by the zeroed status words of the
/// program's checks; one per concurrent run.
class ArenaPool {
public:
  explicit ArenaPool(const Program &program)
      : checksAt((size_t(program.arenaBytes) + kBufferAlignment - 1) /
                 kBufferAlignment * kBufferAlignment),
        checkBytes(size_t(program.checkBytes())) {}

  int64_t *checksIn(void *block) const {
    return reinterpret_cast<int64_t *>(static_cast<char *>(block) + checksAt);
  }

  std::shared_ptr<void> acquire() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (!free.empty()) {
        std::shared_ptr<void> block = std::move(free.back());
        free.pop_back();
        return block;
      }
    }
    std::shared_ptr<void> block = allocateAligned(checksAt + checkBytes);
    if (block)
      std::memset(checksIn(block.get()), 0, checkBytes);
    return block;
  }
  void release(std::shared_ptr<void> block) {
    std::lock_guard<std::mutex> lock(mutex);
    free.push_back(std::move(block));
  }

private:
  const size_t checksAt, checkBytes;
  std::mutex mutex;
  std::vector<std::shared_ptr<void>> free;
};

/// Pool of Collectives; one per concurrent run.
class CollectiveThreadPool {
public:
  std::unique_ptr<CollectiveThread> acquire(const Program &program,
                                            const CollectiveDependences &plan) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (!free.empty()) {
        std::unique_ptr<CollectiveThread> messages = std::move(free.back());
        free.pop_back();
        return messages;
      }
    }
    return std::make_unique<CollectiveThread>(program, plan);
  }
  void release(std::unique_ptr<CollectiveThread> messages) {
    std::lock_guard<std::mutex> lock(mutex);
    free.push_back(std::move(messages));
  }

private:
  std::mutex mutex;
  std::vector<std::unique_ptr<CollectiveThread>> free;
};

class HostProgram : public LoadedProgram {
public:
  HostProgram(std::shared_ptr<DeviceImpl> device,
              std::shared_ptr<const Program> program)
      : device(std::move(device)), program(std::move(program)),
        arenas(*this->program), plan(*this->program) {}

  Status run(std::span<const Buffer> arguments, std::span<Buffer> results,
             const RunOptions &options) override;
  Status enqueue(std::span<const Buffer> arguments, std::span<Buffer> results,
                 StreamImpl &) override {
    return run(arguments, results, RunOptions());
  }

private:
  Status execute(const Addresses &addresses, const RunOptions &options);

  std::shared_ptr<DeviceImpl> device;
  std::shared_ptr<const Program> program;
  ArenaPool arenas;
  CollectiveDependences plan;
  CollectiveThreadPool collectives; // uses `program` and `plan`
};

} // namespace

Status HostProgram::run(std::span<const Buffer> arguments,
                        std::span<Buffer> results, const RunOptions &options) {
  // A device that executes nothing needs no ranks.
  if (device->needsCode())
    if (Status status = plan.check(*program, options.communicator);
        !status.ok())
      return status;
  Addresses addresses;
  addresses.arguments.reserve(arguments.size());
  for (const Buffer &buffer : arguments)
    addresses.arguments.push_back(const_cast<void *>(buffer.data()));
  addresses.results.reserve(results.size());
  for (Buffer &buffer : results)
    addresses.results.push_back(buffer.data());
  addresses.constants.reserve(program->constants.size());
  for (const ProgramConstant &constant : program->constants)
    addresses.constants.push_back(const_cast<void *>(constant.data.get()));

  std::shared_ptr<void> arena = arenas.acquire();
  if (!arena)
    return Status(StatusCode::ResourceExhausted, program->name,
                  "no memory for an arena of " +
                      std::to_string(program->arenaBytes) + " bytes");
  addresses.arena = arena.get();
  int64_t *checks = arenas.checksIn(arena.get());
  addresses.checks = checks;
  Status status = execute(addresses, options);
  Status checked = readChecks(*program, checks, options);
  arenas.release(std::move(arena));
  return status.ok() ? checked : status;
}

Status HostProgram::execute(const Addresses &addresses,
                            const RunOptions &options) {
  std::span<double> milliseconds;
  if (options.launchMilliseconds)
    milliseconds = *options.launchMilliseconds;
  if (plan.launches.empty() || !device->needsCode())
    return device->execute(*program, addresses, nullptr, milliseconds);
  std::unique_ptr<CollectiveThread> messages =
      collectives.acquire(*program, plan);
  messages->begin(addresses, options);
  Status status =
      device->execute(*program, addresses, messages.get(), milliseconds);
  Status ended = messages->end();
  collectives.release(std::move(messages));
  return status.ok() ? ended : status;
}

std::shared_ptr<LoadedProgram>
detail::loadOnHost(std::shared_ptr<DeviceImpl> device,
                   std::shared_ptr<const Program> program) {
  return std::make_shared<HostProgram>(std::move(device), std::move(program));
}

//===----------------------------------------------------------------------===//
// Default implementations for host-memory devices
//===----------------------------------------------------------------------===//

Status LoadedProgram::timeRuns(std::span<RunBuffers> sets, StreamImpl &stream,
                               std::span<double> milliseconds) {
  size_t next = 0;
  for (double &entry : milliseconds) {
    RunBuffers &set = sets[next++ % sets.size()];
    auto start = std::chrono::steady_clock::now();
    if (Status status = enqueue(set.arguments, set.results, stream);
        !status.ok())
      return status;
    if (Status status = stream.synchronize(); !status.ok())
      return status;
    std::chrono::duration<double, std::milli> took =
        std::chrono::steady_clock::now() - start;
    entry = took.count();
  }
  return {};
}

const std::string &DeviceImpl::architecture() const {
  static const std::string none;
  return none;
}

Status DeviceImpl::execute(const Program &program, const Addresses &,
                           CollectiveThread *, std::span<double>) {
  return Status(StatusCode::Internal, program.name,
                "device '" + name() + "' does not run programs in host memory");
}

Result<std::shared_ptr<LoadedProgram>>
DeviceImpl::load(std::shared_ptr<DeviceImpl> self,
                 std::shared_ptr<const Program> program) {
  return loadOnHost(std::move(self), std::move(program));
}

Result<std::shared_ptr<StreamImpl>> DeviceImpl::createStream() {
  return std::make_shared<StreamImpl>();
}

Result<std::shared_ptr<StreamImpl>> DeviceImpl::wrapStream(void *) {
  return Status(StatusCode::InvalidArgument, "device '" + name() + "'",
                "cannot wrap streams of the application");
}

Result<std::shared_ptr<void>>
DeviceImpl::allocate(size_t bytes, std::shared_ptr<StreamImpl>) {
  return allocatePinned(bytes);
}

Result<std::shared_ptr<void>> DeviceImpl::allocatePinned(size_t bytes) {
  std::shared_ptr<void> memory = allocateAligned(bytes);
  if (!memory)
    return Status(StatusCode::ResourceExhausted, "buffer",
                  "no memory for " + std::to_string(bytes) + " bytes");
  return memory;
}

Status DeviceImpl::copy(void *to, bool, const void *from, bool, size_t bytes,
                        StreamImpl &) {
  if (bytes)
    std::memmove(to, from, bytes);
  return {};
}

Status DeviceImpl::fetch(void *to, const void *from, bool fromDevice,
                         size_t bytes, StreamImpl &stream) {
  return copy(to, /*toDevice=*/false, from, fromDevice, bytes, stream);
}

Status StreamImpl::waitFor(void *) {
  return Status(StatusCode::InvalidArgument, "stream",
                "this device cannot wait for events of the application");
}

Status StreamImpl::record(void *) {
  return Status(StatusCode::InvalidArgument, "stream",
                "this device cannot record events of the application");
}

Status StreamImpl::then(std::function<void(const Status &)> function) {
  function({});
  return {};
}
