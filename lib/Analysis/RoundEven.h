//===- RoundEven.h - fast rounding to integers ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_ROUNDEVEN_H
#define MPC_LIB_ANALYSIS_ROUNDEVEN_H

namespace mpc {

/// Rounds a number below 2^51 to the nearest integer, ties to even, inline.
/// Adding and subtracting this rounds a double below 2^51 to an integer.
inline constexpr double kNoFraction = 0x1.8p52;

inline double roundEven(double value) {
  return (value + kNoFraction) - kNoFraction;
}

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_ROUNDEVEN_H
