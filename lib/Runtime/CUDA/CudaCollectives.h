//===- CudaCollectives.h - collectives overlapped with kernels --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_CUDACOLLECTIVES_H
#define MPC_LIB_RUNTIME_CUDA_CUDACOLLECTIVES_H

#include "../Communication/CollectiveDependences.h"
#include "CudaContext.h"
#include "CudaLaunches.h"

#include <memory>
#include <vector>

namespace mpc::detail {

/// Runs the collectives of a program on a separate stream, ordered by events:
/// each waits for the launches before it, and launches wait for the collectives
/// that they depend on. While the launches' stream is capturing, the
/// collectives become part of the graph.
class CudaCollectives {
public:
  static Result<std::unique_ptr<CudaCollectives>>
  create(const std::shared_ptr<CudaContext> &context, const Program &program);

  /// Starts a run, or the capture of one.
  void begin() { sent = joined = 0; }
  /// Called before each launch in order: makes `queue` wait for the collectives
  /// that the launch depends on.
  Status reach(size_t launch, CuHandle queue);
  /// Enqueues launch `index`, a collective.
  Status send(const CudaLaunches &launches, size_t index,
              const RunMemory &memory, CuHandle queue);
  /// Makes `queue` wait for all collectives.
  Status join(CuHandle queue) { return waitFor(sent, queue); }

private:
  CudaCollectives(std::shared_ptr<CudaContext> context, const Program &program)
      : context(std::move(context)), program(program), plan(program) {}
  Status waitFor(size_t count, CuHandle queue);
  Status check(CuResult error, const char *call) const {
    return context->check(error, call, program.name);
  }

  std::shared_ptr<CudaContext> context;
  const Program &program;
  const CollectiveDependences plan;
  std::shared_ptr<CudaStream> stream;
  /// Events of each collective: its inputs are ready; it is done.
  std::vector<CudaEvent> ready, over;
  /// Number of collectives sent, and number that the launches have waited for.
  size_t sent = 0, joined = 0;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_CUDACOLLECTIVES_H
