//===- StepJudge.h - training steps against the oracle ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a compiled training step and checks its outputs and states.
//
// Each step is checked separately: the oracle starts from the state that the
// device had before the step, so that the model does not amplify differences of
// earlier steps. Outputs and optimizer states, which contain every gradient,
// must be within the tolerance of compareOutput(). The loss, a scalar, must be
// that of the device's own outputs. New parameters follow from
// the new states by operations that are bit-exact under strict rounding, so
// they are recomputed from the device's own states and must agree exactly. This
// is stricter than a tolerance: Adam divides by the root of its state, which
// turns a gradient of rounding errors into a step of full length.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_JIT_STEPJUDGE_H
#define MPC_TEST_UNIT_JIT_STEPJUDGE_H

#include "mpc/JIT/Options.h"
#include "mpc/Runtime/Executable.h"

#include "JIT/TrainingReference.h"

#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace mpc {

/// A compiled step, its state and its oracle. Differences are test failures.
class StepJudge {
public:
  /// Compiles the model in the file `path` for the GPUs that the host emulates.
  /// `oracle`, if given, are the options of the oracle; a test that expects
  /// errors passes different ones.
  StepJudge(const std::string &path, const CompileOptions &options,
            const CompileOptions *oracle = nullptr);

  /// Whether there is a step to run; else the failure is reported.
  bool usable() const { return executable && oracle; }

  /// Runs `steps` steps, each on separate data, and checks each.
  void judge(int64_t steps);

  /// Results of one step that disagree with the oracle: "step 1,
  /// fc1/weight.momentum: ...".
  std::vector<std::string> faultsOfAStep();

  /// One step on new data; the state moves on.
  std::vector<Buffer> run();

  /// The arguments' buffers, which hold the state.
  const std::vector<Buffer> &state() const { return arguments; }
  const Program &program() const { return executable->program(); }

private:
  using Named = std::map<std::string, Buffer>;

  void drawBatch();
  Named snapshot() const;
  /// Empty, or how the new parameter differs from what follows from the states.
  std::string faultOfParameter(const std::string &name, const Named &before,
                               const Named &after) const;
  std::string faultOfCopy(const ProgramValue &copy, const Named &after) const;

  TrainingOptions training;
  std::optional<Executable> executable;
  std::optional<TrainingOracle> oracle;
  std::vector<Buffer> arguments;
  std::mt19937 random{20};
  int64_t done = 0;
};

} // namespace mpc

#endif // MPC_TEST_UNIT_JIT_STEPJUDGE_H
