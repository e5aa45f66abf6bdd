//===- CompileOptions.cpp - compile options from flags --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CrashHandler.h"
#include "MatrixUnitReport.h"
#include "Options.h"

#include "JIT/Compiler.h"
#include "Runtime/Environment.h"

#include "mpc/Dialect/Exe/Transforms/ScheduleTable.h"
#include "mpc/Pipelines/TrainingFlags.h"
#include "mpc/Runtime/Gpus.h"
#include "mpc/Target/CPU/CpuTarget.h"
#include "mpc/Target/CUDA/CudaTarget.h"
#include "mpc/Target/CUDA/Host/HostDevice.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/TargetParser/Host.h"

using namespace mpc;
using namespace mpc::cpu;
using namespace mpc::cuda;
using namespace mpc::tool;

/// Returns the target for commands that do not execute: the device's
/// architecture if a GPU but no target is given; empty if there is nothing to
/// add.
static Result<std::string> targetOfDevice(const CommonOptions &options) {
  if (!options.target.empty() || options.device.rfind("cuda", 0) != 0)
    return options.target;
  if (options.device == "cuda-host")
    return "cuda:" + HostDeviceOptions().architecture;
  Result<std::vector<GpuInfo>> gpus = listGpus();
  if (!gpus.ok())
    return gpus.status();
  size_t number = gpuNumber(options);
  if (number >= gpus->size())
    return Status(StatusCode::Unavailable, "--device " + options.device,
                  "the driver finds " + std::to_string(gpus->size()) +
                      " GPUs on this machine, numbered from 0");
  return "cuda:" + gpus->at(number).architecture();
}

/// Resolves the target from all flags: `--isa` is for execution, so this
/// machine must support it.
static Result<std::string> chooseTarget(const CommonOptions &options) {
  Result<std::string> target = targetOfDevice(options);
  if (!target.ok())
    return target;
  if (options.isa.empty()) {
    if (options.emulateUnits)
      return Status(StatusCode::InvalidArgument, "--emulate-units",
                    "needs --isa, the level whose units are emulated, such as "
                    "--isa avx512bf16");
    return target;
  }
  std::string level = "cpu:" + options.isa;
  if (!target->empty() && *target != "cpu:native" && *target != level)
    return Status(StatusCode::InvalidArgument, "--target " + *target,
                  "contradicts --isa " + options.isa);
  if (options.emulateUnits) {
    level += "-emulated";
    if (!TargetInfo::parse(level))
      return Status(StatusCode::Unavailable, "isa '" + options.isa + "'",
                    "has no units that can be emulated; " +
                        llvm::join(CpuTarget::emulatedLevels(), ", ") +
                        " have");
  }
  std::optional<TargetInfo> info = TargetInfo::parse(level);
  if (!info || !info->facts().isGenerated)
    return Status(
        StatusCode::Unavailable, "isa '" + options.isa + "'",
        "is not among the levels that code is generated for: amxfp16, amx, "
        "avx512bf16, avx512vnni, avx512, avxvnni, avx2");
  if (!llvm::is_contained(TargetInfo::runnable(), *info))
    return Status(StatusCode::Unavailable, "isa '" + options.isa + "'",
                  "this CPU lacks its instructions");
  return level;
}

std::string tool::cachedScheduleTable(const std::string &target) {
  std::string folder = detail::cacheFolder();
  if (folder.empty())
    return {};
  std::string name = target + "-" + llvm::sys::getHostCPUName().str();
  llvm::replace(name, ':', '-');
  return folder + "/schedules/" + name + ".json";
}

/// Returns the schedule table of the flags, or this machine's default one.
static std::string chooseSchedules(const CommonOptions &options,
                                   const CompileOptions &compile,
                                   Reporter &reporter) {
  if (!options.schedules.empty())
    return options.schedules == "none" ? "" : options.schedules;
  Result<TargetInfo> info = resolveTarget(compile);
  if (!info.ok() || !llvm::is_contained(TargetInfo::runnable(), *info))
    return {};
  std::string kept = cachedScheduleTable(info->name());
  if (!llvm::sys::fs::exists(kept))
    return {};
  Result<ScheduleTable> table = ScheduleTable::read(kept);
  if (table.ok() && table->targetName() == info->name())
    return kept;
  reporter.noteOnce(
      "schedules",
      kept +
          ": is damaged and ignored; run mpc tune-kernels to write a new one");
  return {};
}

/// Sanity limit of specializations per file.
static constexpr size_t kMostSpecialisations = 256;

/// Cartesian product of `sets` and the `extents` of dimension `name`.
static std::vector<std::map<std::string, int64_t>>
multiplied(const std::vector<std::map<std::string, int64_t>> &sets,
           const std::string &name, const std::vector<int64_t> &extents) {
  std::vector<std::map<std::string, int64_t>> all;
  for (const auto &set : sets)
    for (int64_t extent : extents)
      (all.emplace_back(set))[name] = extent;
  return all;
}

/// Formats extents: "1,8".
static std::string joinExtents(const std::vector<int64_t> &extents) {
  return llvm::join(
      llvm::map_range(extents, [](int64_t e) { return std::to_string(e); }),
      ",");
}

