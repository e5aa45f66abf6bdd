//===- CudaInstance.h - memory and graphs of one run ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The arena of one run at a time, and the program captured as graphs on it.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_CUDAINSTANCE_H
#define MPC_LIB_RUNTIME_CUDA_CUDAINSTANCE_H

#include "CudaLaunches.h"
#include "CudaMessages.h"

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace mpc::detail {

/// Intermediate memory, and the program as a graph per set of buffers that it
/// has run on. Used by one thread at a time, which has the context current.
/// Runs follow each other: each waits, on the GPU, for the one before.
class CudaInstance {
public:
  /// Graphs that are kept. A program that is fed from rotating buffers needs
  /// one per set; beyond this number the longest unused one is rewritten.
  static constexpr size_t kMostGraphs = 32;

  static Result<std::unique_ptr<CudaInstance>>
  create(const std::shared_ptr<CudaContext> &context, const Program &program,
         const CudaLaunches &launches);
  /// Waits for the last run.
  ~CudaInstance();

  /// Enqueues a run on `stream`. With `checked` it waits for every launch.
  /// Fails without a run where the run before, which is done, read an index out
  /// of range (RunCheck).
  Status enqueue(std::span<const Buffer> arguments,
                 std::span<const Buffer> results, CuHandle stream,
                 bool checked);
  /// Runs on a stream of its own and waits. Buffers may lie in host memory.
  Status run(std::span<const Buffer> arguments, std::span<const Buffer> results,
             const RunOptions &options, bool checked);

  /// The stream of the last run.
  CuHandle lastStream() const { return last; }
  /// Whether the last run is done.
  Result<bool> finished() const;

private:
  CudaInstance(std::shared_ptr<CudaContext> context, const Program &program,
               const CudaLaunches &launches)
      : context(std::move(context)), program(program), launches(launches) {}
  /// Lets `queue` wait for the run before; with `asGraph` the graph for the
  /// addresses in `memory` goes to `exec`.
  Status begin(CuHandle queue, bool asGraph, CuHandle &exec);
  /// Decides where the kernels find each argument and result: at home, or in
  /// `staging` where `home` cannot be used by a kernel.
  Status place(std::span<const Buffer> arguments,
               std::span<const Buffer> results);
  /// Enqueues the copies of arguments into staging and of results out of it.
  Status copyIn(std::span<const Buffer> arguments, CuHandle queue);
  Status copyOut(std::span<const Buffer> results, CuHandle queue);
  /// The graph of what `body` enqueues on this instance's stream.
  Result<CudaGraph> capture(const std::function<Status(CuHandle)> &body);
  Result<CudaGraphExec> instantiate(const CudaGraph &graph);
  /// The executable graph for the addresses in `memory`.
  Result<CuHandle> graph();
  /// Copies, launches and copies back. Times the launches where there are
  /// `milliseconds`.
  Status launchWith(std::span<const Buffer> arguments,
                    std::span<const Buffer> results, CuHandle queue,
                    std::span<double> milliseconds, bool checked);
  /// Enqueues one launch, behind the messages that it needs.
  Status launchOne(size_t index, CuHandle queue, bool early);
  Status launchAll(CuHandle stream, bool checked);
  Status launchTimed(CuHandle stream, std::span<double> milliseconds);
  Status asynchronousFailure(Status status) const;
  /// What the checks of the run before found, where that is done.
  Status earlierFailure();

  struct CapturedGraph {
    std::vector<CuAddress> addresses;
    CudaGraphExec exec;
    uint64_t lastUse = 0;
  };

  std::shared_ptr<CudaContext> context;
  const Program &program;
  const CudaLaunches &launches;
  std::shared_ptr<CudaStream> stream;
  /// Null where the program has none.
  std::unique_ptr<CudaMessages> messages;
  /// Recorded behind each run.
  CudaEvent done;
  /// Arena, scratch, workspace.
  std::shared_ptr<void> block;
  /// Words of the program's checks; null where it has none.
  std::shared_ptr<void> checks;
  /// Device memory for arguments and results that lie in host memory or where
  /// kernels cannot load 16 bytes at once; 0 for those that never did.
  std::vector<CuAddress> staging;
  std::vector<std::shared_ptr<void>> stagingBlocks;
  RunMemory memory;
  std::vector<CapturedGraph> graphs;
  uint64_t uses = 0;
  CuHandle last = nullptr;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_CUDAINSTANCE_H
