//===- IndexBounds.h - what integer inputs may hold -------------*- C++ -*-===//
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

/// The extent that `value` indexes (of a gather's data, of the classes of a
/// one-hot), followed through ops that only move or widen it or add a constant:
/// its elements must lie in [0, bound). The smallest where it indexes several;
/// nullopt where it indexes nothing. Looks at uses only, so it holds before and
/// after Simplify.
std::optional<int64_t> indexBound(mlir::Value value);

} // namespace mpc

#endif // MPC_ANALYSIS_INDEXBOUNDS_H
