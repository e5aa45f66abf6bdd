//===- GroupOpsTest.cpp - greedy fusion: groups, costs, queue -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Analysis/Fusion/FusionRules.h"

#include "../../Dialect/Mpc/Transforms/RandomGraph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;

namespace {

class GroupOpsTest : public ::testing::Test {
protected:
  GroupOpsTest() {
    context.loadDialect<MpcDialect, func::FuncDialect>();
    context.disableMultithreading();
  }

  OwningOpRef<ModuleOp> parse(StringRef text) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    return module;
  }

  static Block &blockOf(ModuleOp module) {
    return module.lookupSymbol<func::FuncOp>("main").getBody().front();
  }

  /// The op number `index` of the block.
  static Operation *opAt(Block &block, int index) {
    return &*std::next(block.begin(), index);
  }

  MLIRContext context;
  TargetInfo gpu = *TargetInfo::parse("cuda:sm_80");
  TargetInfo cpu = *TargetInfo::parse("cpu:avx512");
};

TEST_F(GroupOpsTest, ReadersAreFoundThroughViews) {
  OwningOpRef<ModuleOp> module = parse(R"(
  func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = mpc.exp %x : tensor<4x8xf32>
    %1 = mpc.reshape %0 : tensor<4x8xf32> to tensor<32xf32>
    %2 = mpc.tanh %1 : tensor<32xf32>
    return %0 : tensor<4x8xf32>
  })");
  Block &block = blockOf(*module);
  FusionGraph graph(block);
  formInitialGroups(graph, block, gpu);
  SmallVector<FusionGroup *> readers =
      graph.readersOf(opAt(block, 0)->getResult(0));
  EXPECT_EQ(readers.size(), 2u);
  EXPECT_TRUE(llvm::is_contained(readers, graph.groupOf(opAt(block, 2))));
  // The function's return.
  EXPECT_TRUE(llvm::is_contained(readers, nullptr));
}

TEST_F(GroupOpsTest, AMergeSavesWhatNeedNotBeStored) {
  // The sum is read by both others: a merge with one saves one read, and what
  // both read is loaded once.
  OwningOpRef<ModuleOp> module = parse(R"(
  func.func @main(%x: tensor<1024xf32>, %y: tensor<1024xf32>) -> (tensor<1024xf32>, tensor<1024xf32>) {
    %0 = mpc.add %x, %y : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %1 = mpc.mul %0, %y : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %2 = mpc.exp %0 : tensor<1024xf32>
    return %1, %2 : tensor<1024xf32>, tensor<1024xf32>
  })");
  Block &block = blockOf(*module);
  FusionGraph graph(block);
  formInitialGroups(graph, block, gpu);
  FusionCost cost(gpu, graph);
  auto group = [&](int index) { return graph.groupOf(opAt(block, index)); };
  FusionSaving first = cost.ofMerge(group(1), group(0));
  EXPECT_EQ(first.bytes, 2 * 4096);
  EXPECT_EQ(first.launches, 1);
  EXPECT_DOUBLE_EQ(first.seconds,
                   2 * 4096 / gpu.bytesPerSecond() + gpu.launchSeconds());
  // Now the sum is in one kernel, and only the exponential is separate.
  ASSERT_TRUE(graph.merge(group(1), group(0)));
  FusionSaving second = cost.ofMerge(group(2), group(0));
  EXPECT_EQ(second.bytes, 2 * 4096);
  // A CPU launches nothing.
  FusionCost plain(cpu, graph);
  EXPECT_DOUBLE_EQ(plain.ofMerge(group(2), group(0)).seconds,
                   2 * 4096 / cpu.bytesPerSecond());
}

