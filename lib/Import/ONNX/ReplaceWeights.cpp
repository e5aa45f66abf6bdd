//===- ReplaceWeights.cpp - replacing the weights of ONNX models ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses the protobuf, replaces tensors of the main graph and serializes it.
// Fields unknown to the schema are preserved.
//
//===----------------------------------------------------------------------===//

#include "mpc/Import/OnnxWeights.h"

#include "Graph.h"
#include "onnx.pb.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cstring>

using namespace mpc;

/// TensorProto.DataLocation EXTERNAL and AttributeProto.AttributeType TENSOR.
static constexpr int32_t kExternal = 1, kTensorAttribute = 4;

/// Returns the float format of a TensorProto.DataType, or null if none.
static const llvm::fltSemantics *formatOf(int32_t dataType) {
  switch (dataType) {
  case onnx::kFloat:
    return &llvm::APFloat::IEEEsingle();
  case onnx::kDouble:
    return &llvm::APFloat::IEEEdouble();
  case onnx::kFloat16:
    return &llvm::APFloat::IEEEhalf();
  case onnx::kBfloat16:
    return &llvm::APFloat::BFloat();
  default:
    return nullptr;
  }
}

static std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (int64_t extent : shape)
    text += (text.size() > 1 ? "," : "") + std::to_string(extent);
  return text + "]";
}

/// Encodes `values` in `format`, little-endian, rounded to nearest even.
template <typename T>
static std::string encode(std::span<const T> values,
                          const llvm::fltSemantics &format) {
  size_t width = llvm::APFloat::getSizeInBits(format) / 8;
  std::string bytes(values.size() * width, '\0');
  char *out = bytes.data();
  if (width == sizeof(T)) {
    std::memcpy(out, values.data(), bytes.size());
    return bytes;
  }
  for (T number : values) {
    llvm::APFloat value(number);
    bool lost;
    (void)value.convert(format, llvm::APFloat::rmNearestTiesToEven, &lost);
    uint64_t bits = value.bitcastToAPInt().getZExtValue();
    std::memcpy(out, &bits, width);
    out += width;
  }
  return bytes;
}

/// Replaces the data of `tensor`; returns an error message if `weight` does not
/// fit.
static std::string replaceTensor(mpc_onnx::TensorProto &tensor,
                                 const OnnxWeight &weight) {
  std::vector<int64_t> dims(tensor.dims().begin(), tensor.dims().end());
  const llvm::fltSemantics *format = formatOf(tensor.data_type());
  if (!format || dims != weight.shape)
    return "is a tensor of ONNX type " +
           onnx::dataTypeName(tensor.data_type()) + " and shape " +
           shapeText(dims) +
           " in the model, but the trained weight has floats " + "of shape " +
           shapeText(weight.shape);
  tensor.clear_float_data();
  tensor.clear_double_data();
  tensor.clear_int32_data();
  tensor.clear_external_data();
  tensor.clear_data_location();
  tensor.set_raw_data(std::visit(
      [&](auto values) { return encode(values, *format); }, weight.values));
  return {};
}

namespace {

/// Location of a tensor in a model: an initializer, the value of a Constant
/// node, or an Identity node that renames an initializer.
struct Place {
  mpc_onnx::TensorProto *tensor = nullptr;
  mpc_onnx::AttributeProto *attribute = nullptr;
  mpc_onnx::NodeProto *identity = nullptr;

  /// Returns the tensor for writing. Converts an attribute of floats to a
  /// tensor, and an Identity to a Constant node with its own tensor.
  mpc_onnx::TensorProto &get() {
    if (identity) {
      attribute = identity->add_attribute();
      attribute->set_name("value");
      attribute->set_type(kTensorAttribute);
      *attribute->mutable_t() = *tensor;
      tensor = attribute->mutable_t();
      identity->set_op_type("Constant");
      identity->clear_input();
      identity = nullptr;
    }
    if (tensor)
      return *tensor;
    tensor = attribute->mutable_t();
    tensor->set_data_type(onnx::kFloat);
    if (attribute->name() == "value_floats")
      tensor->add_dims(attribute->floats_size());
    attribute->clear_f();
    attribute->clear_floats();
    attribute->set_name("value");
    attribute->set_type(kTensorAttribute);
    return *tensor;
  }
};

} // namespace

/// Adds the tensors of a graph and of its subgraphs by name.
static void collectTensors(mpc_onnx::GraphProto &graph,
                           llvm::StringMap<Place> &places) {
  for (mpc_onnx::TensorProto &tensor : *graph.mutable_initializer())
    places[tensor.name()].tensor = &tensor;
  for (mpc_onnx::NodeProto &node : *graph.mutable_node()) {
    if (node.op_type() == "Identity" && node.input_size() == 1 &&
        node.output_size() == 1)
      if (mpc_onnx::TensorProto *source = places.lookup(node.input(0)).tensor)
        places[node.output(0)] = {source, nullptr, &node};
    for (mpc_onnx::AttributeProto &attribute : *node.mutable_attribute()) {
      llvm::StringRef name = attribute.name();
      if (attribute.has_g())
        collectTensors(*attribute.mutable_g(), places);
      if (node.op_type() != "Constant" || node.output_size() != 1)
        continue;
      if (name == "value")
        places[node.output(0)].tensor = attribute.mutable_t();
      else if (name == "value_float" || name == "value_floats")
        places[node.output(0)].attribute = &attribute;
    }
  }
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
    return OnnxWeightsFailure{path, "is not an ONNX model"};

  llvm::StringMap<Place> places;
  collectTensors(*model.mutable_graph(), places);
  for (const OnnxWeight &weight : weights) {
    auto found = places.find(weight.name);
    if (found == places.end())
      return OnnxWeightsFailure{
          path, "has neither an initializer nor a Constant node '" +
                    weight.name +
                    "' for the trained weight; exclude it from training by "
                    "--freeze, or drop --export"};
    if (std::string why = replaceTensor(found->second.get(), weight);
        !why.empty())
      return OnnxWeightsFailure{path + ": tensor '" + weight.name + "'", why};
  }
  // Paths of external data are relative to the model's folder.
  bool moves = !llvm::sys::fs::equivalent(
      folder.empty() ? "." : folder, llvm::sys::path::has_parent_path(path)
                                         ? llvm::sys::path::parent_path(path)
                                         : llvm::StringRef("."));
  for (const auto &entry : places)
    if (moves && entry.second.tensor && isExternal(*entry.second.tensor))
      return OnnxWeightsFailure{
          path,
          "stores tensor '" + entry.first().str() +
              "' in a separate file; export into the folder of the model"};
  std::string result;
  if (!model.SerializeToString(&result))
    return OnnxWeightsFailure{path, "takes more than 2 GB with its weights"};
  return result;
}
