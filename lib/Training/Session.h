//===- Session.h - compiled parts and the state they share ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TRAINING_SESSION_H
#define MPC_LIB_TRAINING_SESSION_H

#include "mpc/JIT/Engine.h"
#include "mpc/Training/Dataset.h"

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mpc::training {

/// What programs of one training read and write from run to run, by name, on
/// one device. A program's arguments that are neither inputs nor labels are
/// bound to it; its results that replace an argument are that argument, the
/// others are entries of their own.
class SharedState {
public:
  struct Entry {
    ProgramValue value;
    Buffer buffer;
    /// State of the training; else a result, or what only evaluation reads.
    bool kept = false;
  };

  /// Random numbers of rank 0 are those of `seed`, other ranks' follow from it
  /// and their number.
  static Result<SharedState> create(const Device &device, uint64_t seed,
                                    int64_t rank);

  const Device &device() const { return target; }
  /// Null on devices in host memory.
  const Stream *stream() const { return queue ? &*queue : nullptr; }

  /// The buffer of that argument; made, with its first value, where it is new.
  /// With `keeps` it belongs to the state of the training. Fails where another
  /// program has the name with another type.
  Result<Buffer> bindArgument(const ProgramValue &value, bool keeps);
  /// The buffer of that result, which replaces no argument.
  Result<Buffer> bindResult(const ProgramValue &value);
  const Entry *find(const std::string &name) const;
  const std::deque<Entry> &entries() const { return list; }

  /// Memory on the device.
  Result<Buffer> allocate(const TensorType &type) const;
  /// A copy in host memory of what the device has computed.
  Result<Buffer> toHost(const Buffer &buffer) const;
  /// Overwrites an entry by what rank 0 had, as assign().
  Status restore(const Entry &entry, const Buffer &bytes);
  /// Overwrites an entry with bytes in host memory and waits.
  Status assign(const Entry &entry, const Buffer &bytes);
  /// Makes the 16-bit copies of parameters anew from the masters; with `only`
  /// just the one of that name.
  Status renewCopies(const std::string *only = nullptr);

private:
  explicit SharedState(Device device) : target(std::move(device)) {}
  /// The first value of an argument.
  Result<Buffer> initialValue(const ProgramValue &value) const;

  Device target;
  std::optional<Stream> queue;
  int64_t rank = 0;
  uint64_t seed = 0;
  std::deque<Entry> list;
  std::map<std::string, size_t> byName;
};

/// A compiled part of a training step, bound to shared state.
class BoundProgram {
public:
  /// With `keeps` the program's arguments are state of the training.
  static Result<BoundProgram> create(const Executable &executable,
                                     SharedState &state, bool keeps);

  const Program &program() const { return executable.program(); }
  /// What a batch consists of: inputs in order, then labels.
  const std::vector<ProgramValue> &batchTypes() const { return batch; }

  /// Whether `buffers` are a batch for the program.
  Status check(std::span<const Buffer> buffers) const;
  /// Runs on a batch in host memory (none for programs without inputs). On a
  /// GPU enqueues it; the batch must then stay as it is until the stream has
  /// passed.
  Status run(std::span<const Buffer> buffers, const SharedState &state);
  /// The ranks that run it together; must live as long.
  void joinRanks(Communicator *group) { communicator = group; }
  /// Takes the trace of the next run; null for none.
  void traceInto(RunTrace *next) { trace = next; }

  /// Number of the result of that role (the first of it), or -1.
  int resultOf(const std::string &role, const std::string &name = {}) const;
  const Buffer &result(int index) const { return results[size_t(index)]; }
  /// Whether the program writes the argument of that name anew.
  bool replaces(const std::string &argument) const;

private:
  explicit BoundProgram(Executable executable)
      : executable(std::move(executable)) {}

  Executable executable;
  Communicator *communicator = nullptr;
  RunTrace *trace = nullptr;
  std::vector<Buffer> arguments, results;
  std::vector<ProgramValue> batch;
  /// Which argument each buffer of a batch is.
  std::vector<size_t> batchArguments;
};

} // namespace mpc::training

#endif // MPC_LIB_TRAINING_SESSION_H
