//===- Finiteness.h - infinities and NaNs in results ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts what RunOptions::nonFinite reports, for hosts that warn of it.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_FINITENESS_H
#define MPC_RUNTIME_FINITENESS_H

#include "mpc/Runtime/Buffer.h"
#include "mpc/Runtime/Program.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mpc {

/// Elements of `buffer`, in host memory, that are infinite or no number; 0 for
/// element types without such values and for memory of a device.
int64_t countNonFinite(const Buffer &buffer);

/// A result that holds infinities or NaNs.
struct NonFiniteResult {
  std::string name;
  /// Infinite or NaN elements, and all elements.
  int64_t count = 0, elements = 0;

  /// "output 'y' holds 64 infinities or NaNs among 64 elements ...", a sentence
  /// with what to do, without a full stop.
  std::string text() const;
};

/// Counts the results of a run whose numbers are `suspects`
/// (RunOptions::nonFinite). Empty where an argument in host memory holds
/// infinities or NaNs itself: the run only passed them on.
std::vector<NonFiniteResult> findNonFinite(const Program &program,
                                           std::span<const Buffer> arguments,
                                           std::span<const Buffer> results,
                                           std::span<const int64_t> suspects);

} // namespace mpc

#endif // MPC_RUNTIME_FINITENESS_H
