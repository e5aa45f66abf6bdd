//===- UpdateKernelTests.cpp - multi-tensor optimizer kernels -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Plan/KernelBatches.h"

#include "gtest/gtest.h"

using namespace mpc;

/// The function `@k` of kind update.
static std::string updateKernel(const std::string &arguments,
                                const std::string &results,
                                const std::string &body) {
  return substitute(loopKernel(arguments, results, body),
                    {{"\"elementwise\"", "#mpc<fusion_kind update>"}});
}

/// One parameter with momentum: arguments, results and ops under the name `$N`.
static const char *const kArguments =
    "%w$N: tensor<$S>, %m$N: tensor<$S>, %g$N: tensor<$G>";
static const char *const kResults = "tensor<$S>, tensor<$S>, tensor<$C>";
static const char *const kOps = R"(
  %f$N = mpc.cast %g$N : tensor<$G> to tensor<$S>
  %u$N = mpc.mul %f$N, %inv : (tensor<$S>, tensor<f32>) -> tensor<$S>
  %a$N = mpc.mul %m$N, %beta : (tensor<$S>, tensor<f32>) -> tensor<$S>
  %n$N = mpc.add %a$N, %u$N : (tensor<$S>, tensor<$S>) -> tensor<$S>
  %d$N = mpc.mul %n$N, %rate : (tensor<$S>, tensor<f32>) -> tensor<$S>
  %v$N = mpc.sub %w$N, %d$N : (tensor<$S>, tensor<$S>) -> tensor<$S>
  %sw$N = mpc.select %ok, %v$N, %w$N : (tensor<i1>, tensor<$S>, tensor<$S>) -> tensor<$S>
  %sm$N = mpc.select %ok, %n$N, %m$N : (tensor<i1>, tensor<$S>, tensor<$S>) -> tensor<$S>
  %c$N = mpc.cast %sw$N : tensor<$S> to tensor<$C>)";

/// Updates parameters of these shapes ("784x10x") and the step counter.
static std::string momentum(const std::vector<std::string> &shapes,
                            const std::string &gradient,
                            const std::string &copy) {
  std::string arguments = "%step: tensor<i64>, %scale: tensor<f32>, "
                          "%ok: tensor<i1>",
              results = "tensor<i64>, tensor<f32>", body = R"(
  %one = mpc.constant dense<1> : tensor<i64>
  %beta = mpc.constant dense<0.9> : tensor<f32>
  %base = mpc.constant dense<0.1> : tensor<f64>
  %1 = mpc.constant dense<1.0> : tensor<f32>
  %next = mpc.add %step, %one : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %t = mpc.cast %step : tensor<i64> to tensor<f64>
  %e = mpc.exp %t : tensor<f64>
  %l = mpc.mul %base, %e : (tensor<f64>, tensor<f64>) -> tensor<f64>
  %rate = mpc.cast %l : tensor<f64> to tensor<f32>
  %inv = mpc.div %1, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %twice = mpc.add %scale, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>)",
              returned = "%next, %twice";

  for (size_t i = 0; i < shapes.size(); ++i) {
    std::map<std::string, std::string> by = {{"$N", std::to_string(i)},
                                             {"$S", shapes[i] + "f32"},
                                             {"$G", shapes[i] + gradient},
                                             {"$C", shapes[i] + copy}};
    arguments += ", " + substitute(kArguments, by);
    results += ", " + substitute(kResults, by);
    body += substitute(kOps, by);
    returned += substitute(", %sw$N, %sm$N, %c$N", by);
  }
  body += "\n  return " + returned + " : " + results;
  return updateKernel(arguments, results, body);
}

static CudaKernelCheck smallSteps() {
  CudaKernelCheck check;
  check.family = "update";
  check.adjust = [](unsigned argument, reference::Tensor &tensor) {
    if (argument == 0)
      tensor.ints()[0] = 1;
    if (argument == 1)
      tensor.floats()[0] = 8;
  };
  return check;
}

// Shapes that are no multiples of vectors or blocks, empty ones included, are
// in one kernel, and a scalar that all blocks read is updated.
TEST(CudaUpdate, ParametersOfAnyShape) {
  FamilyBatch batch("update");
  batch.check = smallSteps();
  batch.add(momentum({"784x10x", "10x", "1x", "3x5x7x", "0x", "257x"}, "f32",
                     "bf16"));
  batch.add(momentum({"64x32x", "32x"}, "f16", "f16"));
  batch.add(momentum({"7x"}, "bf16", "bf16"));
}

// A step without an effect returns the same bits.
TEST(CudaUpdate, SkippedStep) {
  FamilyBatch batch("update");
  batch.check = smallSteps();
  auto small = batch.check.adjust;
  batch.check.adjust = [=](unsigned argument, reference::Tensor &tensor) {
    small(argument, tensor);
    if (argument == 2)
      tensor.ints()[0] = 0;
  };
  batch.add(momentum({"33x4x", "9x"}, "f32", "f16"));
}

// More elements than threads: each thread computes several.
TEST(CudaUpdate, ManyElements) {
  FamilyBatch batch("update");
  batch.check = smallSteps();
  batch.check.target = cudaTarget("sm_80");
  batch.add(momentum({"1200x1024x", "1024x"}, "f32", "f16"));
}

