//===- Executable.h - running a compiled model ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program bound to a device.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_EXECUTABLE_H
#define MPC_RUNTIME_EXECUTABLE_H

#include "mpc/Runtime/Buffer.h"
#include "mpc/Runtime/Device.h"
#include "mpc/Runtime/Program.h"

#include <span>
#include <vector>

namespace mpc {

/// Choices for one run.
struct RunOptions {
  /// Where set, receives the milliseconds of each launch, in program order.
  /// Timing costs two clock reads per launch.
  std::vector<double> *launchMilliseconds = nullptr;
};

/// A compiled model on a device. Copies share the program. `run` may be called
/// from several threads at once: each call has its own intermediate memory,
/// which is kept for later calls and freed with the last copy.
class Executable {
public:
  /// Binds a program; fails where it is malformed.
  static Result<Executable> create(Device device,
                                   std::shared_ptr<const Program> program);

  /// Runs on `arguments`, one per entry of program().arguments and of its exact
  /// type, and returns new result buffers. Blocks until done.
  Result<std::vector<Buffer>> run(std::span<const Buffer> arguments,
                                  const RunOptions &options = {}) const;

  /// The same into the caller's buffers, which must have the results' types and
  /// overlap neither each other nor an argument. After the first call it takes
  /// no memory but some words per buffer.
  Status runInto(std::span<const Buffer> arguments, std::span<Buffer> results,
                 const RunOptions &options = {}) const;

  const Program &program() const { return *state->program; }
  const Device &device() const { return state->device; }
  /// Number of the argument or result of that name, or -1.
  int argumentIndex(const std::string &name) const;
  int resultIndex(const std::string &name) const;

private:
  struct ArenaPool;
  struct State {
    Device device;
    std::shared_ptr<const Program> program;
    std::shared_ptr<ArenaPool> arenas;
  };
  explicit Executable(std::shared_ptr<const State> state)
      : state(std::move(state)) {}

  std::shared_ptr<const State> state;
};

} // namespace mpc

#endif // MPC_RUNTIME_EXECUTABLE_H
