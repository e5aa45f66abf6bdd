//===- Compiler.cpp - stages of one compile -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compiler.h"

#include "DiskConstantStore.h"
#include "KnownValues.h"
#include "OrcJit.h"
#include "PastPositions.h"

#include "mpc/Analysis/TranslationValidation.h"
#include "mpc/Dialect/Exe/IR/ExeOps.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/Transforms/KvCacheFormat.h"
#include "mpc/Dialect/Mpc/Vjp/Vjp.h"
#include "mpc/Import/ONNX.h"
#include "mpc/Import/StableHLO.h"
#include "mpc/Runtime/Device.h"
#include "mpc/Runtime/Suggestions.h"
#include "mpc/Support/EscapedText.h"
#include "mpc/Support/Files.h"
#include "mpc/Target/CPU/Codegen.h"
#include "mpc/Target/TargetInfo.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Set-up
//===----------------------------------------------------------------------===//

/// Refuses NaN, which passes all later comparisons.
static Status checkNumbers(const TrainingOptions &training) {
  struct Number {
    const char *name;
    double value;
    bool mayBeZero;
  };
  const ScheduleOptions &schedule = training.schedule;
  double decay = training.optimizer.weightDecay.value_or(0),
         norm = training.clipNorm.value_or(1),
         value = training.clipValue.value_or(1);
  const Number numbers[] = {
      {"learning rate", schedule.base, true},
      {"final learning rate", schedule.final, true},
      {"gamma", schedule.gamma, true},
      {"weight decay", decay, true},
      {"clip norm", norm, false},
      {"clip value", value, false},
  };
  for (const auto &[name, number, mayBeZero] : numbers)
    if (!std::isfinite(number) || number < 0 || (number == 0 && !mayBeZero))
      return Status(StatusCode::InvalidArgument, "training",
                    "has the " + std::string(name) + " " +
                        llvm::formatv("{0}", number).str() + "; give one " +
                        (mayBeZero ? "that is finite and not negative"
                                   : "that is finite and positive"));
  return {};
}

Result<TargetInfo> mpc::resolveTarget(const std::string &text) {
  std::optional<TargetInfo> target =
      text.empty() ? TargetInfo::native() : TargetInfo::parse(text);
  if (target)
    return *target;
  if (text.empty() || text == "cpu:native")
    return Status(
        StatusCode::Unavailable, "cpu",
        "this machine lacks AVX2, FMA or F16C, which compiled code needs");
  return Status(StatusCode::Unavailable, "target '" + text + "'",
                TargetInfo::describeUnknown(text));
}

Result<TargetInfo> mpc::resolveTarget(const CompileOptions &options) {
  Result<TargetInfo> target = resolveTarget(options.target);
  if (!target.ok() ||
      !(options.reproducible || NamedPolicy(options.policy)->isReproducible()))
    return target;
  if (std::optional<TargetInfo> same = target->reproducible())
    return *same;
  return Status(StatusCode::Unavailable, "target '" + target->name() + "'",
                "has no reproducible order of sums, which is implemented for "
                "CPUs; use --device cpu, or drop \"reproducible\"");
}

Result<std::unique_ptr<Compiler>>
Compiler::create(const CompileOptions &options) {
  if (options.training)
    if (Status status = checkNumbers(*options.training); !status.ok())
      return status;
  Result<TargetInfo> target = resolveTarget(options);
  if (!target.ok())
    return target.status();
  return std::unique_ptr<Compiler>(new Compiler(options, *target));
}

PipelineOptions mpc::pipelineOptions(const CompileOptions &options,
                                     const TargetInfo &target) {
  PipelineOptions pipeline;
  pipeline.policy = options.policy;
  for (const auto &[key, type] : options.sets)
    pipeline.sets.push_back(key + "=" + type);
  pipeline.partOfModel = options.isPartOfModel;
  pipeline.castPlacement = options.castPlacement;
  pipeline.relaxedRounding = options.rounding == RoundingMode::Relaxed;
  pipeline.schedules = options.schedules;
  pipeline.stepLossScale = options.stepLossScale;
  pipeline.libraryGemms =
      options.gemm == "library" && target.kernels().hasLibrary;
  pipeline.target = target;
  pipeline.training = options.training;
  return pipeline;
}