static Status setDims(const CommonOptions &options, CompileOptions &compile) {
  std::map<std::string, std::vector<int64_t>> given;
  std::vector<std::map<std::string, int64_t>> sets(1);
  for (const std::string &text : options.dims) {
    std::string name, value;
    splitPair(text, name, value);
    std::vector<int64_t> extents = parseExtents(value);
    auto [entry, isNew] = given.emplace(name, extents);
    if (!isNew && entry->second != extents)
      return Status(StatusCode::InvalidArgument, "--dim " + name,
                    "is given twice, as " + joinExtents(entry->second) +
                        " and as " + joinExtents(extents));
    if (!isNew)
      continue;
    if (extents.size() == 1) {
      compile.dims[name] = extents.front();
      continue;
    }
    if (!options.manyShapes)
      return Status(StatusCode::InvalidArgument, "--dim " + name,
                    "has " + std::to_string(extents.size()) +
                        " extents; only mpc compile takes several, for a file "
                        "with code for each");
    sets = multiplied(sets, name, extents);
    if (sets.size() > kMostSpecialisations)
      return Status(StatusCode::InvalidArgument, "--dim " + name,
                    "results in more than " +
                        std::to_string(kMostSpecialisations) +
                        " sets of shapes; compile several files");
  }
  if (sets.size() > 1)
    compile.specialisations = std::move(sets);
  return {};
}

static Status setShapes(const CommonOptions &options, CompileOptions &compile) {
  for (const std::string &text : options.shapes) {
    std::string name, value;
    splitPair(text, name, value);
    auto [entry, isNew] =
        compile.inputShapes.try_emplace(name, parseShape(value));
    if (!isNew && entry->second != parseShape(value))
      return Status(StatusCode::InvalidArgument, "--shape " + name,
                    "is given twice, as " + shapeToString(entry->second) +
                        " and as " + shapeToString(parseShape(value)));
  }
  return {};
}

Result<CompileOptions> tool::makeCompileOptions(const CommonOptions &options,
                                                Reporter &reporter) {
  CompileOptions compile;
  compile.caller = Caller::CommandLine;
  compile.policy = options.policy;
  for (const std::string &text : options.sets) {
    std::string key, type;
    splitPair(text, key, type);
    compile.sets.emplace_back(key, type);
  }
  if (Status status = setDims(options, compile); !status.ok())
    return status;
  if (Status status = setShapes(options, compile); !status.ok())
    return status;
  compile.batch = options.batch;
  compile.castPlacement = options.castPlacement;
  bool forGpu = options.target.rfind("cuda:", 0) == 0 ||
                options.device.rfind("cuda", 0) == 0;
  if (options.gemm == "library" && !forGpu)
    return Status(StatusCode::Unavailable, "--gemm library",
                  "code for the CPU calls no library; use --gemm own");
  compile.gemm = options.gemm;
  compile.stepLossScale = options.stepLossScale;
  compile.maxMemory = options.maxMemory;
  compile.verifyFiles = options.verifyFiles;
  Result<std::string> target = chooseTarget(options);
  if (!target.ok())
    return target.status();
  compile.target = *target;
  compile.reproducible = options.reproducible;
  compile.schedules = chooseSchedules(options, compile, reporter);
  compile.rounding = options.rounding == "relaxed" ? RoundingMode::Relaxed
                                                   : RoundingMode::Strict;
  compile.dumpDir = options.dumpDir;
  compile.threads = options.threads;
  compile.onDiagnostic = [&reporter](const Diagnostic &message) {
    reporter.hear(message);
  };
  compile.onStage = [](const std::string &stage) { noteStage(stage); };
  resolveAutoPolicy(compile, reporter);
  return compile;
}

Status tool::setTraining(const std::string &text, CompileOptions &compile) {
  if (text.empty())
    return {};
  llvm::Expected<TrainingOptions> training = parseTraining(text);
  if (!training) {
    std::string reason = llvm::toString(training.takeError());
    // Drop the prefix of the option parser.
    llvm::StringRef said = llvm::StringRef(reason).trim();
    said.consume_front("<Pass-Options-Parser>: ");
    return Status(StatusCode::InvalidArgument, "--training " + text,
                  said.str() + "; give a part and its flags, as in \"step "
                               "optimizer=sgd\"");
  }
  compile.training = std::move(*training);
  return {};
}

/// Sets the target if the device determines it.
static Status aimAt(const Device &device, CommonOptions &options) {
  if (device.architecture().empty()) {
    if (options.target.rfind("cuda:", 0) != 0 || !device.needsCode())
      return {};
    return Status(StatusCode::InvalidArgument, "--target " + options.target,
                  "does not run on the CPU; use --device cuda on a machine "
                  "with a GPU, or --device cuda-host");
  }
  std::string native = "cuda:" + device.architecture();
  if (options.target.empty())
    options.target = native;
  // The suffix "a" adds instructions of the same architecture.
  if (options.target == native || options.target == native + "a")
    return {};
  return Status(StatusCode::InvalidArgument, "--target " + options.target,
                "does not match device " + device.name() + ", which runs " +
                    native);
}

Result<Device> tool::makeHostDevice(const CommonOptions &options) {
  HostDeviceOptions host;
  if (!options.target.empty()) {
    std::optional<TargetInfo> target = TargetInfo::parse(options.target);
    if (!target || !CudaTarget::of(*target))
      return Status(
          StatusCode::Unavailable, "--target " + options.target,
          "has no code generation; cuda-host runs cuda:sm_75 and later");
    host.architecture = target->member().str();
  }
  host.threads = options.threads;
  if (!options.quiet)
    host.onWarning = [](const Status &status) {
      printWarning(status.where(), status.text());
    };
  return cudaHostDevice(host);
}

Result<CompileOptions> tool::makeCompileOptions(const CommonOptions &options,
                                                const Device &device,
                                                Reporter &reporter) {
  CommonOptions aimed = options;
  if (Status status = aimAt(device, aimed); !status.ok())
    return status;
  return makeCompileOptions(aimed, reporter);
}
