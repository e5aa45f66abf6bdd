//===- Engine.h - compiling models in memory --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Model in, executable out. The one header that a host needs which compiles at
// start-up; it includes nothing of LLVM or MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_JIT_ENGINE_H
#define MPC_JIT_ENGINE_H

#include "mpc/JIT/ModelSource.h"
#include "mpc/JIT/Options.h"
#include "mpc/Runtime/Executable.h"

#include <string>

namespace mpc {

/// Compiles models for one device. A light handle without state of its own: two
/// threads may compile at once, and executables outlive the engine.
class Engine {
public:
  /// An engine for `device`. Fails where code for this machine cannot be made
  /// (a CPU below AVX2 with FMA and F16C).
  static Result<Engine> create(Device device);

  /// Compiles a model (ONNX, StableHLO or mpc's own
  /// dialect) for the device; on one that is a GPU `options.target` is not
  /// read. Takes tens of milliseconds to seconds.
  /// On failure the status is the first error and its notes are the others; all
  /// went to `onDiagnostic` as well.
  Result<Executable> compile(const ModelSource &model,
                             const CompileOptions &options = {}) const;

  const Device &device() const { return target; }

private:
  explicit Engine(Device device) : target(std::move(device)) {}

  Device target;
};

} // namespace mpc

#endif // MPC_JIT_ENGINE_H
