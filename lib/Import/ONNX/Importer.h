//===- Importer.h - Graph to mpc --------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layer 2 of the importer: walks the nodes in order, dispatches each to its
// converter, and keeps what names mean and which values are known.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_IMPORTER_H
#define MPC_LIB_IMPORT_ONNX_IMPORTER_H

#include "ExternalData.h"
#include "NodeImport.h"

#include "mpc/Import/ONNX.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc::onnx {

/// A value whose declared shape is not `actual`.
struct DeclaredShape {
  /// Appends both shapes to a diagnostic.
  mlir::InFlightDiagnostic describe(mlir::InFlightDiagnostic diagnostic) const;

  const ValueInfo *declared;
  mlir::Type actual;
  mlir::Location location;
};

/// Whether the extents that `declared` knows are those of `type`.
bool hasDeclaredShape(const ValueInfo &declared, mlir::Type type);

class Importer {
public:
  Importer(Model &model, const OnnxImportOptions &options,
           mlir::MLIRContext *context);

  mlir::OwningOpRef<mlir::ModuleOp> run();

  /// Imports the nodes of a subgraph in place, its inputs bound to `arguments`,
  /// and gives its outputs. Names of the enclosing graphs stay visible.
  mlir::LogicalResult importBody(Graph &graph,
                                 llvm::ArrayRef<Binding> arguments,
                                 llvm::SmallVectorImpl<Binding> &results,
                                 mlir::Location location);

  /// What `name` stands for; makes the constant of an initializer at first use.
  mlir::FailureOr<Binding> lookup(llvm::StringRef name, mlir::Location user);
  void define(llvm::StringRef name, Binding binding);

  /// See NodeImport::known.
  std::shared_ptr<const reference::Tensor> known(mlir::Value value);
  /// Whether `value` follows from constants alone.
  bool isKnown(mlir::Value value) const { return knownValues.contains(value); }
  /// Registers a new op: notes whether its results are known, and replaces it
  /// by a constant where it computes integers from constants. The op to use
  /// instead.
  mlir::Operation *adopt(mlir::Operation *op);
  /// Graph inputs that `value` depends on, in order.
  llvm::SmallVector<std::string> inputsOf(mlir::Value value);

  /// Notes that `value` travels in bytes of `dataType`, if that is a small
  /// type.
  void noteSmallType(mlir::Value value, int32_t dataType);

  /// The constant op of file data, made where there is none yet. Null after an
  /// error.
  mlir::Value makeConstantOp(TensorData &data, mlir::Location location);

  /// Batch extents before and after `options.batch`, equal where it changed
  /// nothing.
  int64_t oldBatch = 0, newBatch = 0;

  /// Streams of random bits drawn so far: nodes that a loop repeats draw anew.
  int64_t randomStreams = 0;

  /// The small types (SmallType.h) of the values that have one.
  llvm::DenseMap<mlir::Value, int32_t> smallTypes;

  Model &model;
  const OnnxImportOptions &options;
  mlir::MLIRContext *context;
  mlir::OpBuilder builder;
  llvm::StringMap<int64_t> symbols;

private:
  struct Frame {
    llvm::StringMap<Binding> values;
    llvm::StringMap<TensorData *>
        pending; ///< initializers without a constant yet
  };

  mlir::LogicalResult openFrame(Graph &graph);
  mlir::LogicalResult bindBatch(llvm::ArrayRef<const ValueInfo *> arguments);
  mlir::LogicalResult bindSymbol(const ValueInfo &input, llvm::StringRef symbol,
                                 int64_t extent);
  mlir::LogicalResult bindShapes(llvm::ArrayRef<const ValueInfo *> arguments);
  mlir::FailureOr<mlir::RankedTensorType> inputType(const ValueInfo &input,
                                                    size_t position);
  /// Makes constants of the inputs whose value is given.
  mlir::LogicalResult fixInputs();
  mlir::LogicalResult checkDeclaredType(const ValueInfo &declared,
                                        mlir::Value value,
                                        mlir::Location location,
                                        llvm::StringRef what);
  /// Counts a value whose declared shape is another than the inferred one.
  void noteDeclaredShape(const ValueInfo &declared, mlir::Value value,
                         mlir::Location location);
  /// Names the first such value, where there is one.
  void warnOfWrongShapes();
  mlir::LogicalResult importNodes(Graph &graph);
  mlir::LogicalResult importNode(const Node &node);
  void eraseDead();

  mlir::Location modelLocation;
  ExternalFiles externalFiles;
  mlir::func::FuncOp function;
  std::vector<Frame> frames;
  llvm::StringMap<const ValueInfo *> declared;
  std::vector<std::string> argumentNames;
  std::optional<DeclaredShape> wrongShape; ///< the first of `wrongShapes`
  int64_t wrongShapes = 0;
  int64_t nodesImported = 0;
  int64_t bytesEvaluated = 0;

  /// Results of ops whose operands are all known; constants among them.
  llvm::DenseSet<mlir::Value> knownValues;
  /// Constants of the file's data.
  llvm::DenseMap<const TensorData *, mlir::Value> fileConstants;
  /// Small values evaluated so far.
  llvm::DenseMap<mlir::Value, std::shared_ptr<const reference::Tensor>>
      evaluated;
};

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_IMPORTER_H
