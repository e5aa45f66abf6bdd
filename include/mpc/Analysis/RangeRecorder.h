//===- RangeRecorder.h - what samples show of values ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collects the magnitudes of named values over samples: how large and how small
// they become, where, and what 16-bit types would do to them.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_RANGERECORDER_H
#define MPC_ANALYSIS_RANGERECORDER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <map>
#include <string>

namespace mpc {

/// The magnitudes at which a float format stops to hold numbers whole.
struct FormatLimits {
  /// Rounds to infinity from here on.
  double overflow;
  /// Below this numbers have fewer bits.
  double normal;
  /// Rounds to zero up to here.
  double flush;
};

/// 65520, 2^-14, 2^-25.
inline constexpr FormatLimits kFloat16Limits = {65520, 0x1p-14, 0x1p-25};
/// (2 - 2^-8) * 2^127, 2^-126, 2^-134.
inline constexpr FormatLimits kBFloat16Limits = {0x1.ffp127, 0x1p-126,
                                                 0x1p-134};

/// What was seen of one value.
struct RecordedRange {
  /// Elements that a format would change beyond rounding. Of each the worst
  /// holds: what flushes is not counted as subnormal.
  struct Losses {
    int64_t overflowed = 0, subnormal = 0, flushed = 0;
  };

  int64_t elements = 0, zeros = 0, notFinite = 0;
  /// Magnitudes of finite elements that are not zero; 0 where there is none.
  double least = 0, largest = 0;
  /// Numbers of the samples that held them, -1 where there is none, and of the
  /// first sample with an element that is not finite.
  int64_t leastSample = -1, largestSample = -1, notFiniteSample = -1;
  /// Finite elements that are not zero by floor(log2(magnitude)).
  std::map<int, int64_t> exponents;
  Losses float16, bfloat16;

  void add(llvm::ArrayRef<double> values, int64_t sample);
};

/// Ranges by name, in the order in which names appeared. Values that share a
/// name share a range.
class RangeRecorder {
public:
  void add(llvm::StringRef name, llvm::ArrayRef<double> values,
           int64_t sample) {
    ranges[name.str()].add(values, sample);
  }
  using Ranges = llvm::MapVector<std::string, RecordedRange,
                                 std::map<std::string, unsigned>>;
  const Ranges &get() const { return ranges; }

private:
  Ranges ranges;
};

} // namespace mpc

#endif // MPC_ANALYSIS_RANGERECORDER_H
