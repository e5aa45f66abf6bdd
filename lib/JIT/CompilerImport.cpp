//===- CompilerImport.cpp - import stage of a compile ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compiler.h"
#include "PastPositions.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcOps.h"
#include "mpc/Import/ONNX.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <utility>

using namespace mlir;
using namespace mpc;

func::FuncOp Compiler::entry(ModuleOp module) {
  return module.lookupSymbol<func::FuncOp>("main");
}

ElementsAttr Compiler::offeredValue(StringRef name) {
  auto found = options.inputValues.find(name.str());
  if (found == options.inputValues.end() || !found->second)
    return nullptr;
  const Buffer &value = found->second;
  return makeConstant(
      compilerType(value.type(), *ctx),
      ArrayRef(static_cast<const char *>(value.data()), value.size()), name);
}

Compiler::Module Compiler::importOnnx(const ModelSource &model,
                                      const SourceBytes &bytes) {
  OnnxImportOptions import;
  for (const auto &[name, extent] : options.dims)
    import.dims[name] = extent;
  for (const auto &[name, shape] : options.inputShapes)
    import.inputShapes[name] = SmallVector<int64_t>(shape.begin(), shape.end());
  import.batch = options.batch;
  import.growsCaches = !options.caches.empty();
  import.checksKnownIndicesLater = options.positions.has_value();
  import.maxTensorBytes = std::min(import.maxTensorBytes, memoryLimit(options));
  SmallVector<std::string> fixed;
  import.fixedInputs = &fixed;
  llvm::StringMap<SmallVector<std::string>> found;
  import.inputSymbols = &found;
  if (!options.inputValues.empty())
    import.offeredValue = [&](StringRef name) { return offeredValue(name); };
  if (model.readsExternal())
    import.externalData =
        [&](StringRef name) -> llvm::Expected<ArrayRef<char>> {
      Result<std::span<const std::byte>> data = model.external(name.str());
      if (!data.ok())
        return llvm::createStringError(data.status().toString());
      return ArrayRef(reinterpret_cast<const char *>(data->data()),
                      data->size());
    };
  StringRef folder;
  if (model.isFile()) {
    folder = llvm::sys::path::parent_path(model.name());
    if (folder.empty())
      folder = ".";
  }
  ArrayRef data(reinterpret_cast<const char *>(bytes.bytes.data()),
                bytes.bytes.size());
  Module module =
      importOnnxBytes(data, model.name(), folder, import, ctx.get());
  inputsFixed.assign(fixed.begin(), fixed.end());
  symbols.clear();
  for (auto &[input, names] : found)
    symbols[input.str()].assign(names.begin(), names.end());
  return module;
}

void Compiler::setInitialValues(ModuleOp module) {
  func::FuncOp function = entry(module);
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto name = function.getArgAttrOfType<StringAttr>(i, MpcDialect::kNameAttr);
    if (!name)
      continue;
    ElementsAttr value = offeredValue(name.getValue());
    if (!value || value.getType() != function.getArgument(i).getType())
      continue;
    function.setArgAttr(i, MpcDialect::kInitialAttr, value);
    if (!llvm::is_contained(inputsFixed, name.getValue()))
      inputsFixed.push_back(name.str());
  }
}

void Compiler::recordCacheType() {
  llvm::Expected<Policy> policy = Policy::load(pipeline.policy);
  if (!policy)
    // The stage that reads the policy again reports the error.
    return llvm::consumeError(policy.takeError());
  if (std::optional<WeightType> chosen = policy->getCache())
    emitWarning(UnknownLoc::get(ctx.get()))
        << "policy '" << policy->getName() << "' keeps caches as "
        << stringify(*chosen)
        << ", but nothing is kept between runs here: only a decoder has caches "
           "(mpc generate)";
}

