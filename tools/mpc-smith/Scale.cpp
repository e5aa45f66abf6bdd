//===- Scale.cpp - what a loss scale leaves behind ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In float64 a power of two that gradients are multiplied with and divided by
// again changes nothing: a step gives the same parameters and states whatever
// its loss scale, and one that returns gradients returns multiples. The oracle
// of `mpc check --training` goes through the same loss scaling as the step, so
// that it would not see a scale that is applied twice.
//
//===----------------------------------------------------------------------===//

#include "Judge.h"

#include "Inputs.h"
#include "Reporter.h"

#include "JIT/Compiler.h"
#include "JIT/TrainingOracle.h"

#include "mpc/Dialect/Mpc/IR/MpcOps.h"
#include "mpc/Reference/Compare.h"
#include "mpc/Reference/Interpreter.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/StringRef.h"

#include <cmath>

using namespace mpc;
using namespace mpc::smith;
using mpc::reference::Tensor;

/// The scale that is compared with 1.
static constexpr double kScale = 1024;
/// Sums and quotients of float64.
static constexpr double kRounding = 1e-9;

static RoleKind roleOf(RoleAttr role) {
  return role ? role.getKind() : RoleKind::input;
}

/// Whether argument `i` is the loss scale; presets that never move it have a
/// constant instead.
static bool isScale(mlir::func::FuncOp entry, unsigned i) {
  RoleKind role =
      roleOf(entry.getArgAttrOfType<RoleAttr>(i, MpcDialect::kRoleAttr));
  std::string name = nameIn(entry.getArgAttrDict(i));
  return role == RoleKind::loss_scale_state &&
         llvm::StringRef(name).ends_with(".scale");
}

/// The step's results in float64 with `scale` as its loss scale, `drawn` for
/// what is no state; states begin at 0.
static std::vector<Tensor> runWith(mlir::func::FuncOp entry,
                                   const std::vector<Buffer> &drawn,
                                   double scale) {
  std::vector<Tensor> inputs;
  for (unsigned i = 0; i < entry.getNumArguments(); ++i) {
    auto type =
        mlir::cast<mlir::RankedTensorType>(entry.getArgument(i).getType());
    RoleKind role =
        roleOf(entry.getArgAttrOfType<RoleAttr>(i, MpcDialect::kRoleAttr));
    bool isState = role == RoleKind::optimizer_state ||
                   role == RoleKind::optimizer_step ||
                   role == RoleKind::loss_scale_state;
    Tensor value =
        isState ? Tensor(type) : Tensor::fromBytes(type, drawn[i].data());
    if (isScale(entry, i))
      value.floats()[0] = scale;
    inputs.push_back(std::move(value));
  }
  auto values = reference::interpret(entry, inputs, {});
  if (mlir::failed(values))
    return {};
  return {values->begin(), values->end()};
}

std::vector<Finding> smith::judgeScale(const std::string &file,
                                       const CompileOptions &given,
                                       uint64_t inputSeed) {
  std::string step = "loss scale";
  CompileOptions options = given;
  options.policy = "float32";
  options.sets.clear();
  Result<std::unique_ptr<Compiler>> created = Compiler::create(options);
  if (!created.ok())
    return {{step, created.status().toString()}};
  Result<Compiler::Module> module = (*created)->import(file);
  if (!module.ok())
    return {{step, module.status().toString()}};
  if (Status status = (*created)->runStages(**module, "import", "loss-scale");
      !status.ok())
    return {{step, "fails: " + status.toString()}};
  mlir::func::FuncOp entry = Compiler::entry(**module);
  auto arguments = llvm::seq<unsigned>(0, entry.getNumArguments());
  if (llvm::none_of(arguments, [&](unsigned i) { return isScale(entry, i); }))
    return {};
  Result<std::vector<Buffer>> drawn = tool::drawInputs(entry, inputSeed);
  if (!drawn.ok())
    return {{step, drawn.status().toString()}};
  std::vector<Tensor> plain = runWith(entry, *drawn, 1),
                      scaled = runWith(entry, *drawn, kScale);
  for (size_t i = 0; i < std::min(plain.size(), scaled.size()); ++i) {
    RoleKind role =
        roleOf(entry.getResultAttrOfType<RoleAttr>(i, MpcDialect::kRoleAttr));
    std::string name = nameIn(entry.getResultAttrDict(i));
    if (role == RoleKind::loss_scale_state || !plain[i].isFloat())
      continue;
    if (llvm::StringRef(name).ends_with(".gradient"))
      for (double &value : scaled[i].floats())
        value /= kScale;
    double error = reference::rmsRelativeError(scaled[i], plain[i]);
    if (!(error <= kRounding) && std::isfinite(error))
      return {{step, "'" + name + "' changes by " + tool::shortNumber(error) +
                         " with the scale"}};
  }
  return {};
}