Compiler::Compiler(const CompileOptions &options, const TargetInfo &target)
    : options(options), pipeline(mpc::pipelineOptions(options, target)) {
  if (options.shouldStop)
    this->options.shouldStop = [ask = options.shouldStop, said = stopped] {
      if (!*said && ask())
        *said = true;
      return said->load();
    };
  DialectRegistry registry;
  registry.insert<MpcDialect, exe::ExeDialect, func::FuncDialect>();
  registerStablehloDialects(registry);
  registerVjpModels(registry);
  cpu::registerCodegenDialects(registry);
  // Multithreading is for code generation only; passes take milliseconds.
  ctx =
      std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  // Printing a whole function after each message is noise.
  ctx->printOpOnDiagnostic(false);
  ctx->loadDialect<MpcDialect, exe::ExeDialect, func::FuncDialect>();
  setStore(std::make_shared<DiskConstantStore>());
  ctx->getDiagEngine().registerHandler([this](mlir::Diagnostic &message) {
    hear(message);
    return success();
  });
}

Compiler::~Compiler() = default;

void Compiler::setStore(std::shared_ptr<ConstantStore> store) {
  setConstantStore(ctx.get(), std::move(store));
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

Status Compiler::runStages(ModuleOp module, StringRef after, StringRef last) {
  bool running = after == "import";
  if (last == "import")
    return {};
  exe::setTarget(module, target());
  if (running || !layerPaths)
    layerPaths = entry(module) ? LayerPaths(entry(module)) : LayerPaths();
  for (const mpc::Stage &step : stages()) {
    if (running && step.runsFor(pipeline)) {
      enter(step.name);
      if (stops())
        return stoppedStatus();
      size_t first = said.size();
      PassManager passes(ctx.get(), ModuleOp::getOperationName());
      step.build(passes, pipeline);
      // The graph with types, which later stages rewrite.
      if (step.name == "pad" && options.onValidation) {
        if (pipeline.training && target().facts().isReproducible)
          return Status(StatusCode::InvalidArgument, "verification",
                        "does not cover reproducible training steps, which sum "
                        "the batch in segments; verify the step without "
                        "'reproducible'");
        typed = module.clone();
      }
      if (failed(passes.run(module)))
        return failure(first);
      if (step.name == "precision")
        recordLayerTypes(module);
      if (Status status = dump(module, step.name); !status.ok())
        return status;
      if (step.name == "plan" && typed)
        if (Status status = validate(module); !status.ok())
          return status;
    }
    if (step.name == last)
      return {};
    running |= step.name == after;
  }
  return Status(StatusCode::InvalidArgument, "stage '" + last.str() + "'",
                "does not exist");
}

Status Compiler::validate(ModuleOp planned) {
  size_t first = said.size();
  auto start = std::chrono::steady_clock::now();
  FailureOr<TranslationReport> report = validateTranslation(
      entry(*typed), planned, {.relaxedRounding = pipeline.relaxedRounding});
  typed = {};
  if (failed(report))
    return failure(first);
  using Verdict = TranslationReport::Verdict;
  Validation result;
  result.kernels = report->kernels.size();
  result.proved = report->count(Verdict::Proved);
  result.tested = report->count(Verdict::Tested);
  result.milliseconds = std::chrono::duration<double, std::milli>(
                            std::chrono::steady_clock::now() - start)
                            .count();
  if (report->difference) {
    result.kernel = report->difference->kernel;
    result.difference = report->difference->text;
  }
  options.onValidation(result);
  if (!report->difference)
    return {};
  MessageLocation location = describeLocation(report->difference->location);
  return Status(StatusCode::Internal, location.where, result.difference);
}

void Compiler::recordLayerTypes(ModuleOp module) {
  layers.clear();
  func::FuncOp function = entry(module);
  if (function)
    layers = typedLayers(function, *layerPaths, *pipeline.policy);
}

/// Quotes `text` for a shell.
Status Compiler::dump(ModuleOp module, StringRef name) {
  if (options.dumpDir.empty())
    return {};
  if (Status status = makeFolder(options.dumpDir); !status.ok())
    return status;
  if (failed(computeConstants(module)))
    return Status(StatusCode::ResourceExhausted, stage,
                  "no memory for the constants of a dump");
  std::string number = (dumped < 10 ? "0" : "") + std::to_string(dumped);
  ++dumped;
  SmallString<128> path(options.dumpDir);
  std::string fileName = number + "-" + name.str() + ".mlir";
  llvm::sys::path::append(path, fileName);
  // Remove first, so that a symlink is not followed.
  std::error_code error = llvm::sys::fs::remove(path);
  llvm::raw_fd_ostream out(path, error, llvm::sys::fs::CD_CreateNew);
  if (error)
    return Status(StatusCode::NotFound, path.str().str(),
                  "cannot be written: " + error.message());
  // The first line is a command that reproduces the next stage from this file.
  StringRef next;
  bool here = name == "import";
  for (const mpc::Stage &step : stages()) {
    if (here && step.runsFor(pipeline)) {
      next = step.name;
      break;
    }
    here |= step.name == name;
  }
  if (!next.empty())
    out << "// next: mpc-opt --mpc-pipeline-" << next << "="
        << shellQuoted(printFlags(pipeline)) << " " << fileName << "\n";
  module->print(out, OpPrintingFlags().enableDebugInfo(/*enable=*/true,
                                                       /*prettyForm=*/false));
  out << "\n";
  out.close();
  if (out.has_error()) {
    std::string why = out.error().message();
    out.clear_error();
    return Status(StatusCode::NotFound, path.str().str(),
                  "cannot be written: " + why);
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Code generation
//===----------------------------------------------------------------------===//

Compiler::Module Compiler::copyKernels(ModuleOp module) {
  Module kernels = ModuleOp::create(module.getLoc());
  exe::setTarget(*kernels, exe::targetOf(module));
  for (auto function : module.getOps<func::FuncOp>())
    if (function.isPrivate())
      kernels->push_back(function->clone());
  return kernels;
}

Result<Compiler::Lowered> Compiler::lowerKernels(ModuleOp module) {
  auto threads =
      unsigned(options.threads > 0 ? options.threads : availableCores());
  Result<std::unique_ptr<Backend>> backend =
      Backend::create(target(), {threads, options.dumpDir, options.shouldStop});
  if (!backend.ok())
    return backend.status();
  if (stops())
    return stoppedStatus();
  size_t first = said.size();
  Module kernels = copyKernels(module);
  enableFiniteResultChecks(module, *kernels);
  if (failed((*backend)->lower(*kernels)))
    return failure(first);
  if (Status status = dump(*kernels, "codegen"); !status.ok())
    return status;
  return Lowered{std::move(*backend), std::move(kernels)};
}

Result<Compiler::Module> Compiler::lower(ModuleOp module) {
  enter("codegen");
  Result<Lowered> lowered = lowerKernels(module);
  if (!lowered.ok())
    return lowered.status();
  return std::move(lowered->kernels);
}

Result<std::shared_ptr<Program>> Compiler::generate(ModuleOp module,
                                                    bool withCode) {
  enter("codegen");
  size_t first = said.size();
  // A GPU may have more memory than the compiling machine.
  if ((options.maxMemory > 0 || !target().isGpu()) &&
      failed(checkPlannedMemory(module, memoryLimit(options))))
    return failure(first);
  FailureOr<std::shared_ptr<Program>> program = translateProgram(module);
  if (failed(program))
    return failure(first);
  (*program)->layers = layers;
  if (!withCode)
    return *program;
  Result<Lowered> lowered = lowerKernels(module);
  if (!lowered.ok())
    return lowered.status();
  if (Status status = lowered->backend->generate(*lowered->kernels, **program);
      !status.ok())
    return explained(status, first);
  // The callback may fire when no work is left: still report the cancellation.
  if (*stopped)
    return stoppedStatus();
  return *program;
}

Result<std::vector<std::byte>> Compiler::generateFile(ModuleOp module,
                                                      Program &program) {
  enter("codegen");
  size_t first = said.size();
  Result<Lowered> lowered = lowerKernels(module);
  if (!lowered.ok())
    return lowered.status();
  Result<std::vector<std::byte>> code =
      lowered->backend->generateFile(*lowered->kernels, program);
  if (!code.ok())
    return explained(code.status(), first);
  if (*stopped)
    return stoppedStatus();
  return code;
}

//===----------------------------------------------------------------------===//
// Import stage of a compile
//===----------------------------------------------------------------------===//

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
  for (const auto &[name, value] : options.inputValues)
    import.dataNames.insert(name);
  // In training they are parameters.
  import.replacesInitializers = !options.training;
  import.caller = options.caller;
  import.trustsFileTimes = !options.verifyFiles;
  import.batch = options.batch;
  import.maxFoldBytes = maxFoldBytes.value_or(import.maxFoldBytes);
  import.growsCaches = !options.caches.empty() || options.padded;
  import.checksKnownIndicesLater =
      options.padded && !options.padded->hasPositions;
  import.maxTensorBytes = std::min(import.maxTensorBytes, memoryLimit(options));
  SmallVector<std::string> fixed, needed;
  import.fixedInputs = &fixed;
  import.neededInputs = &needed;
  llvm::StringMap<SmallVector<std::string>> found;
  import.inputSymbols = &found;
  if (!options.inputValues.empty())
    import.offeredValue = [&](StringRef name) { return offeredValue(name); };
  if (model.readsExternal()) {
    sources.push_back(model);
    import.externalData =
        [&](StringRef name) -> llvm::Expected<ArrayRef<char>> {
      Result<std::span<const std::byte>> data = model.external(name.str());
      if (!data.ok())
        return llvm::createStringError(data.status().toString());
      return ArrayRef(reinterpret_cast<const char *>(data->data()),
                      data->size());
    };
  }
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
  inputsNeeded.assign(needed.begin(), needed.end());
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

void Compiler::warnUnusedCache() {
  if (std::optional<WeightType> chosen = pipeline.policy->getCache())
    emitWarning(UnknownLoc::get(ctx.get()))
        << "policy '" << pipeline.policy->getName() << "' stores KV caches as "
        << stringify(*chosen)
        << ", but this is not a decoder; only mpc generate stores KV caches "
           "between runs";
}

std::optional<ElementType> Compiler::cacheType() {
  const NamedPolicy &policy = pipeline.policy;
  if (policy->getCache())
    return kvCacheElement(policy->getCache());
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

/// Lets the large constants of `copy`, another import of the model, refer to
/// the equal ones of `function`, which must outlive it, so that weights are in
/// memory once. Constants are paired in order.
static void shareConstants(func::FuncOp function, func::FuncOp copy) {
  auto resourcesOf = [](func::FuncOp function) {
    SmallVector<DenseResourceElementsAttr> resources;
    function.walk([&](mpc::ConstantOp op) {
      if (auto resource = dyn_cast<DenseResourceElementsAttr>(op.getValue());
          resource && resourceBytes(resource) > 0)
        resources.push_back(resource);
    });
    return resources;
  };
  for (auto [own, other] :
       llvm::zip(resourcesOf(function), resourcesOf(copy))) {
    ArrayRef<char> kept = own.getRawHandle().getBlob()->getData();
    AsmResourceBlob &shared = *other.getRawHandle().getBlob();
    // Keys are digests, or names of file ranges.
    if (kept.data() != shared.getData().data() &&
        kept.size() == shared.getData().size() &&
        constantKey(own) == constantKey(other))
      shared = UnmanagedAsmResourceBlob::allocateWithAlign(
          kept, alignof(std::max_align_t));
  }
}

Status Compiler::compareLengths(const ModelSource &model,
                                func::FuncOp function) {
  CompileOptions exact = options;
  exact.caches.clear();
  exact.chosen.clear();
  // Everything about the model was reported with its first import.
  exact.onStage = nullptr;
  exact.onDiagnostic = nullptr;
  exact.dumpDir.clear();
  exact.padded->lengths.clear();
  std::vector<std::pair<std::unique_ptr<Compiler>, Module>> imports;
  SmallVector<func::FuncOp> functions;
  for (const auto &[length, shapes] : options.padded->lengths) {
    exact.inputShapes = shapes;
    Result<std::unique_ptr<Compiler>> compiler = Compiler::create(exact);
    if (!compiler.ok())
      return compiler.status();
    (*compiler)->setCacheFormats();
    Result<Module> module = (*compiler)->import(model);
    if (!module.ok())
      return module.status();
    functions.push_back(entry(**module));
    shareConstants(function, functions.back());
    imports.emplace_back(std::move(*compiler), std::move(*module));
  }
  size_t first = said.size();
  if (failed(
          placePositions(function, functions, options.caches, *options.padded)))
    return failure(first);
  return {};
}

/// Compares the shapes in `options` with those of a text model, which are
/// static.
static Status checkShapes(func::FuncOp function, const CompileOptions &options,
                          const std::string &where) {
  auto bad = [&](const std::string &text) {
    return Status(StatusCode::InvalidArgument, where, text);
  };
  std::map<std::string, std::vector<int64_t>> known;
  std::vector<std::string> names;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    names.push_back(argumentName(function, i));
    if (auto type =
            dyn_cast<RankedTensorType>(function.getArgument(i).getType()))
      known[names.back()] = known["arg" + std::to_string(i)] =
          type.getShape().vec();
  }
  for (const auto &[name, shape] : options.inputShapes) {
    if (options.inputValues.contains(name))
      continue;
    auto found = known.find(name);
    if (found == known.end())
      return bad("the model has no input named '" + name + "'" +
                 didYouMean(name, names));
    if (found->second != shape)
      return bad("input '" + name + "' has the static shape " +
                 shapeToString(found->second) + ", but " +
                 shapeToString(shape) + " is given");
  }
  return {};
}

/// Returns the extent of a symbol, which may be a sum ("past + tokens").
static std::optional<int64_t>
extentOf(StringRef symbol, const std::map<std::string, int64_t> &dims) {
  if (auto bound = dims.find(symbol.str()); bound != dims.end())
    return bound->second;
  auto [first, rest] = symbol.split(" + ");
  if (rest.empty())
    return std::nullopt;
  std::optional<int64_t> lhs = extentOf(first, dims),
                         rhs = extentOf(rest, dims);
  int64_t sum = 0;
  if (!lhs || !rhs || llvm::AddOverflow(*lhs, *rhs, sum))
    return std::nullopt;
  return sum;
}

/// Returns the extents of the symbols of a model that depends on the shapes of
/// its inputs.
static Result<std::map<std::string, int64_t>>
boundDims(const ModelSource &model, const CompileOptions &options) {
  const std::vector<ModelInput> &inputs = *model.shapedInputs();
  for (const auto &[symbol, extent] : options.dims)
    if (llvm::none_of(inputs, [&, &symbol = symbol](const ModelInput &input) {
          return llvm::is_contained(input.symbols, symbol);
        }))
      return Status(StatusCode::InvalidArgument, model.name(),
                    "no input has a symbolic dimension named '" + symbol + "'");
  std::map<std::string, int64_t> dims = options.dims;
  for (const ModelInput &input : inputs) {
    if (options.batch && !input.shape.empty() && input.shape.front() < 0)
      dims.try_emplace(input.symbols.front(), *options.batch);
    auto given = options.inputShapes.find(input.name);
    if (given == options.inputShapes.end())
      continue;
    if (given->second.size() != input.shape.size())
      return Status(StatusCode::InvalidArgument, model.name(),
                    "input '" + input.name + "' has " +
                        std::to_string(input.shape.size()) +
                        " dimensions, but " +
                        std::to_string(given->second.size()) + " are given");
    for (auto [symbol, extent] : llvm::zip(input.symbols, given->second))
      if (!symbol.empty())
        dims.try_emplace(symbol, extent);
  }
  dims.insert(model.defaultDims().begin(), model.defaultDims().end());
  return dims;
}

/// Returns the shapes of the inputs of a model that depends on them.
static Result<InputShapes> completeShapes(const ModelSource &model,
                                          const CompileOptions &options) {
  Result<std::map<std::string, int64_t>> dims = boundDims(model, options);
  if (!dims.ok())
    return dims.status();
  InputShapes shapes;
  for (const ModelInput &input : *model.shapedInputs()) {
    auto given = options.inputShapes.find(input.name);
    std::vector<int64_t> &shape = shapes[input.name] = input.shape;
    for (size_t i = 0; i < shape.size(); ++i) {
      const std::string &symbol = input.symbols[i];
      auto bound =
          symbol.empty() ? options.dims.end() : options.dims.find(symbol);
      std::optional<int64_t> extent = extentOf(symbol, *dims);
      if (bound != options.dims.end())
        shape[i] = bound->second;
      else if (given != options.inputShapes.end())
        shape[i] = given->second[i];
      else if (extent)
        shape[i] = *extent;
      else if (shape[i] < 0)
        return Status(StatusCode::InvalidArgument, model.name(),
                      "input '" + input.name +
                          "' has the unbound symbolic dimension '" + symbol +
                          "'; give its extent, as in " +
                          howToSetDim(options.caller, symbol));
    }
  }
  return shapes;
}

Result<SourceBytes> mpc::readModel(const ModelSource &model,
                                   const CompileOptions &options) {
  if (!model.shapedInputs())
    return model.read();
  Result<InputShapes> shapes = completeShapes(model, options);
  if (!shapes.ok())
    return shapes.status();
  return model.read(*shapes);
}

Result<Compiler::Module> Compiler::import(const ModelSource &model) {
  enter("import");
  size_t first = said.size();
  const std::string &name = model.name();
  std::string extension = model.extension();
  if (extension != ".onnx" && extension != ".mlir")
    return Status(
        StatusCode::InvalidArgument, name,
        "is not a model: its name ends in none of .onnx, .mlir and .gguf, "
        "and it is not a folder");
  int64_t most = memoryLimit(options);
  if (Status status = checkFileMemory(model, most); !status.ok())
    return status;
  if (extension == ".mlir" && options.batch && *options.batch < 1)
    return Status(StatusCode::InvalidArgument, name,
                  "batch is " + std::to_string(*options.batch) +
                      ", expected at least 1");
  Result<SourceBytes> bytes = readModel(model, options);
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
    // The shapes of a text are static.
    if (const std::vector<ModelInput> *inputs = model.shapedInputs())
      for (const ModelInput &input : *inputs)
        symbols[input.name] = input.symbols;
    else if (!options.dims.empty())
      return Status(StatusCode::InvalidArgument, name,
                    "no input has a symbolic dimension named '" +
                        options.dims.begin()->first + "'");
    ExternalBytes external;
    if (model.readsExternal()) {
      sources.push_back(model);
      external = {[&](const std::string &data) { return model.external(data); },
                  [&](const std::string &data) { return model.computed(data); },
                  // A checkpoint's names contain a digest or, of large files,
                  // times. Names of others need not be unique.
                  model.isFile() && !options.verifyFiles};
    }
    Result<Module> parsed = importMlir(
        StringRef(reinterpret_cast<const char *>(bytes->bytes.data()),
                  bytes->bytes.size()),
        name, *ctx, external);
    if (!parsed.ok())
      return said.size() > first ? failure(first) : parsed.status();
    module = std::move(*parsed);
  }
  if (!entry(*module))
    return Status(StatusCode::InvalidArgument, name, "has no function @main");
  // A text that is written for given shapes has them.
  if (extension == ".mlir" && !model.shapedInputs())
    if (Status status = checkShapes(entry(*module), options, name);
        !status.ok())
      return status;
  if (failed(checkSizes(*module)) || failed(checkImportedMemory(*module, most)))
    return failure(first);
  if (options.padded && !options.padded->lengths.empty())
    if (Status status = compareLengths(model, entry(*module)); !status.ok())
      return status;
  if (!options.caches.empty() &&
      failed(makeCachesInPlace(entry(*module), options.caches, cacheType())))
    return failure(first);
  if (options.caches.empty() && !expectsCaches)
    warnUnusedCache();
  if (!options.chosen.empty() &&
      failed(selectResultEntries(entry(*module), options.chosen)))
    return failure(first);
  markExemptValues(entry(*module));
  if (options.training && !options.training->parameters.empty())
    setInitialValues(*module);
  if (Status status = dump(*module, "import"); !status.ok())
    return status;
  return module;
}

//===----------------------------------------------------------------------===//
// Diagnostics of a compile
//===----------------------------------------------------------------------===//

SmallVector<StringRef> mpc::locationNames(Location location) {
  if (auto name = dyn_cast<NameLoc>(location))
    return {name.getName().getValue()};
  SmallVector<StringRef> names;
  if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location part : fused.getLocations())
      for (StringRef name : locationNames(part))
        if (!llvm::is_contained(names, name))
          names.push_back(name);
  return names;
}

/// Prefixes `text` with its location if there is one.
static std::string placed(const std::string &where, const std::string &text) {
  return where.empty() ? text : where + ": " + text;
}

MessageLocation mpc::describeLocation(Location location) {
  if (auto name = dyn_cast<NameLoc>(location)) {
    MessageLocation inner = describeLocation(name.getChildLoc());
    std::string op = name.getName().str();
    if (auto file = dyn_cast<FileLineColLoc>(name.getChildLoc());
        file && file.getColumn() == 0)
      return {file.getFilename().str() + ": " + op, op};
    return {placed(inner.where, op), op};
  }
  if (auto file = dyn_cast<FileLineColLoc>(location)) {
    std::string text = file.getFilename().str();
    // Column 0 marks a node of a binary model; the line is the node's index.
    if (file.getColumn() == 0)
      return {file.getLine() ? text + ": node " + std::to_string(file.getLine())
                             : text,
              ""};
    return {text + ":" + std::to_string(file.getLine()) + ":" +
                std::to_string(file.getColumn()),
            ""};
  }
  if (auto range = dyn_cast<FileLineColRange>(location)) {
    return {range.getFilename().str() + ":" +
                std::to_string(range.getStartLine()) + ":" +
                std::to_string(range.getStartColumn()),
            ""};
  }
  if (auto fused = dyn_cast<FusedLoc>(location)) {
    for (Location part : fused.getLocations())
      if (!isa<UnknownLoc>(part))
        return describeLocation(part);
  }
  if (auto call = dyn_cast<CallSiteLoc>(location))
    return describeLocation(call.getCallee());
  return {};
}

void Compiler::hear(mlir::Diagnostic &message) {
  mpc::Diagnostic heard;
  switch (message.getSeverity()) {
  case DiagnosticSeverity::Error:
    heard.severity = mpc::Diagnostic::Severity::Error;
    break;
  case DiagnosticSeverity::Warning:
    heard.severity = mpc::Diagnostic::Severity::Warning;
    break;
  default:
    heard.severity = mpc::Diagnostic::Severity::Remark;
    break;
  }
  MessageLocation place = describeLocation(message.getLocation());
  heard.stage = stage;
  heard.where = place.where;
  heard.op = place.op;
  heard.text = message.str();
  for (mlir::Diagnostic &note : message.getNotes())
    heard.notes.push_back(
        placed(describeLocation(note.getLocation()).where, note.str()));
  for (const DiagnosticArgument &override : message.getMetadata())
    heard.unusedOverride = override.getAsString().str();
  said.push_back(heard);
  if (options.onDiagnostic)
    options.onDiagnostic(heard);
}

Status Compiler::stoppedStatus() const {
  return Status(StatusCode::Unavailable, "stage '" + stage + "'",
                "was stopped by the caller");
}

Status Compiler::explained(const Status &status, size_t firstMessage) const {
  if (*stopped)
    return stoppedStatus();
  bool isDiagnosed =
      std::any_of(said.begin() + firstMessage, said.end(),
                  [](const mpc::Diagnostic &message) {
                    return message.severity == mpc::Diagnostic::Severity::Error;
                  });
  return isDiagnosed ? failure(firstMessage) : status;
}

Status Compiler::failure(size_t firstMessage) const {
  if (*stopped)
    return stoppedStatus();
  Status status;
  for (size_t i = firstMessage; i < said.size(); ++i) {
    if (said[i].severity != mpc::Diagnostic::Severity::Error)
      continue;
    if (status.ok())
      status = Status(StatusCode::InvalidArgument, said[i].where, said[i].text);
    else
      status = status.withNote(placed(said[i].where, said[i].text));
  }
  if (status.ok())
    return Status(StatusCode::Internal, stage,
                  "stage '" + stage + "' failed without a message");
  return status;
}

void Compiler::enter(StringRef name) {
  stage = name.str();
  if (options.onStage)
    options.onStage(stage);
}
