//===- PolicyMeter.cpp - how far a policy is from float64 -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tune.h"

#include "mpc/Runtime/Executable.h"

using namespace mpc;
using namespace mpc::tool;
using mpc::reference::Tensor;

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

Result<std::vector<std::vector<Tensor>>>
PolicyMeter::outputs(const std::string &path,
                     llvm::ArrayRef<size_t> samples) const {
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
  if (Status status = (*compiler)->runStages(**module, "import",
                                             compiles ? "plan" : "precision");
      !status.ok())
    return status;
  std::vector<std::vector<Tensor>> all;
  if (!compiles) {
    for (size_t sample : samples) {
      Result<std::vector<Tensor>> values =
          interpretGraph(**compiler, **module, model.samples()[sample].buffers,
                         reference::Rounding::Declared);
      if (!values.ok())
        return values.status();
      all.push_back(std::move(*values));
    }
    return all;
  }
  Result<std::shared_ptr<Program>> program =
      (*compiler)->generate(**module, /*withCode=*/true);
  if (!program.ok())
    return program.status();
  Result<Executable> executable =
      Executable::create(*device, std::move(*program));
  if (!executable.ok())
    return executable.status();
  for (size_t sample : samples) {
    Result<std::vector<Buffer>> results =
        executable->run(model.samples()[sample].buffers);
    if (!results.ok())
      return results.status();
    std::vector<Tensor> &values = all.emplace_back();
    for (const Buffer &buffer : *results)
      values.push_back(Tensor::fromBytes(
          compilerType(buffer.type(), model.compiler().context()),
          buffer.data()));
  }
  return all;
}

Result<double> PolicyMeter::error(const std::string &path,
                                  llvm::ArrayRef<size_t> samples) const {
  Result<std::vector<std::vector<Tensor>>> actual = outputs(path, samples);
  if (!actual.ok())
    return actual.status();
  ErrorMeter errors(measure);
  for (auto [sample, values] : llvm::zip_equal(samples, *actual))
    errors.add(wanted[sample], values);
  return errors.value();
}
