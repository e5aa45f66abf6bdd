//===- EvaluateCollectives.h - collectives ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_REFERENCE_EVALUATECOLLECTIVES_H
#define MPC_LIB_REFERENCE_EVALUATECOLLECTIVES_H

#include "mpc/Dialect/Mpc/IR/MpcCommunicationOps.h"
#include "mpc/Reference/Interpreter.h"

namespace mpc::reference {

/// Executes one collective: `operands` and `results` are per rank. Emits an
/// error at the op for another number of ranks.
mlir::LogicalResult
evaluateCollective(CollectiveOpInterface op,
                   llvm::ArrayRef<llvm::SmallVector<const Tensor *>> operands,
                   llvm::MutableArrayRef<llvm::SmallVector<Tensor>> results,
                   Rounding rounding);

} // namespace mpc::reference

#endif // MPC_LIB_REFERENCE_EVALUATECOLLECTIVES_H
