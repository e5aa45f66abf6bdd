//===- Replay.h - recordings against the compiler ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each function takes one recording and builds the graphs that it describes.
// For autocast and dtype policies it runs mpc-assign-precision with the preset
// that imitates the recorded system and compares types and casts; for loss
// scalers and optimizers it runs the stages on a training step, executes it and
// compares numbers. Entries that the dialect cannot express are not covered and
// never counted as agreement.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_REPLAY_REPLAY_H
#define MPC_TOOLS_REPLAY_REPLAY_H

#include "mpc/Policy/Policy.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <vector>

namespace mpc::replay {

using Json = nlohmann::json;

/// The result of one recording.
struct Tally {
  int agree = 0, covered = 0, total = 0;
  /// One line for each entry that disagrees, and for each that is not covered.
  std::vector<std::string> disagreements, uncovered;
  /// How many entries differ on purpose, by the reason; they are not covered.
  std::map<std::string, int> deliberate;

  /// Counts a replayed entry; `difference` is empty if mpc agrees with the
  /// recording.
  void note(const std::string &entry, const std::string &difference) {
    ++total;
    ++covered;
    if (difference.empty())
      ++agree;
    else
      disagreements.push_back(entry + ": " + difference);
  }
  /// Counts an entry in which mpc intentionally differs from the recorded
  /// system.
  void differOnPurpose(const std::string &why) {
    ++total;
    ++deliberate[why];
  }
  /// Counts an entry that cannot be replayed.
  void skip(const std::string &entry, const std::string &why) {
    ++total;
    uncovered.push_back(entry + ": " + why);
  }
};

/// Runs mpc-assign-precision on every function of `module`. `sets` are
/// overrides. The error holds the pass's diagnostics.
llvm::Error assignPrecision(mlir::ModuleOp module, llvm::StringRef policy,
                            llvm::ArrayRef<std::string> sets = {});

/// The short name that recordings use for an element type: f32, bf16, i1 ...
std::string shortName(mlir::Type element);
/// The element type of a short name; null for one that the dialect lacks.
mlir::Type parseShortName(llvm::StringRef name, mlir::MLIRContext *context);

/// The preset that imitates a recording's system, device and 16-bit type.
llvm::Expected<Policy> presetOf(const Json &recording);

using Replayer = llvm::Expected<Tally>(const Json &, mlir::MLIRContext &);

Replayer replayTorchOps, replayTorchModel, replayTorchPrograms;
Replayer replayTensorFlowLists, replayTensorFlowGraphs;
Replayer replayKerasPolicies, replayKerasLayers, replayKerasModels,
    replayKerasMaps;
Replayer replayLossScale, replayLossScaleTrace;
/// The field "stream" holds the gradients' file, not its name.
Replayer replayOptimizer;

} // namespace mpc::replay

#endif // MPC_TOOLS_REPLAY_REPLAY_H
