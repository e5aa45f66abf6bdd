//===- ExternalFiles.cpp - what a model file refers to --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Import/ExternalFiles.h"

#include "onnx.pb.h"

#include <limits>
#include <set>

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

} // namespace

std::optional<llvm::SmallVector<std::string>>
mpc::onnxExternalFiles(llvm::ArrayRef<char> model) {
  mpc_onnx::ModelProto proto;
  if (model.size() > size_t(std::numeric_limits<int32_t>::max()) ||
      !proto.ParseFromArray(model.data(), int(model.size())))
    return std::nullopt;
  Collector collector;
  collector.visit(proto.graph());
  collector.visitAll(proto.functions());
  return llvm::SmallVector<std::string>(collector.files.begin(),
                                        collector.files.end());
}
