//===- TiedWeights.h - weights that are stored twice ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRAINING_TIEDWEIGHTS_H
#define MPC_LIB_DIALECT_MPC_TRAINING_TIEDWEIGHTS_H

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

#include "llvm/ADT/MapVector.h"

namespace mpc {

/// Returns the matrices among `weights`, which are in program order, that are
/// the transpose of an earlier one, with that one. An exporter stores a tied
/// weight, as of an embedding and the head of a language model, in both forms.
/// Matrices that equal their own transpose, or have equal elements, are merely
/// untrained. Of copied layers, each has its own original.
llvm::MapVector<ConstantOp, ConstantOp>
findTransposedCopies(llvm::ArrayRef<ConstantOp> weights);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRAINING_TIEDWEIGHTS_H
