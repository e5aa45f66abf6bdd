//===- TuneKernels.cpp - mpc tune-kernels ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Inputs.h"
#include "PreparedModel.h"

#include "JIT/Backend.h"
#include "JIT/FileCompiler.h"
#include "JIT/KernelTuner.h"

#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Exe/Transforms/ScheduleTable.h"
#include "mpc/Support/Files.h"

#include "mlir/AsmParser/AsmParser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mpc;
using namespace mpc::tool;
using llvm::StringRef;

static std::string textOf(mlir::Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream(text) << attribute;
  return text;
}

namespace {

/// A planned model that is compiled and run repeatedly.
class TuningSubject {
public:
  TuningSubject(Device device) : device(std::move(device)) {}

  std::vector<Status> prepare(const TuneKernelsArguments &arguments,
                              Reporter &reporter);
  /// Returns the kernels that have alternative schedules.
  std::vector<TunedKernel> kernels();
  std::vector<std::string> neighbours(const std::string &kernel,
                                      const std::string &around);
  /// Returns the total time of the launches of each of `kernels` with these
  /// schedules, in ms, in the fastest run.
  Result<std::vector<double>>
  measure(const std::vector<TunedKernel> &kernels,
          const std::vector<std::string> &schedules);
  std::string keyOf(const std::string &kernel) {
    return ScheduleTable::keyOf(find(model->planned(), kernel));
  }
  const std::string &target() { return model->lastCompiler().targetName(); }

private:
  static mlir::func::FuncOp find(mlir::ModuleOp module, StringRef kernel) {
    return module.lookupSymbol<mlir::func::FuncOp>(kernel);
  }
  /// Times several runs and returns the fastest.
  Result<std::map<std::string, double>> time(const Executable &executable);

  Device device;
  std::optional<FileCompiler> model;
  std::unique_ptr<Backend> backend;
  /// With the cost model's schedules.
  PreparedModel subject;
};

} // namespace

std::vector<Status>
TuningSubject::prepare(const TuneKernelsArguments &arguments,
                       Reporter &reporter) {
  CommonOptions common = arguments.common;
  common.schedules = "none";
  Result<CompileOptions> options = makeCompileOptions(common, device, reporter);
  if (!options.ok())
    return {options.status()};
  if (Status status = setTraining(arguments.training, *options); !status.ok())
    return {status};
  Result<std::vector<NamedArray>> arrays =
      loadArrays(arguments.common.inputs, arguments.common.maxMemory);
  if (!arrays.ok())
    return {arrays.status()};
  passInputShapes(*arrays, *options);
  Result<TargetInfo> target = resolveTarget(options->target);
  if (!target.ok())
    return {target.status()};
  model.emplace(common.model, *options, /*manyTargets=*/false);
  if (Status status = model->import(*target); !status.ok())
    return {status};
  Result<std::shared_ptr<Program>> program =
      model->finalizeInMemory(/*withCode=*/true);
  if (!program.ok())
    return {program.status()};
  Result<Executable> executable = Executable::create(device, *program);
  if (!executable.ok())
    return {executable.status()};
  subject.executable = std::move(*executable);
  if (std::vector<Status> problems = bindCompiledInputs(
          model->arguments(), *arrays, /*draw=*/true, common.seed, subject);
      !problems.empty())
    return problems;
  Result<std::unique_ptr<Backend>> createdBackend =
      Backend::create(*target, {});
  if (!createdBackend.ok())
    return {createdBackend.status()};
  backend = std::move(*createdBackend);
  return {};
}

std::vector<TunedKernel> TuningSubject::kernels() {
  std::vector<TunedKernel> found;
  for (auto function : model->planned().getOps<mlir::func::FuncOp>()) {
    if (!function.isPrivate() || function.isExternal())
      continue;
    llvm::SmallVector<mlir::Attribute> choice =
        backend->neighbours(function, nullptr);
    if (!choice.empty())
      found.push_back({.name = function.getName().str(),
                       .chosen = textOf(choice.front()),
                       .best = {}});
  }
  return found;
}

std::vector<std::string> TuningSubject::neighbours(const std::string &kernel,
                                                   const std::string &around) {
  std::vector<std::string> texts;
  for (mlir::Attribute schedule : backend->neighbours(
           find(model->planned(), kernel),
           mlir::parseAttribute(around, &model->lastCompiler().context())))
    texts.push_back(textOf(schedule));
  return texts;
}

Result<std::map<std::string, double>>
TuningSubject::time(const Executable &executable) {
  Result<std::vector<Buffer>> first = executable.run(subject.inputs);
  if (!first.ok())
    return first.status();
  std::vector<Buffer> outputs = std::move(*first);
  std::map<std::string, double> least;
  std::vector<double> perLaunch;
  RunOptions timed;
  timed.launchMilliseconds = &perLaunch;
  constexpr double kBudget = 250;
  constexpr int kFewestRuns = 3;
  auto start = Clock::now();
  for (int run = 0; run < kFewestRuns || millisecondsSince(start) < kBudget;
       ++run) {
    if (Status status = executable.runInto(subject.inputs, outputs, timed);
        !status.ok())
      return status;
    std::map<std::string, double> sums;
    for (auto [launch, ms] :
         llvm::zip(executable.program().launches, perLaunch))
      sums[launch.kernel] += ms;
    for (auto [kernel, ms] : sums) {
      auto [entry, isNew] = least.emplace(kernel, ms);
      entry->second = std::min(entry->second, ms);
    }
  }
  return least;
}

