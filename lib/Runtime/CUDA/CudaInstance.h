//===- CudaInstance.h - memory and CUDA graphs of one run -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The arena of one run at a time, and the CUDA graphs captured for it.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_CUDAINSTANCE_H
#define MPC_LIB_RUNTIME_CUDA_CUDAINSTANCE_H

#include "CudaCollectives.h"
#include "CudaLaunches.h"

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace mpc::detail {

/// Intermediate memory, and the program as one CUDA graph per set of buffers.
/// Used by one thread at a time, with the context current. Runs are serialized
/// on the GPU: each waits for the previous one.
class CudaInstance {
public:
  /// Maximum number of cached graphs. A program with rotating buffers needs one
  /// per set; beyond this number the least recently used graph is updated.
  static constexpr size_t kMostGraphs = 32;

  static Result<std::unique_ptr<CudaInstance>>
  create(const std::shared_ptr<CudaContext> &context, const Program &program,
         const CudaLaunches &launches);
  /// Waits for the last run.
  ~CudaInstance();

  /// Enqueues a run on `stream`. With `checked` synchronizes after every
  /// launch. Fails, without a run, if the previous run has finished and read an
  /// index out of range (RunCheck).
  Status enqueue(std::span<const Buffer> arguments,
                 std::span<const Buffer> results, CuHandle stream,
                 bool checked);
  /// Runs on the instance's own stream and synchronizes. Buffers may be in host
  /// memory.
  Status run(std::span<const Buffer> arguments, std::span<const Buffer> results,
             const RunOptions &options, bool checked);

  /// Stream of the last run.
  CuHandle lastStream() const { return last; }
  /// Returns true if the last run is done.
  Result<bool> finished() const;

private:
  CudaInstance(std::shared_ptr<CudaContext> context, const Program &program,
               const CudaLaunches &launches)
      : context(std::move(context)), program(program), launches(launches) {}
  /// Makes `queue` wait for the previous run; with `asGraph` sets `exec` to the
  /// graph for the addresses in `memory`.
  Status begin(CuHandle queue, bool asGraph, CuHandle &exec);
  /// Selects the address of each argument and result for the kernels: its own,
  /// or one in `staging` if kernels cannot use it.
  Status place(std::span<const Buffer> arguments,
               std::span<const Buffer> results);
  /// Enqueue the copies of arguments to staging and of results from staging.
  Status copyIn(std::span<const Buffer> arguments, CuHandle queue);
  Status copyOut(std::span<const Buffer> results, CuHandle queue);
  /// Captures what `body` enqueues on this instance's stream.
  Result<CudaGraph> capture(const std::function<Status(CuHandle)> &body);
  Result<CudaGraphExec> instantiate(const CudaGraph &graph);
  /// Returns the executable graph for the addresses in `memory`.
  Result<CuHandle> graph();
  /// Copies in, launches and copies out. Times the launches if `milliseconds`
  /// is not empty.
  Status launchWith(std::span<const Buffer> arguments,
                    std::span<const Buffer> results, CuHandle queue,
                    std::span<double> milliseconds, bool checked);
  /// Enqueues one launch, after the collectives that it depends on.
  Status launchOne(size_t index, CuHandle queue, bool early);
  Status launchAll(CuHandle stream, bool checked);
  Status launchTimed(CuHandle stream, std::span<double> milliseconds);
  Status asynchronousFailure(Status status) const;
  /// Returns a violation found by the checks of the previous run, if that is
  /// done.
  Status previousAsyncError();

  struct CapturedGraph {
    std::vector<CuAddress> addresses;
    CudaGraphExec exec;
    uint64_t lastUse = 0;
  };

  std::shared_ptr<CudaContext> context;
  const Program &program;
  const CudaLaunches &launches;
  std::shared_ptr<CudaStream> stream;
  /// Null if the program has no collectives.
  std::unique_ptr<CudaCollectives> messages;
  /// Recorded after each run.
  CudaEvent done;
  /// Arena, scratch and workspace.
  std::shared_ptr<void> block;
  /// Status words of the program's checks; null if it has none.
  std::shared_ptr<void> checks;
  /// Device copies of arguments and results that are in host memory or not
  /// 16-byte aligned; 0 if never needed.
  std::vector<CuAddress> staging;
  std::vector<std::shared_ptr<void>> stagingBlocks;
  RunMemory memory;
  std::vector<CapturedGraph> graphs;
  uint64_t uses = 0;
  CuHandle last = nullptr;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_CUDAINSTANCE_H
