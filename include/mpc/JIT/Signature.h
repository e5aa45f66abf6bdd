//===- Signature.h - what a model takes -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A model's inputs before it is compiled for any shape, for hosts that bind
// arrays by position.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_JIT_SIGNATURE_H
#define MPC_JIT_SIGNATURE_H

#include "mpc/JIT/ModelSource.h"
#include "mpc/Runtime/TensorType.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// An input as the model declares it.
struct ModelInput {
  std::string name;
  /// Nullopt where the model declares a type that no buffer has.
  std::optional<ElementType> element;
  /// -1 for an extent that a caller chooses. Empty too where a file declares no
  /// rank.
  std::vector<int64_t> shape;
  /// For each extent the symbol by which CompileOptions::dims binds it; empty
  /// where it is fixed or has no name.
  std::vector<std::string> symbols;
};

/// The inputs that a caller of `model` has to give, in the model's order. Reads
/// the model's bytes and compiles nothing. Fails where they are no model, with
/// the errors that a compile would give.
Result<std::vector<ModelInput>> readInputs(const ModelSource &model);

/// Whether `model` (ONNX) has com.microsoft's GroupQueryAttention, which counts
/// positions by the tokens that a mask shows. Fails as readInputs() does.
Result<bool> countsPositions(const ModelSource &model);

} // namespace mpc

#endif // MPC_JIT_SIGNATURE_H
