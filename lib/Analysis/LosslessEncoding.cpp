//===- LosslessEncoding.cpp - lossless compression of weights -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/LosslessEncoding.h"

#include "RoundEven.h"

#include "mpc/Support/NarrowFloat.h"
#include "mpc/Support/VectorClones.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

using namespace mpc;
using llvm::ArrayRef;

namespace {

/// Panels to compress.
struct Panels {
  float at(int64_t panel, int64_t k, int64_t column) const {
    return numbers[(panel * depth + k) * columns + column];
  }

  /// Index of the scale of column 0 on a line: a position of a panel.
  int64_t scaleOf(const LosslessPanels &form, int64_t line) const {
    return (line / depth * (depth / form.group) + line % depth / form.group) *
           columns;
  }

  ArrayRef<float> numbers;
  int64_t count, depth, columns;
};

} // namespace

/// Divides scales by integers such that all are exact in f16, if all can be:
/// the coarsest grid of a group may have a multiple of the scale that a model
/// stores in f16.
static void refineToHalves(std::vector<IntegerGrid> &grids, int64_t levels) {
  std::vector<IntegerGrid> refined;
  refined.reserve(grids.size());
  for (const IntegerGrid &grid : grids) {
    int64_t most = (levels - 1) / std::max<int64_t>(grid.most - grid.least, 1);
    for (int64_t part = 1; part <= most; ++part) {
      float scale = grid.scale / float(part);
      if (!exactHalf(scale) || scale * float(part) != grid.scale)
        continue;
      refined.push_back({scale, grid.least * part, grid.most * part});
      break;
    }
    if (refined.size() != size_t(&grid - grids.data()) + 1)
      return;
  }
  grids = std::move(refined);
}

/// Returns one grid per group of `group` positions; empty if a group has none.
static std::vector<IntegerGrid> gridsOf(const Panels &panels, int64_t group,
                                        int64_t levels) {
  std::vector<IntegerGrid> grids;
  std::vector<float> values(group);
  int64_t likely = 0;
  for (int64_t panel = 0; panel < panels.count; ++panel)
    for (int64_t first = 0; first < panels.depth; first += group)
      for (int64_t column = 0; column < panels.columns; ++column) {
        for (int64_t i = 0; i < group; ++i)
          values[i] = panels.at(panel, first + i, column);
        // Quantizers map the largest magnitude of every group to one integer.
        std::optional<IntegerGrid> grid = findGrid(values, levels, likely);
        if (!grid)
          return {};
        likely = std::max(-grid->least, grid->most);
        grids.push_back(*grid);
      }
  refineToHalves(grids, levels);
  // A negative scale turns -7..8 into -8..7.
  for (IntegerGrid &grid : grids)
    if (grid.most == levels / 2 && grid.least > -levels / 2)
      grid = {-grid.scale, -grid.most, -grid.least};
  return grids;
}

namespace {

/// Integers of numbers for the scales and offsets of an encoding.
class IntegerReader {
public:
  explicit IntegerReader(const LosslessPanels &form) : offsets(form.offsets) {
    // A scale of zero: all numbers of the group are zero, or the offset.
    for (float scale : form.scales)
      inverses.push_back(scale == 0 ? 0 : 1 / double(scale));
  }

  /// Returns the integer of `number` in the group of scale `place`.
  int64_t operator()(float number, int64_t place) const {
    double offset = offsets.empty() ? 0 : offsets[place];
    return int64_t(roundEven((double(number) - offset) * inverses[place]));
  }

  /// Writes the integers of a line of numbers whose first has scale `place`.
  void ofLine(ArrayRef<float> numbers, int64_t place, int32_t *target) const {
    lineOf(numbers, inverses.data() + place,
           offsets.empty() ? nullptr : offsets.data() + place, target);
  }

private:
  MPC_VECTOR_CLONES
  static void lineOf(ArrayRef<float> numbers, const double *inverses,
                     const float *offsets, int32_t *target) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      double offset = offsets ? offsets[i] : 0;
      target[i] = int32_t(roundEven((numbers[i] - offset) * inverses[i]));
    }
  }

  ArrayRef<float> offsets;
  std::vector<double> inverses;
};

} // namespace

