//===- Signature.h - inputs of a model --------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The declared inputs of a model before compilation, for hosts that bind arrays
// by position.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_JIT_SIGNATURE_H
#define MPC_JIT_SIGNATURE_H

#include "mpc/JIT/ModelSource.h"

#include <vector>

namespace mpc {

/// Returns the inputs that a caller of `model` must pass, in the model's order.
/// Parses the model and compiles nothing. Fails with the errors of a compile if
/// it is invalid.
Result<std::vector<ModelInput>> readInputs(const ModelSource &model);

/// Returns true if `model` (ONNX) contains com.microsoft's GroupQueryAttention,
/// which derives positions from the attention mask. Fails as readInputs() does.
Result<bool> countsPositions(const ModelSource &model);

} // namespace mpc

#endif // MPC_JIT_SIGNATURE_H