TEST_F(GroupOpsTest, AnOperandInWiderTypeIsLoadedByEachBlockOfColumns) {
  auto saved = [&](int64_t columns) {
    std::string n = std::to_string(columns);
    OwningOpRef<ModuleOp> module = parse(
        "func.func @main(%x: tensor<4096x768xf32>, %w: tensor<768x" + n +
        "xbf16>) -> tensor<4096x" + n +
        "xf32> {\n"
        "%0 = mpc.cast %x : tensor<4096x768xf32> to tensor<4096x768xbf16>\n"
        "%1 = mpc.matmul %0, %w : (tensor<4096x768xbf16>, tensor<768x" +
        n + "xbf16>) -> tensor<4096x" + n +
        "xf32>\n"
        "return %1 : tensor<4096x" +
        n + "xf32>\n}");
    Block &block = blockOf(*module);
    FusionGraph graph(block);
    formInitialGroups(graph, block, gpu);
    return FusionCost(gpu, graph)
        .ofOperand(graph.groupOf(opAt(block, 1)), graph.groupOf(opAt(block, 0)),
                   0);
  };
  FusionSaving narrow = saved(256), wide = saved(65536);
  // One block loads the input once, whatever type it has.
  double kernel = 6. * 4096 * 768 / gpu.bytesPerSecond() + gpu.launchSeconds();
  EXPECT_GT(narrow.seconds, 0);
  EXPECT_LE(narrow.seconds, kernel);
  EXPECT_LT(wide.seconds, 0);
  EXPECT_EQ(narrow.bytes, wide.bytes);
}

TEST_F(GroupOpsTest, RowsAreReadAgainByBlocksSideBySide) {
  auto saved = [&](const TargetInfo &target, int64_t rows, int64_t columns,
                   int64_t depth = 512, const std::string &type = "f32") {
    std::string n = std::to_string(columns), k = std::to_string(depth),
                m = "tensor<" + std::to_string(rows) + "x",
                x = m + k + "x" + type + ">",
                s = "tensor<" + k + "x" + type + ">",
                w = "tensor<" + k + "x" + n + "x" + type + ">",
                y = m + n + "xf32>";
    OwningOpRef<ModuleOp> module = parse(
        "func.func @main(%x: " + x + ", %s: " + s + ", %w: " + w + ") -> " + y +
        " {\n%0 = mpc.rms_norm %x, %s axis(1) epsilon(1.0e-6) : (" + x + ", " +
        s + ") -> " + x + "\n%1 = mpc.matmul %0, %w : (" + x + ", " + w +
        ") -> " + y + "\nreturn %1 : " + y + "\n}");
    Block &block = blockOf(*module);
    FusionGraph graph(block);
    selectFusionGroups(graph, block, target);
    bool isTaken =
        graph.groupOf(opAt(block, 0)) == graph.groupOf(opAt(block, 1));
    FusionGraph apart(block);
    formInitialGroups(apart, block, target);
    FusionSaving saving = FusionCost(target, apart)
                              .ofRows(apart.groupOf(opAt(block, 1)),
                                      apart.groupOf(opAt(block, 0)));
    EXPECT_EQ(isTaken, target.isGpu() && saving.seconds >= 0);
    return saving;
  };
  auto seconds = [&](double bytes) {
    return bytes / (3 * gpu.bytesPerSecond());
  };
  // One block of columns reads the rows once, as the norm's kernel did.
  FusionSaving one = saved(gpu, 32, 64);
  EXPECT_EQ(one.extraSeconds, 0);
  EXPECT_EQ(one.launches, 1);
  EXPECT_EQ(one.bytes, 2 * 32 * 512 * 4);
  // Others read them from the cache.
  EXPECT_DOUBLE_EQ(saved(gpu, 32, 192).extraSeconds,
                   seconds(2. * (32 * 512 + 512) * 4));
  // A block has room for 32 such rows: four of them read the right side.
  EXPECT_DOUBLE_EQ(saved(gpu, 128, 64).extraSeconds,
                   seconds(3. * 512 * 64 * 4));
  EXPECT_GT(saved(gpu, 1, 32768).seconds, 0);
  EXPECT_LT(saved(gpu, 4096, 2048).seconds, 0);
  EXPECT_GT(saved(gpu, 8192, 256, 256, "bf16").seconds, 0);
  EXPECT_LT(saved(gpu, 8192, 256, 2048, "bf16").seconds, 0);
  // Few blocks would share a large depth without a row prologue.
  EXPECT_GT(saved(gpu, 1, 64, 1024, "bf16").seconds, 0);
  EXPECT_LT(saved(gpu, 1, 64, 2048, "bf16").seconds, 0);
  EXPECT_GT(saved(gpu, 1, 8192, 2048, "bf16").seconds, 0);
  EXPECT_LT(saved(gpu, 1, 64, 1024).seconds, 0);
  // A CPU has no kernels with a row prologue for a matmul.
  saved(cpu, 1, 64);
}

