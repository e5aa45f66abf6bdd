//===- MpcTraits.h - op traits without code ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// C++ side of the traits documented in MpcInterfaces.td and
// MpcTrainingInterfaces.td.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCTRAITS_H
#define MPC_DIALECT_MPC_IR_MPCTRAITS_H

#include "mlir/IR/OpDefinition.h"

namespace mpc {

template <typename OpTy>
class Additive : public mlir::OpTrait::TraitBase<OpTy, Additive> {};
template <typename OpTy>
class SumsElements : public mlir::OpTrait::TraitBase<OpTy, SumsElements> {};
template <typename OpTy>
class Composite : public mlir::OpTrait::TraitBase<OpTy, Composite> {};
template <typename OpTy>
class Exact : public mlir::OpTrait::TraitBase<OpTy, Exact> {};
template <typename OpTy>
class ReducesRows : public mlir::OpTrait::TraitBase<OpTy, ReducesRows> {};
template <typename OpTy>
class KeepsFinite : public mlir::OpTrait::TraitBase<OpTy, KeepsFinite> {};
template <typename OpTy>
class KeepsIntegers : public mlir::OpTrait::TraitBase<OpTy, KeepsIntegers> {};
template <typename OpTy>
class Loss : public mlir::OpTrait::TraitBase<OpTy, Loss> {};
template <typename OpTy>
class MapsRows : public mlir::OpTrait::TraitBase<OpTy, MapsRows> {};
template <typename OpTy>
class Normalizes : public mlir::OpTrait::TraitBase<OpTy, Normalizes> {};
template <typename OpTy>
class RoundsToInteger : public mlir::OpTrait::TraitBase<OpTy, RoundsToInteger> {
};

/// Op that computes training bookkeeping, not model values (seeds, scales,
/// learning rates, norms, flags, updates): policies do not narrow it.
template <typename OpTy>
class IsBookkeeping : public mlir::OpTrait::TraitBase<OpTy, IsBookkeeping> {};

} // namespace mpc

#endif // MPC_DIALECT_MPC_IR_MPCTRAITS_H
