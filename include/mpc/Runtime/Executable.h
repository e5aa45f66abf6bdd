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

/// When a run did what, in seconds from its beginning.
struct RunTrace {
  struct Span {
    /// Number of the launch in the program.
    int64_t launch = 0;
    double begin = 0, end = 0;
  };
  /// Launches, and messages among ranks, which run beside them.
  std::vector<Span> launches, messages;
};

/// Choices for one run.
struct RunOptions {
  /// Where set, receives the milliseconds of each launch, in program order.
  /// Timing costs two clock reads per launch; on a GPU the run is then a graph
  /// of its own with an event behind each launch, so that no time has what the
  /// host takes to launch.
  std::vector<double> *launchMilliseconds = nullptr;
  /// The ranks of a program with collectives, as many as it was compiled for;
  /// others do not read it. One run at a time uses a communicator.
  Communicator *communicator = nullptr;
  /// Where set, receives the trace of a program with collectives that runs in
  /// host memory; of others nothing.
  RunTrace *trace = nullptr;
  /// Where set, receives the numbers of the results that should be finite and
  /// in which a kernel may have stored infinities or NaNs, ascending
  /// (RunCheck::Kind::FiniteResult). On a CPU kernels notice what they store;
  /// on a GPU these are all such results. findNonFinite() counts them.
  std::vector<int64_t> *nonFinite = nullptr;
};

/// What one run works on.
struct RunBuffers {
  std::vector<Buffer> arguments, results;
};

/// A compiled model on a device. Copies share the program. `run` may be called
/// from several threads at once: each call has its own intermediate memory,
/// which is kept for later calls and freed with the last copy, which waits for
/// the runs that are under way.
///
/// On a GPU a run is one CUDA graph, captured at the first run on a set of
/// buffers and replayed by later ones; another set of buffers costs some
/// microseconds per launch the first time.
class Executable {
public:
  /// Binds a program; fails where it is malformed. On a GPU this loads machine
  /// code, which is compiled first where the program has none for the device
  /// (seconds; Unavailable where the compiler is missing too), and uploads the
  /// constants.
  static Result<Executable> create(Device device,
                                   std::shared_ptr<const Program> program);

  /// Runs on `arguments`, one per entry of program().arguments and of its exact
  /// type, and returns new result buffers in host memory. Blocks until done.
  /// Arguments in host memory are copied to a device that has its own; work of
  /// other streams on arguments there must be done. A result that replaces an
  /// argument (ProgramValue::alias) is that argument's buffer, which the run
  /// writes. InvalidArgument, after the run, where a gather or scatter whose
  /// framework makes that an error read an index out of range
  /// (RunCheck::Kind::IndexInRange).
  Result<std::vector<Buffer>> run(std::span<const Buffer> arguments,
                                  const RunOptions &options = {}) const;

  /// The same into the caller's buffers, which must have the results' types and
  /// overlap neither each other nor an argument. A result that replaces an
  /// argument is the argument's buffer; a null one becomes it. Two runs that
  /// write the same buffer must not overlap in time. After the first call it
  /// takes no memory but some words per buffer.
  Status runInto(std::span<const Buffer> arguments, std::span<Buffer> results,
                 const RunOptions &options = {}) const;

  /// Enqueues a run on `stream` and returns. All buffers lie in the memory of
  /// the stream's device, which is this executable's; they stay the caller's to
  /// keep until the stream has passed (buffers allocated on the same stream may
  /// go at once). Runs on one stream use the same intermediate memory, runs on
  /// several streams at once memory of their own while there is enough. Makes
  /// one graph launch and waits for nothing, but at the first run on a set of
  /// buffers. `onDone` is called as Stream::then() says; a failure that is
  /// returned is not reported there. The stream must not be under capture.
  Status runAsync(std::span<const Buffer> arguments, std::span<Buffer> results,
                  const Stream &stream,
                  std::function<void(const Status &)> onDone = {}) const;

  /// Runs as often as `milliseconds` is long, one run behind the other, and
  /// gives the time of each: on a GPU by its own clock, without what the host
  /// does meanwhile. Buffers and stream as for runAsync(); waits for the end.
  Status timeRuns(std::span<const Buffer> arguments, std::span<Buffer> results,
                  const Stream &stream, std::span<double> milliseconds) const;
  /// The same on `sets` in turn: where these exceed a device's cache, each run
  /// finds its arguments in memory. Each set runs once before.
  Status timeRuns(std::span<RunBuffers> sets, const Stream &stream,
                  std::span<double> milliseconds) const;

  const Program &program() const { return *state->program; }
  const Device &device() const { return state->device; }
  /// The types of a layer and of those inside of it (findLayer()).
  Result<LayerTypes> layer(const std::string &path) const {
    return findLayer(program().layers, path);
  }
  /// Number of the argument or result of that name, or -1.
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
  /// Whether the buffers fit the program and the device.
  Status check(std::span<const Buffer> arguments,
               std::span<const Buffer> results) const;
  /// The same, and whether they may be used on `stream`.
  Status checkOn(std::span<const Buffer> arguments,
                 std::span<const Buffer> results, const Stream &stream) const;

  std::shared_ptr<const State> state;
};

} // namespace mpc

#endif // MPC_RUNTIME_EXECUTABLE_H
