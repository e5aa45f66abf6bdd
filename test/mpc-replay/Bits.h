//===- Bits.h - recorded numbers --------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bit patterns as recordings write them, and how two numbers are compared.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_REPLAY_BITS_H
#define MPC_TOOLS_REPLAY_BITS_H

#include "TrainingStep.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace mpc::replay {

/// Parses bit patterns that are separated by spaces: 8 hex digits are a
/// float32, 16 a float64. Throws on any other text.
std::vector<double> fromBits(const std::string &text);

/// Equality of numbers: all NaNs are equal, zeros differ by sign.
bool isSame(double lhs, double rhs);
bool isSame(const std::vector<double> &lhs, const std::vector<double> &rhs);

/// Maximum difference of two tensors of the type "f32" or "f64", in ulps of
/// the largest element of the recorded tensor. Infinite where only one has a
/// NaN or an infinity.
double ulpsApart(const std::vector<double> &found,
                 const std::vector<double> &recorded, const std::string &type);

/// A number for messages: short, and its bits where it is a float32.
std::string show(const std::vector<double> &values);

} // namespace mpc::replay

#endif // MPC_TOOLS_REPLAY_BITS_H
