//===- Judge.h - what a case has to hold ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Judges one case in this process, which may crash, hang or run out of memory:
// Worker.h keeps that away from the others. All numbers are judged by `mpc
// check` itself.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_SMITH_JUDGE_H
#define MPC_TOOLS_SMITH_JUDGE_H

#include "Case.h"

#include "mpc/JIT/Options.h"

#include <functional>
#include <string>
#include <vector>

namespace mpc::smith {

/// What a case got wrong.
struct Finding {
  /// "check cpu:avx2", "stage simplify": what was done.
  std::string step;
  /// What came of it, in one line.
  std::string text;
  /// A float that is NaN or infinite where the reference is not.
  bool notFinite = false;
};

/// Where a judge works and whom it tells.
struct JudgeContext {
  /// A folder for files, this case's alone.
  std::string folder;
  /// Called with each step's name as it begins.
  std::function<void(const std::string &)> onStep;
};

/// The levels of the CPU that code is generated for and that this machine has,
/// and those that it lacks.
std::vector<std::string> availableLevels();
std::vector<std::string> missingLevels();

/// The findings of the first step that has any.
std::vector<Finding> judge(const Case &drawn, const JudgeContext &context);

/// The compile that a setting asks for, its policy in the file `policyPath`
/// where it was drawn.
CompileOptions compileOptions(const Setting &setting,
                              const std::string &policyPath);

/// The error of one output in one step, squared and added up over draws of
/// inputs: that of a few elements may by chance be far from what the
/// storage-rounding mode predicts, that of many draws is not.
struct Pooled {
  std::string step, name;
  double error = 0, tolerance = 0;
  /// Elements that differ where none may: integers, NaN, infinities.
  int64_t mismatches = 0;
  bool isFloat = true;
  /// Draws, and those that are over the tolerance by themselves.
  int64_t draws = 1, over = 0;
};

/// Whether elements differ where none may.
bool hasMismatch(const std::vector<Pooled> &rows);
/// Adds `more`, in the same order, to `rows`.
void addDraws(std::vector<Pooled> &rows, const std::vector<Pooled> &more);
/// The rows that are over their tolerance, in sum and in half of the draws: one
/// whose reference is next to 0 outweighs all others.
std::vector<Finding> overTolerance(const std::vector<Pooled> &rows);
/// Judges what `measure` gives for a seed of inputs; where that fails, what it
/// gives for several.
std::vector<Finding>
judgeDraws(uint64_t seed,
           const std::function<std::vector<Pooled>(uint64_t)> &measure);

/// Runs stage by stage in float64 on the graph in `file`: no rewrite may change
/// what the graph means.
std::vector<Finding> judgeStages(const std::string &file,
                                 const CompileOptions &options,
                                 uint64_t inputSeed);

/// Every override of `options` decides the ops that it alone names, or a
/// message names it.
std::vector<Finding> judgeOverrides(const std::string &file,
                                    const CompileOptions &options);

/// The planner's minimum cut is as cheap as the best of all placements, where
/// those are few. Without overrides.
std::vector<Finding> judgePlacement(const std::string &file,
                                    const CompileOptions &options);

/// Holds the gradients that the compiler derives against differences of the
/// loss, in float64. `options.training` is set.
std::vector<Finding> judgeGradients(const std::string &file,
                                    const CompileOptions &options,
                                    uint64_t inputSeed);

/// The loss scale leaves no trace in what a step returns, in float64.
/// `options.training` is set.
std::vector<Finding> judgeScale(const std::string &file,
                                const CompileOptions &options,
                                uint64_t inputSeed);

} // namespace mpc::smith

#endif // MPC_TOOLS_SMITH_JUDGE_H
