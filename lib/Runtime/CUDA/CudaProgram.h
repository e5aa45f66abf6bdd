//===- CudaProgram.h - program loaded on a GPU ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_CUDAPROGRAM_H
#define MPC_LIB_RUNTIME_CUDA_CUDAPROGRAM_H

#include "CudaInstance.h"

#include <memory>
#include <mutex>
#include <vector>

namespace mpc::detail {

/// Code, constants, and one instance per concurrent run.
class CudaProgram : public LoadedProgram {
public:
  /// With `checked` every launch is synchronized. `library` and `messages` live
  /// as long as the program; null if not needed.
  static Result<std::shared_ptr<LoadedProgram>>
  create(const std::shared_ptr<CudaContext> &context,
         const std::shared_ptr<const Program> &program,
         const CudaServices &services,
         const std::shared_ptr<GemmLibrary> &library,
         const std::shared_ptr<CollectiveBackend> &messages, bool checked);
  ~CudaProgram() override;

  Status run(std::span<const Buffer> arguments, std::span<Buffer> results,
             const RunOptions &options) override;
  Status enqueue(std::span<const Buffer> arguments, std::span<Buffer> results,
                 StreamImpl &stream) override;
  Status timeRuns(std::span<RunBuffers> sets, StreamImpl &stream,
                  std::span<double> milliseconds) override;

private:
  CudaProgram(std::shared_ptr<CudaContext> context,
              std::shared_ptr<const Program> program,
              std::shared_ptr<GemmLibrary> library,
              std::shared_ptr<CollectiveBackend> messages, bool checked)
      : context(std::move(context)), program(std::move(program)),
        library(std::move(library)), messages(std::move(messages)),
        checked(checked) {}
  /// Returns an instance for a run on `stream`: the one that last ran there, an
  /// idle one, a new one, or, if that cannot be allocated, one in use: the run
  /// then waits for it on the GPU.
  Result<std::unique_ptr<CudaInstance>> acquire(CuHandle stream);
  void release(std::unique_ptr<CudaInstance> instance);

  std::shared_ptr<CudaContext> context;
  std::shared_ptr<const Program> program;
  std::shared_ptr<GemmLibrary> library;
  std::shared_ptr<CollectiveBackend> messages;
  const bool checked;
  std::unique_ptr<CudaLaunches> launches;
  std::mutex mutex;
  /// Instances that no thread is enqueuing on, most recently used last.
  std::vector<std::unique_ptr<CudaInstance>> instances;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_CUDAPROGRAM_H
