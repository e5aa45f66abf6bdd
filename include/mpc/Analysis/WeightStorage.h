//===- WeightStorage.h - weights as kernels read them -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What mpc-narrow-panels and mpc-narrow-matrices will make of weights that a
// policy rounds, before any of it is done.
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

/// Whether products unpack narrow constants of which each column is a line:
/// threads load elements as they like, and there are no panels.
bool unpacksMatrices(const TargetInfo &target);

/// Weights of a product whose kernel unpacks them in threads that multiply.
struct UnpackedWeights {
  /// Rows that meet each of them, what they are multiplied as, and the bytes
  /// that they take as that and as they may be stored.
  int64_t rows = 0;
  PolicyType type = PolicyType::Float32;
  int64_t count = 0;
  double wideBytes = 0, narrowBytes = 0;
};

/// Whether the product takes less time where it reads them narrow: of many rows
/// it multiplies longer than it reads, and of few bytes nothing is saved.
bool paysToUnpack(const UnpackedWeights &weights, const TargetInfo &target);

/// Bytes of the weights of `op` in `format`, scales included.
int64_t storedBytes(mlir::Operation *op, const WeightFormat &format);

/// Whether `target` has no unit for 16-bit floats, so that a product in float32
/// that unpacks its weights takes no longer than one of 16 bits.
bool multipliesWideAsFast(const FusionTarget &target);

} // namespace mpc

#endif // MPC_ANALYSIS_WEIGHTSTORAGE_H
