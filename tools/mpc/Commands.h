//===- Commands.h - the sub-commands of mpc ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One struct of arguments and one function per sub-command. The functions
// return the exit code and are called by main and by tests.
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
  std::vector<std::string> inputs;
  std::string expected;
  /// A part of a training step and its flags; empty for the model itself.
  std::string training;
  /// Folder that receives what a training step was given and the answers.
  std::string save;
  bool perOp = false;
  /// Change the module before Precision, and between the oracle's second run
  /// and the rest of the compile. Tests put faults in here to see them caught;
  /// no flag sets them.
  std::function<void(mlir::ModuleOp)> afterSimplify, afterPrecision;
};

struct CompileArguments {
  CommonOptions common;
  std::string output;
  /// A part of a training step and its flags; empty for the model itself.
  std::string training;
};

/// Where samples are.
struct SampleFiles {
  /// .npz files and folders of them.
  std::vector<std::string> inputs;
  /// Whether a file holds many: one for each index of its arrays' first
  /// dimension, which the model's inputs do not have.
  bool areStacked = false;
};

struct ExplainArguments {
  CommonOptions common;
  std::string why;
  /// Read the machine code of a GPU's kernels.
  bool sass = false;
  /// May be none.
  SampleFiles samples;
  /// The page to write; empty writes none.
  std::string html;
  /// A part of a training step and its flags; empty for the model itself.
  std::string training;
};

struct TuneKernelsArguments {
  CommonOptions common;
  std::vector<std::string> inputs;
  /// A part of a training step and its flags; empty for the model itself.
  std::string training;
  /// The table to write; empty for the one that is kept for this machine.
  std::string output;
  double seconds = 60;
};

struct CalibrateArguments {
  CommonOptions common;
  SampleFiles samples;
  /// "forward-backward" and its flags; empty for the model itself.
  std::string training;
  /// The file to write; empty writes none.
  std::string output;
};

struct TuneArguments {
  CommonOptions common;
  SampleFiles samples;
  /// "forward-backward" and its flags; empty for the model itself.
  std::string training;
  std::string budget;
  /// Empty: bytes, of what takes no longer than built-in policies, or what the
  /// budget speaks of.
  std::string objective;
  /// Types that products may have, and forms of weights; empty: those of the
  /// target.
  std::vector<std::string> types;
  /// The policy to write.
  std::string output;
  /// The page to write; empty writes none.
  std::string html;
  /// Time after which the best so far is taken; 0 for no limit.
  double seconds = 0;
  /// Go on from the state that a search with this output left.
  bool resume = false;
  /// Drawn choices that are measured beside their predictions.
  int trials = 0;
};

struct LintArguments {
  CommonOptions common;
};

struct DevicesArguments {
  CommonOptions common;
  /// Leaves out what has to be measured.
  bool withoutCeilings = false;
};

struct DumpArguments {
  CommonOptions common;
  std::string after = "plan";
  /// Print the fuser's decisions instead of IR.
  bool fusion = false;
  /// A part of a training step and its flags ("step optimizer=sgd"); empty for
  /// the model itself.
  std::string training;
};

int checkCommand(const CheckArguments &options);
/// checkCommand() where MODEL is an .mpcx file.
int checkStoredModel(const CheckArguments &options);
/// checkCommand() where a training step is judged.
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

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_COMMANDS_H
