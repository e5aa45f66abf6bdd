//===- CudaBackend.cpp - code generation for CUDA kernels -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Backend.h"

#include "Runtime/CUDA/KernelCompiler.h"

#include "mpc/Support/Files.h"
#include "mpc/Target/CUDA/Codegen.h"
#include "mpc/Target/CUDA/Host/HostKernel.h"
#include "mpc/Target/CUDA/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"

#include <functional>

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

namespace {

class CudaBackend : public Backend {
public:
  CudaBackend(const TargetInfo &target, BackendOptions options)
      : Backend(target, std::move(options)) {}

  LogicalResult lower(ModuleOp kernels) override;
  Status generate(ModuleOp lowered, Program &program) override;
  Result<std::vector<std::byte>> generateFile(ModuleOp lowered,
                                              Program &program) override;

private:
  /// Writes a file next to the IR dumps.
  Status dumpFile(const std::string &name, std::string_view bytes) const;
};

/// Calls a function between passes; stops the pipeline if that fails.
struct StepPass : PassWrapper<StepPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(StepPass)

  explicit StepPass(std::function<LogicalResult(ModuleOp)> step)
      : step(std::move(step)) {}
  void runOnOperation() override {
    if (failed(step(getOperation())))
      signalPassFailure();
    markAllAnalysesPreserved();
  }

  std::function<LogicalResult(ModuleOp)> step;
};

} // namespace

LogicalResult CudaBackend::lower(ModuleOp kernels) {
  // One pass manager, so that plans of kernels are made once (KernelPlans).
  PassManager passes(kernels.getContext(), ModuleOp::getOperationName());
  auto add = [&](std::unique_ptr<Pass> pass, StringRef dumped = {}) {
    passes.addPass(std::move(pass));
    passes.addPass(std::make_unique<StepPass>([this, dumped](ModuleOp module) {
      if (options.stops())
        return failure();
      return dumped.empty() ? success() : dump(module, dumped);
    }));
  };
  add(createSplitFusedKernelsPass());
  add(createScheduleKernelsPass(), "scheduled");
  add(createLowerKernelsToGpuPass(), "tiles");
  add(createLowerTilesToThreadsPass());
  passes.addPass(createMergeFusedKernelsPass());
  return failure(options.stops() || failed(passes.run(kernels)));
}

Status CudaBackend::dumpFile(const std::string &name,
                             std::string_view bytes) const {
  if (options.dumpDir.empty())
    return {};
  return writeWholeFile(options.dumpDir + "/" + name, {bytes});
}

/// Sets the grid of each launch from its kernel.
static Status completeLaunches(ModuleOp lowered, Program &program) {
  llvm::StringMap<CudaKernelInfo> infos;
  for (CudaKernelInfo &info : cudaKernels(lowered))
    infos[info.name] = info;
  for (Launch &launch : program.launches) {
    if (launch.gemm || launch.collective)
      continue;
    auto info = infos.find(launch.kernel);
    if (info == infos.end())
      return Status(StatusCode::Internal, "codegen",
                    "kernel '" + launch.kernel + "' was lost");
    launch.grid = {info->second.blocks, info->second.threads,
                   info->second.sharedBytes, info->second.cooperative};
    launch.scratchBytes = info->second.scratchBytes;
  }
  return {};
}

Status CudaBackend::generate(ModuleOp lowered, Program &program) {
  auto code = std::make_shared<CudaCode>();
  code->prelude = preludeText(PreludeSide::Device);
  std::string all;
  WalkResult printed = lowered.walk([&](gpu::GPUFuncOp kernel) {
    CudaCode::Kernel text;
    text.name = kernel.getName().str();
    llvm::raw_string_ostream stream(text.source);
    if (failed(emitCuda(kernel, stream)))
      return WalkResult::interrupt();
    all += text.source + "\n";
    code->kernels.push_back(std::move(text));
    return WalkResult::advance();
  });
  // The diagnostic was emitted at the op.
  if (printed.wasInterrupted())
    return Status(StatusCode::Internal, "codegen",
                  "a kernel has an op without a form in CUDA C++");
  if (Status status = completeLaunches(lowered, program); !status.ok())
    return status;
  program.target = target.name();
  program.cuda = std::move(code);
  return dumpFile("kernels.cu", all);
}

Result<std::vector<std::byte>> CudaBackend::generateFile(ModuleOp lowered,
                                                         Program &program) {
  if (Status status = generate(lowered, program); !status.ok())
    return status;
  auto code = std::make_shared<CudaCode>(*program.cuda);
  mpc::detail::KernelCompileOptions compile;
  compile.threads = int(options.threads);
  compile.verbose = !options.dumpDir.empty();
  mpc::detail::KernelCompileReport report;
  Result<std::vector<CudaCode::Binary>> binaries = mpc::detail::compileKernels(
      *code, target.member().str(), compile, &report);
  if (!binaries.ok())
    return binaries.status();
  for (auto [i, binary] : llvm::enumerate(*binaries))
    if (Status status =
            dumpFile("kernels-" + std::to_string(i) + ".cubin",
                     {reinterpret_cast<const char *>(binary.cubin.data()),
                      binary.cubin.size()});
        !status.ok())
      return status;
  if (Status status = dumpFile("ptxas.log", report.log); !status.ok())
    return status;
  code->binaries = std::move(*binaries);
  program.cuda = std::move(code);
  return std::vector<std::byte>();
}

std::unique_ptr<Backend> mpc::createCudaBackend(const TargetInfo &target,
                                                BackendOptions options) {
  return std::make_unique<CudaBackend>(target, std::move(options));
}
