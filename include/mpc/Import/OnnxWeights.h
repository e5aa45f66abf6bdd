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

/// New value of a float tensor; the caller owns the memory.
struct OnnxWeight {
  std::string name;
  std::vector<int64_t> shape;
  std::variant<std::span<const float>, std::span<const double>> values;
};

/// Failure: location and one sentence. Empty text means success.
struct OnnxWeightsFailure {
  std::string where, text;
};

/// Returns the bytes of `model`, whose file name is `path`, with `weights`
/// replacing the initializers (or results of Constant nodes) of the same names,
/// also in subgraphs, rounded to their types. Everything else is preserved,
/// including unknown fields. `folder` is the output folder: a model with
/// external data can be written to its own folder only. Fails if a weight
/// matches no tensor by name and shape.
std::variant<std::string, OnnxWeightsFailure>
replaceOnnxWeights(const std::string &path, std::span<const std::byte> model,
                   std::span<const OnnxWeight> weights,
                   const std::string &folder);

} // namespace mpc

#endif // MPC_IMPORT_ONNXWEIGHTS_H
