//===- RunCommands.h - sub-commands that execute models ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Available in a build without a compiler too. Uses neither LLVM nor MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_RUNCOMMANDS_H
#define MPC_TOOLS_MPC_RUNCOMMANDS_H

#include "Options.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mpc::tool {

struct RunArguments {
  CommonOptions common;
  std::string output;
  /// True to print digests of the results; inputs are then random unless given.
  bool digest = false;
};

struct BenchArguments {
  CommonOptions common;
  /// Part of a training step and its flags; empty: the model itself.
  std::string training;
  /// HTML file to write; empty: none.
  std::string html;
  int runs = 0;
};

int runCommand(const RunArguments &options);
int benchCommand(const BenchArguments &options);

struct CacheArguments {
  CommonOptions common;
  /// True to delete what the cache holds.
  bool clears = false;
};
int cacheCommand(const CacheArguments &options);

/// Description of MODEL of a command that takes compiled models too.
inline constexpr const char *kAnyModel =
    "model: .onnx, .mlir, .mpcx, or -. - reads it from standard input";

/// The sub-commands of a build and the selected one.
class Driver {
public:
  virtual ~Driver() = default;
  /// Adds the sub-commands' flags to `app`. Parsing sets `chosen`.
  virtual void declare(CLI::App &app) = 0;
  /// Returns the name and version of the program and its compiler.
  virtual std::string version() const = 0;
  /// Returns the names of the built-in policies, for shell completion.
  virtual std::vector<std::string> policies() const { return {}; }

  /// If `words`, an invalid command line, is that of one of several ranks, ends
  /// all of them with one sentence and returns the exit code; nullopt if this
  /// process has no other ranks.
  virtual std::optional<int> refuse(const std::vector<std::string> &words,
                                    const Status &why) {
    (void)words, (void)why;
    return std::nullopt;
  }

  std::function<int()> chosen;

protected:
  /// Adds a command of a group of the program's help, with --json and --quiet
  /// (into `common`). `summary` completes its name; `examples` are lines.
  CLI::App &addCommand(CLI::App &app, const char *group, const char *name,
                       const char *summary, CommonOptions &common,
                       std::function<int()> run, const char *examples);
  void declareRun(CLI::App &app);
  void declareBench(CLI::App &app);
  /// Adds the commands about the program itself.
  void declareOwn(CLI::App &app);

  BenchArguments bench;

private:
  /// Prints text that another program reads.
  int printText(const std::string &key, const std::string &text) const;

  RunArguments run;
  CacheArguments cache;
  CommonOptions own;
  std::string shell, page;
};

/// Groups of commands in the program's help.
inline constexpr const char *kModelCommands = "run and compile models";
inline constexpr const char *kPrecisionCommands = "choose types";
inline constexpr const char *kTrainingCommands = "train";
inline constexpr const char *kCompilerCommands = "look inside";
inline constexpr const char *kProgramCommands = "this installation";

/// Creates the driver of this build.
std::unique_ptr<Driver> makeDriver();

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_RUNCOMMANDS_H
