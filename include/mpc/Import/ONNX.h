//===- ONNX.h - import of ONNX models ---------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts ONNX bytes to a module with one function `@main` of statically
// shaped mpc ops. Every failure is a diagnostic that names the file, the node
// and the remedy.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_IMPORT_ONNX_H
#define MPC_IMPORT_ONNX_H

#include "mpc/Runtime/Caller.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace mpc {

/// Supported opset versions of the default domain. Below 7 only operators with
/// unchanged semantics are supported.
inline constexpr int64_t kOldestOnnxOpset = 1;
inline constexpr int64_t kNewestOnnxOpset = 27;

/// Options of an import. Plain values; no option has an effect outside of one
/// import.
struct OnnxImportOptions {
  /// Extents of symbolic dimensions, by name.
  llvm::StringMap<int64_t> dims;
  /// Complete shapes of inputs by name, else by position as `arg0`. They bind
  /// symbolic dimensions; a conflict with `dims` or with the model is an error.
  /// A name that is not an input is an error unless it is in `dataNames`.
  llvm::StringMap<llvm::SmallVector<int64_t>> inputShapes;
  /// Names of arrays of data files, which may hold other arrays than inputs.
  llvm::StringSet<> dataNames;
  /// True if an entry of `inputShapes` makes an argument of an input that has
  /// an initializer, its default value.
  bool replacesInitializers = true;
  /// The interface whose means messages name.
  Caller caller = Caller::CommandLine;
  /// Batch size: extent of the first dimension of every graph input that is
  /// symbolic there, or replacement of a fixed extent that all inputs share.
  /// Constant shapes in Reshape and Expand that start with the old extent are
  /// adjusted.
  std::optional<int64_t> batch;
  /// Size limit of the results of one constant-folded node, in bytes. A model
  /// whose shapes need more is refused.
  int64_t maxFoldBytes = int64_t(64) << 20;
  /// Size limit of one value, constant or not, in bytes.
  int64_t maxTensorBytes = int64_t(1) << 34;
  /// True if KV caches will grow at their end (CompileOptions::caches): ops
  /// that count cache rows from the first one must count from the end.
  bool growsCaches = false;
  /// True to report a constant index outside a table of floats at run time
  /// instead of at import: it may be a position derived from the number of
  /// cache rows, which is replaced (PaddedDecoder).
  bool checksKnownIndicesLater = false;
  /// Fixed values of graph inputs, which become constants instead of arguments
  /// of `@main`. For inputs that determine shapes (the target of a Reshape).
  llvm::StringMap<mlir::ElementsAttr> inputValues;
  /// If set, called for the value of a graph input that the import needs and
  /// `inputValues` lacks; returns null if there is none. The returned value
  /// fixes the input; values of other inputs are not requested.
  std::function<mlir::ElementsAttr(llvm::StringRef name)> offeredValue;
  /// True if the metadata of large files identifies their contents.
  bool trustsFileTimes = true;
  /// If set, returns the contents of an external data file by its name in the
  /// model; nothing is read from the model's folder then. The contents live as
  /// long as the context.
  std::function<llvm::Expected<llvm::ArrayRef<char>>(llvm::StringRef name)>
      externalData;
  /// If set, receives the names of the graph inputs that `offeredValue` fixed.
  llvm::SmallVectorImpl<std::string> *fixedInputs = nullptr;
  /// If set, receives the symbol of each dimension of each graph input, empty
  /// if the extent is fixed or unnamed.
  llvm::StringMap<llvm::SmallVector<std::string>> *inputSymbols = nullptr;
  /// If set, receives the names of the graph inputs whose missing value the
  /// import needed.
  llvm::SmallVectorImpl<std::string> *neededInputs = nullptr;
};

/// Imports the model file `path`; external data is read from its folder only.
/// Null after an error, with diagnostics in `context`.
mlir::OwningOpRef<mlir::ModuleOp>
importOnnxFile(llvm::StringRef path, const OnnxImportOptions &options,
               mlir::MLIRContext *context);

/// The same for a model in memory. `fileName` is used in locations; external
/// data is read through `options.externalData` if set, else from `modelFolder`,
/// and refused if that is empty.
mlir::OwningOpRef<mlir::ModuleOp>
importOnnxBytes(llvm::ArrayRef<char> bytes, llvm::StringRef fileName,
                llvm::StringRef modelFolder, const OnnxImportOptions &options,
                mlir::MLIRContext *context);

/// Returns true if the importer has a converter for the operator `op` of
/// `domain` ("" for the default domain). Versions, types and attributes are
/// checked by an import only. Thread-safe.
bool isOnnxOpKnown(llvm::StringRef domain, llvm::StringRef op);

/// An input as declared in the file. Symbolic or unknown extents are dynamic;
/// the symbol is empty if there is none.
struct OnnxInput {
  std::string name;
  /// Null for an unsupported type.
  mlir::Type element;
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<std::string> symbols;
};

/// Returns true if a node of the model, including functions and subgraphs, is
/// `op` of `domain`. Fails, with diagnostics, if the bytes are not a model.
mlir::FailureOr<bool> onnxHasOp(llvm::ArrayRef<char> bytes,
                                llvm::StringRef fileName,
                                mlir::MLIRContext *context, llvm::StringRef op,
                                llvm::StringRef domain);

/// Returns the inputs that a caller must pass, in the file's order, without
/// those that have an initializer. Neither interprets nodes nor reads external
/// data. Fails, with diagnostics, if the bytes are not a model.
mlir::FailureOr<llvm::SmallVector<OnnxInput>>
readOnnxInputs(llvm::ArrayRef<char> bytes, llvm::StringRef fileName,
               mlir::MLIRContext *context);

} // namespace mpc

#endif // MPC_IMPORT_ONNX_H
