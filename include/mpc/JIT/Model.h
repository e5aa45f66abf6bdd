//===- Model.h - models whose shapes vary -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program is compiled for one set of shapes (docs/Rationale/Runtime.md). A
// Model is what stands for all of them: it compiles on demand and keeps what it
// compiled.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_JIT_MODEL_H
#define MPC_JIT_MODEL_H

#include "mpc/JIT/ModelSource.h"
#include "mpc/JIT/Options.h"
#include "mpc/Runtime/Executable.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace mpc {

namespace detail {
class Specialisations;
} // namespace detail

/// What an engine keeps of the models that it opened: the specialisations that
/// were used last. Those that are in use live on until they are let go.
struct EngineLimits {
  /// Most specialisations; at least one is kept.
  int64_t specialisations = 64;
  /// Most bytes of their constants and of the intermediate memory of one run of
  /// each. A larger one is kept alone.
  int64_t bytes = int64_t(4) << 30;
};

/// What the models of an engine did so far.
struct SpecialisationCounts {
  /// Compiles that were begun, and calls that found what they needed or waited
  /// for the thread that was compiling it.
  int64_t compiles = 0, hits = 0;
  /// Specialisations that had to make room.
  int64_t evictions = 0;
  /// What is kept now, in the measure of EngineLimits.
  int64_t kept = 0, bytes = 0;
};

/// Buffers by the names that the model has for its inputs or outputs.
using NamedBuffers = std::map<std::string, Buffer>;

/// A model that is compiled as it is called. The first call with new shapes
/// compiles for them (tens of milliseconds to seconds); later ones find the
/// executable. Threads that ask for the same shapes at once wait for one
/// compile. A handle: copies share everything. All members may be called from
/// several threads at once.
///
/// An input whose value the model's shapes follow from (axes, sizes, a number
/// of elements to take) is given like any other; its value then belongs to the
/// specialisation, and another value compiles anew.
class Model {
public:
  /// The executable for arguments of the types of `arguments`, by input name;
  /// no bucket is looked for.
  /// It takes them in the order of its program().arguments, without those whose
  /// value is compiled in. Fails where the compile fails, where an input is
  /// missing and where the model has none of that name; all that wait for the
  /// same shapes then fail alike, and the next call tries again.
  Result<Executable> specialise(const NamedBuffers &arguments) const;

  /// Runs on `arguments`, one per input, and returns new result buffers in host
  /// memory. Blocks until done. Where the options have buckets for a dimension,
  /// the arguments are padded along it with zeros to the next one and the
  /// results cut (CompileOptions::buckets): fewer sizes are compiled, and rows
  /// are the same. Fails, at the op that mixes rows, where they would not be.
  Result<NamedBuffers> run(const NamedBuffers &arguments,
                           const RunOptions &options = {}) const;

  const ModelSource &source() const;
  /// Counts of the engine, all of whose models share what is kept.
  SpecialisationCounts counts() const;

private:
  friend class Engine;
  struct State;
  /// Runs the program for just these shapes.
  Result<NamedBuffers> runExact(const NamedBuffers &arguments,
                                const RunOptions &options) const;
  explicit Model(std::shared_ptr<const State> state)
      : state(std::move(state)) {}
  std::shared_ptr<const State> state;
};

} // namespace mpc

#endif // MPC_JIT_MODEL_H
