//===- CompiledStage.cpp - Compiling a model up to a stage ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompiledStage.h"

#include "Inputs.h"
#include "Random.h"

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Support/Files.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace mpc;
using namespace mpc::smith;
using mpc::reference::Tensor;

Result<CompiledStage> smith::lowerTo(const std::string &file,
                                     const CompileOptions &options,
                                     const std::string &stage) {
  Result<std::unique_ptr<Compiler>> compiler = Compiler::create(options);
  if (!compiler.ok())
    return compiler.status();
  Result<Compiler::Module> module = (*compiler)->import(file);
  if (!module.ok())
    return module.status();
  if (Status status = (*compiler)->runStages(**module, "import", stage);
      !status.ok())
    return status;
  CompiledStage lowered;
  lowered.compiler = std::move(*compiler);
  lowered.module = std::move(*module);
  return lowered;
}

Result<std::vector<Tensor>> smith::drawArguments(mlir::func::FuncOp entry,
                                                 uint64_t seed) {
  Result<std::vector<Buffer>> drawn = tool::drawInputs(entry, seed);
  if (!drawn.ok())
    return drawn.status();
  std::vector<Tensor> arguments;
  for (unsigned i = 0; i < entry.getNumArguments(); ++i)
    arguments.push_back(Tensor::fromBytes(
        mlir::cast<mlir::RankedTensorType>(entry.getArgument(i).getType()),
        (*drawn)[i].data()));
  return arguments;
}

Status smith::perturbWeights(const std::string &from, const std::string &to,
                             uint64_t seed) {
  Result<CompiledStage> model = lowerTo(from, CompileOptions(), "import");
  if (!model.ok())
    return model.status();
  Random random(seed);
  model->module->walk([&](ConstantOp constant) {
    auto value = mlir::cast<mlir::ElementsAttr>(constant.getValue());
    bool isWeight = constant.getType().getRank() > 0 &&
                    (value.getNumElements() == 1 || !value.isSplat());
    if (!isWeight || !constant.getType().getElementType().isF32())
      return;
    mlir::FailureOr<Tensor> weights = Tensor::fromAttr(value);
    if (mlir::failed(weights))
      return;
    // Integers are indices and classes.
    if (llvm::all_of(weights->floats(),
                     [](double x) { return x == std::trunc(x); }))
      return;
    for (double &weight : weights->floats())
      weight = float(weight * (1 + random.real(-1, 1) / 64));
    constant.setValueAttr(weights->toAttr());
  });
  std::string text;
  llvm::raw_string_ostream stream(text);
  // Locations hold the names that policies refer to.
  model->module->print(stream, mlir::OpPrintingFlags().enableDebugInfo(true));
  return writeWholeFile(to, {text});
}
