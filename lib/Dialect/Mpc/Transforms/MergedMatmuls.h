//===- MergedMatmuls.h - attributes of merged matmuls ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes the attributes of a matmul that replaces several.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_MERGEDMATMULS_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_MERGEDMATMULS_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

namespace mpc {
class MatmulOp;

/// Sets the attributes of `joint`, which has the columns of all `products`:
/// their common layer path and, if each of them is padded, their combined
/// padding.
void setMergedAttributes(MatmulOp joint, llvm::ArrayRef<MatmulOp> products);

/// Returns the common layer path prefix of `products`; null if there is none.
mlir::StringAttr commonLayer(llvm::ArrayRef<MatmulOp> products);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_MERGEDMATMULS_H
