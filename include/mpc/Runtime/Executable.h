//===- Executable.h - execution of compiled models --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program bound to a device.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_EXECUTABLE_H
#define MPC_RUNTIME_EXECUTABLE_H

#include "mpc/Runtime/Buffer.h"
#include "mpc/Runtime/Communicator.h"
#include "mpc/Runtime/Device.h"
#include "mpc/Runtime/Program.h"
#include "mpc/Runtime/Stream.h"

#include <functional>
#include <span>
#include <vector>

namespace mpc {

namespace detail {
class LoadedProgram;
} // namespace detail

/// Timeline of a run, in seconds from its start.
struct RunTrace {
  struct Span {
    /// Index of the launch in the program.
    int64_t launch = 0;
    double begin = 0, end = 0;
  };
  /// Launches, and collectives, which run concurrently.
  std::vector<Span> launches, messages;
};

/// Options of one run.
struct RunOptions {
  /// If set, receives the time of each launch in ms, in program order. Costs
  /// two clock reads per launch; on a GPU the run uses a separate graph with an
  /// event after each launch, so that times exclude host launch overhead.
  std::vector<double> *launchMilliseconds = nullptr;
  /// Communicator of a program with collectives, of the size it was compiled
  /// for; ignored by others. Used by one run at a time.
  Communicator *communicator = nullptr;
  /// If set, receives the timeline of a program with collectives on a
  /// host-memory device; ignored by others.
  RunTrace *trace = nullptr;
  /// If set, receives the indices of checked results in which a kernel may have
  /// stored infinities or NaNs, ascending (RunCheck::Kind::FiniteResult). CPU
  /// kernels detect them while storing; on a GPU all checked results are
  /// listed. findNonFinite() counts them.
  std::vector<int64_t> *nonFinite = nullptr;
};

/// Buffers of one run.
struct RunBuffers {
  std::vector<Buffer> arguments, results;
};

/// A compiled model on a device. Copies share the program. `run` is
/// thread-safe: each concurrent call has its own intermediate memory, which is
/// pooled for later calls and freed with the last copy, after waiting for runs
/// in progress.
///
/// On a GPU a run is one CUDA graph, captured by the first run on a set of
/// buffers and replayed by later ones; a new set of buffers costs some
/// microseconds per launch once.
class Executable {
public:
  /// Binds a program to a device; fails if it is malformed. On a GPU loads
  /// machine code, compiling it first if the program has none for the device
  /// (seconds; Unavailable without the compiler), and uploads the constants.
  static Result<Executable> create(Device device,
                                   std::shared_ptr<const Program> program);

  /// Runs on `arguments`, one per entry of program().arguments and of its exact
  /// type, and returns new result buffers in host memory. Blocks until done.
  /// Host arguments are copied to a device with its own memory; work of other
  /// streams on device arguments must be done. A result that aliases an
  /// argument (ProgramValue::alias) is that argument's buffer, which the run
  /// overwrites. Returns InvalidArgument, after the run, if an op with
  /// framework-defined bounds checking read an index or length out of range
  /// (RunCheck::Kind::IndexInRange, LengthInRange).
  Result<std::vector<Buffer>> run(std::span<const Buffer> arguments,
                                  const RunOptions &options = {}) const;

  /// The same into the caller's buffers, which must have the results' types and
  /// overlap neither each other nor an argument. A result that aliases an
  /// argument is the argument's buffer, or null to be set to it. Runs that
  /// write the same buffer must not be concurrent. After the first call
  /// allocates only a few words per buffer.
  Status runInto(std::span<const Buffer> arguments, std::span<Buffer> results,
                 const RunOptions &options = {}) const;

  /// Enqueues a run on `stream` and returns. All buffers must be in the memory
  /// of the stream's device, which is this executable's, and live until the run
  /// is done (buffers allocated on the same stream may be released at once).
  /// Runs on one stream share intermediate memory; runs on several streams have
  /// separate memory while enough is available. Launches one graph and does not
  /// block, except for the first run on a set of buffers. `onDone` is called as
  /// by Stream::then(); a returned failure is not reported there. The stream
  /// must not be capturing.
  Status runAsync(std::span<const Buffer> arguments, std::span<Buffer> results,
                  const Stream &stream,
                  std::function<void(const Status &)> onDone = {}) const;

  /// Runs once per entry of `milliseconds`, back to back, and measures each
  /// run, on a GPU with its own clock and without host time. Buffers and stream
  /// as for runAsync(); blocks until done.
  Status timeRuns(std::span<const Buffer> arguments, std::span<Buffer> results,
                  const Stream &stream, std::span<double> milliseconds) const;
  /// The same, cycling through `sets`: if these exceed a device's cache, each
  /// run reads its arguments from DRAM. Each set runs once before timing.
  Status timeRuns(std::span<RunBuffers> sets, const Stream &stream,
                  std::span<double> milliseconds) const;

  const Program &program() const { return *state->program; }
  const Device &device() const { return state->device; }
  /// Returns the types of a layer and its sublayers (findLayer()).
  Result<LayerTypes> layer(const std::string &path) const {
    return findLayer(program().layers, path);
  }
  /// Returns the index of the argument or result of that name, or -1.
  int argumentIndex(const std::string &name) const;
  int resultIndex(const std::string &name) const;

private:
  struct State {
    Device device;
    std::shared_ptr<const Program> program;
    std::shared_ptr<detail::LoadedProgram> loaded;
  };
  explicit Executable(std::shared_ptr<const State> state)
      : state(std::move(state)) {}
  /// Fails unless the buffers fit the program and the device.
  Status check(std::span<const Buffer> arguments,
               std::span<const Buffer> results) const;
  /// The same, and they may be used on `stream`.
  Status checkOn(std::span<const Buffer> arguments,
                 std::span<const Buffer> results, const Stream &stream) const;

  std::shared_ptr<const State> state;
};

} // namespace mpc

#endif // MPC_RUNTIME_EXECUTABLE_H
