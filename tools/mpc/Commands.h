//===- Commands.h - sub-commands of mpc -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One struct of arguments and one function per sub-command. The functions
// return the exit code; main and tests call them.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_COMMANDS_H
#define MPC_TOOLS_MPC_COMMANDS_H

#include "RunCommands.h"

#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <string>
#include <vector>

namespace mpc::tool {

struct CheckArguments {
  CommonOptions common;
  std::string expected;
  /// Document of `mpc run --digest --json`, which replaces the oracle; empty:
  /// none.
  std::string against;
  /// Part of a training step and its flags; empty: the model itself.
  std::string training;
  /// Folder for the inputs and results of a training step.
  std::string save;
  bool perOp = false;
  /// Test hooks that modify the module before stage precision, and between the
  /// oracle's second run and the rest of the compile, to inject faults. No flag
  /// sets them.
  std::function<void(mlir::ModuleOp)> afterSimplify, afterPrecision;
};

struct CompileArguments {
  CommonOptions common;
  std::string output;
  /// True to compare the program with the model's graph.
  bool verify = false;
  /// Part of a training step and its flags; empty: the model itself.
  std::string training;
};

/// Location of samples.
struct SampleFiles {
  /// .npz files and folders of them.
  std::vector<std::string> inputs;
  /// True if a file contains many samples, stacked along an additional first
  /// dimension of its arrays.
  bool areStacked = false;
};

struct ExplainArguments {
  CommonOptions common;
  std::string why;
  /// True to analyze the machine code of GPU kernels.
  bool sass = false;
  /// Optional.
  SampleFiles samples;
  /// HTML file to write; empty: none.
  std::string html;
  /// Part of a training step and its flags; empty: the model itself.
  std::string training;
};

struct TuneKernelsArguments {
  CommonOptions common;
  /// Part of a training step and its flags; empty: the model itself.
  std::string training;
  /// Schedule table to write; empty: this machine's default one.
  std::string output;
  double seconds = 60;
};

struct CalibrateArguments {
  CommonOptions common;
  SampleFiles samples;
  /// "forward-backward" and its flags; empty: the model itself.
  std::string training;
  /// File to write; empty: none.
  std::string output;
};

struct TuneArguments {
  CommonOptions common;
  SampleFiles samples;
  /// File of token ids, for a decoder; replaces `samples` unless empty.
  std::string text;
  /// Tokens per window of the text.
  int64_t window = 128;
  /// "forward-backward" and its flags; empty: the model itself.
  std::string training;
  std::string budget;
  /// Empty: bytes, without being slower than built-in policies, or the other
  /// quantity than the budget's.
  std::string objective;
  /// Allowed types of contractions, and weight formats; empty: the target's.
  std::vector<std::string> types;
  /// Policy file to write.
  std::string output;
  /// HTML file to write; empty: none.
  std::string html;
  /// Time limit in seconds; 0: none.
  double seconds = 0;
  /// True to resume the interrupted search of this output.
  bool resume = false;
  /// Number of random configurations to measure, to validate predictions.
  int trials = 0;
};

struct LintArguments {
  CommonOptions common;
};

struct DevicesArguments {
  CommonOptions common;
  /// True to skip measurements.
  bool withoutCeilings = false;
};

struct DumpArguments {
  CommonOptions common;
  std::string after = "plan";
  /// True to print fusion decisions instead of IR.
  bool fusion = false;
  /// True to print all elements of constants.
  bool withWeights = false;
  /// Part of a training step and its flags ("step optimizer=sgd"); empty: the
  /// model itself.
  std::string training;
};

int checkCommand(const CheckArguments &options);
/// checkCommand() for an .mpcx file.
int checkStoredModel(const CheckArguments &options);
/// checkCommand() for a training step.
int checkTraining(const CheckArguments &options);
int compileCommand(const CompileArguments &options);
int explainCommand(const ExplainArguments &options);
int calibrateCommand(const CalibrateArguments &options);
int tuneCommand(const TuneArguments &options);
int lintCommand(const LintArguments &options);
int tuneKernelsCommand(const TuneKernelsArguments &options);
int devicesCommand(const DevicesArguments &options);
int dumpCommand(const DumpArguments &options);
int passesCommand(const CommonOptions &options);
int policiesCommand(const CommonOptions &options);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_COMMANDS_H
