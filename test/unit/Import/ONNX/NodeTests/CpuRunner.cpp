//===- CpuRunner.cpp - node tests through the CPU target ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NodeCase.h"

#include "Compiler.h"

#include "mpc/Runtime/Executable.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::nodetests;
using mpc::reference::Tensor;

namespace {

class CpuRunner : public Runner {
public:
  CpuRunner(std::unique_ptr<Compiler> compiler, Device device)
      : compiler(std::move(compiler)), device(std::move(device)) {}

  MLIRContext &context() override { return compiler->context(); }

  FailureOr<SmallVector<Tensor>> run(ModuleOp module,
                                     ArrayRef<Tensor> arguments) override {
    SmallVector<RankedTensorType> resultTypes;
    for (Type type : entry(module).getResultTypes())
      resultTypes.push_back(cast<RankedTensorType>(type));
    if (Status status = compiler->runStages(module, "import", "plan");
        !status.ok())
      return fail(status);
    Result<std::shared_ptr<Program>> program =
        compiler->generate(module, /*withCode=*/true);
    if (!program.ok())
      return fail(program.status());
    Result<Executable> executable = Executable::create(device, *program);
    if (!executable.ok())
      return fail(executable.status());
    std::vector<Buffer> buffers;
    for (const Tensor &argument : arguments) {
      Result<Buffer> buffer = Buffer::allocate(runtimeType(argument.getType()));
      if (!buffer.ok())
        return fail(buffer.status());
      argument.toBytes(buffer->data());
      buffers.push_back(*buffer);
    }
    Result<std::vector<Buffer>> outputs = executable->run(buffers);
    if (!outputs.ok())
      return fail(outputs.status());
    SmallVector<Tensor> results;
    for (auto [buffer, type] : llvm::zip_equal(*outputs, resultTypes))
      results.push_back(Tensor::fromBytes(type, buffer.data()));
    return results;
  }

private:
  LogicalResult fail(const Status &status) {
    return emitError(UnknownLoc::get(&context())) << status.toString();
  }

  std::unique_ptr<Compiler> compiler;
  Device device;
};

} // namespace

std::unique_ptr<Runner> mpc::nodetests::createCpuRunner() {
  CompileOptions options;
  options.threads = 1;
  Result<std::unique_ptr<Compiler>> compiler = Compiler::create(options);
  Result<Device> device = Device::cpu({.threads = 2});
  if (!compiler.ok() || !device.ok())
    return nullptr;
  return std::make_unique<CpuRunner>(std::move(*compiler), std::move(*device));
}
