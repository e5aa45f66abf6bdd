//===- GemmTests.cpp - GEMM descriptions for a library --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Gemm.h"

#include "gtest/gtest.h"

#include <functional>
#include <set>

using namespace mpc;

namespace {

using Activation = GemmProblem::Activation;
using BiasGradient = GemmProblem::BiasGradient;
using Compute = GemmProblem::Compute;
using Role = GemmProblem::Role;

/// Every option once, each valid alone or with the options that it requires.
const std::vector<std::function<void(GemmProblem &)>> kOptions = {
    [](GemmProblem &p) { p.m = 48; },
    [](GemmProblem &p) { p.n = 48; },
    [](GemmProblem &p) { p.k = 48; },
    [](GemmProblem &p) { p.batch = 3; },
    [](GemmProblem &p) { p.operandA = p.operandB = ElementType::BF16; },
    [](GemmProblem &p) { p.result = ElementType::F16; },
    [](GemmProblem &p) { p.transposeA = true; },
    [](GemmProblem &p) { p.transposeB = true; },
    [](GemmProblem &p) { p.sharedA = true; },
    [](GemmProblem &p) { p.sharedB = true; },
    [](GemmProblem &p) { p.bias = true; },
    [](GemmProblem &p) { p.residual = true; },
    [](GemmProblem &p) { p.activation = Activation::Relu; },
    [](GemmProblem &p) { p.activation = Activation::GeluTanh; },
    [](GemmProblem &p) { p.activation = Activation::ReluGradient; },
    [](GemmProblem &p) { p.activation = Activation::GeluTanhGradient; },
    [](GemmProblem &p) {
      p.activation = Activation::Relu;
      p.auxiliary = true;
    },
    [](GemmProblem &p) {
      p.activation = Activation::ReluGradient;
      p.biasGradient = BiasGradient::Result;
    },
    [](GemmProblem &p) { p.biasGradient = BiasGradient::A; },
    [](GemmProblem &p) { p.biasGradient = BiasGradient::B; },
    [](GemmProblem &p) { p.compute = Compute::Tf32; },
    [](GemmProblem &p) { p.compute = Compute::Bf16x9; },
};

/// Operands of 8 bits as the library wants them.
GemmProblem reducedProblem() {
  GemmProblem p;
  p.m = p.n = p.k = 32;
  p.transposeB = true;
  p.operandA = p.operandB = ElementType::F8E4M3FN;
  return p;
}

const std::vector<std::function<void(GemmProblem &)>> kReducedOptions = {
    [](GemmProblem &) {},
    [](GemmProblem &p) { p.operandA = ElementType::F8E5M2; },
    [](GemmProblem &p) { p.operandB = ElementType::F8E5M2; },
    [](GemmProblem &p) { p.scales = true; },
    [](GemmProblem &p) { p.result = ElementType::F8E4M3FN; },
    [](GemmProblem &p) {
      p.result = ElementType::F8E4M3FN;
      p.resultScale = true;
    },
    [](GemmProblem &p) {
      p.result = ElementType::F8E4M3FN;
      p.amax = true;
    },
};

// The cache key of a timed configuration is unique for every problem.
TEST(GemmProblem, HasANameOfItsOwn) {
  std::set<std::string> names;
  size_t count = 0;
  auto add = [&](GemmProblem problem,
                 const std::function<void(GemmProblem &)> &option) {
    option(problem);
    EXPECT_EQ(problem.obstacle(), "") << problem.toString();
    EXPECT_TRUE(problem.slots());
    EXPECT_TRUE(names.insert(problem.toString()).second) << problem.toString();
    ++count;
  };
  GemmProblem plain;
  plain.m = plain.n = plain.k = 32;
  for (const auto &option : kOptions)
    add(plain, option);
  for (const auto &option : kReducedOptions)
    add(reducedProblem(), option);
  EXPECT_EQ(names.size(), count);
  GemmProblem full = reducedProblem();
  full.operandB = ElementType::F8E5M2;
  full.result = ElementType::F8E4M3FN;
  full.scales = full.bias = full.resultScale = full.amax = true;
  full.activation = Activation::GeluTanh;
  EXPECT_EQ(full.toString(),
            "f8E4M3FN by f8E5M2 32x32x32, transposed b, scales, bias, gelu, "
            "result scale, amax, f8E4M3FN");
}

TEST(GemmProblem, ListsItsBuffers) {
  auto rolesOf = [](const GemmProblem &problem) {
    std::vector<std::pair<Role, int64_t>> roles;
    bool written = false;
    std::vector<GemmProblem::Slot> slots = *problem.slots();
    for (const GemmProblem::Slot &slot : slots) {
      EXPECT_GE(slot.written, written) << "a buffer is read behind the results";
      written = slot.written;
      roles.push_back({slot.role, slot.bytes});
    }
    return roles;
  };
  using Roles = std::vector<std::pair<Role, int64_t>>;
  GemmProblem p;
  p.m = 4;
  p.n = 136;
  p.k = 8;
  p.batch = 2;
  p.sharedB = true;
  p.operandA = p.operandB = p.result = ElementType::BF16;
  p.bias = p.auxiliary = true;
  p.activation = Activation::Relu;
  EXPECT_EQ(rolesOf(p), (Roles{{Role::A, 128},
                               {Role::B, 2176},
                               {Role::Bias, 272},
                               {Role::Result, 2176},
                               {Role::Auxiliary, 2 * 4 * 32}}));
  p.activation = Activation::GeluTanh;
  EXPECT_EQ(rolesOf(p).back(), (std::pair(Role::Auxiliary, int64_t(2176))));
  p.bias = p.auxiliary = false;
  p.batch = 1;
  p.activation = Activation::GeluTanhGradient;
  p.biasGradient = BiasGradient::Result;
  EXPECT_EQ(rolesOf(p), (Roles{{Role::A, 64},
                               {Role::B, 2176},
                               {Role::Auxiliary, 1088},
                               {Role::Result, 1088},
                               {Role::BiasGradient, 272}}));
  p.activation = Activation::None;
  p.biasGradient = BiasGradient::A;
  EXPECT_EQ(rolesOf(p).back(), (std::pair(Role::BiasGradient, int64_t(8))));

  p = reducedProblem();
  p.result = ElementType::F8E4M3FN;
  p.scales = p.bias = p.resultScale = p.amax = true;
  EXPECT_EQ(rolesOf(p), (Roles{{Role::A, 1024},
                               {Role::B, 1024},
                               {Role::ScaleA, 4},
                               {Role::ScaleB, 4},
                               {Role::Bias, 64},
                               {Role::ResultScale, 4},
                               {Role::Result, 1024},
                               {Role::Amax, 4}}));
  for (GemmProblem bad :
       {GemmProblem{.m = 0}, GemmProblem{.batch = -1},
        GemmProblem{.n = INT64_MAX},
        GemmProblem{.m = int64_t(1) << 40, .n = int64_t(1) << 40}})
    EXPECT_FALSE(bad.slots());
}

TEST(GemmProblem, NamesItsObstacle) {
  GemmProblem plain;
  plain.m = plain.n = plain.k = 32;
  struct Case {
    GemmProblem base;
    std::function<void(GemmProblem &)> change;
    const char *obstacle;
  };
  const GemmProblem reduced = reducedProblem();
  const std::vector<Case> cases = {
      {plain, [](GemmProblem &p) { p.result = ElementType::I32; },
       "has operands or a result that are not floats"},
      {plain, [](GemmProblem &p) { p.operandB = ElementType::BF16; },
       "has operands of different types"},
      {plain, [](GemmProblem &p) { p.scales = true; },
       "scales operands that are not 8-bit floats"},
      {plain, [](GemmProblem &p) { p.result = ElementType::F8E5M2; },
       "has an 8-bit result of operands that are not 8-bit"},
      {plain, [](GemmProblem &p) { p.amax = true; },
       "has a result scale or amax of a result that is not 8-bit"},
      {reduced, [](GemmProblem &p) { p.resultScale = true; },
       "has a result scale or amax of a result that is not 8-bit"},
      {plain, [](GemmProblem &p) { p.operandA = ElementType::F8E4M3FN; },
       "has only one 8-bit operand"},
      {reduced,
       [](GemmProblem &p) { p.operandA = p.operandB = ElementType::F8E5M2; },
       "has two operands of type f8E5M2"},
      {reduced, [](GemmProblem &p) { p.result = ElementType::F64; },
       "has an f64 result of 8-bit operands"},
      {reduced, [](GemmProblem &p) { p.result = ElementType::F8E5M2; },
       "has an f8E5M2 result of f8E4M3FN operands"},
      {reduced, [](GemmProblem &p) { p.transposeB = false; },
       "has 8-bit operands whose layouts are not [m, k] and [n, k]"},
      {reduced, [](GemmProblem &p) { p.k = 24; },
       "has 8-bit operands whose extents are not multiples of 16"},
      {reduced, [](GemmProblem &p) { p.activation = Activation::ReluGradient; },
       "has a gradient epilogue with 8-bit operands"},
      {reduced,
       [](GemmProblem &p) {
         p.result = ElementType::F8E4M3FN;
         p.residual = true;
       },
       "has a residual and an 8-bit result"},
      {reduced, [](GemmProblem &p) { p.compute = Compute::Tf32; },
       "rounds operands that are not f32"},
      {plain,
       [](GemmProblem &p) {
         p.activation = Activation::GeluTanh;
         p.residual = true;
       },
       "has both a residual and the activation gelu"},
      {plain,
       [](GemmProblem &p) {
         p.activation = Activation::ReluGradient;
         p.bias = true;
       },
       "has both a bias and the activation relu gradient"},
      {plain, [](GemmProblem &p) { p.auxiliary = true; },
       "has an auxiliary output but no activation"},
      {plain,
       [](GemmProblem &p) {
         p.activation = Activation::GeluTanhGradient;
         p.n = 12;
       },
       "has an auxiliary buffer whose rows of 12 elements are not multiples of "
       "8"},
      {plain,
       [](GemmProblem &p) {
         p.biasGradient = BiasGradient::B;
         p.batch = 2;
       },
       "has a bias gradient and 2 batches"},
      {plain, [](GemmProblem &p) { p.biasGradient = BiasGradient::Result; },
       "sums a result without an activation gradient"},
      {plain,
       [](GemmProblem &p) {
         p.biasGradient = BiasGradient::A;
         p.residual = true;
       },
       "sums an operand and has another epilogue"},
  };
  for (const Case &test : cases) {
    GemmProblem problem = test.base;
    EXPECT_EQ(problem.obstacle(), "");
    test.change(problem);
    EXPECT_EQ(problem.obstacle(), test.obstacle) << problem.toString();
  }
}

} // namespace
