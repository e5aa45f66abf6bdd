//===- ReduceTests.cpp - tests of reductions over ranks -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Communication/HostReduction.h"

#include "ReductionReference.h"

#include <gtest/gtest.h>

using namespace mpc;
using namespace mpc::testing;

namespace {

using Reduction = Collective::Reduction;

Bytes reduceFast(const Collective &how, const std::vector<Bytes> &rows) {
  Bytes all, result(rows[0].size());
  for (const Bytes &row : rows)
    all.insert(all.end(), row.begin(), row.end());
  detail::reduceRows(how, all.data(),
                     result.size() / size_t(elementBytes(how.element)),
                     result.data());
  return result;
}

/// Rows of the given numbers of `type`, one number each.
std::vector<Bytes> rowsOf(ElementType type,
                          const std::vector<double> &numbers) {
  std::vector<Bytes> rows;
  for (double number : numbers) {
    Bytes &row = rows.emplace_back(size_t(elementBytes(type)));
    writeFloat(type, row, 0, number);
  }
  return rows;
}

double reduceNumbers(Collective how, const std::vector<double> &numbers) {
  how.ranks = int64_t(numbers.size());
  return readFloat(how.element, reduceFast(how, rowsOf(how.element, numbers)),
                   0);
}

} // namespace

TEST(Reduce, EveryPairOfSixteenBitNumbersAddsAsTheReferenceDoes) {
  // All numbers once in the first row, in another order in the second.
  for (ElementType type : {ElementType::F16, ElementType::BF16})
    for (ElementType sum : {type, ElementType::F32, ElementType::F64})
      for (uint32_t step : {1u, 2049u, 40503u}) {
        std::vector<Bytes> rows(2, Bytes(65536 * 2));
        for (uint32_t i = 0; i < 65536; ++i) {
          auto first = uint16_t(i), second = uint16_t(i * step + step / 2);
          std::memcpy(rows[0].data() + 2 * size_t(i), &first, 2);
          std::memcpy(rows[1].data() + 2 * size_t(i), &second, 2);
        }
        for (Reduction reduction : {Reduction::Sum, Reduction::Mean,
                                    Reduction::Min, Reduction::Max}) {
          Collective how{Collective::Kind::AllReduce, reduction, type, sum, 2};
          EXPECT_EQ(reduceFast(how, rows), reduceSlowly(how, rows))
              << how.toString() << " " << step;
        }
      }
}

TEST(Reduce, RoundsOnceFromTheAccumulateType) {
  Collective how;
  how.element = ElementType::F16;
  // A tie, which the last term breaks where the sum has room for it.
  std::vector<double> terms = {2048, 1, 0x1p-20};
  how.accumulate = ElementType::F64;
  EXPECT_EQ(reduceNumbers(how, terms), 2050);
  how.accumulate = ElementType::F32;
  EXPECT_EQ(reduceNumbers(how, terms), 2048);
  // In f16 each partial sum is rounded.
  how.accumulate = ElementType::F16;
  EXPECT_EQ(reduceNumbers(how, {2048, 1, 1}), 2048);
  how.accumulate = ElementType::F32;
  EXPECT_EQ(reduceNumbers(how, {2048, 1, 1}), 2050);
  // An intermediate overflow is only avoided in a wider type.
  EXPECT_EQ(reduceNumbers(how, {60000, 60000, -60000}), 60000);
  how.accumulate = ElementType::F16;
  EXPECT_EQ(reduceNumbers(how, {60000, 60000, -60000}), INFINITY);
  how.element = ElementType::F32;
  how.accumulate = ElementType::F64;
  EXPECT_EQ(reduceNumbers(how, {0x1p127, 0x1p127, -0x1p127}), 0x1p127);
  how.reduction = Reduction::Mean;
  EXPECT_EQ(reduceNumbers(how, {0x1p127, 0x1p127}), 0x1p127);
}

TEST(Reduce, AddsInTheOrderOfRanks) {
  Collective how;
  EXPECT_EQ(reduceNumbers(how, {0x1p24, 1, -0x1p24}), 0);
  EXPECT_EQ(reduceNumbers(how, {0x1p24, -0x1p24, 1}), 1);
}

TEST(Reduce, ANanOfAnyRankIsTheOneNan) {
  for (ElementType type : {ElementType::F16, ElementType::BF16,
                           ElementType::F32, ElementType::F64})
    for (Reduction reduction :
         {Reduction::Sum, Reduction::Mean, Reduction::Min, Reduction::Max})
      for (size_t rank = 0; rank < 3; ++rank) {
        Collective how{Collective::Kind::AllReduce, reduction, type,
                       ElementType::F64, 3};
        std::vector<Bytes> rows = rowsOf(type, {1, 2, 3});
        // A negative NaN with a payload.
        std::fill(rows[rank].begin(), rows[rank].end(), char(0xff));
        EXPECT_EQ(reduceFast(how, rows), rowsOf(type, {kNan})[0])
            << how.toString() << " rank " << rank;
      }
  Collective how;
  EXPECT_TRUE(std::isnan(reduceNumbers(how, {INFINITY, -INFINITY})));
}

TEST(Reduce, SumsOfIntegersWrapAround) {
  Collective how{Collective::Kind::AllReduce, Reduction::Sum, ElementType::I32,
                 ElementType::I64, 2};
  Bytes most(4), one(4);
  int32_t value = INT32_MAX, unit = 1;
  std::memcpy(most.data(), &value, 4);
  std::memcpy(one.data(), &unit, 4);
  for (ElementType sum : {ElementType::I32, ElementType::I64}) {
    how.accumulate = sum;
    EXPECT_EQ(at<int32_t>(reduceFast(how, {most, one}), 0), INT32_MIN);
  }
}
