//===- Compiler.cpp - stages of one compile -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compiler.h"

#include "OrcJit.h"

#include "mpc/Dialect/Exe/IR/ExeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcOps.h"
#include "mpc/Dialect/Mpc/Vjp/Vjp.h"
#include "mpc/Import/StableHLO.h"
#include "mpc/Support/EscapedText.h"
#include "mpc/Support/Files.h"
#include "mpc/Target/CPU/Codegen.h"
#include "mpc/Target/TargetInfo.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <thread>

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

Result<std::unique_ptr<Compiler>>
Compiler::create(const CompileOptions &options) {
  if (options.training)
    if (Status status = checkNumbers(*options.training); !status.ok())
      return status;
  Result<TargetInfo> target = resolveTarget(options.target);
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
  registerCodegenDialects(registry);
  // Multithreading is for code generation only; passes take milliseconds.
  ctx =
      std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  // Printing a whole function after each message is noise.
  ctx->printOpOnDiagnostic(false);
  ctx->loadDialect<MpcDialect, exe::ExeDialect, func::FuncDialect>();
  ctx->getDiagEngine().registerHandler([this](mlir::Diagnostic &message) {
    hear(message);
    return success();
  });
}

Compiler::~Compiler() = default;

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
      if (failed(passes.run(module)))
        return failure(first);
      if (step.name == "precision")
        recordLayerTypes(module);
      if (Status status = dump(module, step.name); !status.ok())
        return status;
    }
    if (step.name == last)
      return {};
    running |= step.name == after;
  }
  return Status(StatusCode::InvalidArgument, "stage '" + last.str() + "'",
                "does not exist");
}

void Compiler::recordLayerTypes(ModuleOp module) {
  layers.clear();
  func::FuncOp function = entry(module);
  llvm::Expected<Policy> policy = Policy::load(pipeline.policy);
  if (function && policy)
    layers = typedLayers(function, *layerPaths, *policy);
  // The precision stage has read the policy: a failure here means that the file
  // disappeared.
  if (!policy)
    llvm::consumeError(policy.takeError());
}

/// Quotes `text` for a shell.
Status Compiler::dump(ModuleOp module, StringRef name) {
  if (options.dumpDir.empty())
    return {};
  if (Status status = makeFolder(options.dumpDir); !status.ok())
    return status;
  std::string number = (dumped < 10 ? "0" : "") + std::to_string(dumped);
  ++dumped;
  SmallString<128> path(options.dumpDir);
  std::string fileName = number + "-" + name.str() + ".mlir";
  llvm::sys::path::append(path, fileName);
  // Remove first, so that a symlink is not followed.
  std::error_code error;
  (void)llvm::sys::fs::remove(path);
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
  unsigned threads = options.threads > 0
                         ? unsigned(options.threads)
                         : std::max(1u, std::thread::hardware_concurrency());
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
  (*program)->layers = runtimeLayers(layers);
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