Result<std::vector<double>>
TuningSubject::measure(const std::vector<TunedKernel> &kernels,
                       const std::vector<std::string> &schedules) {
  Compiler::Module trial(model->planned().clone());
  for (auto [kernel, schedule] : llvm::zip_equal(kernels, schedules))
    find(*trial, kernel.name)
        ->setAttr(
            exe::kScheduleAttr,
            mlir::parseAttribute(schedule, &model->lastCompiler().context()));
  Result<std::shared_ptr<Program>> program =
      model->lastCompiler().generate(*trial, /*withCode=*/true);
  if (!program.ok())
    return program.status();
  Result<Executable> executable = Executable::create(device, *program);
  if (!executable.ok())
    return executable.status();
  Result<std::map<std::string, double>> times = time(*executable);
  if (!times.ok())
    return times.status();
  std::vector<double> milliseconds;
  milliseconds.reserve(kernels.size());
  for (const TunedKernel &kernel : kernels)
    milliseconds.push_back((*times)[kernel.name]);
  return milliseconds;
}

/// Reads the table at `path`, or creates one for `target`; also replaces a
/// corrupt default table (`isKept`).
static Result<ScheduleTable> openTable(const std::string &path,
                                       const std::string &target, bool isKept) {
  if (!llvm::sys::fs::exists(path))
    return ScheduleTable(target);
  Result<ScheduleTable> table = ScheduleTable::read(path);
  if (isKept && (!table.ok() || table->targetName() != target))
    return ScheduleTable(target);
  if (table.ok() && table->targetName() != target)
    return Status(StatusCode::InvalidArgument, path,
                  "holds schedules for '" + table->targetName() +
                      "', not for '" + target + "'; name another file");
  return table;
}

static int report(const std::vector<TunedKernel> &kernels,
                  const std::string &path, double seconds, Reporter &reporter) {
  Json rows = Json::array();
  std::vector<std::vector<std::string>> text = {
      {"kernel", "tried", "model ms", "best ms", "schedule"}};
  size_t faster = 0;
  double before = 0, after = 0;
  for (const TunedKernel &kernel : kernels) {
    bool isFaster = kernel.best != kernel.chosen;
    faster += isFaster;
    before += kernel.chosenMs;
    after += kernel.bestMs;
    rows.push_back({{"name", kernel.name},
                    {"tried", kernel.tried},
                    {"model_schedule", kernel.chosen},
                    {"model_ms", kernel.chosenMs},
                    {"schedule", kernel.best},
                    {"ms", kernel.bestMs}});
    text.push_back({kernel.name, std::to_string(kernel.tried),
                    shortNumber(kernel.chosenMs), shortNumber(kernel.bestMs),
                    isFaster ? kernel.best : "of the cost model"});
  }
  reporter.lines(formatTable(text, {false, true, true, true, false}));
  reporter.line(
      std::to_string(faster) + " of " + std::to_string(kernels.size()) +
      " kernels are faster than with the cost model's schedules, " +
      shortNumber(before) + " -> " + shortNumber(after) + " ms; " + path);
  reporter.document({{"table", path},
                     {"seconds", seconds},
                     {"faster", faster},
                     {"model_ms", before},
                     {"ms", after},
                     {"kernels", rows}});
  return reporter.finish(kDone);
}

int tool::tuneKernelsCommand(const TuneKernelsArguments &arguments) {
  Reporter reporter(arguments.common.json, arguments.common.quiet);
  Result<Device> device = makeDevice(arguments.common);
  if (!device.ok())
    return reporter.fail(device.status());
  if (!device->architecture().empty() || !device->needsCode())
    return reporter.fail(Status(StatusCode::Unavailable,
                                "--device " + arguments.common.device,
                                "only CPU kernels are tuned; GPU kernels use "
                                "the schedules of the cost model"));
  TuningSubject subject(*device);
  if (std::vector<Status> problems = subject.prepare(arguments, reporter);
      !problems.empty())
    return reporter.fail(problems);
  std::string path = arguments.output;
  bool isKept = path.empty();
  if (isKept) {
    path = cachedScheduleTable(subject.target());
    if (path.empty())
      return reporter.fail(Status(
          StatusCode::InvalidArgument, "--output",
          "is required, because there is no cache folder for the table"));
    if (Status status = makeFolder(llvm::sys::path::parent_path(path).str());
        !status.ok())
      return reporter.fail(status);
  }
  Result<ScheduleTable> table = openTable(path, subject.target(), isKept);
  if (!table.ok())
    return reporter.fail(table.status());
  if (Status status = checkWritable(path); !status.ok())
    return reporter.fail(status);

  std::vector<TunedKernel> kernels = subject.kernels();
  auto start = Clock::now();
  TunerCallbacks questions;
  questions.neighbours = [&](size_t kernel, const std::string &around) {
    return subject.neighbours(kernels[kernel].name, around);
  };
  questions.measure = [&](const std::vector<std::string> &schedules) {
    return subject.measure(kernels, schedules);
  };
  questions.clock = [&] { return millisecondsSince(start) * 1e-3; };
  if (Status status = tuneKernels(kernels, questions, arguments.seconds);
      !status.ok())
    return reporter.fail(status);
  // Another process may have updated it meanwhile.
  table = openTable(path, subject.target(), isKept);
  if (!table.ok())
    return reporter.fail(table.status());
  for (const TunedKernel &kernel : kernels) {
    std::string key = subject.keyOf(kernel.name);
    if (kernel.best == kernel.chosen)
      table->erase(key);
    else
      table->set(key,
                 {kernel.name, kernel.best, kernel.bestMs, kernel.chosenMs});
  }
  if (Status status = table->write(path); !status.ok())
    return reporter.fail(status);
  return report(kernels, path, questions.clock(), reporter);
}
