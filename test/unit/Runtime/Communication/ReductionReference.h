//===- ReductionReference.h - expected results of ranks ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes one element at a time, in double, for readability.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_RUNTIME_COMMUNICATION_REDUCTIONREFERENCE_H
#define MPC_TEST_UNIT_RUNTIME_COMMUNICATION_REDUCTIONREFERENCE_H

#include "MessageProgram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace mpc::testing {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// `value` rounded to `digits` mantissa bits, with the smallest normal number
/// 2^`least`; infinite from `most` on.
inline double nearest(double value, int digits, int least, double most) {
  if (value == 0 || !std::isfinite(value))
    return value;
  double unit =
      std::ldexp(1.0, std::max(std::ilogb(value), least) - digits + 1);
  double rounded = std::nearbyint(value / unit) * unit;
  if (std::fabs(rounded) >= most)
    return std::copysign(INFINITY, value);
  return std::copysign(rounded, value);
}

inline double roundTo(ElementType type, double value) {
  switch (type) {
  case ElementType::F16:
    return nearest(value, 11, -14, 65536);
  case ElementType::BF16:
    return nearest(value, 8, -126, 0x1p128);
  case ElementType::F32:
    return static_cast<float>(value);
  default:
    return value;
  }
}

template <typename T> T at(const Bytes &bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

inline double readFloat(ElementType type, const Bytes &bytes, size_t index) {
  switch (type) {
  case ElementType::F16: {
    auto bits = at<uint16_t>(bytes, index);
    int exponent = (bits >> 10) & 31, fraction = bits & 1023;
    double size = exponent == 0 ? std::ldexp(fraction, -24)
                                : std::ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31)
      size = fraction ? kNan : INFINITY;
    return bits & 0x8000 ? -size : size;
  }
  case ElementType::BF16:
    return std::bit_cast<float>(uint32_t(at<uint16_t>(bytes, index)) << 16);
  case ElementType::F32:
    return at<float>(bytes, index);
  default:
    return at<double>(bytes, index);
  }
}

/// Writes a number that `type` has.
inline void writeFloat(ElementType type, Bytes &bytes, size_t index,
                       double value) {
  auto put = [&](auto stored) {
    std::memcpy(bytes.data() + index * sizeof(stored), &stored, sizeof(stored));
  };
  bool isNan = std::isnan(value);
  switch (type) {
  case ElementType::F16: {
    double size = std::fabs(value);
    int bits = 0x7c00;
    if (size < 0x1p-14)
      bits = int(size * 0x1p24);
    else if (std::isfinite(size))
      bits = int(std::ldexp(size, 10 - std::ilogb(size))) - 1024 +
             ((std::ilogb(size) + 15) << 10);
    put(uint16_t(isNan ? 0x7e00 : bits | (std::signbit(value) ? 0x8000 : 0)));
    return;
  }
  case ElementType::BF16:
    put(uint16_t(isNan ? 0x7fc0 : std::bit_cast<uint32_t>(float(value)) >> 16));
    return;
  case ElementType::F32:
    put(isNan ? std::numeric_limits<float>::quiet_NaN() : float(value));
    return;
  default:
    put(isNan ? kNan : value);
  }
}

inline bool takes(Collective::Reduction reduction, auto term, auto sum) {
  return reduction == Collective::Reduction::Min ? term < sum : term > sum;
}

/// The reduction of equally long rows of elements.
inline Bytes reduceSlowly(const Collective &how,
                          const std::vector<Bytes> &rows) {
  using Reduction = Collective::Reduction;
  const bool sums =
      how.reduction == Reduction::Sum || how.reduction == Reduction::Mean;
  Bytes result(rows[0].size());
  const size_t count = result.size() / size_t(elementBytes(how.element));
  for (size_t i = 0; i < count; ++i) {
    if (isFloat(how.element)) {
      // Neighbors first.
      std::vector<double> terms;
      for (const Bytes &row : rows)
        terms.push_back(readFloat(how.element, row, i));
      for (size_t step = 1; step < terms.size(); step *= 2)
        for (size_t rank = 0; rank + step < terms.size(); rank += 2 * step) {
          double &sum = terms[rank], term = terms[rank + step];
          if (sums)
            sum = roundTo(how.accumulate, sum + term);
          else if (std::isnan(term) || takes(how.reduction, term, sum))
            sum = term;
        }
      double sum = terms[0];
      if (how.reduction == Reduction::Mean)
        sum = roundTo(how.accumulate, sum / double(rows.size()));
      writeFloat(how.element, result, i, roundTo(how.element, sum));
      continue;
    }
    const bool isLong = how.element == ElementType::I64;
    auto read = [&](size_t rank) {
      return isLong ? at<int64_t>(rows[rank], i) : at<int32_t>(rows[rank], i);
    };
    int64_t sum = read(0);
    for (size_t rank = 1; rank < rows.size(); ++rank)
      if (sums)
        sum = int64_t(uint64_t(sum) + uint64_t(read(rank)));
      else if (takes(how.reduction, read(rank), sum))
        sum = read(rank);
    auto narrow = int32_t(sum);
    if (isLong)
      std::memcpy(result.data() + i * 8, &sum, 8);
    else
      std::memcpy(result.data() + i * 4, &narrow, 4);
  }
  return result;
}

/// Expected tensor of rank `rank`, given the tensors of all ranks.
inline Bytes expected(const Collective &how, std::vector<Bytes> rows,
                      size_t rank) {
  auto ranks = size_t(how.ranks), bytes = size_t(elementBytes(how.element));
  switch (how.kind) {
  case Collective::Kind::AllReduce:
    break;
  case Collective::Kind::ReduceScatter: {
    size_t piece = (rows[0].size() / bytes + ranks - 1) / ranks * bytes;
    for (Bytes &row : rows) {
      row.resize(piece * ranks);
      row = Bytes(row.begin() + ptrdiff_t(rank * piece),
                  row.begin() + ptrdiff_t((rank + 1) * piece));
    }
    break;
  }
  case Collective::Kind::AllGather: {
    Bytes all;
    for (const Bytes &row : rows)
      all.insert(all.end(), row.begin(), row.end());
    return all;
  }
  case Collective::Kind::Broadcast:
    return rows[size_t(how.root)];
  }
  return ranks == 1 ? rows[0] : reduceSlowly(how, rows);
}

} // namespace mpc::testing

#endif // MPC_TEST_UNIT_RUNTIME_COMMUNICATION_REDUCTIONREFERENCE_H
