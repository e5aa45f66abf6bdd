//===- TransportHeader.h - messages shared by all transports ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_COMMUNICATION_TRANSPORTHEADER_H
#define MPC_LIB_RUNTIME_COMMUNICATION_TRANSPORTHEADER_H

#include <string>

namespace mpc::detail {

/// Writes one line to standard error, unbuffered.
void printLine(const std::string &text);

/// "rank 1 of 4".
std::string rankName(int rank, int size);

/// "120 s".
std::string secondsText(double seconds);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_COMMUNICATION_TRANSPORTHEADER_H
