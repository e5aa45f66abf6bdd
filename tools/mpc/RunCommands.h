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
  std::vector<std::string> inputs;
  std::string output;
};

struct BenchArguments {
  CommonOptions common;
  std::vector<std::string> inputs;
  /// Part of a training step and its flags; empty: the model itself.
  std::string training;
  /// HTML file to write; empty: none.
  std::string html;
  int runs = 0;
};

int runCommand(const RunArguments &options);
int benchCommand(const BenchArguments &options);

/// The sub-commands of a build and the selected one.
class Driver {
public:
  virtual ~Driver() = default;
  /// Adds the sub-commands' flags to `app`. Parsing sets `chosen`.
  virtual void declare(CLI::App &app) = 0;

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
  void declareRun(CLI::App &app);
  void declareBench(CLI::App &app);

  BenchArguments bench;

private:
  RunArguments run;
};

/// Creates the driver of this build.
std::unique_ptr<Driver> makeDriver();

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_RUNCOMMANDS_H
