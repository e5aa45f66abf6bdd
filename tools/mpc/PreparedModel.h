//===- PreparedModel.h - a model ready to run -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_PREPAREDMODEL_H
#define MPC_TOOLS_MPC_PREPAREDMODEL_H

#include "NamedArrays.h"
#include "Options.h"

#include "mpc/Runtime/ExecutableFile.h"

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mpc::tool {

/// A model on a device with its input data.
struct PreparedModel {
  std::optional<Executable> executable;
  std::vector<Buffer> inputs;
  std::string policy;
  /// Instruction-set level of its code: "avx512".
  std::string isa;
  /// True if the executable was found in the compile cache.
  bool isCached = false;
  /// Time of the compile, or of the load of a compiled model, in ms.
  double compileMs = 0;

  /// Bit class of the results, "vector" or "amx"; null if they are not
  /// reproducible on other machines.
  Json bitClass() const;
};

using Clock = std::chrono::steady_clock;
/// Returns the time since `start`, in ms.
double millisecondsSince(Clock::time_point start);

/// Compiles the model, or the part `training` of a training step, or loads an
/// .mpcx file, and binds `arrays` to its inputs; with `draw` unbound inputs are
/// random by seed. Returns no errors on success.
std::vector<Status> prepareSubject(const CommonOptions &options,
                                   const std::vector<NamedArray> &arrays,
                                   bool draw, Device device, Reporter &reporter,
                                   PreparedModel &subject,
                                   const std::string &training = "");

/// Binds `arrays`, or random values, to the arguments `wanted` of `subject`, as
/// prepareSubject() does.
std::vector<Status> bindCompiledInputs(std::span<const ProgramValue> wanted,
                                       const std::vector<NamedArray> &arrays,
                                       bool draw, uint64_t seed,
                                       PreparedModel &subject);

/// prepareSubject() for a model that is not yet compiled.
std::vector<Status> compileSubject(const CommonOptions &options,
                                   const std::vector<NamedArray> &arrays,
                                   bool draw, const Device &device,
                                   Reporter &reporter, PreparedModel &subject,
                                   const std::string &training);

/// Returns the document of mpc explain for the model of compileSubject(); null
/// for an .mpcx file.
Result<Json> explainSubject(const CommonOptions &options,
                            const std::vector<NamedArray> &arrays,
                            const Device &device, const std::string &training);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_PREPAREDMODEL_H
