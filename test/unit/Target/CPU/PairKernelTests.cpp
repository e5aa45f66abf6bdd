//===- PairKernelTests.cpp - compiled gated matmuls (SwiGLU) --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels whose epilogue combines both halves of a matmul's columns.
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

using namespace mpc;
using namespace mpc::cpu;

namespace {
/// `silu(x @ gate + bias) * (x @ up)` with both weights in one operand.
struct Pair {
  int64_t batch, m, k, n;
  std::string type = "f32";
  /// Whether panels are packed before; batches are not.
  int interleave = 0;
  std::string flags = "";
  /// Whether both halves are rounded before they are combined.
  bool rounds = false;

  std::string text(const CpuTarget &target) const;
};
} // namespace

std::string Pair::text(const CpuTarget &target) const {
  int64_t columns = target.blockColumns(), block = columns / 2;
  int64_t depth = interleave == 3 ? 2 : 1;
  std::string head = batch > 1 ? std::to_string(batch) + "x" : "";
  auto tensor = [&](const std::string &shape, const std::string &element) {
    return "tensor<" + head + shape + "x" + element + ">";
  };
  auto by = [](int64_t a, int64_t b) {
    return std::to_string(a) + "x" + std::to_string(b);
  };
  std::string x = tensor(by(m, k), type), w = tensor(by(k, 2 * n), type),
              form = flags, narrow = tensor(by(m, n), "bf16");
  if (interleave) {
    w = llvm::formatv("tensor<{0}x{1}x{2}x{3}>",
                      (2 * n + columns - 1) / columns, (k + depth - 1) / depth,
                      depth * columns, type)
            .str();
    form +=
        llvm::formatv(" packed <columns = {0}, interleave = {1}, depth = {2}>",
                      columns, depth == 2 ? 1 : interleave, depth)
            .str();
  }
  std::string zeros = batch > 1 ? "0, 0, 0, " : "0, 0, ",
              y = tensor(by(m, n), "f32");
  std::string split = llvm::formatv("{0}x{1}x2x{2}", m, n / block, block),
              part = llvm::formatv("{0}x{1}x1x{2}", m, n / block, block);
  std::string sizes = llvm::formatv(
      "[{0}{1}, {2}, 1, {3}]", batch > 1 ? std::to_string(batch) + ", " : "", m,
      n / block, block);
  std::string half;
  for (int number : {0, 1}) {
    std::string own = std::to_string(number);
    half += "  %s" + own + " = mpc.slice %b [" + zeros + own + ", 0] " + sizes +
            " : " + tensor(split, "f32") + " to " + tensor(part, "f32") + "\n";
    half += "  %h" + own + " = mpc.reshape %s" + own + " : " +
            tensor(part, "f32") + " to " + y + "\n";
    if (rounds) {
      half += "  %n" + own + " = mpc.cast %h" + own + " : " + y + " to " +
              narrow + "\n";
      half += "  %r" + own + " = mpc.cast %n" + own + " : " + narrow + " to " +
              y + "\n";
    }
  }
  std::string name = rounds ? "%r" : "%h";
  return llvm::formatv(
      "func.func private @k(%x: {0}, %w: {1}, %c: tensor<{2}xf32>) -> {3} "
      "attributes {{mpc.kernel_kind = \"contraction\"} {{\n"
      "  %p = mpc.matmul %x, %w {4} : ({0}, {1}) -> {5}\n"
      "  %b = mpc.reshape %p : {5} to {6}\n{7}"
      "  %0 = mpc.add {8}0, %c : ({3}, tensor<{2}xf32>) -> {3}\n"
      "  %1 = mpc.sigmoid %0 : {3}\n"
      "  %2 = mpc.mul %0, %1 : ({3}, {3}) -> {3}\n"
      "  %3 = mpc.mul %2, {8}1 : ({3}, {3}) -> {3}\n"
      "  return %3 : {3}\n}\n",
      x, w, n, y, form, tensor(by(m, 2 * n), "f32"), tensor(split, "f32"), half,
      name);
}

static void expectPair(const Pair &pair) {
  for (CpuIsa isa : floatLevels()) {
    CpuTarget target{isa};
    if (pair.interleave == 3 && !target.hasDotBf16())
      continue;
    std::string text = pair.text(target);
    EXPECT_EQ(checkKernel(text, target), "") << target.name().str() << "\n"
                                             << text;
  }
}

TEST(PairKernel, PackedPanels) {
  for (auto [m, k, n] :
       {std::tuple(1, 64, 16), std::tuple(5, 33, 48), std::tuple(64, 96, 256)})
    for (auto [type, interleave] : {std::pair("f32", 1), std::pair("bf16", 2),
                                    std::pair("f16", 2), std::pair("bf16", 3)})
      expectPair({1, m, k, n, type, interleave});
}

TEST(PairKernel, BatchesAndPlainOperands) {
  for (const char *type : {"f32", "bf16", "f16"}) {
    expectPair({3, 7, 40, 32, type});
    expectPair({1, 13, 20, 16, type});
  }
}

/// Accumulators of a large matmul are spilled to memory between parts of K.
TEST(PairKernel, LargeProducts) { expectPair({1, 200, 1100, 528, "f32"}); }

TEST(PairKernel, Bf16SplitsOfF32) {
  expectPair({1, 17, 64, 32, "f32", 1, "compute(bf16x3)"});
}

TEST(PairKernel, RoundedHalves) {
  expectPair({1, 9, 64, 32, "bf16", 2, "", /*rounds=*/true});
}

/// The halves are not interchangeable.
TEST(PairKernel, SwappedHalvesAreFound) {
  CpuTarget target{floatLevels().front()};
  std::string text = Pair{1, 5, 33, 48}.text(target), swapped = text;
  auto swap = [&](const std::string &from, const std::string &to) {
    swapped.replace(swapped.find(from), from.size(), to);
  };
  swap("mpc.add %h0", "mpc.add %h1");
  swap("mpc.mul %2, %h1", "mpc.mul %2, %h0");
  KernelCheck check;
  check.compiled = swapped;
  EXPECT_NE(checkKernel(text, target, check), "");
}
