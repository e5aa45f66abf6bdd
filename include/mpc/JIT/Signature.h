//===- Signature.h - inputs of a model --------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Facts of a model before compilation: its declared inputs, for hosts that bind
// arrays by position, and whether it can be imported, for hosts that divide a
// graph between compilers.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_JIT_SIGNATURE_H
#define MPC_JIT_SIGNATURE_H

#include "mpc/JIT/ModelSource.h"
#include "mpc/JIT/Options.h"

#include <string>
#include <vector>

namespace mpc {

/// Returns the inputs that a caller of `model` must pass, in the model's order.
/// Parses the model and compiles nothing. Fails with the errors of a compile if
/// it is invalid.
Result<std::vector<ModelInput>> readInputs(const ModelSource &model);

/// Returns true if `model` (ONNX) contains com.microsoft's GroupQueryAttention,
/// which derives positions from the attention mask. Fails as readInputs() does.
Result<bool> countsPositions(const ModelSource &model);

/// Returns true if the ONNX operator `op` of `domain` ("" for the default
/// domain) is supported in some version. Takes nanoseconds. Thread-safe.
bool isOnnxOpSupported(const std::string &domain, const std::string &op);

/// Outcome of an import.
struct ImportCheck {
  /// The first error, as of a compile.
  Status status;
  /// Name of the op of the first error; empty if it is not about an op.
  std::string op;
  /// Inputs whose value the import needs, because it determines shapes, and the
  /// options lack. An error may be due to them only.
  std::vector<std::string> neededInputs;
};

/// Imports `model` as a compile with `options` does, and drops the result.
/// Takes milliseconds; reads the weights that it folds only. Thread-safe.
ImportCheck checkImport(const ModelSource &model,
                        const CompileOptions &options = {});

} // namespace mpc

#endif // MPC_JIT_SIGNATURE_H
