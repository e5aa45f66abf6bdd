//===- CudaMessages.h - messages beside a GPU's launches --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_CUDAMESSAGES_H
#define MPC_LIB_RUNTIME_CUDA_CUDAMESSAGES_H

#include "../Communication/MessagePlan.h"
#include "CudaContext.h"
#include "CudaLaunches.h"

#include <memory>
#include <vector>

namespace mpc::detail {

/// Sends the messages of a program on a stream of their own: each waits for
/// what the launches' stream did before it, and launches wait for the messages
/// that they need, by events alone. Under the capture of the launches' stream
/// all of it becomes part of the graph.
class CudaMessages {
public:
  static Result<std::unique_ptr<CudaMessages>>
  create(const std::shared_ptr<CudaContext> &context, const Program &program);

  /// Begins a run, or the capture of one.
  void begin() { sent = joined = 0; }
  /// Called before each launch in order: lets `queue` wait for the messages
  /// that the launch needs.
  Status reach(size_t launch, CuHandle queue);
  /// Enqueues launch `index`, a message.
  Status send(const CudaLaunches &launches, size_t index,
              const RunMemory &memory, CuHandle queue);
  /// Lets `queue` wait for all messages.
  Status join(CuHandle queue) { return waitFor(sent, queue); }

private:
  CudaMessages(std::shared_ptr<CudaContext> context, const Program &program)
      : context(std::move(context)), program(program), plan(program) {}
  Status waitFor(size_t count, CuHandle queue);
  Status check(CuResult error, const char *call) const {
    return context->check(error, call, program.name);
  }

  std::shared_ptr<CudaContext> context;
  const Program &program;
  const MessagePlan plan;
  std::shared_ptr<CudaStream> stream;
  /// Of each message: when what it sends is there, and when it is over.
  std::vector<CudaEvent> ready, over;
  /// How many were sent, and for how many the launches have waited.
  size_t sent = 0, joined = 0;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_CUDAMESSAGES_H
