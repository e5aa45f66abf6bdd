//===- OpNames.h - names and layers of ops ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The user's names of an op: the node names in its location and its layer path.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_OPNAMES_H
#define MPC_ANALYSIS_OPNAMES_H

#include "mlir/IR/Operation.h"

namespace mpc {

/// Returns the node names in a location, most specific first: a recognized
/// pattern carries the names of all of its nodes. Empty if there are none.
llvm::SmallVector<llvm::StringRef> opNames(mlir::Operation *op);

/// The first of opNames, else the op's mnemonic.
llvm::StringRef opName(mlir::Operation *op);

/// The op's layer path, empty where it has none.
llvm::StringRef layerPath(mlir::Operation *op);

/// Returns a location that carries the names of all ops; messages show the name
/// of the first op.
mlir::Location fuseLocations(llvm::ArrayRef<mlir::Operation *> ops);

} // namespace mpc

#endif // MPC_ANALYSIS_OPNAMES_H
