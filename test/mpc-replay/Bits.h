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

/// The numbers of patterns with blanks between: 8 hex digits are a float32, 16
/// a float64. Throws where the text is none.
std::vector<double> fromBits(const std::string &text);

/// The same number: any NaN equals any NaN, zeros keep their sign.
bool isSame(double lhs, double rhs);
bool isSame(const std::vector<double> &lhs, const std::vector<double> &rhs);

/// How far two tensors of the type "f32" or "f64" are apart, in units in the
/// last place of the largest element that the recorded tensor has. Infinite
/// where one has a NaN or an infinity that the other has not.
double ulpsApart(const std::vector<double> &found,
                 const std::vector<double> &recorded, const std::string &type);

/// A number for messages: short, and its bits where it is a float32.
std::string show(const std::vector<double> &values);

} // namespace mpc::replay

#endif // MPC_TOOLS_REPLAY_BITS_H
