//===- RangeRecorder.h - value ranges measured over samples -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Records the magnitudes of named values over samples: extremes, the samples
// where they occur, and losses in 16-bit types.
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

/// Magnitudes at which a float format loses accuracy.
struct FormatLimits {
  /// Smallest magnitude that rounds to infinity.
  double overflow;
  /// Smallest normal magnitude.
  double normal;
  /// Largest magnitude that rounds to zero.
  double flush;
};

/// 65520, 2^-14, 2^-25.
inline constexpr FormatLimits kFloat16Limits = {65520, 0x1p-14, 0x1p-25};
/// (2 - 2^-8) * 2^127, 2^-126, 2^-134.
inline constexpr FormatLimits kBFloat16Limits = {0x1.ffp127, 0x1p-126,
                                                 0x1p-134};

/// Measurements of one value.
struct RecordedRange {
  /// Elements that a format would change beyond rounding. Each counts once, for
  /// the worst effect: a flushed element is not also subnormal.
  struct Losses {
    int64_t overflowed = 0, subnormal = 0, flushed = 0;
  };

  int64_t elements = 0, zeros = 0, notFinite = 0;
  /// Magnitudes of finite nonzero elements; 0 if there are none.
  double least = 0, largest = 0;
  /// Indices of the samples with these magnitudes, -1 if there are none, and of
  /// the first sample with a non-finite element.
  int64_t leastSample = -1, largestSample = -1, notFiniteSample = -1;
  /// Histogram of finite nonzero elements by floor(log2(magnitude)).
  std::map<int, int64_t> exponents;
  Losses float16, bfloat16;

  void add(llvm::ArrayRef<double> values, int64_t sample);
};

/// Ranges by name, in order of first appearance. Values that share a name share
/// a range.
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