/// Stores the integers of `panels` for the scales and zero points or offsets of
/// `form`.
static void storeIntegers(const Panels &panels, LosslessPanels &form) {
  bool areNibbles = form.kind == LosslessPanels::Kind::Nibbles;
  IntegerReader integerOf(form);
  int64_t perByte = areNibbles ? 2 : 1;
  form.values.assign(panels.numbers.size() / perByte, 0);
  std::vector<int32_t> integers(panels.columns);
  for (int64_t line = 0; line < panels.count * panels.depth; ++line) {
    int64_t k = line % panels.depth, scale = panels.scaleOf(form, line);
    char *to = form.values.data() +
               line / (perByte * form.depth) * panels.columns * form.depth +
               k % form.depth;
    int64_t shift = areNibbles ? k / form.depth % 2 * 4 : 0;
    integerOf.ofLine(
        panels.numbers.slice(line * panels.columns, panels.columns), scale,
        integers.data());
    for (int64_t column = 0; column < panels.columns; ++column) {
      int64_t zero =
          form.zeros.empty() ? form.commonZero : form.zeros[scale + column];
      char &byte = to[column * form.depth];
      byte = char(uint8_t(byte) | (integers[column] + zero) << shift);
    }
  }
}

/// Returns the stored integers of `panels` on `grids`.
static LosslessPanels integersOf(const Panels &panels,
                                 const std::vector<IntegerGrid> &grids,
                                 int64_t group, bool areNibbles,
                                 int64_t together) {
  int64_t levels = areNibbles ? 16 : 256;
  bool areSigned = llvm::all_of(grids, [&](const IntegerGrid &grid) {
    return grid.least >= -levels / 2 && grid.most < levels / 2;
  });
  LosslessPanels form;
  form.group = group;
  form.depth = group % 16 == 0 ? together : 1;
  form.kind = areNibbles ? LosslessPanels::Kind::Nibbles
              : areSigned && form.depth == 1
                  ? LosslessPanels::Kind::Int8
                  : LosslessPanels::Kind::UnsignedInt8;
  if (areSigned && form.kind != LosslessPanels::Kind::Int8)
    form.commonZero = levels / 2;
  for (const IntegerGrid &grid : grids) {
    form.scales.push_back(grid.scale);
    if (!areSigned)
      form.zeros.push_back(uint8_t(-grid.least));
  }
  if (!form.zeros.empty() && llvm::all_equal(form.zeros)) {
    form.commonZero = form.zeros.front();
    form.zeros.clear();
  }
  storeIntegers(panels, form);
  return form;
}

/// Returns `panels` as integers of fewer than `levels` steps with an offset per
/// group of `group` positions, scales and offsets of at most `bits` significant
/// bits; nullopt if a group has none.
static std::optional<LosslessPanels> offsetIntegersOf(const Panels &panels,
                                                      int64_t group,
                                                      int64_t levels,
                                                      int bits) {
  bool areNibbles = levels <= 16;
  LosslessPanels form;
  form.kind = areNibbles ? LosslessPanels::Kind::Nibbles
                         : LosslessPanels::Kind::UnsignedInt8;
  form.group = group;
  std::vector<float> values(group);
  int64_t likely = 0;
  for (int64_t panel = 0; panel < panels.count; ++panel)
    for (int64_t first = 0; first < panels.depth; first += group)
      for (int64_t column = 0; column < panels.columns; ++column) {
        for (int64_t i = 0; i < group; ++i)
          values[i] = panels.at(panel, first + i, column);
        std::optional<OffsetGrid> grid =
            findOffsetGrid(values, levels, bits, likely);
        if (!grid)
          return std::nullopt;
        likely = grid->most;
        form.scales.push_back(grid->scale);
        form.offsets.push_back(grid->offset);
      }
  storeIntegers(panels, form);
  return form;
}

