//===- Options.h - common options of sub-commands ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_OPTIONS_H
#define MPC_TOOLS_MPC_OPTIONS_H

#include "Reporter.h"

#include "mpc/JIT/Options.h"
#include "mpc/Runtime/Device.h"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
class Validator;
} // namespace CLI

namespace mpc::tool {

/// Options that all sub-commands share.
struct CommonOptions {
  std::string model;
  bool json = false;
  bool quiet = false;
  int threads = 0;
  std::string device = "auto";
  std::string isa;
  /// With `isa`: emulate the level's matrix unit by arithmetic.
  bool emulateUnits = false;
  std::string policy = "float32";
  /// True if a flag names the policy.
  bool choosesPolicy = false;
  std::vector<std::string> sets;
  /// Files of input arrays: FILE.npz or NAME=FILE.npy.
  std::vector<std::string> inputs;
  /// Shapes of inputs: "NAME=1x512".
  std::vector<std::string> shapes;
  /// "NAME=N", or "NAME=N,N,..." if `manyShapes`.
  std::vector<std::string> dims;
  bool manyShapes = false;
  std::optional<int64_t> batch;
  std::string target;
  std::string rounding = "strict";
  /// True for results that do not depend on the machine.
  bool reproducible = false;
  std::string castPlacement = "mincut";
  std::string gemm = "own";
  /// Schedule table, or "none"; empty: this machine's default one, if it
  /// exists.
  std::string schedules;
  /// For a model that is a complete training step; empty: by the policy.
  std::string stepLossScale;
  uint64_t seed = 0;
  /// Memory limit in bytes; 0: none.
  int64_t maxMemory = 0;
  /// True to identify large files to the cache by their bytes.
  bool verifyFiles = false;
  std::string dumpDir;
};

/// Adds --json and --quiet.
void addOutputOptions(CLI::App &command, CommonOptions &options);
/// Adds MODEL and all compile flags, but not --json, --quiet and --input.
void addModelOptions(CLI::App &command, CommonOptions &options);
/// Adds --input; `text` describes its use.
void addInputOption(CLI::App &command, CommonOptions &options,
                    const std::string &text =
                        "input arrays, FILE.npz or NAME=FILE.npy. "
                        "Repeatable; random by default, see --seed");
/// Adds a list flag with one value per occurrence.
CLI::Option *addList(CLI::App &command, const std::string &flags,
                     std::vector<std::string> &list, const std::string &text);
/// Hides flags that have no effect on the command from its help; scripts may
/// pass them to every command.
void hideFlags(CLI::App &command, std::initializer_list<const char *> flags);

/// Splits "KEY=VALUE" at its last '='; returns false if a side is empty.
bool splitPair(const std::string &text, std::string &key, std::string &value);
/// Parses comma-separated positive numbers; empty if `text` is invalid.
std::vector<int64_t> parseExtents(const std::string &text);
/// Parses a shape, "1x512"; empty if `text` is invalid.
std::vector<int64_t> parseShape(const std::string &text);

/// Validate finite numbers: "nan" and "inf" pass the range checks of CLI11.
CLI::Validator finiteNumber();
CLI::Validator atLeastZero();
/// Validates that a text is not empty.
CLI::Validator notEmpty();
CLI::Validator positiveNumber();

/// Returns the compile options of the flags; diagnostics go to `reporter`.
Result<CompileOptions> makeCompileOptions(const CommonOptions &options,
                                          Reporter &reporter);

/// Returns the default schedule table of `mpc tune-kernels` for `target` on
/// this machine; empty if caching is disabled.
std::string cachedScheduleTable(const std::string &target);

/// Selects a part of a training step in `compile`, from the text of --training:
/// "step optimizer=sgd".
Status setTraining(const std::string &text, CompileOptions &compile);

/// Returns N of --device cuda:N, which is already validated; 0 by default.
int gpuNumber(const CommonOptions &options);

/// Creates the device of the flags.
Result<Device> makeDevice(const CommonOptions &options);
/// Creates the device that runs GPU kernels on the host, if this build has it.
Result<Device> makeHostDevice(const CommonOptions &options);

/// The same for code that runs on `device`, which determines the target unless
/// the flags do. Fails if code for their target does not run there.
Result<CompileOptions> makeCompileOptions(const CommonOptions &options,
                                          const Device &device,
                                          Reporter &reporter);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_OPTIONS_H
