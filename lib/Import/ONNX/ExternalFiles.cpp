//===- ExternalFiles.cpp - external data files of a model -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Import/ExternalFiles.h"

#include "TensorReader.h"

#include "onnx.pb.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <limits>
#include <map>
#include <string_view>

using namespace mpc;

namespace {

/// Collects the external data locations of a model's tensors. The parser bounds
/// the nesting of graphs.
class Collector {
public:
  void visit(const mpc_onnx::TensorProto &tensor) {
    std::optional<int64_t> offset = 0;
    const std::string *location = nullptr;
    for (const auto &entry : tensor.external_data())
      if (entry.key() == "location")
        location = &entry.value();
      else if (entry.key() == "offset")
        offset = natural(entry.value());
    if (!location)
      return;
    Ranges &ranges = files[*location];
    std::vector<int64_t> dims(tensor.dims().begin(), tensor.dims().end());
    std::optional<int64_t> count = onnx::checkedCount(dims);
    int64_t bytes = 0, end = 0;
    if (offset && count &&
        !__builtin_mul_overflow(*count, onnx::bytesOf(tensor.data_type()),
                                &bytes) &&
        !__builtin_add_overflow(*offset, bytes, &end))
      ranges.push_back(
          {*offset, onnx::storedBytes(tensor.data_type(), *count)});
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

  using Ranges = llvm::SmallVector<std::pair<int64_t, int64_t>>;
  std::map<std::string, Ranges> files;

private:
  static std::optional<int64_t> natural(llvm::StringRef text) {
    int64_t value = 0;
    if (text.getAsInteger(10, value) || value < 0)
      return std::nullopt;
    return value;
  }
};

/// Merges overlapping and adjacent ranges.
Collector::Ranges mergeRanges(Collector::Ranges ranges) {
  llvm::sort(ranges);
  Collector::Ranges merged;
  for (auto [begin, bytes] : ranges) {
    if (bytes == 0)
      continue;
    if (merged.empty() || merged.back().first + merged.back().second < begin)
      merged.push_back({begin, bytes});
    else
      merged.back().second =
          std::max(merged.back().second, begin + bytes - merged.back().first);
  }
  return merged;
}

/// Iterates over the fields of a protobuf message without decoding them, so
/// that embedded weights are not copied.
class Fields {
public:
  explicit Fields(std::string_view bytes) : rest(bytes) {}

  struct Field {
    uint64_t number = 0;
    /// Payload of a length-delimited field; `whole` is the complete field.
    std::string_view payload;
    std::string_view whole;
  };
  /// Returns the next field; nullopt at the end and on malformed input.
  std::optional<Field> next() {
    std::string_view start = rest;
    std::optional<uint64_t> tag = number(), length = 0;
    // No field has number 0; a hole in a file would be read as many.
    if (!tag || *tag >> 3 == 0)
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

/// Returns true if the message `bytes` may name a file, ignoring only the raw
/// bytes at the end of `path` (field numbers).
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

int64_t OnnxExternalFile::bytes() const {
  int64_t sum = 0;
  for (auto [begin, bytes] : ranges)
    if (__builtin_add_overflow(sum, bytes, &sum))
      return std::numeric_limits<int64_t>::max();
  return sum;
}

std::optional<llvm::SmallVector<OnnxExternalFile>>
mpc::onnxExternalFiles(llvm::ArrayRef<char> model) {
  using mpc_onnx::GraphProto, mpc_onnx::ModelProto, mpc_onnx::TensorProto;
  if (model.size() > size_t(std::numeric_limits<int32_t>::max()))
    return std::nullopt;
  if (!mayNameFile({model.data(), model.size()},
                   {ModelProto::kGraphFieldNumber,
                    GraphProto::kInitializerFieldNumber,
                    TensorProto::kRawDataFieldNumber}))
    return llvm::SmallVector<OnnxExternalFile>();
  ModelProto proto;
  if (!proto.ParseFromArray(model.data(), int(model.size())))
    return std::nullopt;
  Collector collector;
  collector.visit(proto.graph());
  collector.visitAll(proto.functions());
  llvm::SmallVector<OnnxExternalFile> files;
  for (auto &[name, ranges] : collector.files)
    files.push_back({name, mergeRanges(std::move(ranges))});
  return files;
}