/// Returns `panels` as 8-bit floats, with a scale per column; nullopt if a
/// column has none.
static std::optional<LosslessPanels> float8Of(const Panels &panels) {
  LosslessPanels form;
  form.kind = LosslessPanels::Kind::Float8;
  form.group = panels.depth;
  form.values.resize(panels.numbers.size());
  std::vector<float> values(panels.depth);
  for (int64_t panel = 0; panel < panels.count; ++panel)
    for (int64_t column = 0; column < panels.columns; ++column) {
      for (int64_t k = 0; k < panels.depth; ++k)
        values[k] = panels.at(panel, k, column);
      std::optional<float> scale = findFloat8Scale(values);
      if (!scale)
        return std::nullopt;
      form.scales.push_back(*scale);
      for (int64_t k = 0; k < panels.depth; ++k)
        form.values[(panel * panels.depth + k) * panels.columns + column] =
            char(kFloat8E4M3FN.encode(double(values[k]) / double(*scale)));
    }
  return form;
}

/// Returns `panels` as 16-bit integers, with a scale per column; nullopt if a
/// column has none.
static std::optional<LosslessPanels> int16Of(const Panels &panels) {
  constexpr int64_t kLevels = 1 << 16;
  LosslessPanels form;
  form.kind = LosslessPanels::Kind::Int16;
  form.group = panels.depth;
  form.values.resize(2 * panels.numbers.size());
  std::vector<float> values(panels.depth);
  for (int64_t panel = 0; panel < panels.count; ++panel)
    for (int64_t column = 0; column < panels.columns; ++column) {
      for (int64_t k = 0; k < panels.depth; ++k)
        values[k] = panels.at(panel, k, column);
      std::optional<IntegerGrid> grid = findExactGrid(values, kLevels);
      if (!grid || grid->least < -kLevels / 2 || grid->most >= kLevels / 2)
        return std::nullopt;
      form.scales.push_back(grid->scale);
      for (int64_t k = 0; k < panels.depth; ++k) {
        auto integer = int16_t(double(values[k]) / double(grid->scale));
        std::memcpy(
            form.values.data() +
                2 * ((panel * panels.depth + k) * panels.columns + column),
            &integer, sizeof(integer));
      }
    }
  return form;
}

std::optional<uint16_t> mpc::exactBFloat(float number) {
  uint32_t bits;
  std::memcpy(&bits, &number, 4);
  if (bits & 0xffff)
    return std::nullopt;
  return uint16_t(bits >> 16);
}

/// Returns `panels` as 16-bit floats; nullopt if `bitsOf` fails for a number.
static std::optional<LosslessPanels>
halvesOf(const Panels &panels, LosslessPanels::Kind kind,
         std::optional<uint16_t> (*bitsOf)(float)) {
  LosslessPanels form;
  form.kind = kind;
  form.group = panels.depth;
  form.values.resize(2 * panels.numbers.size());
  char *to = form.values.data();
  for (float number : panels.numbers) {
    std::optional<uint16_t> bits = bitsOf(number);
    if (!bits)
      return std::nullopt;
    std::memcpy(to, &*bits, 2);
    to += 2;
  }
  return form;
}

