//===- Session.h - compiled parts and the state they share ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TRAINING_SESSION_H
#define MPC_LIB_TRAINING_SESSION_H

#include "Ranks.h"

#include "mpc/JIT/Engine.h"
#include "mpc/Training/Dataset.h"

#include <deque>
#include <map>
#include <optional>
#include <set>
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
                                    const Ranks &ranks);

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
  /// A copy in host memory of an entry, or of the tensor of which each rank has
  /// a piece; for the latter all ranks make the call.
  Result<Buffer> whole(const Entry &entry) const;
  /// Overwrites an entry by what rank 0 had, as assign(); a piece by its part
  /// of the whole tensor.
  Status restore(const Entry &entry, const Buffer &bytes);
  /// Overwrites an entry with bytes in host memory and waits.
  Status assign(const Entry &entry, const Buffer &bytes);
  /// Makes the copies of parameters anew from the masters; with `only` just the
  /// one of that name. All ranks make the call where they have pieces.
  Status renewCopies(const std::string *only = nullptr);

private:
  explicit SharedState(Device device) : target(std::move(device)) {}
  /// The first value of an argument.
  Result<Buffer> initialValue(const ProgramValue &value) const;
  /// This rank's piece of a whole tensor's bytes.
  Result<Buffer> pieceOf(const ProgramValue &value, const void *bytes) const;

  Device target;
  std::optional<Stream> queue;
  Ranks ranks;
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
  /// Runs on a batch in host memory or that of the device (none for programs
  /// without inputs). On a GPU enqueues it; the batch must then stay as it is
  /// until the stream has passed.
  Status run(std::span<const Buffer> buffers, const SharedState &state);
  /// The ranks that run it together; must live as long.
  void joinRanks(Communicator *group) { communicator = group; }
  /// Takes the trace of the next run; null for none.
  void traceInto(RunTrace *next) { trace = next; }

  /// Number of the result of that role (the first of it), or -1.
  int resultOf(const std::string &role, const std::string &name = {}) const;
  const Buffer &result(int index) const { return results[size_t(index)]; }
  /// Whether the program writes the argument of that name anew.
  bool replaces(const std::string &argument) const {
    return replaced.contains(argument);
  }

private:
  explicit BoundProgram(Executable executable)
      : executable(std::move(executable)) {}

  Executable executable;
  Communicator *communicator = nullptr;
  RunTrace *trace = nullptr;
  std::vector<Buffer> arguments, results;
  std::vector<ProgramValue> batch;
  /// Names of arguments that are written anew.
  std::set<std::string> replaced;
  /// Which argument each buffer of a batch is.
  std::vector<size_t> batchArguments;
};

} // namespace mpc::training

#endif // MPC_LIB_TRAINING_SESSION_H
