//===- MpcTrainingOps.h - the ops of training steps -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Losses, backward ops, optimizers and their interfaces.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCTRAININGOPS_H
#define MPC_DIALECT_MPC_IR_MPCTRAININGOPS_H

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.h.inc"

namespace mpc {

/// Op that computes training bookkeeping, not model values (seeds, scales,
/// learning rates, norms, flags, updates): policies do not narrow it.
template <typename ConcreteType>
class IsBookkeeping
    : public mlir::OpTrait::TraitBase<ConcreteType, IsBookkeeping> {};

} // namespace mpc

#define GET_OP_CLASSES
#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h.inc"

#endif // MPC_DIALECT_MPC_IR_MPCTRAININGOPS_H
