//===- CaseChecks.h - Checks of one case ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks one case in this process, which may crash, hang or run out of memory;
// Worker.h isolates it. All numerical comparisons are those of `mpc check`.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_SMITH_CASECHECKS_H
#define MPC_TOOLS_SMITH_CASECHECKS_H

#include "Case.h"

#include "mpc/JIT/Options.h"

#include <functional>
#include <string>
#include <vector>

namespace mpc::smith {

/// A failure of a case.
struct Finding {
  /// The check that failed: "check cpu:avx2", "stage simplify".
  std::string step;
  /// The failure, in one line.
  std::string text;
  /// A float that is NaN or infinite where the reference is not.
  bool notFinite = false;
};

/// Working directory and progress callback.
struct CheckContext {
  /// A directory for the files of this case only.
  std::string folder;
  /// Called with the name of each step when it starts.
  std::function<void(const std::string &)> onStep;
};

/// The ISA levels of the CPU target that this machine supports, and those that
/// it does not.
std::vector<std::string> availableLevels();
std::vector<std::string> missingLevels();

/// The findings of the first failing step.
std::vector<Finding> judge(const Case &drawn, const CheckContext &context);

/// The compile options of a setting; a generated policy is in the file
/// `policyPath`.
CompileOptions compileOptions(const Setting &setting,
                              const std::string &policyPath);

/// The squared error of one output in one step, summed over several draws of
/// the inputs: a few elements may by chance exceed the prediction of the
/// storage-rounding mode, but many draws do not.
struct PooledError {
  std::string step, name;
  double error = 0, tolerance = 0;
  /// Mismatched elements that have no tolerance: integers, NaN, infinities.
  int64_t mismatches = 0;
  bool isFloat = true;
  /// Number of draws, and of those over the tolerance individually.
  int64_t draws = 1, over = 0;
};

/// Whether any row has mismatches.
bool hasMismatch(const std::vector<PooledError> &rows);
/// Adds `more`, in the same order, to `rows`.
void addDraws(std::vector<PooledError> &rows,
              const std::vector<PooledError> &more);
/// The rows over their tolerance both in sum and in half of the draws: one with
/// a reference close to 0 dominates the sum.
std::vector<Finding> overTolerance(const std::vector<PooledError> &rows);
/// Checks `measure` for one input seed; if it fails, for several seeds.
std::vector<Finding> checkOverSeeds(
    uint64_t seed,
    const std::function<std::vector<PooledError>(uint64_t)> &measure);

/// Interprets the graph in `file` in float64 after every stage: no rewrite may
/// change its meaning.
std::vector<Finding> checkStageSemantics(const std::string &file,
                                         const CompileOptions &options,
                                         uint64_t inputSeed);

/// Checks that every override of `options` decides the ops that only it names,
/// or that a diagnostic names it.
std::vector<Finding> checkPolicyOverrides(const std::string &file,
                                          const CompileOptions &options);

/// Compares the planner's minimum cut with an exhaustive search over
/// placements, where feasible. Ignores overrides.
std::vector<Finding> checkPlacementOptimal(const std::string &file,
                                           const CompileOptions &options);

/// Compares the derived gradients with finite differences of the loss, in
/// float64. `options.training` is set.
std::vector<Finding> checkGradientsNumerically(const std::string &file,
                                               const CompileOptions &options,
                                               uint64_t inputSeed);

/// Checks in float64 that the loss scale does not affect the results of a step.
/// `options.training` is set.
std::vector<Finding> checkLossScaleInvariance(const std::string &file,
                                              const CompileOptions &options,
                                              uint64_t inputSeed);

} // namespace mpc::smith

#endif // MPC_TOOLS_SMITH_CASECHECKS_H
