//===- WeightValues.h - values of parameters and constants ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRAINING_WEIGHTVALUES_H
#define MPC_LIB_DIALECT_MPC_TRAINING_WEIGHTVALUES_H

#include "mpc/Reference/Tensor.h"

namespace mpc {

/// Minimum magnitude of finite mask values that represent -inf.
inline constexpr double kMaskMagnitude = 50;

bool isFinite(mlir::ElementsAttr value);

/// Number of dimensions with more than one element.
int64_t wideDims(llvm::ArrayRef<int64_t> shape);

/// Returns true for a tensor of at least two dimensions whose elements are 0
/// and 1, both present.
bool holdsZerosAndOnes(const reference::Tensor &tensor);

/// Returns true if the elements form a mask: 0 and large negative values, or,
/// in a matrix, both 0 and 1.
bool holdsMask(const reference::Tensor &tensor);

/// Returns true for a position table or a transform matrix of at least two
/// dimensions: sampled waves or, with `ramps`, coordinates.
bool holdsWaves(const reference::Tensor &tensor, bool ramps);

/// Returns true for a grid of points of at least two dimensions: few repeated
/// values at multiples of a step.
bool holdsGrid(const reference::Tensor &tensor);

/// Returns true for a fixed signal-processing filter: depthwise, equal in all
/// channels, and symmetric or antisymmetric about its center.
bool holdsFixedFilter(const reference::Tensor &tensor);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRAINING_WEIGHTVALUES_H
