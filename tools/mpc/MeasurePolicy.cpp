//===- MeasurePolicy.cpp - measuring a model under a policy ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tune.h"

#include "Inputs.h"

#include <algorithm>
#include <chrono>
#include <cmath>

using namespace mpc;
using namespace mpc::tool;
using mpc::reference::Tensor;

/// Rounds of timing, of which the fastest run counts. Each is long enough to
/// warm the caches with the program's own data.
static constexpr int kTurns = 3;
static constexpr int kFewestRuns = 3;
static constexpr double kTurnSeconds = 0.03;

Status PolicyEvaluator::prepare() {
  wanted.resize(model.samples().size());
  const TargetInfo &target = model.compiler().target();
  compiles = !target.isGpu() && common.device != "null" && target.runsHere() &&
             target.facts().isGenerated;
  if (!compiles)
    return {};
  Result<Device> made = Device::cpu({.threads = common.threads});
  if (!made.ok())
    return made.status();
  device = *made;
  return {};
}

void PolicyEvaluator::expect(size_t sample, llvm::SmallVector<Tensor> outputs) {
  // Caches of a decoder are as large as its logits, and no outputs.
  if (text)
    wanted[sample].push_back(std::move(outputs[text->logits()]));
  else
    wanted[sample] = std::move(outputs);
}

Status PolicyEvaluator::interpret(Compiler &compiler, mlir::ModuleOp module,
                                  llvm::ArrayRef<size_t> samples,
                                  const Receiver &receive) const {
  for (size_t sample : samples) {
    Result<std::vector<Tensor>> values =
        interpretGraph(compiler, module, model.samples()[sample].buffers,
                       reference::Rounding::Declared);
    if (!values.ok())
      return values.status();
    receive(sample, *values);
  }
  return {};
}

Status PolicyEvaluator::execute(const Executable &executable,
                                llvm::ArrayRef<size_t> samples,
                                const Receiver &receive) const {
  for (size_t sample : samples) {
    Result<std::vector<Buffer>> results =
        executable.run(model.samples()[sample].buffers);
    if (!results.ok())
      return results.status();
    std::vector<Tensor> values;
    for (const Buffer &buffer : *results)
      values.push_back(Tensor::fromBytes(
          compilerType(buffer.type(), model.compiler().context()),
          buffer.data()));
    receive(sample, values);
  }
  return {};
}

void OutputAgreement::add(const Tensor &wanted, const Tensor &actual) {
  cosine = std::min(cosine, cosineOf(wanted, actual));
  auto norm = [](const Tensor &tensor) {
    double squares = 0;
    for (double value : tensor.floats())
      squares += value * value;
    return std::sqrt(squares);
  };
  double exact = norm(wanted), found = norm(actual);
  double ratio = exact > 0 ? found / exact : found > 0 ? INFINITY : 1;
  if (!(std::fabs(ratio - 1) <= std::fabs(normRatio - 1)))
    normRatio = ratio;
}

Result<PolicyEvaluator::Typed>
PolicyEvaluator::assignTypes(const std::string &path) const {
  CompileOptions options = model.options();
  options.policy = path;
  // Diagnostics about types are reported only for the policy that is written.
  options.onDiagnostic = nullptr;
  Result<std::unique_ptr<Compiler>> compiler = Compiler::create(options);
  if (!compiler.ok())
    return compiler.status();
  Result<Compiler::Module> module = (*compiler)->import(common.model);
  if (!module.ok())
    return module.status();
  // The stage after which all types of the graph are assigned.
  const char *stage = options.training ? "loss-scale" : "precision";
  if (Status status = (*compiler)->runStages(**module, "import", stage);
      !status.ok())
    return status;
  return Typed{std::move(*compiler), std::move(*module), stage};
}

Result<std::shared_ptr<Program>>
PolicyEvaluator::generate(Typed &typed, bool withCode) const {
  if (Status status =
          typed.compiler->runStages(*typed.module, typed.stage, "plan");
      !status.ok())
    return status;
  return typed.compiler->generate(*typed.module, withCode);
}

static PolicyMeasurements bytesOf(const Program &program) {
  PolicyMeasurements figures;
  figures.bytes = double(program.bytesMoved());
  figures.memory = double(program.constantBytes() + program.liveArenaBytes());
  return figures;
}

Result<PolicyMeasurements>
PolicyEvaluator::plan(const std::string &path) const {
  Result<Typed> typed = assignTypes(path);
  if (!typed.ok())
    return typed.status();
  Result<std::shared_ptr<Program>> program =
      generate(*typed, /*withCode=*/false);
  if (!program.ok())
    return program.status();
  return bytesOf(**program);
}

