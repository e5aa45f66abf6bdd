//===- LossScaleChecks.cpp - Loss scaling must not change results ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In float64, multiplying gradients by a power of two and dividing by it again
// is exact: the parameters and states after a step do not depend on its loss
// scale, and returned gradients are proportional to it. The oracle of `mpc
// check --training` uses the same loss scaling as the step, so it would miss a
// scale that is applied twice.
//
//===----------------------------------------------------------------------===//

#include "CaseChecks.h"

#include "CompiledStage.h"
#include "Reporter.h"

#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Reference/Compare.h"
#include "mpc/Reference/Interpreter.h"
#include "mpc/Support/StepNames.h"

#include <cmath>

using namespace mpc;
using namespace mpc::smith;
using mpc::reference::Tensor;

/// The scale to compare with 1.
static constexpr double kScale = 1024;
/// Tolerance for float64 sums and quotients.
static constexpr double kRounding = 1e-9;

/// The step's float64 results with loss scale `scale` and arguments `drawn`;
/// states start at 0.
static std::vector<Tensor> runWith(const StepFunction &step, unsigned scaleAt,
                                   std::vector<Tensor> drawn, double scale) {
  for (RoleKind kind : {RoleKind::optimizer_state, RoleKind::optimizer_step,
                        RoleKind::loss_scale_state})
    for (mlir::BlockArgument state : step.arguments(kind))
      drawn[state.getArgNumber()] =
          Tensor(mlir::cast<mlir::RankedTensorType>(state.getType()));
  drawn[scaleAt].floats()[0] = scale;
  auto values = reference::interpret(step.getFunction(), drawn, {});
  if (mlir::failed(values))
    return {};
  return {values->begin(), values->end()};
}

std::vector<Finding> smith::checkLossScaleInvariance(
    const std::string &file, const CompileOptions &given, uint64_t inputSeed) {
  std::string where = "loss scale";
  CompileOptions options = given;
  options.policy = "float32";
  options.sets.clear();
  Result<CompiledStage> lowered = lowerTo(file, options, "loss-scale");
  if (!lowered.ok())
    return {{where, lowered.status().toString()}};
  StepFunction step(lowered->entry());
  // Presets with a fixed scale have a constant instead.
  mlir::BlockArgument scale = step.findField("scale");
  if (!scale)
    return {};
  Result<std::vector<Tensor>> drawn =
      drawArguments(step.getFunction(), inputSeed);
  if (!drawn.ok())
    return {{where, drawn.status().toString()}};
  std::vector<Tensor> plain = runWith(step, scale.getArgNumber(), *drawn, 1),
                      scaled =
                          runWith(step, scale.getArgNumber(), *drawn, kScale);
  for (size_t i = 0; i < std::min(plain.size(), scaled.size()); ++i) {
    RoleAttr role = step.resultRole(i);
    if ((role && role.getKind() == RoleKind::loss_scale_state) ||
        !plain[i].isFloat())
      continue;
    llvm::StringRef name = step.resultName(i);
    if (name.ends_with(kGradientSuffix))
      for (double &value : scaled[i].floats())
        value /= kScale;
    double error = reference::rmsRelativeError(scaled[i], plain[i]);
    if (!(error <= kRounding) && std::isfinite(error))
      return {{where, "'" + name.str() + "' changes by " +
                          tool::shortNumber(error) + " with the scale"}};
  }
  return {};
}
