//===- RunCommands.h - the sub-commands that run ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Those that a build without a compiler has too. Sees neither LLVM nor MLIR.
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
  /// A part of a training step and its flags; empty for the model itself.
  std::string training;
  /// The page to write; empty writes none.
  std::string html;
  int runs = 0;
};

int runCommand(const RunArguments &options);
int benchCommand(const BenchArguments &options);

/// The sub-commands of a build and the one that was chosen.
class Driver {
public:
  virtual ~Driver() = default;
  /// Adds the sub-commands' flags to `app`. Parsing them sets `chosen`.
  virtual void declare(CLI::App &app) = 0;

  /// Where `words`, a command line that cannot be parsed, is that of one of
  /// several ranks, ends all of them at once with one sentence; returns the
  /// exit code. Nothing where this process has no other ranks to tell.
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

/// The driver of this build.
std::unique_ptr<Driver> makeDriver();

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_RUNCOMMANDS_H
