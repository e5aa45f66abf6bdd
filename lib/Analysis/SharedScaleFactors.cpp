//===- SharedScaleFactors.cpp - scales as integers times a factor ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The K formats of GGUF store a scale as a six- or eight-bit integer times an
// f16 factor that 256 positions share. A group whose integers have a common
// divisor has several possible scales; the search starts from the largest one.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/LosslessEncoding.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace mpc;

/// Largest stored integer of a scale.
static constexpr int64_t kMostScale = 255;

/// Returns the factor and the integers of scales that share it; nullopt if
/// there are none. `most`: largest magnitude of a group's integers.
static std::optional<std::pair<float, std::vector<uint8_t>>>
factorOf(llvm::ArrayRef<GroupScale> scales, int64_t most) {
  // Common divisor of the coarsest scales.
  constexpr int64_t kLevels = int64_t(1) << 20;
  std::vector<float> coarsest;
  for (const GroupScale &each : scales) {
    coarsest.push_back(float(each.coarsest()));
    if (each.scale < 0 || coarsest.back() != each.coarsest())
      return std::nullopt;
  }
  std::optional<IntegerGrid> grid = findExactGrid(coarsest, kLevels);
  if (!grid)
    return std::nullopt;
  // The stored factor may be a part of it. Prefers one that is exact in f16.
  float found = 0;
  std::vector<uint8_t> integers, candidate;
  for (int64_t part = 1; part <= kMostScale; ++part) {
    float factor = grid->scale / float(part);
    if (factor * float(part) != grid->scale || !std::isnormal(factor))
      continue;
    candidate.clear();
    for (auto [each, scale] : llvm::zip_equal(scales, coarsest)) {
      auto integer = int64_t(double(scale) / double(factor));
      // Larger integers of the group have a smaller scale.
      int64_t room =
          each.divisor ? most / (each.largest / each.divisor) : int64_t(1);
      int64_t divisor = 1;
      while (integer > kMostScale * divisor && divisor <= room)
        do
          ++divisor;
        while (divisor <= room && integer % divisor);
      if (divisor > room)
        break;
      candidate.push_back(uint8_t(integer / divisor));
    }
    if (candidate.size() != scales.size())
      continue;
    bool isHalf = exactHalf(factor).has_value();
    if (found == 0 || isHalf) {
      found = factor;
      integers = candidate;
    }
    if (isHalf)
      break;
  }
  if (found == 0)
    return std::nullopt;
  return std::make_pair(found, std::move(integers));
}

std::optional<SharedScales>
mpc::findSharedScales(llvm::ArrayRef<GroupScale> scales, int64_t count,
                      int64_t groups, int64_t columns, int64_t shared,
                      int64_t most) {
  SharedScales result;
  result.group = shared;
  result.values.resize(scales.size());
  result.factors.resize(scales.size() / shared);
  std::vector<GroupScale> together(shared);
  for (int64_t panel = 0; panel < count; ++panel)
    for (int64_t first = 0; first < groups; first += shared)
      for (int64_t column = 0; column < columns; ++column) {
        int64_t line = panel * groups + first;
        for (int64_t i = 0; i < shared; ++i)
          together[i] = scales[(line + i) * columns + column];
        auto found = factorOf(together, most);
        if (!found)
          return std::nullopt;
        result.factors[line / shared * columns + column] = found->first;
        for (int64_t i = 0; i < shared; ++i)
          result.values[(line + i) * columns + column] = found->second[i];
      }
  return result;
}