TEST_F(GroupOpsTest, TheLargestSavingGoesFirst) {
  // Three matmuls with a bias each, of increasing width.
  OwningOpRef<ModuleOp> module = parse(R"(
  func.func @main(%x: tensor<64x32xf32>, %a: tensor<32x8xf32>, %b: tensor<32x64xf32>, %c: tensor<32x512xf32>, %s: tensor<1xf32>)
      -> (tensor<64x8xf32>, tensor<64x64xf32>, tensor<64x512xf32>) {
    %0 = mpc.matmul %x, %a : (tensor<64x32xf32>, tensor<32x8xf32>) -> tensor<64x8xf32>
    %1 = mpc.add %0, %s : (tensor<64x8xf32>, tensor<1xf32>) -> tensor<64x8xf32>
    %2 = mpc.matmul %x, %b : (tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
    %3 = mpc.add %2, %s : (tensor<64x64xf32>, tensor<1xf32>) -> tensor<64x64xf32>
    %4 = mpc.matmul %x, %c : (tensor<64x32xf32>, tensor<32x512xf32>) -> tensor<64x512xf32>
    %5 = mpc.add %4, %s : (tensor<64x512xf32>, tensor<1xf32>) -> tensor<64x512xf32>
    return %1, %3, %5 : tensor<64x8xf32>, tensor<64x64xf32>, tensor<64x512xf32>
  })");
  Block &block = blockOf(*module);
  FusionGraph graph(block);
  std::vector<FusionDecision> decisions = selectFusionGroups(graph, block, gpu);
  ASSERT_EQ(decisions.size(), 3u);
  for (int i : {0, 1, 2})
    EXPECT_EQ(decisions[i].into, opAt(block, 4 - 2 * i)) << i;
}

TEST_F(GroupOpsTest, ALoopBeforeAProductJoinsLastAndAsAWhole) {
  OwningOpRef<ModuleOp> module = parse(R"(
  func.func @main(%x: tensor<64x32xf32>, %y: tensor<64x32xf32>, %w: tensor<32x16xbf16>) -> tensor<64x16xf32> {
    %0 = mpc.add %x, %y : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
    %1 = mpc.relu %0 : tensor<64x32xf32>
    %2 = mpc.cast %1 : tensor<64x32xf32> to tensor<64x32xbf16>
    %3 = mpc.matmul %2, %w : (tensor<64x32xbf16>, tensor<32x16xbf16>) -> tensor<64x16xf32>
    return %3 : tensor<64x16xf32>
  })");
  Block &block = blockOf(*module);
  FusionGraph onGpu(block);
  std::vector<FusionDecision> decisions = selectFusionGroups(onGpu, block, gpu);
  ASSERT_EQ(decisions.size(), 3u);
  EXPECT_EQ(decisions.back().step, FusionStep::OperandLoop);
  EXPECT_EQ(decisions.back().into, opAt(block, 3));
  EXPECT_EQ(onGpu.groupOf(opAt(block, 0)), onGpu.groupOf(opAt(block, 3)));
  // Micro-kernels copy panels.
  FusionGraph onCpu(block);
  selectFusionGroups(onCpu, block, cpu);
  EXPECT_EQ(onCpu.groupOf(opAt(block, 0)), onCpu.groupOf(opAt(block, 2)));
  EXPECT_NE(onCpu.groupOf(opAt(block, 0)), onCpu.groupOf(opAt(block, 3)));
}

TEST_F(GroupOpsTest, AScatteredStoreTakesASectorForEachElement) {
  OwningOpRef<ModuleOp> module = parse(R"(
  func.func @main(%x: tensor<1024x512xf32>) -> tensor<512x1024xf32> {
    %0 = mpc.softmax %x axis(1) : tensor<1024x512xf32>
    %1 = mpc.transpose %0 [1, 0] : tensor<1024x512xf32> to tensor<512x1024xf32>
    return %1 : tensor<512x1024xf32>
  })");
  Block &block = blockOf(*module);
  FusionGraph graph(block);
  formInitialGroups(graph, block, gpu);
  FusionCost cost(gpu, graph);
  FusionGroup *row = graph.groupOf(opAt(block, 0)),
              *transpose = graph.groupOf(opAt(block, 1));
  FusionSaving whole = cost.ofMerge(row, transpose),
               scattered = cost.ofScatter(row, transpose);
  EXPECT_EQ(scattered.bytes, whole.bytes);
  // Eight times the bytes of the result, at three times the bandwidth.
  EXPECT_DOUBLE_EQ(scattered.extraSeconds,
                   1024 * 512 * 4 * 8.0 / 3 / gpu.bytesPerSecond());
  EXPECT_DOUBLE_EQ(scattered.seconds, whole.seconds - scattered.extraSeconds);
}

TEST_F(GroupOpsTest, GroupsPartitionTheBlockInAnOrderThatWorks) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    OwningOpRef<ModuleOp> module =
        parse(test::RandomGraph(seed, /*size=*/32, /*ops=*/25).text());
    Block &block = blockOf(*module);
    for (const TargetInfo &target : {gpu, cpu}) {
      FusionGraph graph(block);
      for (const FusionDecision &decision :
           selectFusionGroups(graph, block, target))
        EXPECT_EQ(decision.verdict == FusionDecision::Verdict::CostsMore,
                  decision.saving.seconds < 0);
      DenseMap<Operation *, size_t> place;
      for (auto [index, group] : llvm::enumerate(graph.inOrder()))
        for (Operation *op : group->ops)
          EXPECT_TRUE(place.try_emplace(op, index).second);
      for (Operation &op : block.without_terminator()) {
        ASSERT_TRUE(place.contains(&op));
        for (Value operand : op.getOperands())
          if (Operation *source = operand.getDefiningOp())
            EXPECT_LE(place[source], place[&op]);
      }
    }
  }
}

