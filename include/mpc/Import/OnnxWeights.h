//===- OnnxWeights.h - replacing the weights of ONNX models -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes trained values into the initializers of an ONNX model.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_IMPORT_ONNXWEIGHTS_H
#define MPC_IMPORT_ONNXWEIGHTS_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace mpc {

/// The new value of a tensor of floats; the memory is the caller's.
struct OnnxWeight {
  std::string name;
  std::vector<int64_t> shape;
  std::variant<std::span<const float>, std::span<const double>> values;
};

/// Failure: location and one sentence. Empty text means success.
struct OnnxWeightsFailure {
  std::string where, text;
};

/// The bytes of the model `model`, whose file is or would be `path`, with
/// `weights` in the place of the initialisers (or results of Constant nodes) of
/// their names, in subgraphs too, rounded to the types that these have.
/// Everything else stays, what this reader does not know included. `folder` is
/// where the result will lie: a model whose other tensors are in files beside
/// it can be written there only. Fails where a weight has no tensor of its name
/// and shape.
std::variant<std::string, OnnxWeightsFailure>
replaceOnnxWeights(const std::string &path, std::span<const std::byte> model,
                   std::span<const OnnxWeight> weights,
                   const std::string &folder);

} // namespace mpc

#endif // MPC_IMPORT_ONNXWEIGHTS_H
