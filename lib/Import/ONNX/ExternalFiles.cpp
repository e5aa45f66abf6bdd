//===- ExternalFiles.cpp - what a model file refers to --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Import/ExternalFiles.h"

#include "onnx.pb.h"

#include <limits>
#include <set>
#include <string_view>

using namespace mpc;

namespace {

/// Collects the locations of a model's tensors. The parser bounds how deep
/// graphs nest.
class Collector {
public:
  void visit(const mpc_onnx::TensorProto &tensor) {
    for (const auto &entry : tensor.external_data())
      if (entry.key() == "location")
        files.insert(entry.value());
  }
  void visit(const mpc_onnx::SparseTensorProto &tensor) {
    visit(tensor.values());
    visit(tensor.indices());
  }
  void visit(const mpc_onnx::AttributeProto &attribute) {
    visit(attribute.t());
    visit(attribute.sparse_tensor());
    if (attribute.has_g())
      visit(attribute.g());
    visitAll(attribute.tensors());
    visitAll(attribute.sparse_tensors());
    visitAll(attribute.graphs());
  }
  void visit(const mpc_onnx::NodeProto &node) { visitAll(node.attribute()); }
  void visit(const mpc_onnx::GraphProto &graph) {
    visitAll(graph.node());
    visitAll(graph.initializer());
    visitAll(graph.sparse_initializer());
  }
  void visit(const mpc_onnx::FunctionProto &function) {
    visitAll(function.node());
    visitAll(function.attribute_proto());
  }
  template <typename List> void visitAll(const List &list) {
    for (const auto &entry : list)
      visit(entry);
  }

  std::set<std::string> files;
};

/// Walks a message's fields without making anything of them: a weight's bytes
/// are not copied to find that they lie in no other file.
class Fields {
public:
  explicit Fields(std::string_view bytes) : rest(bytes) {}

  struct Field {
    uint64_t number = 0;
    /// Of a field with a length; all of the field is `whole`.
    std::string_view payload;
    std::string_view whole;
  };
  /// Nullopt at the end and at what is no field.
  std::optional<Field> next() {
    std::string_view start = rest;
    std::optional<uint64_t> tag = number(), length = 0;
    if (!tag)
      return std::nullopt;
    switch (*tag & 7) {
    case 0:
      if (!number())
        return std::nullopt;
      break;
    case 1:
      length = 8;
      break;
    case 2:
      length = number();
      break;
    case 5:
      length = 4;
      break;
    default:
      return std::nullopt;
    }
    if (!length || *length > rest.size())
      return std::nullopt;
    Field field{*tag >> 3, rest.substr(0, *length), {}};
    rest.remove_prefix(*length);
    field.whole = start.substr(0, start.size() - rest.size());
    return field;
  }
  bool atEnd() const { return rest.empty(); }

private:
  std::optional<uint64_t> number() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest.empty(); shift += 7) {
      auto byte = uint8_t(rest.front());
      rest.remove_prefix(1);
      value |= uint64_t(byte & 127) << shift;
      if (byte < 128)
        return value;
    }
    return std::nullopt;
  }

  std::string_view rest;
};

/// Whether `bytes`, a message, may name a file: everywhere but in the raw bytes
/// of what lies at the end of `path` (field numbers).
bool mayNameFile(std::string_view bytes, llvm::ArrayRef<uint64_t> path) {
  Fields fields(bytes);
  while (std::optional<Fields::Field> field = fields.next()) {
    bool onPath = field->number == path.front();
    if (onPath && path.size() == 1)
      continue;
    if (onPath ? mayNameFile(field->payload, path.drop_front())
               : field->whole.find("location") != std::string_view::npos)
      return true;
  }
  return !fields.atEnd();
}

} // namespace

std::optional<llvm::SmallVector<std::string>>
mpc::onnxExternalFiles(llvm::ArrayRef<char> model) {
  using mpc_onnx::GraphProto, mpc_onnx::ModelProto, mpc_onnx::TensorProto;
  if (!mayNameFile({model.data(), model.size()},
                   {ModelProto::kGraphFieldNumber,
                    GraphProto::kInitializerFieldNumber,
                    TensorProto::kRawDataFieldNumber}))
    return llvm::SmallVector<std::string>();
  ModelProto proto;
  if (model.size() > size_t(std::numeric_limits<int32_t>::max()) ||
      !proto.ParseFromArray(model.data(), int(model.size())))
    return std::nullopt;
  Collector collector;
  collector.visit(proto.graph());
  collector.visitAll(proto.functions());
  return llvm::SmallVector<std::string>(collector.files.begin(),
                                        collector.files.end());
}
