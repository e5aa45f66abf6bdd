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

#include "mpc/JIT/Model.h"
#include "mpc/JIT/ModelSource.h"
#include "mpc/JIT/Options.h"
#include "mpc/Runtime/Executable.h"

#include <memory>
#include <string>

namespace mpc {

/// Compiles models for one device. A handle that may be copied and used by
/// several threads at once; executables and models outlive it.
class Engine {
public:
  /// An engine for `device`. Fails where code for this machine cannot be made
  /// (a CPU below AVX2 with FMA and F16C). `limits` bound what all models that
  /// it opens keep together.
  static Result<Engine> create(Device device, EngineLimits limits = {});

  /// Compiles a model (ONNX, mpc's own dialect or StableHLO) for the device; on
  /// one that is a GPU `options.target` is not read. Takes tens of milliseconds
  /// to seconds.
  /// On failure the status is the first error and its notes are the others; all
  /// went to `onDiagnostic` as well.
  Result<Executable> compile(const ModelSource &model,
                             const CompileOptions &options = {}) const;

  /// A model that is compiled as it is called, for the shapes that it is called
  /// with. Reads and compiles nothing yet.
  Model open(const ModelSource &model,
             const CompileOptions &options = {}) const;

  const Device &device() const { return target; }

private:
  Engine(Device device, std::shared_ptr<detail::Specialisations> kept)
      : target(std::move(device)), kept(std::move(kept)) {}

  Device target;
  std::shared_ptr<detail::Specialisations> kept;
};

} // namespace mpc

#endif // MPC_JIT_ENGINE_H
