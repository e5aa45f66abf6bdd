//===- RankCorrelation.h - Spearman rank correlation ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TUNING_RANKCORRELATION_H
#define MPC_TUNING_RANKCORRELATION_H

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace mpc {

/// Returns the rank of each value; equal values share their mean rank.
inline std::vector<double> ranksOf(const std::vector<double> &values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t first = 0, end; first < order.size(); first = end) {
    for (end = first + 1;
         end < order.size() && values[order[end]] == values[order[first]];)
      ++end;
    for (size_t i = first; i < end; ++i)
      ranks[order[i]] = double(first + end - 1) / 2;
  }
  return ranks;
}

/// Returns Spearman's coefficient.
inline double rankCorrelation(const std::vector<double> &a,
                              const std::vector<double> &b) {
  std::vector<double> x = ranksOf(a), y = ranksOf(b);
  double mean = double(x.size() - 1) / 2, xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 1;
}

inline double medianOf(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

} // namespace mpc

#endif // MPC_TUNING_RANKCORRELATION_H
