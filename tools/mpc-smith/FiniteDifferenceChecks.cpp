//===- FiniteDifferenceChecks.cpp - Gradients against finite differences --===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The oracle of a training step executes the gradients that the compiler
// derived. Here they are compared in float64 with finite differences of the
// loss along a random direction in parameter space.
//
//===----------------------------------------------------------------------===//

#include "CaseChecks.h"

#include "CompiledStage.h"
#include "Reporter.h"

#include "JIT/TrainingReference.h"

#include "mpc/Reference/Interpreter.h"
#include "mpc/Support/StepNames.h"

#include <cmath>
#include <map>

using namespace mpc;
using namespace mpc::smith;
using mpc::reference::Tensor;

/// Number of directions tried; the loss may have a kink along one.
static constexpr int kDirections = 4;

namespace {

/// A differentiated graph and the point to evaluate it at.
class GradientChecker {
public:
  GradientChecker(mlir::func::FuncOp entry, std::vector<Tensor> inputs)
      : entry(entry), inputs(std::move(inputs)) {}

  /// Finds the loss, the gradients and their parameters; false if a parameter
  /// has no gradient.
  bool prepare();
  /// Whether the gradients match the slope along a random direction, or that
  /// slope is inconclusive. `text` describes a mismatch.
  bool holds(Random &random, std::string &text);

private:
  bool evaluate(const std::vector<Tensor> &at);
  /// The central difference of step `width` along `direction`.
  double difference(const std::vector<std::vector<double>> &direction,
                    double width);

  mlir::func::FuncOp entry;
  std::vector<Tensor> inputs, results;
  unsigned loss = 0;
  /// Indices of a parameter and of the result that is its gradient.
  std::vector<std::pair<unsigned, unsigned>> parameters;
};

} // namespace

bool GradientChecker::prepare() {
  std::map<std::string, unsigned> named;
  for (unsigned i = 0; i < entry.getNumResults(); ++i) {
    named[nameIn(entry.getResultAttrDict(i))] = i;
    auto role = entry.getResultAttrOfType<RoleAttr>(i, MpcDialect::kRoleAttr);
    if (role && role.getKind() == RoleKind::loss)
      loss = i;
  }
  for (unsigned i = 0; i < entry.getNumArguments(); ++i) {
    auto found = named.find(nameIn(entry.getArgAttrDict(i)) + kGradientSuffix);
    if (found != named.end())
      parameters.emplace_back(i, found->second);
  }
  return !parameters.empty() && evaluate(inputs);
}

bool GradientChecker::evaluate(const std::vector<Tensor> &at) {
  auto values = reference::interpret(entry, at, {});
  if (mlir::failed(values))
    return false;
  results.assign(values->begin(), values->end());
  return true;
}

double
GradientChecker::difference(const std::vector<std::vector<double>> &direction,
                            double width) {
  double ends[2] = {};
  for (int side = 0; side < 2; ++side) {
    std::vector<Tensor> moved = inputs;
    for (size_t p = 0; p < parameters.size(); ++p)
      for (auto [value, step] :
           llvm::zip(moved[parameters[p].first].floats(), direction[p]))
        value += (side ? width : -width) * step;
    if (!evaluate(moved))
      return NAN;
    ends[side] = results[loss].floats()[0];
  }
  return (ends[1] - ends[0]) / (2 * width);
}

bool GradientChecker::holds(Random &random, std::string &text) {
  if (!evaluate(inputs))
    return true;
  std::vector<std::vector<double>> direction;
  double slope = 0, size = 0;
  for (auto [argument, gradient] : parameters) {
    direction.emplace_back();
    for (double value : results[gradient].floats()) {
      double step = random.normal();
      direction.back().push_back(step);
      slope += value * step;
      size += std::fabs(value * step);
    }
  }
  double at = std::fabs(results[loss].floats()[0]);
  double wide = difference(direction, 0x1p-14),
         narrow = difference(direction, 0x1p-17);
  if (!std::isfinite(slope) || !std::isfinite(wide) || !std::isfinite(narrow))
    return true;
  // Different slopes at two step sizes mean a kink or a discontinuity. The only
  // rounding is of f32 constants in the loss and derivatives, which remains
  // where terms cancel, as along a shift before a softmax.
  double unsure =
      4 * std::fabs(wide - narrow) + size * 0x1p-20 + at * 0x1p-24 + 1e-9;
  if (std::fabs(narrow - slope) <= unsure)
    return true;
  text = "the loss changes by " + tool::shortNumber(narrow) +
         " along a direction, its gradients say " + tool::shortNumber(slope);
  return false;
}

std::vector<Finding> smith::checkGradientsNumerically(
    const std::string &file, const CompileOptions &given, uint64_t inputSeed) {
  CompileOptions options = given;
  options.policy = "float32";
  options.sets.clear();
  options.training->part = TrainingPart::ForwardBackward;
  options.training->lossScale = "none";
  Result<CompiledStage> lowered = lowerTo(file, options, "differentiate");
  if (!lowered.ok())
    return {{"gradients", lowered.status().toString()}};
  mlir::func::FuncOp entry = lowered->entry();
  Result<std::vector<Tensor>> inputs = drawArguments(entry, inputSeed);
  if (!inputs.ok())
    return {{"gradients", inputs.status().toString()}};
  GradientChecker slopes(entry, std::move(*inputs));
  if (!slopes.prepare())
    return {{"gradients", "there is none, or the oracle does not execute it"}};
  Random random(inputSeed);
  std::string text;
  for (int i = 0; i < kDirections; ++i)
    if (slopes.holds(random, text))
      return {};
  return {{"gradients", text}};
}
