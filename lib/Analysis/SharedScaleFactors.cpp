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

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

using namespace mpc;

/// Positions that share a factor.
static constexpr int64_t kFactorGroup = 256;
/// Largest stored integer of a scale.
static constexpr int64_t kMostScale = 255;

namespace {

/// A scale and the integers of its group.
struct GroupScale {
  float scale = 0;
  /// Greatest common divisor and largest magnitude of the integers; 0 if all
  /// are zero, so that any scale will do.
  int64_t divisor = 0, largest = 0;

  /// Scale with integers without common divisor.
  double coarsest() const { return double(scale) * double(divisor); }
};

} // namespace

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
  std::vector<uint8_t> integers;
  for (int64_t part = 1; part <= kMostScale; ++part) {
    float factor = grid->scale / float(part);
    if (factor * float(part) != grid->scale || !std::isnormal(factor))
      continue;
    std::vector<uint8_t> candidate;
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
      integers = std::move(candidate);
    }
    if (isHalf)
      break;
  }
  if (found == 0)
    return std::nullopt;
  return std::make_pair(found, std::move(integers));
}

bool mpc::shareScaleFactors(LosslessPanels &form, int64_t count, int64_t depth,
                            int64_t columns) {
  using Kind = LosslessPanels::Kind;
  int64_t shared = kFactorGroup / form.group, groups = depth / form.group;
  bool hasOffsets = !form.offsets.empty();
  bool areNibbles = form.kind == Kind::Nibbles;
  int64_t signedZero = areNibbles ? 8 : 0;
  if (form.depth != 1 || !form.zeros.empty() || shared < 2 ||
      kFactorGroup % form.group || groups % shared ||
      (!areNibbles && form.kind != Kind::Int8 && !hasOffsets) ||
      form.commonZero != (hasOffsets ? 0 : signedZero))
    return false;
  // Integer at a position, without the zero point.
  auto integerAt = [&](int64_t panel, int64_t k, int64_t column) -> int64_t {
    int64_t line = panel * depth + k;
    if (areNibbles)
      return (uint8_t(form.values[line / 2 * columns + column]) >> (k % 2 * 4) &
              15) -
             form.commonZero;
    char value = form.values[line * columns + column];
    return form.kind == Kind::Int8 ? int64_t(int8_t(value))
                                   : int64_t(uint8_t(value));
  };
  // Of either sign: offsets have none.
  int64_t most = hasOffsets ? (areNibbles ? 15 : 255) : (areNibbles ? 7 : 127);
  SharedScales result;
  result.group = shared;
  result.values.resize(form.scales.size());
  result.factors.resize(count * (groups / shared) * columns);
  for (int64_t panel = 0; panel < count; ++panel)
    for (int64_t first = 0; first < groups; first += shared)
      for (int64_t column = 0; column < columns; ++column) {
        std::vector<GroupScale> scales;
        for (int64_t group = first; group < first + shared; ++group) {
          int64_t place = (panel * groups + group) * columns + column;
          GroupScale each;
          for (int64_t i = 0; i < form.group; ++i) {
            int64_t integer =
                std::abs(integerAt(panel, group * form.group + i, column));
            each.divisor = std::gcd(each.divisor, integer);
            each.largest = std::max(each.largest, integer);
          }
          each.scale = form.scales[place];
          scales.push_back(each);
        }
        auto found = factorOf(scales, most);
        if (!found)
          return false;
        int64_t at = (panel * (groups / shared) + first / shared) * columns;
        result.factors[at + column] = found->first;
        for (int64_t i = 0; i < shared; ++i)
          result.values[(panel * groups + first + i) * columns + column] =
              found->second[i];
      }
  // Scale times integer is the same number as before.
  LosslessPanels renewed = form;
  std::fill(renewed.values.begin(), renewed.values.end(), 0);
  for (int64_t panel = 0; panel < count; ++panel)
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t column = 0; column < columns; ++column) {
        int64_t group = panel * groups + k / form.group,
                place = group * columns + column;
        float factor = result.factors[group / shared * columns + column],
              scale = factor * float(result.values[place]);
        renewed.scales[place] = scale;
        int64_t integer = integerAt(panel, k, column);
        if (integer) {
          double exact = double(form.scales[place]) * double(integer);
          integer = int64_t(std::nearbyint(exact / double(scale)));
          if (double(scale) * double(integer) != exact ||
              double(scale) != double(factor) * double(result.values[place]) ||
              std::abs(integer) > most)
            return false;
        }
        int64_t line = panel * depth + k,
                at = (areNibbles ? line / 2 : line) * columns + column;
        renewed.values[at] = char(uint8_t(renewed.values[at]) |
                                  uint8_t(integer + form.commonZero)
                                      << (areNibbles ? k % 2 * 4 : 0));
      }
  form = std::move(renewed);
  form.shared = std::move(result);
  return true;
}
