//===- ScheduleTests.cpp - tests of explicit schedules --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pooling and attention with tiles that no cost model selects, and the search
// space of the tuner; matmuls are in MatmulKernelTests.
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Target/CPU/Codegen.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

using namespace mpc;
using namespace mpc::cpu;

/// Checks the kernel of one op under each of `schedules`.
static void expectHonoured(const std::string &arguments,
                           const std::string &result, const std::string &op,
                           std::initializer_list<const char *> schedules) {
  for (const char *schedule : schedules) {
    std::string text = llvm::formatv(
        "func.func private @k({0}) -> {1} attributes {{mpc.kernel_kind = "
        "\"library\", mpc.schedule = #tile.blocks<{2}>} {{\n%0 = {3} -> "
        "{1}\nreturn %0 : {1}\n}\n",
        arguments, result, schedule, op);
    EXPECT_EQ(checkKernel(text, CpuTarget{CpuIsa::Avx2}), "") << text;
  }
}

TEST(Schedule, OfAConvolution) {
  std::string x = "tensor<2x9x7x12xf32>", w = "tensor<20x6x3x3xf32>";
  auto op = [&](const char *pad) {
    return llvm::formatv("mpc.conv %x, %w strides([1, 1]) pad([{0}, {0}], "
                         "[{0}, {0}]) dilations([1, 1]) groups(2) "
                         "layout(channels_last) : ({1}, {2})",
                         pad, x, w)
        .str();
  };
  std::string arguments = "%x: " + x + ", %w: " + w;
  expectHonoured(
      arguments, "tensor<2x9x7x20xf32>", op("1"),
      {"rows = 2, columns = 8, blocks_per_item = 4, panels_per_item = 3, "
       "pack = both",
       "rows = 7, columns = 8, blocks_per_item = 100, pack = both"});
  // Without padding the input is read in place, or copied all the same.
  expectHonoured(arguments, "tensor<2x7x5x20xf32>", op("0"),
                 {"rows = 3, columns = 16, panels_per_item = 1, pack = right",
                  "rows = 1, columns = 8, blocks_per_item = 2, pack = both"});
}

TEST(Schedule, OfWhatIsFetchedAhead) {
  std::string x = "tensor<3x37x20xf32>", w = "tensor<20x21xf32>";
  std::string op = "mpc.matmul %x, %w : (" + x + ", " + w + ")";
  expectHonoured("%x: " + x + ", %w: " + w, "tensor<3x37x21xf32>", op,
                 {"rows = 6, columns = 16, blocks_per_item = 3, "
                  "panels_per_item = 1, pack = right, ahead = rows",
                  "rows = 5, columns = 8, blocks_per_item = 100, pack = "
                  "right, ahead = rows"});
  // An argument of the result's shape is a residual.
  expectHonoured("%x: " + x + ", %w: " + w + ", %r: tensor<3x37x21xf32>",
                 "tensor<3x37x21xf32>", op,
                 {"rows = 6, columns = 16, blocks_per_item = 3, pack = both, "
                  "ahead = residuals",
                  "rows = 5, columns = 8, pack = right, ahead = both"});
}

TEST(Schedule, OfADepthwiseConvolution) {
  std::string x = "tensor<1x8x9x24xf32>", w = "tensor<24x1x3x3xf32>";
  expectHonoured(
      "%x: " + x + ", %w: " + w, "tensor<1x6x7x24xf32>",
      "mpc.conv %x, %w strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) "
      "groups(24) layout(channels_last) : (" +
          x + ", " + w + ")",
      {"rows = 5, columns = 8, blocks_per_item = 4, pack = right",
       "rows = 2, columns = 24, blocks_per_item = 1, pack = both"});
}

TEST(Schedule, OfAFilterGradient) {
  std::string x = "tensor<3x8x8x10xf32>", g = "tensor<3x6x6x16xf32>";
  expectHonoured(
      "%x: " + x + ", %g: " + g, "tensor<16x10x3x3xf32>",
      "mpc.conv_filter_gradient %x, %g strides([1, 1]) pad([0, 0], [0, 0]) "
      "dilations([1, 1]) layout(channels_last) : (" +
          x + ", " + g + ")",
      {"rows = 4, columns = 8, chunk = 12, blocks_per_item = 2, "
       "panels_per_item = 1, pack = none",
       "rows = 4, columns = 8, chunk = 108, blocks_per_item = 2, "
       "panels_per_item = 1, pack = none",
       "rows = 6, columns = 8, chunk = 108, blocks_per_item = 1, "
       "panels_per_item = 1, pack = both",
       "rows = 5, columns = 16, chunk = 36, blocks_per_item = 100, pack = "
       "both"});
}

