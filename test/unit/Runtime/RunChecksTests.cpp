//===- RunChecksTests.cpp - conditions that kernels check -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Executable.h"
#include "mpc/Runtime/Finiteness.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace mpc;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// y[k] = 1 / table[i[k]], which notes indices outside of [-4, 4) and
/// infinities.
void lookUp(void *const *buffers, int64_t begin, int64_t end, void *) {
  const auto *table = static_cast<const float *>(buffers[0]);
  const auto *indices = static_cast<const int64_t *>(buffers[1]);
  auto *out = static_cast<float *>(buffers[2]);
  auto *outside = static_cast<int64_t *>(buffers[3]),
       *infinite = static_cast<int64_t *>(buffers[4]);
  for (int64_t k = begin; k < end; ++k) {
    int64_t index = indices[k];
    if (index < -4 || index >= 4)
      *outside = index;
    out[k] = 1 / table[index & 3];
    if (!std::isfinite(out[k]))
      *infinite = 1;
  }
}

Program makeProgram() {
  Program program;
  program.name = "main";
  program.target = "cpu:test";
  program.arguments = {{"table", {ElementType::F32, {4}}},
                       {"i", {ElementType::I64, {3}}}};
  program.results = {{"y", {ElementType::F32, {3}}}};
  program.checks = {{RunCheck::Kind::IndexInRange, "lookup", 4, 1},
                    {RunCheck::Kind::FiniteResult, "", 0, -1}};
  Launch launch;
  launch.kernel = "lookup";
  launch.function = lookUp;
  launch.items = 3;
  launch.buffers = {{BufferRef::Kind::Argument, 0, 0, 16, false},
                    {BufferRef::Kind::Argument, 1, 0, 24, false},
                    {BufferRef::Kind::Result, 0, 0, 12, true},
                    {BufferRef::Kind::Checks, 0, 0, 8, true},
                    {BufferRef::Kind::Checks, 0, 8, 8, true}};
  program.launches = {launch};
  return program;
}

/// Runs the program, and what it reports of results that are not finite.
class RunChecks : public ::testing::Test {
protected:
  Result<std::vector<Buffer>> run(std::vector<float> table,
                                  std::vector<int64_t> indices) {
    arguments = {
        *Buffer::fromValues<float>({ElementType::F32, {4}}, table),
        *Buffer::fromValues<int64_t>({ElementType::I64, {3}}, indices)};
    RunOptions options;
    options.nonFinite = &suspects;
    Result<std::vector<Buffer>> results = executable.run(arguments, options);
    found.clear();
    if (results.ok())
      found =
          findNonFinite(executable.program(), arguments, *results, suspects);
    return results;
  }

  Executable executable =
      *Executable::create(*Device::cpu({.threads = 1}),
                          std::make_shared<const Program>(makeProgram()));
  std::vector<Buffer> arguments;
  std::vector<int64_t> suspects = {7};
  std::vector<NonFiniteResult> found;
};

} // namespace

TEST_F(RunChecks, AnIndexOutOfRangeFailsThatRunAlone) {
  EXPECT_TRUE(run({1, 2, 3, 4}, {0, 3, -4}).ok());
  Result<std::vector<Buffer>> failed = run({1, 2, 3, 4}, {0, -5, 1});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.status().code(), StatusCode::InvalidArgument);
  EXPECT_EQ(failed.status().toString(),
            "lookup: index -5 of input 'i' is outside an extent of 4; indices "
            "must be between -4 and 3");
  EXPECT_TRUE(run({1, 2, 3, 4}, {0, 3, -4}).ok());
}

TEST_F(RunChecks, InfinitiesOfFiniteInputsAreCounted) {
  EXPECT_TRUE(run({1, 2, 3, 4}, {0, 1, 2}).ok());
  EXPECT_TRUE(suspects.empty());
  EXPECT_TRUE(run({1, 0, 3, 4}, {1, 1, 2}).ok());
  EXPECT_EQ(suspects, std::vector<int64_t>{0});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "y");
  EXPECT_EQ(found[0].count, 2);
  EXPECT_EQ(found[0].elements, 3);
  // An input that holds some passes them on.
  EXPECT_TRUE(run({1, 0, kInfinity, 4}, {1, 1, 2}).ok());
  EXPECT_TRUE(found.empty());
}

