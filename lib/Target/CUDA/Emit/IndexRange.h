//===- IndexRange.h - range analysis of indices -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_EMIT_INDEXRANGE_H
#define MPC_LIB_TARGET_CUDA_EMIT_INDEXRANGE_H

#include "mlir/IR/Value.h"

namespace mpc::cuda {

/// Returns true if an index or constant of a kernel is known to be
/// non-negative, which allows signed comparison and division.
bool isNonNegative(mlir::Value value);

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_EMIT_INDEXRANGE_H
