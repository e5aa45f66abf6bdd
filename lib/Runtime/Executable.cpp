//===- Executable.cpp - running a compiled model --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Executable.h"

#include "DeviceImpl.h"

#include <mutex>

using namespace mpc;

/// Blocks of arena memory that are free between runs: as many as ran at once.
struct Executable::ArenaPool {
  explicit ArenaPool(size_t bytes) : bytes(bytes) {}

  std::shared_ptr<void> acquire() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (!free.empty()) {
        std::shared_ptr<void> block = std::move(free.back());
        free.pop_back();
        return block;
      }
    }
    return allocateAligned(bytes);
  }
  void release(std::shared_ptr<void> block) {
    std::lock_guard<std::mutex> lock(mutex);
    free.push_back(std::move(block));
  }

  const size_t bytes;
  std::mutex mutex;
  std::vector<std::shared_ptr<void>> free;
};

Result<Executable> Executable::create(Device device,
                                      std::shared_ptr<const Program> program) {
  if (!program)
    return Status(StatusCode::InvalidArgument, "executable",
                  "no program was given");
  if (Status status = validate(*program, device.needsCode()); !status.ok())
    return status;
  auto arenas = std::make_shared<ArenaPool>(size_t(program->arenaBytes));
  return Executable(std::make_shared<const State>(
      State{std::move(device), std::move(program), std::move(arenas)}));
}

/// Checks the caller's buffers against the program's declaration.
static Status checkBuffers(const char *what,
                           const std::vector<ProgramValue> &declared,
                           std::span<const Buffer> given) {
  if (declared.size() != given.size())
    return Status(StatusCode::InvalidArgument, what,
                  "the program has " + std::to_string(declared.size()) +
                      ", but " + std::to_string(given.size()) + " were given");
  for (size_t i = 0; i < declared.size(); ++i) {
    std::string where = std::string(what) + " '" + declared[i].name + "'";
    if (!given[i])
      return Status(StatusCode::InvalidArgument, where, "no buffer was given");
    if (given[i].type() != declared[i].type)
      return Status(StatusCode::InvalidArgument, where,
                    "must be " + declared[i].type.toString() + ", but " +
                        given[i].type().toString() + " was given");
  }
  return {};
}

Result<std::vector<Buffer>> Executable::run(std::span<const Buffer> arguments,
                                            const RunOptions &options) const {
  std::vector<Buffer> results;
  results.reserve(program().results.size());
  for (const ProgramValue &value : program().results) {
    Result<Buffer> buffer = Buffer::allocate(value.type);
    if (!buffer.ok())
      return buffer.status();
    results.push_back(std::move(*buffer));
  }
  if (Status status = runInto(arguments, results, options); !status.ok())
    return status;
  return results;
}

Status Executable::runInto(std::span<const Buffer> arguments,
                           std::span<Buffer> results,
                           const RunOptions &options) const {
  const Program &program = this->program();
  if (Status status = checkBuffers("input", program.arguments, arguments);
      !status.ok())
    return status;
  if (Status status = checkBuffers("output", program.results, results);
      !status.ok())
    return status;

  detail::Addresses addresses;
  addresses.arguments.reserve(arguments.size());
  for (const Buffer &buffer : arguments)
    addresses.arguments.push_back(const_cast<void *>(buffer.data()));
  addresses.results.reserve(results.size());
  for (Buffer &buffer : results)
    addresses.results.push_back(buffer.data());
  addresses.constants.reserve(program.constants.size());
  for (const ProgramConstant &constant : program.constants)
    addresses.constants.push_back(const_cast<void *>(constant.data.get()));

  std::shared_ptr<void> arena = state->arenas->acquire();
  if (!arena)
    return Status(StatusCode::ResourceExhausted, program.name,
                  "no memory for an arena of " +
                      std::to_string(program.arenaBytes) + " bytes");
  addresses.arena = arena.get();

  std::span<double> milliseconds;
  if (options.launchMilliseconds) {
    options.launchMilliseconds->assign(program.launches.size(), 0);
    milliseconds = *options.launchMilliseconds;
  }
  Status status = state->device.impl->execute(program, addresses, milliseconds);
  state->arenas->release(std::move(arena));
  return status;
}

static int indexOf(const std::vector<ProgramValue> &values,
                   const std::string &name) {
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i].name == name)
      return static_cast<int>(i);
  return -1;
}

int Executable::argumentIndex(const std::string &name) const {
  return indexOf(program().arguments, name);
}

int Executable::resultIndex(const std::string &name) const {
  return indexOf(program().results, name);
}
