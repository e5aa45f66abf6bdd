//===- ONNX.h - reading ONNX models -----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ONNX bytes in, a module with one function `@main` of statically shaped mpc
// ops out. Every failure is a diagnostic that names the file, the node and the
// remedy.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_IMPORT_ONNX_H
#define MPC_IMPORT_ONNX_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace mpc {

/// The operator set versions of the default domain that the importer reads.
/// Below 7 only operators are known whose meaning has not changed since.
inline constexpr int64_t kOldestOnnxOpset = 1;
inline constexpr int64_t kNewestOnnxOpset = 27;

/// What the caller decides about a model. Plain values; no option has an effect
/// outside one import.
struct OnnxImportOptions {
  /// Extents of symbolic dimensions by name.
  llvm::StringMap<int64_t> dims;
  /// Whole shapes of inputs by name, else by position as `arg0`. They bind the
  /// symbolic dimensions that they meet; a clash with `dims` or with the model
  /// is an error. Names that are no input are ignored, so that the shapes of
  /// all arrays of a data file can be passed.
  llvm::StringMap<llvm::SmallVector<int64_t>> inputShapes;
  /// Extent of the first dimension of every graph input where that is symbolic
  /// or, in all inputs alike, a fixed extent that this replaces. Constant
  /// shapes in Reshape and Expand that begin with the old extent follow.
  std::optional<int64_t> batch;
  /// Most bytes that one node evaluated at import may produce. A model whose
  /// shapes need more is refused.
  int64_t maxFoldBytes = int64_t(64) << 20;
  /// Most bytes of one value. Larger ones are refused, whether constant or not.
  int64_t maxTensorBytes = int64_t(1) << 34;
  /// Whether caches are to grow at their end (CompileOptions::caches): an op
  /// that counts their rows from the first is to take them from there.
  bool growsCaches = false;
  /// Whether a known index outside a table of floats is an error where the
  /// table is read, not where it is imported: the index may be a position that
  /// follows from the rows of a cache and is replaced (CountedPositions).
  bool checksKnownIndicesLater = false;
  /// Graph inputs whose value is fixed: they become constants and are no
  /// arguments of `@main`. For inputs that shapes depend on (the target of a
  /// Reshape).
  llvm::StringMap<mlir::ElementsAttr> inputValues;
  /// Where set, asked for the value of a graph input that the import must know
  /// and `inputValues` lacks: null where there is none. What it gives fixes the
  /// input; the values of other inputs are not asked for.
  std::function<mlir::ElementsAttr(llvm::StringRef name)> offeredValue;
  /// Where set, gives all bytes of an external data file by the name that the
  /// model has for it; nothing is read from the model's folder then. They live
  /// as long as the import.
  std::function<llvm::Expected<llvm::ArrayRef<char>>(llvm::StringRef name)>
      externalData;
  /// Where given, receives the names of the graph inputs that `offeredValue`
  /// fixed.
  llvm::SmallVectorImpl<std::string> *fixedInputs = nullptr;
  /// Where given, receives for each graph input the symbol of each dimension,
  /// empty for an extent that is fixed or has no name.
  llvm::StringMap<llvm::SmallVector<std::string>> *inputSymbols = nullptr;
  /// Where given, receives the names of the graph inputs whose value the import
  /// needed and did not find.
  llvm::SmallVectorImpl<std::string> *neededInputs = nullptr;
};

/// Imports the model in the file `path`; external data is read from its folder
/// only. Null after an error, whose diagnostics went to `context`.
mlir::OwningOpRef<mlir::ModuleOp>
importOnnxFile(llvm::StringRef path, const OnnxImportOptions &options,
               mlir::MLIRContext *context);

/// The same for a model in memory. `fileName` is used in locations; external
/// data is read as `options.externalData` says, else from `modelFolder`, and
/// refused where that is empty.
mlir::OwningOpRef<mlir::ModuleOp>
importOnnxBytes(llvm::ArrayRef<char> bytes, llvm::StringRef fileName,
                llvm::StringRef modelFolder, const OnnxImportOptions &options,
                mlir::MLIRContext *context);

/// An input as the file declares it. An extent that is symbolic or unknown is
/// dynamic, and its symbol is empty where it has none.
struct OnnxInput {
  std::string name;
  /// Null for a type that mpc lacks.
  mlir::Type element;
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<std::string> symbols;
};

/// Whether a node of the model, in functions and subgraphs too, is `op` of
/// `domain`. Fails, with diagnostics, where the bytes are no model.
mlir::FailureOr<bool> onnxHasOp(llvm::ArrayRef<char> bytes,
                                llvm::StringRef fileName,
                                mlir::MLIRContext *context, llvm::StringRef op,
                                llvm::StringRef domain);

/// The inputs that a model's caller has to give, in the file's order: without
/// those that have an initializer. Reads no node's meaning and no external
/// data. Fails, with diagnostics, where the bytes are no model.
mlir::FailureOr<llvm::SmallVector<OnnxInput>>
readOnnxInputs(llvm::ArrayRef<char> bytes, llvm::StringRef fileName,
               mlir::MLIRContext *context);

} // namespace mpc

#endif // MPC_IMPORT_ONNX_H
