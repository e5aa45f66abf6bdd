//===- BoundProgram.h - compiled parts and their shared state ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TRAINING_BOUNDPROGRAM_H
#define MPC_LIB_TRAINING_BOUNDPROGRAM_H

#include "DataParallelGroup.h"

#include "mpc/JIT/Engine.h"
#include "mpc/Training/Dataset.h"

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mpc::training {

/// Buffers shared by the programs of one training run, by name, on one device.
/// A program's arguments other than inputs and labels are bound to it; results
/// that alias an argument are that argument, others are separate entries.
class SharedProgramState {
public:
  struct Entry {
    ProgramValue value;
    Buffer buffer;
    /// True for training state; false for results and values used only for
    /// evaluation.
    bool kept = false;
  };

  /// The random seed of rank 0 is `seed`; those of other ranks are derived from
  /// it.
  static Result<SharedProgramState> create(const Device &device, uint64_t seed,
                                           const DataParallelGroup &ranks);

  const Device &device() const { return target; }
  /// Null for host-memory devices.
  const Stream *stream() const { return queue ? &*queue : nullptr; }

  /// Returns the buffer of an argument, created with its initial value if it is
  /// new. With `keeps` it is part of the training state. Fails if another
  /// program uses the name with another type.
  Result<Buffer> bindArgument(const ProgramValue &value, bool keeps);
  /// Returns the buffer of a result that aliases no argument.
  Result<Buffer> bindResult(const ProgramValue &value);
  const Entry *find(const std::string &name) const;
  const std::deque<Entry> &entries() const { return list; }

  /// Allocates memory on the device.
  Result<Buffer> allocate(const TensorType &type) const;
  /// Copies a device buffer to host memory.
  Result<Buffer> toHost(const Buffer &buffer) const;
  /// Copies an entry to host memory, all-gathering it if it is sharded; the
  /// latter is collective.
  Result<Buffer> whole(const Entry &entry) const;
  /// Overwrites an entry with rank 0's value, like assign(); a shard with its
  /// part of the complete tensor.
  Status restore(const Entry &entry, const Buffer &bytes);
  /// Overwrites an entry with host bytes and synchronizes.
  Status assign(const Entry &entry, const Buffer &bytes);
  /// Recomputes the parameter copies from the masters; with `only` just that
  /// copy. Collective for shards.
  Status recomputeNarrowCopies(const std::string *only = nullptr);

private:
  explicit SharedProgramState(Device device) : target(std::move(device)) {}
  /// Returns the initial value of an argument.
  Result<Buffer> initialValue(const ProgramValue &value) const;
  /// Returns this rank's shard of a complete tensor's bytes.
  Result<Buffer> pieceOf(const ProgramValue &value, const void *bytes) const;

  Device target;
  std::optional<Stream> queue;
  DataParallelGroup ranks;
  uint64_t seed = 0;
  std::deque<Entry> list;
  std::map<std::string, size_t> byName;
};

/// A compiled part of a training step, bound to shared state.
class BoundProgram {
public:
  /// With `keeps` the program's arguments are training state.
  static Result<BoundProgram> create(const Executable &executable,
                                     SharedProgramState &state, bool keeps);

  const Program &program() const { return executable.program(); }
  /// Types of a batch: inputs in order, then labels.
  const std::vector<ProgramValue> &batchTypes() const { return batch; }

  /// Fails unless `buffers` are a batch of the program.
  Status check(std::span<const Buffer> buffers) const;
  /// Runs on a batch in host or device memory (none for programs without
  /// inputs). Asynchronous on a GPU; the batch must not change until the stream
  /// has passed.
  Status run(std::span<const Buffer> buffers, const SharedProgramState &state);
  /// Sets the communicator, which must outlive this object.
  void joinRanks(Communicator *group) { communicator = group; }
  /// Receives the trace of the next run; null for none.
  void traceInto(RunTrace *next) { trace = next; }

  /// Returns the index of the first result of that role, or -1.
  int resultOf(const std::string &role, const std::string &name = {}) const;
  const Buffer &result(int index) const { return results[size_t(index)]; }
  /// Returns true if the program updates the argument of that name.
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
  /// Names of updated arguments.
  std::set<std::string> replaced;
  /// Argument index of each buffer of a batch.
  std::vector<size_t> batchArguments;
};

} // namespace mpc::training

#endif // MPC_LIB_TRAINING_BOUNDPROGRAM_H
