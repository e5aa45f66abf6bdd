//===- HostSession.h - fallback to ONNX Runtime -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_ONNXRUNTIME_HOSTSESSION_H
#define MPC_LIB_BINDINGS_ONNXRUNTIME_HOSTSESSION_H

#include "HostApi.h"

#include <memory>
#include <string>
#include <vector>

namespace mpc::ort {

/// A session of ONNX Runtime's own CPU provider for a subgraph that mpc cannot
/// compile for the shapes of a run. Thread-safe.
class HostSession {
public:
  /// Opens the ONNX model `bytes`. `threads` 0: ONNX Runtime's default.
  static Result<std::unique_ptr<HostSession>>
  create(const HostApi &api, const std::string &bytes, int threads);
  ~HostSession();

  /// Runs on `inputs` and copies the results to the outputs of `context` at the
  /// positions `outputPositions`.
  Status run(const std::vector<std::string> &inputNames,
             const std::vector<const OrtValue *> &inputs,
             const std::vector<std::string> &outputNames,
             const std::vector<size_t> &outputPositions,
             OrtKernelContext *context) const;

private:
  explicit HostSession(const HostApi &api) : api(api) {}

  const HostApi &api;
  OrtEnv *env = nullptr;
  OrtSession *session = nullptr;
};

} // namespace mpc::ort

#endif // MPC_LIB_BINDINGS_ONNXRUNTIME_HOSTSESSION_H
