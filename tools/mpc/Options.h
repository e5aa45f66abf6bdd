//===- Options.h - what every sub-command takes -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_OPTIONS_H
#define MPC_TOOLS_MPC_OPTIONS_H

#include "Reporter.h"

#include "mpc/JIT/Options.h"
#include "mpc/Runtime/Device.h"

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mpc::tool {

/// The options that all sub-commands share.
struct CommonOptions {
  std::string model;
  bool json = false;
  bool quiet = false;
  int threads = 0;
  std::string device = "auto";
  std::string isa;
  /// With `isa`: arithmetic stands for the level's matrix unit.
  bool emulateUnits = false;
  std::string policy = "float32";
  std::vector<std::string> sets;
  /// "NAME=N", or "NAME=N,N,..." where `manyShapes` is set.
  std::vector<std::string> dims;
  bool manyShapes = false;
  std::optional<int64_t> batch;
  std::string target;
  std::string rounding = "strict";
  std::string castPlacement = "mincut";
  std::string gemm = "own";
  /// A table of kernels' schedules, or "none"; empty: the one that is kept for
  /// this machine, where it has one.
  std::string schedules;
  /// Of a model that is a whole training step; empty: by the policy.
  std::string stepLossScale;
  uint64_t seed = 0;
  /// Bytes; 0 for no limit.
  int64_t maxMemory = 0;
  /// Whether the cache reads all bytes of large files.
  bool verify = false;
  std::string dumpDir;
};

/// Adds --json and --quiet.
void addOutputOptions(CLI::App &command, CommonOptions &options);
/// Adds MODEL and everything that says how to compile it, but not --json and
/// --quiet.
void addModelOptions(CLI::App &command, CommonOptions &options);

/// Splits "KEY=VALUE" at its last '='; false where a side is empty.
bool splitPair(const std::string &text, std::string &key, std::string &value);
/// Reads positive numbers between commas; none where `text` is something else.
std::vector<int64_t> parseExtents(const std::string &text);

/// Refuses "nan" and "inf", which lie in the range of every other check.
CLI::Validator finiteNumber();

/// The compile that the flags ask for; messages go to `reporter`.
Result<CompileOptions> makeCompileOptions(const CommonOptions &options,
                                          Reporter &reporter);

/// The file that `mpc tune-kernels` keeps for `target`, in which this machine's
/// kernels are looked up; empty where nothing is kept.
std::string keptScheduleTable(const std::string &target);

/// Makes `compile` that of a part of a training step, from the text of
/// --training: "step optimizer=sgd".
Status setTraining(const std::string &text, CompileOptions &compile);

/// N of --device cuda:N, which was checked when it was parsed; 0 without it.
int gpuNumber(const CommonOptions &options);

/// The device that the flags ask for.
Result<Device> makeDevice(const CommonOptions &options);
/// The device that runs kernels for GPUs on the host, where this build has it.
Result<Device> makeHostDevice(const CommonOptions &options);

/// The same for code that runs on `device`, which decides the target where the
/// flags do not. Fails where code for their target does not run there.
Result<CompileOptions> makeCompileOptions(const CommonOptions &options,
                                          const Device &device,
                                          Reporter &reporter);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_OPTIONS_H