Result<PolicyMeasurements> PolicyEvaluator::measure(
    const std::string &path, llvm::ArrayRef<size_t> samples, bool isTimed,
    std::vector<OutputAgreement> *agreements, NextTokenMeter *tokens) const {
  Result<Typed> typed = assignTypes(path);
  if (!typed.ok())
    return typed.status();
  ErrorMeter errors(meter);
  NextTokenMeter ownTokens;
  NextTokenMeter &nextTokens = tokens ? *tokens : ownTokens;
  std::vector<ProgramValue> results = resultsOf(model.entry());
  if (agreements)
    for (const ProgramValue &result : results)
      agreements->push_back({result.name});
  auto receive = [&](size_t sample, llvm::ArrayRef<Tensor> outputs) {
    if (text) {
      nextTokens.add(wanted[sample].front(), outputs[text->logits()],
                     text->windows()[sample]);
      return;
    }
    errors.add(wanted[sample], outputs);
    for (size_t i = 0; agreements && i < outputs.size(); ++i)
      if (outputs[i].isFloat())
        (*agreements)[i].add(wanted[sample][i], outputs[i]);
  };
  if (!compiles)
    if (Status status =
            interpret(*typed->compiler, *typed->module, samples, receive);
        !status.ok())
      return status;
  Result<std::shared_ptr<Program>> program = generate(*typed, compiles);
  if (!program.ok())
    return program.status();
  PolicyMeasurements figures = bytesOf(**program);
  if (compiles) {
    Result<Executable> executable =
        Executable::create(*device, std::move(*program));
    if (!executable.ok())
      return executable.status();
    if (Status status = execute(*executable, samples, receive); !status.ok())
      return status;
    if (isTimed && !samples.empty()) {
      Result<std::vector<PolicyTimes>> times =
          timeInTurn({*executable}, samples.front());
      if (!times.ok())
        return times.status();
      figures.seconds = times->front().seconds;
    }
  }
  figures.error = text ? nextTokens.error(meter) : errors.value();
  return figures;
}

Result<Executable> PolicyEvaluator::load(const std::string &path) const {
  Result<Typed> typed = assignTypes(path);
  if (!typed.ok())
    return typed.status();
  Result<std::shared_ptr<Program>> program = generate(*typed, compiles);
  if (!program.ok())
    return program.status();
  return Executable::create(*device, std::move(*program));
}

/// Runs once, and lowers `times` to the measured time if that is smaller.
static Status timeRun(const Executable &executable,
                      const std::vector<Buffer> &inputs,
                      std::vector<Buffer> &outputs, PolicyTimes &times) {
  std::vector<double> launches;
  RunOptions options;
  options.launchMilliseconds = &launches;
  auto start = std::chrono::steady_clock::now();
  if (Status status = executable.runInto(inputs, outputs, options);
      !status.ok())
    return status;
  double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  times.seconds = std::min(times.seconds, seconds);
  for (auto [kernel, milliseconds] : llvm::zip(times.kernels, launches))
    kernel.seconds = std::min(kernel.seconds, 1e-3 * milliseconds);
  return {};
}

Result<std::vector<PolicyTimes>>
PolicyEvaluator::timeInTurn(const std::vector<Executable> &executables,
                            size_t sample) const {
  const std::vector<Buffer> &inputs = model.samples()[sample].buffers;
  std::vector<PolicyTimes> times(executables.size());
  std::vector<std::vector<Buffer>> outputs;
  for (auto [executable, time] : llvm::zip_equal(executables, times)) {
    time.seconds = INFINITY;
    for (const Launch &launch : executable.program().launches)
      time.kernels.push_back({launch.ops, INFINITY});
    Result<std::vector<Buffer>> first = executable.run(inputs);
    if (!first.ok())
      return first.status();
    outputs.push_back(std::move(*first));
  }
  using Clock = std::chrono::steady_clock;
  for (int turn = 0; turn < kTurns; ++turn)
    for (auto [executable, output, time] :
         llvm::zip_equal(executables, outputs, times)) {
      std::chrono::duration<double> all{0};
      Clock::time_point start = Clock::now();
      for (int run = 0; run < kFewestRuns || all.count() < kTurnSeconds;
           ++run) {
        if (Status status = timeRun(executable, inputs, output, time);
            !status.ok())
          return status;
        all = Clock::now() - start;
      }
    }
  return times;
}
