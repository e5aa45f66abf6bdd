//===- RoundEven.h - fast rounding to integers ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_ROUNDEVEN_H
#define MPC_LIB_ANALYSIS_ROUNDEVEN_H

namespace mpc {

/// Rounds a number below 2^51 to the nearest integer, ties to even, inline.
inline double roundEven(double value) {
  constexpr double kNoFraction = 0x1.8p52;
  return (value + kNoFraction) - kNoFraction;
}

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_ROUNDEVEN_H