TEST(Schedule, OfAttention) {
  std::string q = "tensor<2x3x19x12xf32>", k = "tensor<2x3x21x12xf32>";
  expectHonoured("%q: " + q + ", %k: " + k, q,
                 "mpc.attention %q, %k, %k scale(2.500000e-01) : (" + q + ", " +
                     k + ", " + k + ")",
                 {"rows = 3, columns = 8, blocks_per_item = 2, pack = right",
                  "rows = 5, columns = 16, blocks_per_item = 9, pack = both"});
}

/// The neighbours of the cost model's schedule of the kernel `@k`, as texts.
static std::vector<std::string> neighboursOf(const std::string &text,
                                             const CpuTarget &target) {
  mlir::DialectRegistry registry;
  registry.insert<MpcDialect, mlir::func::FuncDialect>();
  registerCodegenDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  auto kernel = module->lookupSymbol<mlir::func::FuncOp>("k");
  llvm::SmallVector<mlir::Attribute> choice =
      neighbouringSchedules(kernel, target, nullptr);
  std::vector<std::string> texts;
  if (choice.size() == 1)
    for (mlir::Attribute schedule :
         neighbouringSchedules(kernel, target, choice.front()))
      llvm::raw_string_ostream(texts.emplace_back()) << schedule;
  return texts;
}

// The tuner may try every neighbour of a configuration: all must be correct.
TEST(Schedule, OfATuner) {
  std::string x = "tensor<2x9x7x12xbf16>", w = "tensor<20x6x3x3xbf16>",
              g = "tensor<2x9x7x20xbf16>", q = "tensor<2x3x19x12xf32>";
  struct {
    std::string arguments, result, op;
  } kernels[] = {
      {"%a: tensor<37x1030xbf16>, %b: tensor<1030x50xbf16>",
       "tensor<37x50xf32>",
       "mpc.matmul %a, %b : (tensor<37x1030xbf16>, tensor<1030x50xbf16>)"},
      {"%x: " + x + ", %w: " + w, "tensor<2x9x7x20xf32>",
       "mpc.conv %x, %w strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) "
       "groups(2) layout(channels_last) : (" +
           x + ", " + w + ")"},
      {"%x: " + x + ", %g: " + g, "tensor<20x12x3x3xf32>",
       "mpc.conv_filter_gradient %x, %g strides([1, 1]) pad([1, 1], [1, 1]) "
       "dilations([1, 1]) layout(channels_last) : (" +
           x + ", " + g + ")"},
      {"%q: " + q, q,
       "mpc.attention %q, %q, %q scale(2.500000e-01) : (" + q + ", " + q +
           ", " + q + ")"},
  };
  for (CpuIsa isa : {CpuIsa::Avx2, CpuIsa::EmulatedBf16})
    for (const auto &[arguments, result, op] : kernels) {
      CpuTarget target{isa};
      auto textOf = [&](const std::string &attributes) {
        return llvm::formatv("func.func private @k({0}) -> {1} attributes "
                             "{{mpc.kernel_kind = \"library\"{3}} {{\n%0 = "
                             "{2} -> {1}\nreturn %0 : {1}\n}\n",
                             arguments, result, op, attributes)
            .str();
      };
      std::vector<std::string> schedules = neighboursOf(textOf(""), target);
      EXPECT_GE(schedules.size(), 3u) << op;
      for (const std::string &schedule : schedules)
        EXPECT_EQ(checkKernel(textOf(", mpc.schedule = " + schedule), target),
                  "")
            << schedule << "\n"
            << op;
    }
}

// Kernels without tiles have no schedules.
TEST(Schedule, OfNothing) {
  EXPECT_TRUE(neighboursOf("func.func private @k(%x: tensor<8xf32>) -> "
                           "tensor<8xf32> attributes {mpc.kernel_kind = "
                           "\"elementwise\"} {\n%0 = mpc.relu %x : "
                           "tensor<8xf32>\nreturn %0 : tensor<8xf32>\n}\n",
                           CpuTarget{CpuIsa::Avx2})
                  .empty());
}
