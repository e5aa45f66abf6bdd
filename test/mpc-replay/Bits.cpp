//===- Bits.cpp - recorded numbers ----------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <sstream>
#include <stdexcept>

using namespace mpc::replay;

std::vector<double> mpc::replay::fromBits(const std::string &text) {
  std::vector<double> values;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    size_t read = 0;
    uint64_t bits = std::stoull(word, &read, 16);
    if (read != word.size() || (read != 8 && read != 16))
      throw std::invalid_argument("'" + word + "' is no bit pattern");
    values.push_back(read == 8 ? double(llvm::bit_cast<float>(uint32_t(bits)))
                               : llvm::bit_cast<double>(bits));
  }
  return values;
}

bool mpc::replay::isSame(double lhs, double rhs) {
  return (std::isnan(lhs) && std::isnan(rhs)) ||
         (lhs == rhs && std::signbit(lhs) == std::signbit(rhs));
}

bool mpc::replay::isSame(const std::vector<double> &lhs,
                         const std::vector<double> &rhs) {
  return lhs.size() == rhs.size() &&
         llvm::all_of(llvm::zip(lhs, rhs), [](auto pair) {
           return isSame(std::get<0>(pair), std::get<1>(pair));
         });
}

double mpc::replay::ulpsApart(const std::vector<double> &found,
                              const std::vector<double> &recorded,
                              const std::string &type) {
  if (found.size() != recorded.size())
    return std::numeric_limits<double>::infinity();
  double largest = 0, distance = 0;
  for (auto [mine, theirs] : llvm::zip(found, recorded)) {
    if (isSame(mine, theirs)) {
      if (std::isfinite(theirs))
        largest = std::max(largest, std::abs(theirs));
      continue;
    }
    if (!std::isfinite(mine) || !std::isfinite(theirs))
      return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::abs(theirs));
    distance = std::max(distance, std::abs(mine - theirs));
  }
  if (distance == 0)
    return 0;
  bool wide = type == "f64";
  int exponent = std::max(largest == 0 ? -10000 : std::ilogb(largest),
                          wide ? -1022 : -126);
  return distance / std::ldexp(1.0, exponent - (wide ? 52 : 23));
}

std::string mpc::replay::show(const std::vector<double> &values) {
  std::string text;
  for (double value : values) {
    char buffer[64];
    if (std::isnan(value) || double(float(value)) == value)
      std::snprintf(buffer, sizeof(buffer), "%.9g (%08x)", value,
                    llvm::bit_cast<uint32_t>(float(value)));
    else
      std::snprintf(buffer, sizeof(buffer), "%.17g", value);
    text += (text.empty() ? "" : " ") + std::string(buffer);
  }
  return text;
}
