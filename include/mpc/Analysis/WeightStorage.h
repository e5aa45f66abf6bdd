//===- WeightStorage.h - weights as kernels read them -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What mpc-narrow-panels will make of weights that a policy rounds, before any
// of it is done.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_WEIGHTSTORAGE_H
#define MPC_ANALYSIS_WEIGHTSTORAGE_H

#include "mpc/Analysis/Fusibility.h"
#include "mpc/Policy/Policy.h"

namespace mpc {

/// Whether a kernel of `target` reads the weights of `op`, a matmul or a conv
/// that multiplies `type`, as `format` stores them; else they stand in memory
/// as `type`. False where that is not narrower.
bool readsStored(mlir::Operation *op, PolicyType type,
                 const WeightFormat &format, const FusionTarget &target);

/// Bytes of the weights of `op` in `format`, scales included.
int64_t storedBytes(mlir::Operation *op, const WeightFormat &format);

/// Whether `target` has no unit for 16-bit floats, so that a product in float32
/// that unpacks its weights takes no longer than one of 16 bits.
bool multipliesWideAsFast(const FusionTarget &target);

} // namespace mpc

#endif // MPC_ANALYSIS_WEIGHTSTORAGE_H
