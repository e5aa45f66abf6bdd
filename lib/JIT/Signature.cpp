//===- Signature.cpp - inputs of a model ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/JIT/Signature.h"

#include "Compiler.h"
#include "KnownValues.h"

#include "mpc/Import/ONNX.h"

#include "llvm/ADT/StringRef.h"

#include <optional>

using namespace mlir;
using namespace mpc;

static ModelInput describe(StringRef name, Type element,
                           ArrayRef<int64_t> shape) {
  ModelInput input;
  input.name = name.str();
  if (element)
    input.element = runtimeElement(element);
  for (int64_t extent : shape)
    input.shape.push_back(ShapedType::isDynamic(extent) ? -1 : extent);
  input.symbols.resize(shape.size());
  return input;
}

static Result<std::vector<ModelInput>> readOnnx(Compiler &compiler,
                                                const ModelSource &model) {
  Result<SourceBytes> bytes = model.read();
  if (!bytes.ok())
    return bytes.status();
  FailureOr<SmallVector<OnnxInput>> declared = readOnnxInputs(
      ArrayRef(reinterpret_cast<const char *>(bytes->bytes.data()),
               bytes->bytes.size()),
      model.name(), &compiler.context());
  if (failed(declared))
    return compiler.failure(0);
  std::vector<ModelInput> inputs;
  for (const OnnxInput &input : *declared) {
    inputs.push_back(describe(input.name, input.element, input.shape));
    inputs.back().symbols.assign(input.symbols.begin(), input.symbols.end());
  }
  return inputs;
}

Result<bool> mpc::countsPositions(const ModelSource &model) {
  if (model.extension() != ".onnx")
    return false;
  Result<std::unique_ptr<Compiler>> compiler = Compiler::create({});
  if (!compiler.ok())
    return compiler.status();
  Result<SourceBytes> bytes = model.read();
  if (!bytes.ok())
    return bytes.status();
  FailureOr<bool> found =
      onnxHasOp(ArrayRef(reinterpret_cast<const char *>(bytes->bytes.data()),
                         bytes->bytes.size()),
                model.name(), &(*compiler)->context(), "GroupQueryAttention",
                "com.microsoft");
  if (failed(found))
    return (*compiler)->failure(0);
  return *found;
}

bool mpc::isOnnxOpSupported(const std::string &domain, const std::string &op) {
  return isOnnxOpKnown(domain, op);
}

/// Imports `model`, with the limit of folded constants if it is set.
static ImportCheck importOnce(const ModelSource &model,
                              const CompileOptions &options,
                              std::optional<int64_t> maxFoldBytes) {
  ImportCheck check;
  Result<std::unique_ptr<Compiler>> compiler = Compiler::create(options);
  if (!compiler.ok()) {
    check.status = compiler.status();
    return check;
  }
  if (maxFoldBytes)
    (*compiler)->setMaxFoldBytes(*maxFoldBytes);
  if (Result<Compiler::Module> module = (*compiler)->import(model); module.ok())
    return check;
  else
    check.status = module.status();
  check.neededInputs = (*compiler)->neededInputs();
  for (const mpc::Diagnostic &message : (*compiler)->diagnostics())
    if (message.severity == mpc::Diagnostic::Severity::Error) {
      check.op = message.op;
      break;
    }
  return check;
}

ImportCheck mpc::checkImport(const ModelSource &model,
                             const CompileOptions &options) {
  // Folding weights takes most of an import; shapes are small.
  constexpr int64_t kShapeBytes = int64_t(64) << 10;
  ImportCheck check = importOnce(model, options, kShapeBytes);
  return check.status.ok() ? check : importOnce(model, options, std::nullopt);
}

Result<std::vector<ModelInput>> mpc::readInputs(const ModelSource &model) {
  if (const std::vector<ModelInput> *inputs = model.shapedInputs())
    return *inputs;
  // Reports why a folder cannot be opened.
  if (model.extension() != ".onnx")
    if (Result<SourceBytes> bytes = model.read(); !bytes.ok())
      return bytes.status();
  Result<std::unique_ptr<Compiler>> compiler = Compiler::create({});
  if (!compiler.ok())
    return compiler.status();
  if (model.extension() == ".onnx")
    return readOnnx(**compiler, model);
  // Text models have static shapes, so importing needs no options.
  Result<Compiler::Module> module = (*compiler)->import(model);
  if (!module.ok())
    return module.status();
  func::FuncOp entry = Compiler::entry(**module);
  std::vector<ModelInput> inputs;
  for (BlockArgument argument : entry.getArguments()) {
    auto type = cast<RankedTensorType>(argument.getType());
    inputs.push_back(describe(argumentName(entry, argument.getArgNumber()),
                              type.getElementType(), type.getShape()));
  }
  return inputs;
}
