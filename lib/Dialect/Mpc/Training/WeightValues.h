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

bool holdsFiniteNumbers(const reference::Tensor &tensor);

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

/// Returns true for the points of grids, or for their distances: few repeated
/// values at multiples of a step.
bool holdsGrid(const reference::Tensor &tensor);

/// Returns true for channels, first or last, that each depend on one coordinate
/// of a grid, and not all on the same: coordinates, or sines of them. A first
/// row may be that of a class token.
bool holdsSeparableGrid(const reference::Tensor &tensor);

/// Returns true for a vector, of any rank, in arithmetic or, with `geometric`,
/// geometric progression.
bool holdsProgression(const reference::Tensor &tensor, bool geometric);

/// Returns true for a vector of at least eight rising or falling elements.
bool holdsSchedule(const reference::Tensor &tensor);

/// Returns true for a vector of length 1.
bool holdsUnitVector(const reference::Tensor &tensor);

/// Returns true for filters of signal processing: every channel is symmetric or
/// antisymmetric, about its center or as a period. With `boxes` these may be
/// constant, without only if they average.
bool holdsFixedFilter(const reference::Tensor &tensor, bool boxes);

/// Returns true for symmetric matrices that are not constant or diagonal.
bool holdsSymmetricMatrix(const reference::Tensor &tensor);

/// Returns true for matrices with zeros in half of their elements or more, in a
/// quarter if none is negative.
bool holdsSparseMatrix(const reference::Tensor &tensor);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRAINING_WEIGHTVALUES_H
