//===- PreludeVectorTests.cpp - vectors, powers, f64, warps ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostKernelTesting.h"
#include "TestKernels.h"

#include <cmath>

using namespace mpc;

/// The distance in units of the last place of the nearest float to `exact`.
static double ulps(float value, double exact) {
  if (std::isnan(exact))
    return std::isnan(value) ? 0 : INFINITY;
  float nearest = static_cast<float>(exact);
  if (value == nearest)
    return std::signbit(value) == std::signbit(nearest) ? 0 : INFINITY;
  if (std::isinf(value) || std::isinf(nearest))
    return INFINITY;
  double unit = std::nextafter(std::fabs(nearest), INFINITY) -
                static_cast<double>(std::fabs(nearest));
  return std::fabs(value - exact) / unit;
}

TEST(PreludeVector, PowersAndAngles) {
  HostModule module = compileKernels(kPowers, {"powers"});
  std::vector<float> x, y;
  // Every pair of special values, then random ones of all sizes.
  std::vector<float> special = {
      0.0f,    -0.0f,        1.0f,      -1.0f,    0.5f,       -0.5f,
      2.0f,    3.0f,         -3.0f,     INFINITY, NAN,        1e-42f,
      3.4e38f, 1.6777217e7f, -INFINITY, -2.5f,    1.0000001f, 0.9999999f};
  for (float a : special)
    for (float b : special) {
      x.push_back(a);
      y.push_back(b);
    }
  std::vector<float> random = randomFloats(4000);
  for (size_t i = 0; i < random.size(); i += 2) {
    x.push_back(std::exp(10 * random[i]));
    y.push_back(random[i + 1] * 10);
    x.push_back(random[i]);
    y.push_back(std::round(random[i + 1] * 5));
  }
  int n = static_cast<int>(x.size());
  std::vector<float> power(n), angle(n);
  Status status = module.launch(
      "powers", grid(1, 64),
      {HostArgument::input("x", x), HostArgument::input("y", y),
       HostArgument::output("power", power),
       HostArgument::output("angle", angle), HostArgument::scalar(n)});
  ASSERT_TRUE(status.ok()) << status.toString();
  for (int i = 0; i < n; ++i) {
    double exact = std::pow(static_cast<double>(x[i]), y[i]);
    EXPECT_LE(ulps(power[i], exact), 0.51) << x[i] << " ^ " << y[i];
    EXPECT_LE(ulps(angle[i], std::atan2(static_cast<double>(x[i]), y[i])), 3)
        << "angle of " << y[i] << ", " << x[i];
  }
}

TEST(PreludeVector, LanesAgreeWithScalars) {
  HostModule module = compileKernels(kLanes, {"lanes"});
  std::vector<float> x = {1.5f, -2.25f, 3.1f, -0.0f, 0.5f, -7, 2.9f, 1}, y(22);
  std::vector<int> n = {1, -2, 30, 400}, m(5);
  Status status = module.launch(
      "lanes", grid(1, 1),
      {HostArgument::input("x", x), HostArgument::output("y", y),
       HostArgument::input("n", n), HostArgument::output("m", m)});
  ASSERT_TRUE(status.ok()) << status.toString();
  for (int i = 0; i < 4; ++i) {
    float a = x[i], b = x[4 + i];
    EXPECT_EQ(y[i], a * b + 0.5f);
    EXPECT_EQ(y[4 + i], a > b ? a : 0.0f);
    EXPECT_EQ(y[8 + i], std::max(std::fabs(a), 1.0f) - std::fma(a, b, -b));
    EXPECT_EQ(floatBits(y[16 + i]) & 0xffff, 0u);
    EXPECT_NEAR(y[16 + i], a, std::fabs(a) / 256);
    EXPECT_EQ(m[i], static_cast<int>((2147483647u + n[i]) ^
                                     (static_cast<unsigned>(n[i]) << 3)));
  }
  EXPECT_EQ(y[12], x[3]);
  EXPECT_EQ(y[13], x[4]);
  EXPECT_EQ(y[14], x[0]);
  EXPECT_EQ(y[15], x[7]);
  EXPECT_EQ(y[20], ((x[0] + x[1]) + x[2]) + x[3]);
  EXPECT_EQ(y[21], 2.9f);
  EXPECT_EQ(m[4], 1);
}

TEST(PreludeVector, DoublesRoundOnceAndReduceOverLanes) {
  HostModule module = compileKernels(kLanes, {"doubles"});
  // Just above the middle of two neighbours: a float in between is the middle.
  std::vector<double> x(32), y(64);
  for (int i = 0; i < 32; ++i)
    x[i] = i % 2 ? 1 + 0x1p-11 + 0x1p-40 : 1 + 0x1p-8 + 0x1p-40;
  x[5] = -3.5;
  x[9] = 77;
  std::vector<uint16_t> h(32), b(32);
  std::vector<long long> n(32);
  Status status =
      module.launch("doubles", grid(1, 32),
                    {HostArgument::input("x", x), HostArgument::output("y", y),
                     HostArgument::output("h", h), HostArgument::output("b", b),
                     HostArgument::output("n", n)});
  ASSERT_TRUE(status.ok()) << status.toString();
  EXPECT_EQ(h[1], 0x3c01);
  EXPECT_EQ(b[0], 0x3f81);
  EXPECT_EQ(valueOf16(h[5], kHalf), -3.5);
  double sum = 0;
  for (int i = 8; i < 16; ++i)
    sum += x[i];
  EXPECT_DOUBLE_EQ(y[12], sum);
  EXPECT_EQ(y[40], 77);
  EXPECT_EQ(n[7], 496ll << 40);
}
