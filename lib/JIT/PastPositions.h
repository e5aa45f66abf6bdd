//===- PastPositions.h - decoders with unfilled cache rows ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_PASTPOSITIONS_H
#define MPC_LIB_JIT_PASTPOSITIONS_H

#include "mpc/JIT/Options.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

/// Proves that `function`, an imported decoder with PaddedDecoder::past cache
/// rows of which only the last ones are filled, computes what the model
/// computes with exactly the filled rows. `exact` are imports of the same model
/// at PaddedDecoder::lengths, in order, possibly in other contexts. Positions
/// derived from the number of cache rows are replaced by ones computed from an
/// additional argument, which is added only if there are such positions. Fails
/// with a diagnostic at an op whose result may depend on unfilled rows or
/// padding tokens.
mlir::LogicalResult placePositions(mlir::func::FuncOp function,
                                   llvm::ArrayRef<mlir::func::FuncOp> exact,
                                   llvm::ArrayRef<GrowingCache> caches,
                                   const PaddedDecoder &decoder);

} // namespace mpc

#endif // MPC_LIB_JIT_PASTPOSITIONS_H
