//===- JoinedProducts.h - what products become as one -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the attributes of one product in place of several say.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_JOINEDPRODUCTS_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_JOINEDPRODUCTS_H

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

namespace mpc {

/// Gives `joint`, which has the columns of all of `products`, the part of a
/// layer path that these share, and what mpc-pad-contractions did to them
/// together, where it did something to each.
void describeJoint(MatmulOp joint, llvm::ArrayRef<MatmulOp> products);

/// The part of a layer path that all `products` share; null where there is
/// none.
mlir::StringAttr commonLayer(llvm::ArrayRef<MatmulOp> products);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_JOINEDPRODUCTS_H
