//===- IndexRange.h - range analysis of indices -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_EMIT_INDEXRANGE_H
#define MPC_LIB_TARGET_CUDA_EMIT_INDEXRANGE_H

#include "mlir/IR/Value.h"

#include <optional>

namespace mpc::cuda {

/// The closed interval [low, high].
struct IndexRange {
  int64_t low, high;
};

/// Returns the range of an index or constant of a kernel, or nullopt if
/// unknown. Non-negative ranges allow signed comparison and division.
std::optional<IndexRange> indexRange(mlir::Value value);

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_EMIT_INDEXRANGE_H
