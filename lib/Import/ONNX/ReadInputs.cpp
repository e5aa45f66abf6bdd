//===- ReadInputs.cpp - declared inputs of a model ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Graph.h"

#include "mpc/Import/ONNX.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mpc;

FailureOr<SmallVector<OnnxInput>> mpc::readOnnxInputs(ArrayRef<char> bytes,
                                                      StringRef fileName,
                                                      MLIRContext *context) {
  std::unique_ptr<onnx::Model> model =
      onnx::readModel(bytes, fileName, /*folder=*/"", context);
  if (!model)
    return failure();
  llvm::StringSet<> given;
  for (const onnx::TensorData &initializer : model->graph.initializers)
    given.insert(initializer.name);
  SmallVector<OnnxInput> inputs;
  for (const onnx::ValueInfo &value : model->graph.inputs) {
    if (given.contains(value.name))
      continue;
    OnnxInput &input = inputs.emplace_back();
    input.name = value.name;
    input.element = onnx::elementTypeOf(value.dataType, context);
    if (!value.dims)
      continue;
    for (const onnx::Dimension &dim : *value.dims) {
      input.shape.push_back(dim.extent.value_or(ShapedType::kDynamic));
      input.symbols.push_back(dim.symbol);
    }
  }
  return inputs;
}

static bool hasOp(const onnx::Graph &graph, StringRef op, StringRef domain) {
  return llvm::any_of(graph.nodes, [&](const onnx::Node &node) {
    return (node.op == op && node.domain == domain) ||
           llvm::any_of(
               node.attributes, [&](const onnx::NodeAttribute &attribute) {
                 return attribute.graph && hasOp(*attribute.graph, op, domain);
               });
  });
}

FailureOr<bool> mpc::onnxHasOp(ArrayRef<char> bytes, StringRef fileName,
                               MLIRContext *context, StringRef op,
                               StringRef domain) {
  std::unique_ptr<onnx::Model> model =
      onnx::readModel(bytes, fileName, /*folder=*/"", context);
  if (!model)
    return failure();
  return hasOp(model->graph, op, domain);
}
