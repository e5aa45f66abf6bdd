//===- CudaKernels.cpp - kernels of a program for GPUs --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compiler.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"
#include "mpc/Target/CUDA/Codegen.h"
#include "mpc/Target/CUDA/HostKernel.h"
#include "mpc/Target/CUDA/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mpc;

Result<Compiler::Module> Compiler::lowerToGpu(ModuleOp module) {
  if (Status status = checkHasCodegen(); !status.ok())
    return status;
  size_t first = said.size();
  Module kernels = copyKernels(module);
  PassManager passes(ctx.get(), ModuleOp::getOperationName());
  passes.addPass(createScheduleKernelsPass());
  passes.addPass(createLowerKernelsToGpuPass());
  if (failed(passes.run(*kernels)))
    return failure(first);
  if (Status status = dump(*kernels, "codegen"); !status.ok())
    return status;
  return kernels;
}

Status Compiler::dumpCuda(const CudaCode &code) {
  if (options.dumpDir.empty())
    return {};
  SmallString<128> path(options.dumpDir);
  llvm::sys::path::append(path, "kernels.cu");
  std::error_code error;
  llvm::raw_fd_ostream out(path, error);
  if (!error) {
    for (const CudaCode::Kernel &kernel : code.kernels)
      out << kernel.source << "\n";
    out.close();
    error = out.error();
    out.clear_error();
  }
  if (!error)
    return {};
  return Status(StatusCode::NotFound, path.str().str(),
                "cannot be written: " + error.message());
}

Status Compiler::generateCuda(ModuleOp module, Program &program) {
  Result<Module> lowered = lowerToGpu(module);
  if (!lowered.ok())
    return lowered.status();
  size_t first = said.size();
  auto code = std::make_shared<CudaCode>();
  code->prelude = preludeText(PreludeSide::Device);
  WalkResult printed = (*lowered)->walk([&](gpu::GPUFuncOp kernel) {
    CudaCode::Kernel text;
    text.name = kernel.getName().str();
    llvm::raw_string_ostream stream(text.source);
    if (failed(emitCuda(kernel, stream)))
      return WalkResult::interrupt();
    code->kernels.push_back(std::move(text));
    return WalkResult::advance();
  });
  if (printed.wasInterrupted())
    return failure(first);

  llvm::StringMap<CudaKernelInfo> infos;
  for (CudaKernelInfo &info : cudaKernels(**lowered))
    infos[info.name] = info;
  for (Launch &launch : program.launches) {
    if (launch.gemm)
      continue;
    auto info = infos.find(launch.kernel);
    if (info == infos.end())
      return Status(StatusCode::Internal, "codegen",
                    "kernel '" + launch.kernel + "' was lost");
    launch.grid = {info->second.blocks, info->second.threads,
                   info->second.sharedBytes};
    launch.scratchBytes = info->second.scratchBytes;
  }
  program.target = targetName();
  program.cuda = code;
  return dumpCuda(*code);
}
