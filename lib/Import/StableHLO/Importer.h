//===- Importer.h - one import of a StableHLO module ------------*- C++ -*-===//
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

/// What stands for the values of a function or region while it is written out.
struct Scope {
  llvm::DenseMap<mlir::Value, mlir::Value> values;
  /// That of the ops around a region; null for a function.
  const Scope *outer = nullptr;
  /// Whether tensors of any one shape stand for the scalars of a region.
  bool isSpread = false;

  mlir::Value find(mlir::Value source) const;
};

class Importer {
public:
  Importer(mlir::ModuleOp source, const StablehloImportOptions &options)
      : source(source), builder(source.getContext()), options(options) {}

  mlir::OwningOpRef<mlir::ModuleOp> run();

  /// Writes out the ops of a block whose arguments stand in `scope`; `results`
  /// are what it returns.
  mlir::LogicalResult importBlock(mlir::Block &block, Scope &scope,
                                  llvm::SmallVectorImpl<mlir::Value> &results);
  /// Writes out a function on `arguments`.
  mlir::LogicalResult call(mlir::Operation *at, llvm::StringRef callee,
                           llvm::ArrayRef<mlir::Value> arguments, bool isSpread,
                           llvm::SmallVectorImpl<mlir::Value> &results);

  /// Counts an op that was made, and replaces one on known integers by its
  /// value. Null where there are too many.
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
  /// Functions that are being written out.
  llvm::SmallVector<llvm::StringRef> open;
};

} // namespace mpc::hlo

#endif // MPC_LIB_IMPORT_STABLEHLO_IMPORTER_H
