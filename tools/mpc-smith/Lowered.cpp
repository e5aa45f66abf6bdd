//===- Lowered.cpp - a model behind one of its stages ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowered.h"

#include "Inputs.h"

using namespace mpc;
using namespace mpc::smith;
using mpc::reference::Tensor;

Result<Lowered> smith::lowerTo(const std::string &file,
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
  Lowered lowered;
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
