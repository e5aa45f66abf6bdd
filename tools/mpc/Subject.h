//===- Subject.h - a model that is ready to run -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_SUBJECT_H
#define MPC_TOOLS_MPC_SUBJECT_H

#include "Arrays.h"
#include "Options.h"

#include "mpc/Runtime/ExecutableFile.h"

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mpc::tool {

/// A model on a device with its data, and how it came to be.
struct Subject {
  std::optional<Executable> executable;
  std::vector<Buffer> inputs;
  std::string policy;
  /// The level of its code: "avx512".
  std::string isa;
  /// Whether an earlier compile of the same was found in the user's cache.
  bool isCached = false;
  /// Of the compile, or of the load where the model was compiled already.
  double compileMs = 0;
};

using Clock = std::chrono::steady_clock;
/// Time since `start`, in milliseconds.
double millisecondsSince(Clock::time_point start);

/// Compiles the model, or the part of a training step that `training` names, or
/// loads it where it is an .mpcx file, and binds `arrays` to its inputs; with
/// `draw` the inputs are drawn by seed where no array is given. Empty where all
/// went well.
std::vector<Status> prepareSubject(const CommonOptions &options,
                                   const std::vector<NamedArray> &arrays,
                                   bool draw, Device device, Reporter &reporter,
                                   Subject &subject,
                                   const std::string &training = "");

/// Binds `arrays` to what `subject` takes, which is `wanted`, or draws it, as
/// prepareSubject() does.
std::vector<Status> bindStored(std::span<const StoredValue> wanted,
                               const std::vector<NamedArray> &arrays, bool draw,
                               uint64_t seed, Subject &subject);

/// prepareSubject() for a model that is not compiled yet.
std::vector<Status> compileSubject(const CommonOptions &options,
                                   const std::vector<NamedArray> &arrays,
                                   bool draw, const Device &device,
                                   Reporter &reporter, Subject &subject,
                                   const std::string &training);

/// The document of mpc explain for what compileSubject() compiles; null where
/// MODEL is an .mpcx file, of which nothing more is known.
Result<Json> explainSubject(const CommonOptions &options,
                            const std::vector<NamedArray> &arrays,
                            const Device &device, const std::string &training);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_SUBJECT_H
