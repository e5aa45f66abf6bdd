//===- Models.h - models and compile options of the C API -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For the files that need the compiler.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_BINDINGS_C_MODELS_H
#define MPC_BINDINGS_C_MODELS_H

#include "Handles.h"

#include <mutex>

namespace mpc::c {

/// Converts the options of a compile. Memory of `values` is not copied.
Status readOptions(const mpc_compile_options *given, CompileOptions &options);

/// Adds tensors by name, without a copy of their memory.
Status readTensors(const char *name, const mpc_tensor *data, size_t count,
                   NamedBuffers &buffers);

} // namespace mpc::c

struct mpc_model : mpc::c::Object<0x6d6f646c> {
  mpc::ModelSource source;
  /// Set by read().
  mutable std::once_flag once = {};
  mutable mpc::Status outcome = {};
  mutable std::vector<mpc::ModelInput> inputs = {};
  mutable std::vector<std::vector<const char *>> symbols = {};
  mutable std::vector<int64_t> endTokens = {};

  /// Reads the declared inputs and end tokens at the first call. Thread-safe.
  const mpc::Status &read() const;
};

#endif // MPC_BINDINGS_C_MODELS_H
