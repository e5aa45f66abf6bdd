//===- PreludeWarpgroupTests.cpp - warpgroup MMA on the host --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostKernelTesting.h"
#include "TestKernels.h"

#include "mpc/Support/TensorCoreModel.h"

#include "gtest/gtest.h"

#include <llvm/ADT/APFloat.h>

using namespace mpc;

TEST(PreludeMatrices, WarpgroupsAgainstDouble) {
  std::vector<std::string> names = {"rows", "right", "left", "both"};
  HostModule module = compileKernels(kWarpgroups, names);
  for (int i = 0; i < 4; ++i) {
    int columns = 64 * (i + 1), bits = i % 2 ? kBfloat16 : kHalf;
    bool turnedA = i >= 2, turnedB = i % 2;
    auto a = random16(64 * 64, bits, 1);
    auto b = random16(64 * columns, bits, 2);
    std::vector<float> d(64 * columns);
    HostLaunch launch = grid(1, 128);
    launch.dynamicSharedBytes = 2 * 64 * (64 + columns);
    Status status =
        module.launch(names[i], launch,
                      {HostArgument::input("a", a), HostArgument::input("b", b),
                       HostArgument::output("d", d)});
    ASSERT_TRUE(status.ok()) << status.toString();
    for (int row = 0; row < 64; ++row)
      for (int column = 0; column < columns; ++column) {
        float sum = 0;
        // Rounded after each instruction, which is 16 deep.
        for (int part = 0; part < 4; ++part) {
          double next = sum;
          for (int k = 16 * part; k < 16 * part + 16; ++k)
            next +=
                valueOf16(a[turnedA ? 64 * k + row : 64 * row + k], bits) *
                valueOf16(b[turnedB ? columns * k + column : 64 * column + k],
                          bits);
          sum = static_cast<float>(next);
        }
        ASSERT_EQ(d[columns * row + column], sum)
            << names[i] << " at " << row << ", " << column;
      }
  }
}

TEST(PreludeMatrices, FloatEightWarpgroupsEqualTheModel) {
  using Type = TensorCoreType;
  struct {
    const char *name;
    Type a, b;
    int columns;
  } kernels[] = {{"bytes", Type::E4M3, Type::E4M3, 64},
                 {"mixedBytes", Type::E4M3, Type::E5M2, 128},
                 {"mixedLeft", Type::E5M2, Type::E4M3, 192},
                 {"wideBytes", Type::E5M2, Type::E5M2, 256}};
  std::vector<std::string> names;
  for (const auto &kernel : kernels)
    names.push_back(kernel.name);
  HostModule module = compileKernels(kWarpgroups, names);
  for (const auto &kernel : kernels) {
    auto elements = [&](int count, Type type, unsigned seed) {
      std::mt19937 random(seed);
      std::vector<uint8_t> values(static_cast<size_t>(count));
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = uint8_t(tileWord(random(), int(i / 512 % 7), 8,
                                     type == Type::E4M3 ? 4 : 5));
      return values;
    };
    auto factor = [](uint8_t bits, Type type) {
      llvm::APFloat value(type == Type::E4M3 ? llvm::APFloat::Float8E4M3FN()
                                             : llvm::APFloat::Float8E5M2(),
                          llvm::APInt(8, bits));
      return TensorCoreFactor::of(value.convertToFloat(), type);
    };
    auto a = elements(64 * 128, kernel.a, 1),
         b = elements(kernel.columns * 128, kernel.b, 2);
    std::vector<float> d(size_t(64 * kernel.columns));
    HostLaunch launch = grid(1, 128);
    launch.dynamicSharedBytes = size_t(128 * (64 + kernel.columns));
    launch.capability = 90;
    Status status =
        module.launch(kernel.name, launch,
                      {HostArgument::input("a", a), HostArgument::input("b", b),
                       HostArgument::output("d", d)});
    ASSERT_TRUE(status.ok()) << status.toString();
    auto arithmetic =
        TensorCoreArithmetic::of(TensorCoreInstruction::Wgmma, kernel.a, 90);
    for (int row = 0; row < 64; ++row)
      for (int column = 0; column < kernel.columns; ++column) {
        TensorCoreFactor left[128], right[128];
        for (int k = 0; k < 128; ++k) {
          left[k] = factor(a[size_t(128 * row + k)], kernel.a);
          right[k] = factor(b[size_t(128 * column + k)], kernel.b);
        }
        float expected = arithmetic.multiplyAdd(left, right, 128, 0);
        ASSERT_EQ(floatBits(d[size_t(kernel.columns * row + column)]),
                  floatBits(expected))
            << kernel.name << " at " << row << ", " << column;
      }
  }
}

TEST(PreludeMatrices, AWgmmaWithoutAWaitIsReported) {
  HostModule module =
      compileKernels("#define EARLY\n" + std::string(kWarpgroups), {"rows"});
  auto a = random16(64 * 64, kHalf, 1), b = random16(64 * 64, kHalf, 2);
  std::vector<float> d(64 * 64);
  HostLaunch launch = grid(1, 128);
  launch.dynamicSharedBytes = 4 * 64 * 64;
  Status status =
      module.launch("rows", launch,
                    {HostArgument::input("a", a), HostArgument::input("b", b),
                     HostArgument::output("d", d)});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.toString().find("matrix multiplications (wgmma) in flight"),
            std::string::npos)
      << status.toString();
}
