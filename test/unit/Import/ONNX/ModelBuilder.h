//===- ModelBuilder.h - ONNX models for tests -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_IMPORT_ONNX_MODELBUILDER_H
#define MPC_TEST_UNIT_IMPORT_ONNX_MODELBUILDER_H

#include "Graph.h"
#include "onnx.pb.h"

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Import/ONNX.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"

#include <string>
#include <vector>

namespace mpc::testing {

/// Writes a model field by field, wrong ones too.
class ModelBuilder {
public:
  using Names = std::vector<std::string>;

  explicit ModelBuilder(int64_t opset = 17) {
    model.set_ir_version(8);
    mpc_onnx::OperatorSetIdProto *import = model.add_opset_import();
    import->set_domain("");
    import->set_version(opset);
    model.mutable_graph()->set_name("test");
  }

  mpc_onnx::GraphProto &graph() { return *model.mutable_graph(); }

  /// A dimension below 0 becomes the symbol "n".
  static void fillType(mpc_onnx::ValueInfoProto &info, const std::string &name,
                       const std::vector<int64_t> &shape,
                       int32_t type = onnx::kFloat) {
    info.set_name(name);
    mpc_onnx::TypeProto::Tensor *tensor =
        info.mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    mpc_onnx::TensorShapeProto *dims = tensor->mutable_shape();
    for (int64_t extent : shape) {
      if (extent < 0)
        dims->add_dim()->set_dim_param("n");
      else
        dims->add_dim()->set_dim_value(extent);
    }
  }
  void input(const std::string &name, const std::vector<int64_t> &shape,
             int32_t type = onnx::kFloat) {
    fillType(*graph().add_input(), name, shape, type);
  }
  /// An output without a declared shape.
  void output(const std::string &name) { graph().add_output()->set_name(name); }
  void output(const std::string &name, const std::vector<int64_t> &shape,
              int32_t type = onnx::kFloat) {
    fillType(*graph().add_output(), name, shape, type);
  }

  static mpc_onnx::NodeProto &fillNode(mpc_onnx::NodeProto &node,
                                       const std::string &op,
                                       const Names &inputs,
                                       const Names &outputs) {
    node.set_op_type(op);
    node.set_name(op + "_node");
    for (const std::string &name : inputs)
      node.add_input(name);
    for (const std::string &name : outputs)
      node.add_output(name);
    return node;
  }
  mpc_onnx::NodeProto &node(const std::string &op, const Names &inputs,
                            const Names &outputs) {
    return fillNode(*graph().add_node(), op, inputs, outputs);
  }

  static mpc_onnx::AttributeProto &
  attribute(mpc_onnx::NodeProto &node, const std::string &name, int32_t type) {
    mpc_onnx::AttributeProto &attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
  }
  static void intAttr(mpc_onnx::NodeProto &node, const std::string &name,
                      int64_t value) {
    attribute(node, name, 2).set_i(value);
  }
  static void intsAttr(mpc_onnx::NodeProto &node, const std::string &name,
                       const std::vector<int64_t> &values) {
    mpc_onnx::AttributeProto &list = attribute(node, name, 7);
    for (int64_t value : values)
      list.add_ints(value);
  }
  static void stringAttr(mpc_onnx::NodeProto &node, const std::string &name,
                         const std::string &value) {
    attribute(node, name, 3).set_s(value);
  }

  static void fillFloats(mpc_onnx::TensorProto &tensor, const std::string &name,
                         const std::vector<int64_t> &shape,
                         const std::vector<float> &values) {
    tensor.set_name(name);
    tensor.set_data_type(onnx::kFloat);
    for (int64_t extent : shape)
      tensor.add_dims(extent);
    tensor.set_raw_data(values.data(), values.size() * sizeof(float));
  }
  mpc_onnx::TensorProto &floats(const std::string &name,
                                const std::vector<int64_t> &shape,
                                const std::vector<float> &values) {
    mpc_onnx::TensorProto &tensor = *graph().add_initializer();
    fillFloats(tensor, name, shape, values);
    return tensor;
  }
  mpc_onnx::TensorProto &ints(const std::string &name,
                              const std::vector<int64_t> &values) {
    mpc_onnx::TensorProto &tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::kInt64);
    tensor.add_dims(int64_t(values.size()));
    for (int64_t value : values)
      tensor.add_int64_data(value);
    return tensor;
  }

  std::string bytes() const { return model.SerializeAsString(); }

  mpc_onnx::ModelProto model;
};

/// Imports and collects the diagnostics.
class Import {
public:
  Import() : context(mlir::MLIRContext::Threading::DISABLED) {}

  mlir::ModuleOp run(const std::string &bytes, const std::string &folder = "") {
    errors.clear();
    warnings.clear();
    unlocated = 0;
    mlir::ScopedDiagnosticHandler handler(
        &context, [&](mlir::Diagnostic &diagnostic) {
          bool error =
              diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
          if (error && mlir::isa<mlir::UnknownLoc>(diagnostic.getLocation()))
            ++unlocated;
          (error ? errors : warnings).push_back(diagnostic.str());
          return mlir::success();
        });
    module = importOnnxBytes(llvm::ArrayRef<char>(bytes.data(), bytes.size()),
                             "test.onnx", folder, options, &context);
    return module ? *module : mlir::ModuleOp();
  }
  mlir::ModuleOp run(const ModelBuilder &builder,
                     const std::string &folder = "") {
    return run(builder.bytes(), folder);
  }

  mlir::func::FuncOp main() {
    return module ? module->lookupSymbol<mlir::func::FuncOp>("main")
                  : mlir::func::FuncOp();
  }
  /// Number of ops of one kind in @main.
  template <typename OpTy> int64_t count() {
    int64_t total = 0;
    main().walk([&](OpTy) { ++total; });
    return total;
  }
  template <typename OpTy> OpTy first() {
    OpTy found;
    main().walk([&](OpTy op) {
      if (!found)
        found = op;
    });
    return found;
  }
  /// Shape of result `i` of @main.
  std::vector<int64_t> resultShape(unsigned i = 0) {
    return mlir::cast<mlir::RankedTensorType>(main().getResultTypes()[i])
        .getShape()
        .vec();
  }
  std::string firstError() const { return errors.empty() ? "" : errors[0]; }

  mlir::MLIRContext context;
  OnnxImportOptions options;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<std::string> errors, warnings;
  int64_t unlocated = 0;
};

} // namespace mpc::testing

#endif // MPC_TEST_UNIT_IMPORT_ONNX_MODELBUILDER_H
