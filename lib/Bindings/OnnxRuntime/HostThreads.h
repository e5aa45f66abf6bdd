//===- HostThreads.h - ONNX Runtime's threads -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs run on the intra-op threads of the session, since ONNX Runtime lets
// plugins use them but does not tell their number.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_ONNXRUNTIME_HOSTTHREADS_H
#define MPC_LIB_BINDINGS_ONNXRUNTIME_HOSTTHREADS_H

#include "HostApi.h"

#include "mpc/Runtime/Device.h"

namespace mpc::ort {

/// Names the running node of this thread during the object's lifetime.
class RunningNode {
public:
  explicit RunningNode(OrtKernelContext *context);
  ~RunningNode();
  RunningNode(const RunningNode &) = delete;
  RunningNode &operator=(const RunningNode &) = delete;

private:
  OrtKernelContext *outer;
};

/// Returns a function that executes tasks on the intra-op threads of the
/// session that runs the calling thread's node, or on the calling thread if
/// there is none. `api` must outlive it.
ParallelFor hostThreads(const HostApi &api);

} // namespace mpc::ort

#endif // MPC_LIB_BINDINGS_ONNXRUNTIME_HOSTTHREADS_H