std::optional<ElementType> Compiler::cacheType() {
  llvm::Expected<Policy> policy = Policy::load(pipeline.policy);
  if (!policy) {
    // The stage that reads the policy again reports the error.
    llvm::consumeError(policy.takeError());
    return {};
  }
  if (std::optional<WeightType> chosen = policy->getCache())
    switch (*chosen) {
    case WeightType::Float16:
      return ElementType::F16;
    case WeightType::BFloat16:
      return ElementType::BF16;
    case WeightType::Int8:
      return ElementType::I8;
    case WeightType::Float8:
      return ElementType::F8E4M3FN;
    case WeightType::Float32:
    case WeightType::Int16:
    case WeightType::Int4:
      return std::nullopt;
    }
  // An override that keeps attention in f32 also keeps its cache in f32.
  bool isOverridden = !options.sets.empty() ||
                      !policy->getOverrides().empty() ||
                      !policy->getLayers().empty();
  for (StringRef kind : {"attention", "matmul"})
    isOverridden |= policy->classOf(kind) != PrecisionClass::Low;
  if (!isOverridden && policy->getCompute() == PolicyType::Float16)
    return ElementType::F16;
  if (!isOverridden && policy->getCompute() == PolicyType::BFloat16)
    return ElementType::BF16;
  return std::nullopt;
}

Status Compiler::findPositions(const ModelSource &model,
                               func::FuncOp function) {
  CompileOptions longer = options;
  longer.inputShapes = std::exchange(longer.positions->longerShapes, {});
  longer.caches.clear();
  longer.chosen.clear();
  // Everything about the model was reported with its first import.
  longer.onStage = nullptr;
  longer.onDiagnostic = nullptr;
  longer.dumpDir.clear();
  Result<std::unique_ptr<Compiler>> compiler = Compiler::create(longer);
  if (!compiler.ok())
    return compiler.status();
  (*compiler)->setCacheFormats();
  Result<Module> module = (*compiler)->import(model);
  if (!module.ok())
    return module.status();
  size_t first = said.size();
  if (failed(placePositions(function, entry(**module), *options.positions)))
    return failure(first);
  return {};
}

Result<Compiler::Module> Compiler::import(const ModelSource &model) {
  enter("import");
  size_t first = said.size();
  const std::string &name = model.name();
  StringRef extension = llvm::sys::path::extension(name);
  if (extension != ".onnx" && extension != ".mlir")
    return Status(StatusCode::InvalidArgument, name,
                  "is no model that can be read: the name ends in neither "
                  ".onnx nor .mlir");
  int64_t most = memoryLimit(options);
  if (Status status = checkFileMemory(model, most); !status.ok())
    return status;
  Result<SourceBytes> bytes = model.read();
  if (!bytes.ok())
    return bytes.status();
  Module module;
  if (extension == ".onnx") {
    if (Status status = checkExternalMemory(model, *bytes, most); !status.ok())
      return status;
    module = importOnnx(model, *bytes);
    if (!module)
      return failure(first);
  } else {
    // Text models have static shapes only.
    if (options.batch && *options.batch < 1)
      return Status(StatusCode::InvalidArgument, name,
                    "batch is " + std::to_string(*options.batch) +
                        ", expected at least 1");
    if (!options.dims.empty())
      return Status(StatusCode::InvalidArgument, name,
                    "no input has a symbolic dimension named '" +
                        options.dims.begin()->first + "'");
    Result<Module> parsed = importMlir(
        StringRef(reinterpret_cast<const char *>(bytes->bytes.data()),
                  bytes->bytes.size()),
        name, *ctx);
    if (!parsed.ok())
      return said.size() > first ? failure(first) : parsed.status();
    module = std::move(*parsed);
  }
  if (!entry(*module))
    return Status(StatusCode::InvalidArgument, name, "has no function @main");
  if (failed(checkSizes(*module)) || failed(checkImportedMemory(*module, most)))
    return failure(first);
  if (options.positions && !options.positions->longerShapes.empty())
    if (Status status = findPositions(model, entry(*module)); !status.ok())
      return status;
  if (!options.caches.empty() &&
      failed(makeCachesInPlace(entry(*module), options.caches, cacheType())))
    return failure(first);
  if (options.caches.empty() && !expectsCaches)
    recordCacheType();
  if (!options.chosen.empty() &&
      failed(selectResultEntries(entry(*module), options.chosen)))
    return failure(first);
  markInfiniteResults(entry(*module));
  if (options.training && !options.training->parameters.empty())
    setInitialValues(*module);
  if (Status status = dump(*module, "import"); !status.ok())
    return status;
  return module;
}