/// Stores scales that do not fit into 16 bits as integers times a factor per
/// 256 positions, if numbers stay the same.
static void shareWideScales(LosslessPanels &form, const Panels &panels) {
  constexpr int64_t kFactorGroup = 256;
  int64_t groups = panels.depth / form.group,
          shared = kFactorGroup / form.group;
  bool hasOffsets = !form.offsets.empty();
  int64_t levels = form.kind == LosslessPanels::Kind::Nibbles ? 16 : 256;
  if (!form.zeros.empty() || shared < 2 || kFactorGroup % form.group ||
      groups % shared || llvm::all_of(form.scales, exactBFloat) ||
      llvm::all_of(form.scales, exactHalf))
    return;
  std::vector<GroupScale> scales;
  scales.reserve(form.scales.size());
  for (float scale : form.scales)
    scales.push_back({scale, 0, 0});
  std::vector<int16_t> integers;
  integers.reserve(panels.numbers.size());
  IntegerReader integerOf(form);
  int64_t columns = panels.columns, lines = panels.count * panels.depth;
  for (int64_t line = 0; line < lines; ++line)
    for (int64_t column = 0, first = panels.scaleOf(form, line);
         column < columns; ++column) {
      int64_t integer =
          integerOf(panels.numbers[line * columns + column], first + column);
      integers.push_back(int16_t(integer));
      GroupScale &group = scales[first + column];
      if (group.divisor != 1)
        group.divisor = std::gcd(group.divisor, integer);
      group.largest = std::max(group.largest, std::abs(integer));
    }
  // Offsets have integers from zero on, others of either sign.
  std::optional<SharedScales> found =
      findSharedScales(scales, panels.count, groups, columns, shared,
                       hasOffsets ? levels - 1 : levels / 2 - 1);
  if (!found)
    return;
  LosslessPanels renewed = form;
  for (size_t i = 0; i < scales.size(); ++i) {
    size_t line = i / columns / shared;
    renewed.scales[i] =
        found->factors[line * panels.columns + i % panels.columns] *
        float(found->values[i]);
  }
  // The integers change with the scales.
  IntegerReader newIntegerOf(renewed);
  auto integer = integers.begin();
  for (int64_t line = 0; line < lines; ++line)
    for (int64_t column = 0, first = panels.scaleOf(form, line);
         column < columns; ++column) {
      int64_t place = first + column;
      double before = double(*integer++) * double(form.scales[place]);
      double after =
          double(newIntegerOf(panels.numbers[line * columns + column], place)) *
          double(renewed.scales[place]);
      if (before != after)
        return;
    }
  form = std::move(renewed);
  form.shared = std::move(found);
  storeIntegers(panels, form);
}

std::optional<LosslessPanels>
mpc::findLosslessEncoding(ArrayRef<float> numbers, int64_t count, int64_t depth,
                          int64_t columns, int64_t run, int64_t together,
                          bool onlyBytes) {
  Panels panels{numbers, count, depth, columns};
  if (numbers.empty())
    return std::nullopt;
  // Smallest format first. More than one scale per 16 positions would take as
  // much memory as wider integers.
  for (bool areNibbles : {true, false}) {
    auto isAllowed = [&](int64_t group) {
      return depth % group == 0 && !(areNibbles && (group % 2 || run % 2)) &&
             (group == depth || run % group == 0);
    };
    for (int64_t group :
         {depth, int64_t(128), int64_t(64), int64_t(32), int64_t(16)}) {
      if (!isAllowed(group))
        continue;
      std::vector<IntegerGrid> grids =
          gridsOf(panels, group, areNibbles ? 16 : 256);
      if (grids.empty())
        continue;
      LosslessPanels form =
          integersOf(panels, grids, group, areNibbles, together);
      shareWideScales(form, panels);
      return form;
    }
    // Blocks of ggml, whose formats have up to five bits, and scales that are
    // f16 or f16 times six bits.
    for (int64_t group : {int64_t(32), int64_t(16)})
      for (int bits : {11, 17, 24})
        if (isAllowed(group))
          if (std::optional<LosslessPanels> form =
                  offsetIntegersOf(panels, group, areNibbles ? 16 : 32, bits)) {
            shareWideScales(*form, panels);
            return form;
          }
  }
  if (std::optional<LosslessPanels> form = float8Of(panels))
    return form;
  if (onlyBytes)
    return std::nullopt;
  if (std::optional<LosslessPanels> form =
          halvesOf(panels, LosslessPanels::Kind::BFloat16, exactBFloat))
    return form;
  if (std::optional<LosslessPanels> form =
          halvesOf(panels, LosslessPanels::Kind::Float16, exactHalf))
    return form;
  return int16Of(panels);
}
