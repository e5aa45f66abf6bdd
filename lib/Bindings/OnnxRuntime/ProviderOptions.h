//===- ProviderOptions.h - options of a session -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_ONNXRUNTIME_PROVIDEROPTIONS_H
#define MPC_LIB_BINDINGS_ONNXRUNTIME_PROVIDEROPTIONS_H

#include "mpc/JIT/Options.h"

#include <map>
#include <optional>
#include <string>

namespace mpc::ort {

/// Name of the execution provider.
inline constexpr const char *kProviderName = "MpcExecutionProvider";

/// Options of the execution provider in one session
/// (docs/HowTo/OnnxRuntime.md).
struct ProviderOptions {
  CompileOptions compile;
  /// Maximum threads of one run, of mpc's own pool; 0: all cores. None: ONNX
  /// Runtime's intra-op threads.
  std::optional<int> threads;
  /// True if machine code in EPContext nodes may run in this process.
  bool trusted = false;
  /// True if a subgraph that mpc cannot compile for the shapes of a run runs in
  /// ONNX Runtime's CPU provider.
  bool fallsBack = true;
  /// True to write EPContext nodes; if `embedsContext`, with the compiled
  /// program inside, else in a file beside the model `contextPath`.
  bool writesContext = false, embedsContext = true;
  std::string contextPath;

  /// Reads a session's configuration entries: those of the provider, whose keys
  /// start with "ep.mpcexecutionprovider.", and those of ONNX Runtime about
  /// fallback and EPContext. Fails, naming the key, if a provider option is
  /// unknown or invalid.
  static Result<ProviderOptions>
  parse(const std::map<std::string, std::string> &entries);
};

} // namespace mpc::ort

#endif // MPC_LIB_BINDINGS_ONNXRUNTIME_PROVIDEROPTIONS_H