TEST(RunCheck, ALengthIsNotNegative) {
  Program program = makeProgram();
  program.checks[0].kind = RunCheck::Kind::LengthInRange;
  auto run = [&](int64_t length) {
    Executable executable = *Executable::create(
        *Device::cpu({.threads = 1}), std::make_shared<const Program>(program));
    std::vector<Buffer> arguments = {
        *Buffer::fromValues<float>({ElementType::F32, {4}},
                                   std::vector<float>{1, 2, 3, 4}),
        *Buffer::fromValues<int64_t>({ElementType::I64, {3}},
                                     std::vector<int64_t>{0, length, 1})};
    return executable.run(arguments).status().toString();
  };
  EXPECT_EQ(run(-5), "lookup: length or position -5 of input 'i' is out of "
                     "range; it must be between 0 and 3");
  program.checks[0].argument = -1;
  EXPECT_EQ(run(4), "lookup: length or position 4 is out of range; it must be "
                    "between 0 and 3");
}

TEST(RunCheck, ExemptValuesAreNotCounted) {
  Program program = makeProgram();
  program.checks[1].exempt = NonFinite::kNegativeInfinity;
  std::vector<Buffer> results = {*Buffer::fromValues<float>(
      {ElementType::F32, {3}},
      std::vector<float>{-kInfinity, kInfinity, -kInfinity})};
  std::vector<int64_t> suspects = {0};
  std::vector<NonFiniteResult> found =
      findNonFinite(program, {}, results, suspects);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].count, 1);
  program.checks[1].exempt |= NonFinite::kPositiveInfinity;
  EXPECT_TRUE(findNonFinite(program, {}, results, suspects).empty());
}

TEST(RunCheck, EveryElementTypeHasThreeKinds) {
  auto expect = [](ElementType type, auto nan, auto positive, auto negative) {
    using T = decltype(nan);
    Buffer buffer = *Buffer::fromValues<T>(
        {type, {6}},
        std::vector<T>{nan, nan, positive, negative, negative, negative});
    EXPECT_EQ(countNonFinite(buffer), 6);
    EXPECT_EQ(countNonFinite(buffer, NonFinite::kNan), 4);
    EXPECT_EQ(countNonFinite(buffer, NonFinite::kPositiveInfinity), 5);
    EXPECT_EQ(countNonFinite(buffer, NonFinite::kNegativeInfinity), 3);
    EXPECT_EQ(countNonFinite(buffer, NonFinite::kAll), 0);
  };
  expect(ElementType::F16, uint16_t(0xfe01), uint16_t(0x7c00),
         uint16_t(0xfc00));
  expect(ElementType::BF16, uint16_t(0xff81), uint16_t(0x7f80),
         uint16_t(0xff80));
  expect(ElementType::F32, uint32_t(0x7fc00000), uint32_t(0x7f800000),
         uint32_t(0xff800000));
  expect(ElementType::F64, uint64_t(0xfff8000000000000),
         uint64_t(0x7ff0000000000000), uint64_t(0xfff0000000000000));
}

TEST_F(RunChecks, EveryElementTypeCounts) {
  auto count = [](ElementType type, auto bits) {
    std::vector<decltype(bits)> values = {0, bits, 1};
    return countNonFinite(
        *Buffer::fromValues<decltype(bits)>({type, {3}}, values));
  };
  EXPECT_EQ(count(ElementType::F16, uint16_t(0x7c00)), 1);
  EXPECT_EQ(count(ElementType::F16, uint16_t(0xfe01)), 1);
  EXPECT_EQ(count(ElementType::F16, uint16_t(0x7bff)), 0);
  EXPECT_EQ(count(ElementType::BF16, uint16_t(0xff80)), 1);
  EXPECT_EQ(count(ElementType::BF16, uint16_t(0x7f7f)), 0);
  EXPECT_EQ(count(ElementType::F32, uint32_t(0x7fc00000)), 1);
  EXPECT_EQ(count(ElementType::F64, uint64_t(0xfff0000000000000)), 1);
  EXPECT_EQ(count(ElementType::F64, uint64_t(0x7fefffffffffffff)), 0);
  EXPECT_EQ(count(ElementType::I64, int64_t(-1)), 0);
}

TEST(RunCheck, OfNothingIsRefused) {
  for (RunCheck check :
       {RunCheck{RunCheck::Kind::IndexInRange, "op", 0, -1},
        RunCheck{RunCheck::Kind::IndexInRange, "op", 4, 2},
        RunCheck{RunCheck::Kind::IndexInRange, "op", 4, -1, 1},
        RunCheck{RunCheck::Kind::FiniteResult, "", 1, -1},
        RunCheck{RunCheck::Kind::FiniteResult, "", 0, -1, NonFinite::kAll}}) {
    Program program = makeProgram();
    program.checks[0] = check;
    EXPECT_FALSE(validate(program, /*needsCode=*/true).ok());
  }
  Program program = makeProgram();
  program.checks.pop_back();
  EXPECT_FALSE(validate(program, /*needsCode=*/true).ok());
}
