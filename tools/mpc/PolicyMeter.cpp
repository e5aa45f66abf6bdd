//===- PolicyMeter.cpp - how far a policy is from float64 -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tune.h"

#include "Inputs.h"

#include "mpc/Runtime/Executable.h"

#include <algorithm>
#include <cmath>

using namespace mpc;
using namespace mpc::tool;
using mpc::reference::Tensor;

/// Runs of which the fastest counts: at least so many, and for so long.
static constexpr int kFewestRuns = 5;
static constexpr int kMostRuns = 200;
static constexpr double kTimedSeconds = 0.2;

Status PolicyMeter::prepare() {
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

void PolicyMeter::expect(size_t sample, llvm::SmallVector<Tensor> outputs) {
  wanted[sample] = std::move(outputs);
}

/// Seconds of the fastest of some runs on one sample.
static Result<double> timeOf(Executable &executable,
                             const std::vector<Buffer> &inputs) {
  using Clock = std::chrono::steady_clock;
  double fastest = INFINITY, all = 0;
  for (int run = 0;
       run < kMostRuns && (run < kFewestRuns || all < kTimedSeconds); ++run) {
    Clock::time_point start = Clock::now();
    Result<std::vector<Buffer>> results = executable.run(inputs);
    if (!results.ok())
      return results.status();
    double seconds =
        std::chrono::duration<double>(Clock::now() - start).count();
    fastest = std::min(fastest, seconds);
    all += seconds;
  }
  return fastest;
}

Status PolicyMeter::interpret(Compiler &compiler, mlir::ModuleOp module,
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

Status PolicyMeter::execute(std::shared_ptr<Program> program,
                            llvm::ArrayRef<size_t> samples, bool isTimed,
                            const Receiver &receive,
                            PolicyFigures &figures) const {
  Result<Executable> executable =
      Executable::create(*device, std::move(program));
  if (!executable.ok())
    return executable.status();
  for (size_t sample : samples) {
    Result<std::vector<Buffer>> results =
        executable->run(model.samples()[sample].buffers);
    if (!results.ok())
      return results.status();
    std::vector<Tensor> values;
    for (const Buffer &buffer : *results)
      values.push_back(Tensor::fromBytes(
          compilerType(buffer.type(), model.compiler().context()),
          buffer.data()));
    receive(sample, values);
  }
  if (!isTimed || samples.empty())
    return {};
  Result<double> seconds =
      timeOf(*executable, model.samples()[samples.front()].buffers);
  if (!seconds.ok())
    return seconds.status();
  figures.seconds = *seconds;
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

Result<PolicyFigures>
PolicyMeter::measure(const std::string &path, llvm::ArrayRef<size_t> samples,
                     bool isTimed,
                     std::vector<OutputAgreement> *agreements) const {
  CompileOptions options = model.options();
  options.policy = path;
  // What a compile has to say of types is said of the policy that is written.
  options.onDiagnostic = nullptr;
  Result<std::unique_ptr<Compiler>> compiler = Compiler::create(options);
  if (!compiler.ok())
    return compiler.status();
  Result<Compiler::Module> module = (*compiler)->import(common.model);
  if (!module.ok())
    return module.status();
  // Where all types of a training step stand in the graph.
  const char *typed = options.training ? "loss-scale" : "precision";
  if (Status status = (*compiler)->runStages(**module, "import", typed);
      !status.ok())
    return status;
  ErrorMeter errors(meter);
  std::vector<ProgramValue> results = resultsOf(model.entry());
  if (agreements)
    for (const ProgramValue &result : results)
      agreements->push_back({result.name});
  auto receive = [&](size_t sample, llvm::ArrayRef<Tensor> outputs) {
    errors.add(wanted[sample], outputs);
    for (size_t i = 0; agreements && i < outputs.size(); ++i)
      if (outputs[i].isFloat())
        (*agreements)[i].add(wanted[sample][i], outputs[i]);
  };
  PolicyFigures figures;
  if (!compiles)
    if (Status status = interpret(**compiler, **module, samples, receive);
        !status.ok())
      return status;
  if (Status status = (*compiler)->runStages(**module, typed, "plan");
      !status.ok())
    return status;
  Result<std::shared_ptr<Program>> program =
      (*compiler)->generate(**module, /*withCode=*/compiles);
  if (!program.ok())
    return program.status();
  figures.bytes = double((*program)->bytesMoved());
  figures.memory =
      double((*program)->constantBytes() + (*program)->liveArenaBytes());
  if (compiles)
    if (Status status =
            execute(std::move(*program), samples, isTimed, receive, figures);
        !status.ok())
      return status;
  figures.error = errors.value();
  return figures;
}
