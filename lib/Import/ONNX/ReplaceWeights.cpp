//===- ReplaceWeights.cpp - replacing the weights of ONNX models ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses the protobuf, replaces tensors of the main graph and serializes it.
// Fields unknown to the schema are preserved.
//
//===----------------------------------------------------------------------===//

#include "mpc/Import/OnnxWeights.h"

#include "onnx.pb.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cstring>

using namespace mpc;

/// TensorProto.DataType FLOAT and DataLocation EXTERNAL.
static constexpr int32_t kFloat = 1, kExternal = 1;

static std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (int64_t extent : shape)
    text += (text.size() > 1 ? "," : "") + std::to_string(extent);
  return text + "]";
}

/// Replaces the data of `tensor`; returns an error message if `weight` does not
/// fit.
static std::string replaceTensor(mpc_onnx::TensorProto &tensor,
                                 const OnnxWeight &weight) {
  std::vector<int64_t> dims(tensor.dims().begin(), tensor.dims().end());
  if (tensor.data_type() != kFloat || dims != weight.shape)
    return "is a tensor of ONNX type " + std::to_string(tensor.data_type()) +
           " and shape " + shapeText(dims) +
           " in the model, but what was trained is float32 of shape " +
           shapeText(weight.shape);
  tensor.clear_float_data();
  tensor.clear_external_data();
  tensor.clear_data_location();
  tensor.set_raw_data(weight.values.data(), weight.values.size_bytes());
  return {};
}

static bool isExternal(const mpc_onnx::TensorProto &tensor) {
  return tensor.data_location() == kExternal;
}

std::variant<std::string, OnnxWeightsFailure> mpc::replaceOnnxWeights(
    const std::string &path, std::span<const std::byte> bytes,
    std::span<const OnnxWeight> weights, const std::string &folder) {
  mpc_onnx::ModelProto model;
  if (bytes.size() > size_t(INT32_MAX) ||
      !model.ParseFromArray(bytes.data(), int(bytes.size())))
    return OnnxWeightsFailure{path, "is no ONNX model"};

  llvm::StringMap<mpc_onnx::TensorProto *> tensors;
  mpc_onnx::GraphProto &graph = *model.mutable_graph();
  for (mpc_onnx::TensorProto &tensor : *graph.mutable_initializer())
    tensors[tensor.name()] = &tensor;
  for (mpc_onnx::NodeProto &node : *graph.mutable_node())
    if (node.op_type() == "Constant" && node.output_size() == 1)
      for (mpc_onnx::AttributeProto &attribute : *node.mutable_attribute())
        if (attribute.name() == "value")
          tensors[node.output(0)] = attribute.mutable_t();
  for (const OnnxWeight &weight : weights) {
    auto found = tensors.find(weight.name);
    if (found == tensors.end())
      return OnnxWeightsFailure{path, "has no initializer '" + weight.name +
                                          "' to take what was trained"};
    if (std::string why = replaceTensor(*found->second, weight); !why.empty())
      return OnnxWeightsFailure{path + ": initializer '" + weight.name + "'",
                                why};
  }
  // Paths of external data are relative to the model's folder.
  bool moves = !llvm::sys::fs::equivalent(
      folder.empty() ? "." : folder, llvm::sys::path::has_parent_path(path)
                                         ? llvm::sys::path::parent_path(path)
                                         : llvm::StringRef("."));
  for (const auto &entry : tensors)
    if (moves && isExternal(*entry.second))
      return OnnxWeightsFailure{
          path,
          "keeps tensor '" + entry.first().str() +
              "' in a file beside it; export into the model's own folder"};
  std::string result;
  if (!model.SerializeToString(&result))
    return OnnxWeightsFailure{path, "takes more than 2 GB with its weights"};
  return result;
}
