//===- OpNames.h - names and layers of ops ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a user calls an op: the node names in its location and its layer path.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_OPNAMES_H
#define MPC_ANALYSIS_OPNAMES_H

#include "mlir/IR/Operation.h"

namespace mpc {

/// Node names in a location, the most telling first: a recognised op carries
/// the names of every node that it stands for. Empty where the location has
/// none.
llvm::SmallVector<llvm::StringRef> opNames(mlir::Operation *op);

/// The first of opNames, else the op's mnemonic.
llvm::StringRef opName(mlir::Operation *op);

/// The op's layer path, empty where it has none.
llvm::StringRef layerPath(mlir::Operation *op);

/// Makes a location that carries the names of every op: `ops` front first,
/// which is the one that messages show.
mlir::Location fuseLocations(llvm::ArrayRef<mlir::Operation *> ops);

} // namespace mpc

#endif // MPC_ANALYSIS_OPNAMES_H
