//===- Model.h - shape-specialized models -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program is compiled for one set of static shapes
// (docs/Explanation/Runtime.md). A Model compiles one on demand for each set of
// shapes and caches it.
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
class SpecializationTable;
} // namespace detail

/// Limits of an engine's specialization cache (LRU, over all models that it
/// opened). Evicted executables stay valid while they are in use.
struct EngineLimits {
  /// Maximum number of specializations; at least one is cached.
  int64_t specialisations = 64;
  /// Maximum size in bytes: constants plus intermediate memory of one run of
  /// each specialization. A larger one is cached alone.
  int64_t bytes = int64_t(4) << 30;
};

/// Statistics of an engine's specialization cache.
struct SpecialisationCounts {
  /// Number of compiles, and of calls that found a cached executable or waited
  /// for another thread's compile of it.
  int64_t compiles = 0, hits = 0;
  /// Number of evicted specializations.
  int64_t evictions = 0;
  /// Current number and size (bytes, as EngineLimits counts them) of the cached
  /// specializations.
  int64_t kept = 0, bytes = 0;
};

/// Buffers by the model's input or output names.
using NamedBuffers = std::map<std::string, Buffer>;

/// A lazily compiled model. The first call with new shapes compiles for them
/// (tens of milliseconds to seconds); later calls use the cached executable.
/// Concurrent calls with the same shapes share one compile. A handle: copies
/// share everything. Thread-safe.
///
/// An input that determines shapes (axes, sizes, a number of elements to take)
/// is passed like any other; its value is part of the specialization's key, so
/// another value compiles again.
class Model {
public:
  /// Returns the executable for the types of `arguments`, by input name,
  /// without padding to buckets. The executable takes them in the order of its
  /// program().arguments, without those whose value was compiled in. Fails if
  /// the compile fails, an input is missing or the model has no such input; all
  /// calls that wait for the same shapes then fail alike, and the next call
  /// compiles again.
  Result<Executable> specialise(const NamedBuffers &arguments) const;

  /// Runs on `arguments`, one per input, and returns new result buffers in host
  /// memory. Blocks until done. If the options have buckets for a dimension,
  /// the arguments are zero-padded along it to the next bucket and the results
  /// are cut (CompileOptions::buckets), which bounds the number of compiles.
  /// Fails, at the op that mixes rows, if padding would change the results.
  Result<NamedBuffers> run(const NamedBuffers &arguments,
                           const RunOptions &options = {}) const;

  const ModelSource &source() const;
  /// Statistics of the engine's cache, which all its models share.
  SpecialisationCounts counts() const;

private:
  friend class Engine;
  struct State;
  /// Runs without bucket padding.
  Result<NamedBuffers> runExact(const NamedBuffers &arguments,
                                const RunOptions &options) const;
  explicit Model(std::shared_ptr<const State> state)
      : state(std::move(state)) {}
  std::shared_ptr<const State> state;
};

} // namespace mpc

#endif // MPC_JIT_MODEL_H
