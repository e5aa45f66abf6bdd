//===- IndexBounds.h - bounds of integer inputs used as indices -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_INDEXBOUNDS_H
#define MPC_ANALYSIS_INDEXBOUNDS_H

#include "mlir/IR/Value.h"

#include <cstdint>
#include <optional>

namespace mpc {

/// Returns the extent of the dimension that `value` indexes (a gather's data,
/// the classes of a one-hot), followed through ops that move or widen it or add
/// a constant: its elements must be in [0, bound). The smallest bound of
/// several; nullopt if it indexes nothing. Inspects uses only, so it holds
/// before and after Simplify.
std::optional<int64_t> indexBound(mlir::Value value);

} // namespace mpc

#endif // MPC_ANALYSIS_INDEXBOUNDS_H