// One block needs no counter, and scalars alone are an update too.
TEST(CudaUpdate, ScalarsAlone) {
  FamilyBatch batch("update");
  batch.add(updateKernel("%a: tensor<f32>, %n: tensor<i64>",
                         "tensor<f32>, tensor<i64>", R"(
  %0 = mpc.add %a, %a : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = mpc.add %n, %n : (tensor<i64>, tensor<i64>) -> tensor<i64>
  return %0, %1 : tensor<f32>, tensor<i64>)"));
}

// Two parts that read one tensor are one part: the order in which blocks run
// changes nothing. A part without scalars needs no barrier.
TEST(CudaUpdate, SharedTensor) {
  FamilyBatch batch("update");
  batch.add(updateKernel("%a: tensor<40xf32>, %b: tensor<10x4xf32>",
                         "tensor<40xf32>, tensor<40xf32>, tensor<10x4xf32>", R"(
  %0 = mpc.exp %a : tensor<40xf32>
  %1 = mpc.add %a, %a : (tensor<40xf32>, tensor<40xf32>) -> tensor<40xf32>
  %2 = mpc.relu %b : tensor<10x4xf32>
  return %0, %1, %2 : tensor<40xf32>, tensor<40xf32>, tensor<10x4xf32>)"));
}

// A tensor of one element is shared like a scalar, and its users are separate
// parts, but one part if a result may overwrite it.
TEST(CudaUpdate, SharedElement) {
  std::string apart =
      updateKernel("%f: tensor<1xf32>, %a: tensor<40xf32>, %b: tensor<40xf32>",
                   "tensor<40xf32>, tensor<40xf32>", R"(
  %0 = mpc.mul %a, %f : (tensor<40xf32>, tensor<1xf32>) -> tensor<40xf32>
  %1 = mpc.mul %b, %f : (tensor<40xf32>, tensor<1xf32>) -> tensor<40xf32>
  return %0, %1 : tensor<40xf32>, tensor<40xf32>)");
  std::string together =
      updateKernel("%f: tensor<1xf32>, %a: tensor<40xf32>, %s: tensor<f32>",
                   "tensor<40xf32>, tensor<1xf32>, tensor<f32>", R"(
  %0 = mpc.mul %a, %f : (tensor<40xf32>, tensor<1xf32>) -> tensor<40xf32>
  %1 = mpc.mul %f, %s : (tensor<1xf32>, tensor<f32>) -> tensor<1xf32>
  %2 = mpc.add %s, %s : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %1, %2 : tensor<40xf32>, tensor<1xf32>, tensor<f32>)");
  FamilyBatch batch("update");
  batch.add(apart);
  batch.add(together);
  EXPECT_NE(cudaText(apart).text.find("if (block"), std::string::npos);
  EXPECT_EQ(cudaText(together).text.find("if (block"), std::string::npos);
}

// Reductions have separate blocks: over rows for a bias, over all for a loss.
// The blocks that reduce also update or store the results.
TEST(CudaUpdate, SumsBesideUpdates) {
  FamilyBatch batch("update");
  for (const char *columns : {"128", "10", "1", "33"})
    batch.add(
        updateKernel("%dy: tensor<32x$Nxf32>, %rows: tensor<50xf32>, %b: "
                     "tensor<$Nxf32>, %w: tensor<9x7xf32>, %s: tensor<f32>",
                     "tensor<$Nxf32>, tensor<f32>, tensor<9x7xf32>, "
                     "tensor<f32>",
                     R"(
  %i = mpc.exp %s : tensor<f32>
  %g = mpc.reduce_sum %dy axes([0]) : tensor<32x$Nxf32> -> tensor<$Nxf32>
  %d = mpc.mul %g, %i : (tensor<$Nxf32>, tensor<f32>) -> tensor<$Nxf32>
  %nb = mpc.sub %b, %d : (tensor<$Nxf32>, tensor<$Nxf32>) -> tensor<$Nxf32>
  %m = mpc.reduce_mean %rows axes([0]) : tensor<50xf32> -> tensor<f32>
  %l = mpc.neg %m : tensor<f32>
  %nw = mpc.mul %w, %i : (tensor<9x7xf32>, tensor<f32>) -> tensor<9x7xf32>
  return %nb, %l, %nw, %i : tensor<$Nxf32>, tensor<f32>, tensor<9x7xf32>, tensor<f32>)"),
        {{"$N", columns}});
}

// Invariants where results alias arguments.
TEST(CudaUpdate, InPlaceTextAssumesNothing) {
  std::string text = momentum({"64x"}, "f32", "f16");
  EXPECT_NE(cudaText(text).text.find("__restrict__"), std::string::npos);
  text = substitute(text, {{"attributes {", "attributes {exe.in_place = "
                                            "array<i64: 3>, "}});
  CudaText inPlace = cudaText(text);
  EXPECT_EQ(inPlace.error, "");
  EXPECT_EQ(inPlace.text.find("__restrict__"), std::string::npos);
}
