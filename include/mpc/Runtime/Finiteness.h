//===- Finiteness.h - infinities and NaNs in results ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts the non-finite elements that RunOptions::nonFinite reports, for
// warnings.
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

/// Returns the number of infinite or NaN elements of the host buffer `buffer`,
/// without the NonFinite values `exempt`; 0 for element types without such
/// values and for device memory.
int64_t countNonFinite(const Buffer &buffer, uint8_t exempt = 0);

/// A result that contains infinities or NaNs.
struct NonFiniteResult {
  std::string name;
  /// Number of infinite or NaN elements that are not exempt
  /// (RunCheck::exempt), and of all elements.
  int64_t count = 0, elements = 0;

  /// "output 'y' holds 64 infinities or NaNs among 64 elements ...": a sentence
  /// with a remedy, without a full stop.
  std::string text() const;
};

/// Counts the non-finite elements of the results with indices `suspects`
/// (RunOptions::nonFinite), except for those that RunCheck::exempt lists.
/// Returns nothing if a host argument itself contains infinities or NaNs: the
/// run only propagated them.
std::vector<NonFiniteResult> findNonFinite(const Program &program,
                                           std::span<const Buffer> arguments,
                                           std::span<const Buffer> results,
                                           std::span<const int64_t> suspects);

} // namespace mpc

#endif // MPC_RUNTIME_FINITENESS_H
