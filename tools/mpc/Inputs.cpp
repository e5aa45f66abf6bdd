//===- Inputs.cpp - input data of a model ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Inputs.h"

#include "CompiledModel.h"

#include "JIT/Compiler.h"

#include "mpc/Analysis/IndexBounds.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"

using namespace mpc;
using namespace mpc::tool;

void tool::passInputShapes(const std::vector<NamedArray> &arrays,
                           CompileOptions &options) {
  for (const NamedArray &array : arrays) {
    options.inputShapes.try_emplace(array.name, array.data.type().shape);
    options.inputValues[array.name] = array.data;
  }
}

Status tool::passInputShapes(const CommonOptions &common,
                             CompileOptions &options) {
  Result<std::vector<NamedArray>> arrays =
      loadArrays(common.inputs, common.maxMemory);
  if (arrays.ok())
    passInputShapes(*arrays, options);
  return arrays.status();
}

/// Returns the name of an argument or result, else one by position.
static std::string valueName(mlir::Attribute attribute, const char *prefix,
                             unsigned index) {
  if (auto name = mlir::dyn_cast_if_present<mlir::StringAttr>(attribute);
      name && !name.empty())
    return name.getValue().str();
  return prefix + std::to_string(index);
}

std::vector<ProgramValue> tool::argumentsOf(mlir::func::FuncOp function) {
  std::vector<ProgramValue> values;
  values.reserve(function.getNumArguments());
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    values.push_back(
        {valueName(function.getArgAttr(i, MpcDialect::kNameAttr), "arg", i),
         runtimeType(mlir::cast<mlir::RankedTensorType>(
             function.getArgument(i).getType()))});
  return values;
}

std::vector<ProgramValue> tool::resultsOf(mlir::func::FuncOp function) {
  std::vector<ProgramValue> values;
  values.reserve(function.getNumResults());
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    values.push_back(
        {valueName(function.getResultAttr(i, MpcDialect::kNameAttr), "out", i),
         runtimeType(mlir::cast<mlir::RankedTensorType>(
             function.getResultTypes()[i]))});
  return values;
}

//===----------------------------------------------------------------------===//
// Random inputs
//===----------------------------------------------------------------------===//

Result<std::vector<Buffer>> tool::drawInputs(mlir::func::FuncOp function,
                                             uint64_t seed) {
  std::vector<ProgramValue> values;
  for (auto [i, value] : llvm::enumerate(argumentsOf(function)))
    values.push_back({value.name, value.type, /*role=*/"",
                      indexBound(function.getArgument(i)).value_or(0)});
  Result<std::vector<Buffer>> drawn = drawValues(values, seed);
  if (!drawn.ok())
    return drawn;
  // Parameters have the model's initial values.
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (auto initial = function.getArgAttrOfType<mlir::ElementsAttr>(
            i, MpcDialect::kInitialAttr)) {
      mlir::FailureOr<ConstantBytes> bytes = ConstantBytes::get(initial);
      std::span<char> target = (*drawn)[i].as<char>();
      if (mlir::succeeded(bytes) && bytes->bytes().size() == target.size())
        std::copy(bytes->bytes().begin(), bytes->bytes().end(), target.begin());
    }
  return drawn;
}
