//===- Gradient.cpp - derivatives against differences ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The oracle of a training step executes the derivatives that the compiler
// made. Here they are held against the loss itself, in float64: along a random
// direction in the space of all parameters, it must change as they say.
//
//===----------------------------------------------------------------------===//

#include "Judge.h"

#include "Lowered.h"
#include "Reporter.h"

#include "JIT/TrainingOracle.h"

#include "mpc/Dialect/Mpc/IR/MpcOps.h"
#include "mpc/Reference/Interpreter.h"
#include "mpc/Support/StepNames.h"

#include <cmath>
#include <map>

using namespace mpc;
using namespace mpc::smith;
using mpc::reference::Tensor;

/// Directions that are tried. One may meet a kink of the loss.
static constexpr int kDirections = 4;

namespace {

/// A differentiated graph and what it is evaluated at.
class Slopes {
public:
  Slopes(mlir::func::FuncOp entry, std::vector<Tensor> inputs)
      : entry(entry), inputs(std::move(inputs)) {}

  /// Finds the loss, the gradients and their parameters; false where a
  /// parameter has no gradient.
  bool prepare();
  /// Whether the gradients are the slope along a direction, or nothing can be
  /// said about that direction. `text` says what differs.
  bool holds(Random &random, std::string &text);

private:
  bool evaluate(const std::vector<Tensor> &at);
  /// The slope that a central difference of width `width` sees.
  double difference(const std::vector<std::vector<double>> &direction,
                    double width);

  mlir::func::FuncOp entry;
  std::vector<Tensor> inputs, results;
  unsigned loss = 0;
  /// Numbers of an argument and of the result that is its gradient.
  std::vector<std::pair<unsigned, unsigned>> parameters;
};

} // namespace

bool Slopes::prepare() {
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

bool Slopes::evaluate(const std::vector<Tensor> &at) {
  auto values = reference::interpret(entry, at, {});
  if (mlir::failed(values))
    return false;
  results.assign(values->begin(), values->end());
  return true;
}

double Slopes::difference(const std::vector<std::vector<double>> &direction,
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

bool Slopes::holds(Random &random, std::string &text) {
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
  // Two widths that disagree have met a kink or a step. What rounds here are
  // the constants of the loss and of derivatives, which are f32: where terms
  // cancel, as along a shift that a softmax ignores, that is all there is.
  double unsure =
      4 * std::fabs(wide - narrow) + size * 0x1p-20 + at * 0x1p-24 + 1e-9;
  if (std::fabs(narrow - slope) <= unsure)
    return true;
  text = "the loss changes by " + tool::shortNumber(narrow) +
         " along a direction, its gradients say " + tool::shortNumber(slope);
  return false;
}

std::vector<Finding> smith::judgeGradients(const std::string &file,
                                           const CompileOptions &given,
                                           uint64_t inputSeed) {
  CompileOptions options = given;
  options.policy = "float32";
  options.sets.clear();
  options.training->part = TrainingPart::ForwardBackward;
  options.training->lossScale = "none";
  Result<Lowered> lowered = lowerTo(file, options, "differentiate");
  if (!lowered.ok())
    return {{"gradients", lowered.status().toString()}};
  mlir::func::FuncOp entry = lowered->entry();
  Result<std::vector<Tensor>> inputs = drawArguments(entry, inputSeed);
  if (!inputs.ok())
    return {{"gradients", inputs.status().toString()}};
  Slopes slopes(entry, std::move(*inputs));
  if (!slopes.prepare())
    return {{"gradients", "there is none, or the oracle does not execute it"}};
  Random random(inputSeed);
  std::string text;
  for (int i = 0; i < kDirections; ++i)
    if (slopes.holds(random, text))
      return {};
  return {{"gradients", text}};
}
