//===- IndexRange.h - what an index may be ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_EMIT_INDEXRANGE_H
#define MPC_LIB_TARGET_CUDA_EMIT_INDEXRANGE_H

#include "mlir/IR/Value.h"

#include <optional>

namespace mpc {

/// The numbers from `low` to `high`.
struct IndexRange {
  int64_t low, high;
};

/// The range of an index or a constant of a kernel as far as it is plain to
/// see; nullopt where it could be anything. A number that is not negative
/// compares and divides alike with and without a sign.
std::optional<IndexRange> indexRange(mlir::Value value);

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_EMIT_INDEXRANGE_H