TEST_F(GroupOpsTest, OneValueWithManyReadersTakesAFewVisitsEach) {
  // Additions that share one operand, the result of a loop or of a matmul.
  constexpr int kCount = 2000;
  std::string type = "tensor<8x8xf32>";
  for (const char *maker :
       {"relu %x : tensor<8x8xf32>", "matmul %x, %x : (tensor<8x8xf32>, "
                                     "tensor<8x8xf32>) -> tensor<8x8xf32>"}) {
    std::string text = "func.func @main(%x: " + type + ") -> " + type +
                       " {\n%v = mpc." + maker + "\n%0 = mpc.exp %x : " + type +
                       "\n";
    for (int i = 1; i <= kCount; ++i)
      text += "%" + std::to_string(i) + " = mpc.add %" + std::to_string(i - 1) +
              ", %v : (" + type + ", " + type + ") -> " + type + "\n";
    text += "return %" + std::to_string(kCount) + " : " + type + "\n}";
    OwningOpRef<ModuleOp> module = parse(text);
    Block &block = blockOf(*module);
    FusionGraph graph(block);
    FusionWork work;
    selectFusionGroups(graph, block, gpu, &work);
    EXPECT_LE(graph.getVisited(), 16 * kCount) << maker;
    // A matmul absorbs 63 of the sums; each merge requeues all others.
    EXPECT_LE(work.steps, 80 * kCount) << maker;
    EXPECT_LE(work.borders, 8 * kCount) << maker;
  }
}

TEST_F(GroupOpsTest, OneConcatenationOfManyLoopsTakesAFewLooksEach) {
  // The steps of an unrolled recurrence, all of whose results are saved: each
  // change of a step's kernel affects one operand of the concatenation.
  constexpr int kCount = 2000;
  std::string step = "tensor<1x8xf32>", text, all, types;
  text = "func.func @main(%0: " + step + ") -> tensor<2000x8xf32> {\n";
  for (int i = 1; i <= kCount; ++i) {
    std::string before = "%" + std::to_string(2 * i - 2),
                sine = "%" + std::to_string(2 * i - 1),
                result = "%" + std::to_string(2 * i);
    text += sine + " = mpc.sin " + before + " : " + step + "\n" + result +
            " = mpc.mul " + sine + ", " + sine + " : (" + step + ", " + step +
            ") -> " + step + "\n";
    all += (i > 1 ? ", " : "") + result;
    types += (i > 1 ? ", " : "") + step;
  }
  text += "%all = mpc.concat " + all + " axis(0) : (" + types +
          ") -> tensor<2000x8xf32>\nreturn %all : tensor<2000x8xf32>\n}";
  OwningOpRef<ModuleOp> module = parse(text);
  ASSERT_TRUE(module);
  Block &block = blockOf(*module);
  for (const TargetInfo &target : {gpu, cpu}) {
    FusionGraph graph(block);
    FusionWork work;
    selectFusionGroups(graph, block, target, &work);
    EXPECT_LE(work.steps, 80 * kCount);
    // A kernel of 64 ops that were fused one by one was evaluated as often.
    EXPECT_LE(work.operands, 2 * 64 * kCount);
  }
}

} // namespace
