//===- Engine.h - just-in-time compilation ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles models to executables in memory. The only header that a host needs
// for JIT compilation; includes no LLVM or MLIR header.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_JIT_ENGINE_H
#define MPC_JIT_ENGINE_H

#include "mpc/JIT/Model.h"
#include "mpc/JIT/ModelSource.h"
#include "mpc/JIT/Options.h"
#include "mpc/Runtime/Executable.h"

#include <memory>
#include <string>

namespace mpc {

/// Compiles models for one device. A copyable, thread-safe handle; executables
/// and models outlive it.
class Engine {
public:
  /// Creates an engine for `device`. Fails if the CPU has no AVX2, FMA and
  /// F16C. `limits` bound the cached specializations of all models that the
  /// engine opens.
  static Result<Engine> create(Device device, EngineLimits limits = {});

  /// Compiles a model (ONNX, mpc dialect or StableHLO) for the device; for a
  /// GPU `options.target` is ignored. Takes tens of milliseconds to seconds. On
  /// failure the status is the first error and its notes are the others;
  /// `onDiagnostic` received all of them.
  Result<Executable> compile(const ModelSource &model,
                             const CompileOptions &options = {}) const;

  /// Opens a model for lazy compilation: it is specialized for the shapes of
  /// each call. Reads and compiles nothing yet.
  Model open(const ModelSource &model,
             const CompileOptions &options = {}) const;

  const Device &device() const { return target; }

private:
  Engine(Device device, std::shared_ptr<detail::SpecializationTable> kept)
      : target(std::move(device)), kept(std::move(kept)) {}

  Device target;
  std::shared_ptr<detail::SpecializationTable> kept;
};

} // namespace mpc

#endif // MPC_JIT_ENGINE_H
