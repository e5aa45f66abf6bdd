//===- Importer.h - conversion of Graph to mpc ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layer 2 of the importer: iterates over the nodes in order, dispatches each to
// its converter, and tracks names and known values.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_IMPORTER_H
#define MPC_LIB_IMPORT_ONNX_IMPORTER_H

#include "ExternalData.h"
#include "NodeImport.h"

#include "mpc/Import/ONNX.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc::onnx {

/// A value whose declared shape differs from `actual`.
struct DeclaredShape {
  /// Appends both shapes to a diagnostic.
  mlir::InFlightDiagnostic describe(mlir::InFlightDiagnostic diagnostic) const;

  const ValueInfo *declared;
  mlir::Type actual;
  mlir::Location location;
};

/// Returns true if the declared extents match those of `type`.
bool hasDeclaredShape(const ValueInfo &declared, mlir::Type type);

class Importer {
public:
  Importer(Model &model, const OnnxImportOptions &options,
           mlir::MLIRContext *context);

  mlir::OwningOpRef<mlir::ModuleOp> run();

  /// Imports a subgraph inline, with its inputs bound to `arguments`, and
  /// returns its outputs. Names of enclosing graphs stay visible.
  mlir::LogicalResult importBody(Graph &graph,
                                 llvm::ArrayRef<Binding> arguments,
                                 llvm::SmallVectorImpl<Binding> &results,
                                 mlir::Location location);

  /// Returns the binding of `name`; creates the constant of an initializer at
  /// first use.
  mlir::FailureOr<Binding> lookup(llvm::StringRef name, mlir::Location user);
  void define(llvm::StringRef name, Binding binding);

  /// See NodeImport::known.
  std::shared_ptr<const reference::Tensor> known(mlir::Value value);
  /// Returns true if `value` depends on constants only.
  bool isKnown(mlir::Value value) const { return knownValues.contains(value); }
  /// Registers a new op: records whether its results are known, and
  /// constant-folds integer ops. Returns the op to use instead.
  mlir::Operation *adopt(mlir::Operation *op);
  /// Returns the graph inputs that `value` depends on, in order.
  llvm::SmallVector<std::string> inputsOf(mlir::Value value);

  /// Records that `value` is stored as bytes of `dataType`, if that is a small
  /// type.
  void recordNarrowType(mlir::Value value, int32_t dataType);

  /// Returns the constant op of file data, created at the first call. Null
  /// after an error.
  mlir::Value makeConstantOp(TensorData &data, mlir::Location location,
                             bool keeps = true);

  /// Batch sizes before and after applying `options.batch`; equal if unchanged.
  int64_t oldBatch = 0, newBatch = 0;

  /// Number of random streams so far: each unrolled node gets a new one.
  int64_t randomStreams = 0;

  /// Small types (NarrowStorageType.h) of values.
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
  /// Fails if the caller names an input that the model lacks.
  mlir::LogicalResult checkInputNames();
  /// Returns the error for a name that is not an input.
  mlir::LogicalResult unknownInput(llvm::StringRef name);
  mlir::FailureOr<mlir::RankedTensorType> inputType(const ValueInfo &input,
                                                    size_t position);
  /// Replaces inputs with given values by constants.
  mlir::LogicalResult fixInputs();
  mlir::LogicalResult checkDeclaredType(const ValueInfo &declared,
                                        mlir::Value value,
                                        mlir::Location location,
                                        llvm::StringRef what);
  /// Counts a value whose declared shape differs from the inferred one.
  void noteDeclaredShape(const ValueInfo &declared, mlir::Value value,
                         mlir::Location location);
  /// Warns about the first such value, if any.
  void warnShapeMismatch();
  mlir::LogicalResult importNodes(Graph &graph);
  mlir::LogicalResult importNode(const Node &node);
  void eraseDead();

  mlir::Location modelLocation;
  /// An array of a data file that is not an input, until it is reported; empty
  /// if there is none.
  llvm::StringRef unknownArray;
  ExternalFiles externalFiles;
  mlir::func::FuncOp function;
  std::vector<Frame> frames;
  llvm::StringMap<const ValueInfo *> declared;
  std::vector<std::string> argumentNames;
  std::optional<DeclaredShape> wrongShape; ///< the first of `wrongShapes`
  int64_t wrongShapes = 0;
  int64_t nodesImported = 0;
  int64_t bytesEvaluated = 0;

  /// Results of ops with known operands only, including constants.
  llvm::DenseSet<mlir::Value> knownValues;
  /// Constants of the file's data.
  llvm::DenseMap<const TensorData *, mlir::Value> fileConstants;
  /// Cache of small evaluated values.
  llvm::DenseMap<mlir::Value, std::shared_ptr<const reference::Tensor>>
      evaluated;
};

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_IMPORTER_H
