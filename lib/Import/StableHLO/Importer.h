//===- Importer.h - import of a StableHLO module ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_STABLEHLO_IMPORTER_H
#define MPC_LIB_IMPORT_STABLEHLO_IMPORTER_H

#include "OpImport.h"

#include "mpc/Import/StableHLO.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseMap.h"

namespace mpc::hlo {

/// Returns the type of the value that represents one of `type`: codes (ui8) for
/// floats of 4 to 8 bits (mpc.encode_float), else the type itself.
mlir::Type storedType(mlir::Type type);

/// Values of a function or region during flattening.
struct Scope {
  llvm::DenseMap<mlir::Value, mlir::Value> values;
  /// Enclosing scope of a region; null for a function.
  const Scope *outer = nullptr;
  /// True if tensors of one shape replace the scalars of a region.
  bool isSpread = false;

  mlir::Value find(mlir::Value source) const;
};

class Importer {
public:
  Importer(mlir::ModuleOp source, const StablehloImportOptions &options)
      : source(source), builder(source.getContext()), options(options) {}

  mlir::OwningOpRef<mlir::ModuleOp> run();

  /// Inlines the ops of a block whose arguments are bound in `scope`; `results`
  /// receives the returned values.
  mlir::LogicalResult importBlock(mlir::Block &block, Scope &scope,
                                  llvm::SmallVectorImpl<mlir::Value> &results);
  /// Inlines a function called with `arguments`.
  mlir::LogicalResult call(mlir::Operation *at, llvm::StringRef callee,
                           llvm::ArrayRef<mlir::Value> arguments, bool isSpread,
                           llvm::SmallVectorImpl<mlir::Value> &results);

  /// Counts a new op, and constant-folds it if it has known integer operands.
  /// Null if there are too many ops.
  mlir::Operation *adopt(mlir::Operation *op);

  mlir::ModuleOp source;
  mlir::OpBuilder builder;
  const StablehloImportOptions options;

private:
  mlir::LogicalResult checkSource();
  mlir::LogicalResult signature(mlir::func::FuncOp from, mlir::func::FuncOp to);
  void eraseDead(mlir::Block &block);

  int64_t opsMade = 0;
  bool hasTooMany = false;
  /// Call stack of functions being inlined.
  llvm::SmallVector<llvm::StringRef> open;
};

} // namespace mpc::hlo

#endif // MPC_LIB_IMPORT_STABLEHLO_IMPORTER_H
