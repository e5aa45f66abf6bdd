//===- PaddingTest.cpp - choice of padded dimensions ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Padding.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;

namespace {

class PaddingTest : public ::testing::Test {
protected:
  PaddingTest() {
    DialectRegistry registry;
    registerPaddingModels(registry);
    context.appendDialectRegistry(registry);
    context.loadDialect<MpcDialect, func::FuncDialect>();
  }

  func::FuncOp parse(StringRef text) {
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    return *module->getOps<func::FuncOp>().begin();
  }

  /// "M=7->8 K=..." of the padded axes of the `number`th op of type `OpTy`.
  template <typename OpTy>
  std::string padded(const PaddingPlan &plan, func::FuncOp func,
                     int number = 0) {
    auto ops = func.getOps<OpTy>();
    Operation *op = *std::next(ops.begin(), number);
    std::string text;
    for (const OpAxis &axis : paddableAxes(op)) {
      DimPadding padding = plan.paddingOf(op, axis);
      if (padding.isPadded())
        text += (text.empty() ? "" : " ") + std::to_string(padding.groups) +
                "*" + std::to_string(padding.from) + "->" +
                std::to_string(padding.to);
    }
    return text;
  }

  static TargetInfo target(StringRef name) { return *TargetInfo::parse(name); }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(PaddingTest, WorkPerLayerDoesNotGrowWithTheirNumber) {
  // Layers of a width that padding would more than double, so that every family
  // is rejected, next to layers of odd widths, which are padded; all of them
  // share their rows.
  for (auto [even, odd] : {std::pair(3, 3), std::pair(57, 59)}) {
    constexpr int kCount = 1000;
    auto type = [](int rows, int columns) {
      return "tensor<" + std::to_string(rows) + "x" + std::to_string(columns) +
             "xbf16>";
    };
    auto width = [even = even, odd = odd](int i) { return i % 2 ? odd : even; };
    std::string text = "func.func @f(%0: " + type(509, width(0)) + ") -> " +
                       type(509, width(kCount)) + " {\n";
    for (int i = 0; i < kCount; ++i) {
      std::string number = std::to_string(i), next = std::to_string(i + 1),
                  from = type(509, width(i)), to = type(509, width(i + 1)),
                  weight = type(width(i), width(i + 1));
      text += "%w" + number + " = mpc.constant dense<0.5> : " + weight + "\n%" +
              next + " = mpc.matmul %" + number + ", %w" + number + " : (" +
              from + ", " + weight + ") -> " + to + "\n";
    }
    text += "return %" + std::to_string(kCount) + " : " +
            type(509, width(kCount)) + "\n}";
    std::optional<TargetInfo> target = TargetInfo::parse("cuda:sm_90");
    PaddingPlan plan(parse(text), *target);
    EXPECT_LE(plan.getPriced(), 8 * kCount) << even;
  }
}

} // namespace

TEST_F(PaddingTest, ColumnsOfOneProductAreTheDepthOfTheNext) {
  func::FuncOp func = parse(R"(
    func.func @f(%x: tensor<16x64xbf16>, %w: tensor<64x30xbf16>, %v: tensor<30x64xbf16>) -> tensor<16x64xf32> {
      %0 = mpc.matmul %x, %w : (tensor<16x64xbf16>, tensor<64x30xbf16>) -> tensor<16x30xbf16>
      %1 = mpc.relu %0 : tensor<16x30xbf16>
      %2 = mpc.matmul %1, %v : (tensor<16x30xbf16>, tensor<30x64xbf16>) -> tensor<16x64xf32>
      return %2 : tensor<16x64xf32>
    })");
  PaddingPlan plan(func, target("cuda:sm_80"));
  EXPECT_EQ(padded<MatmulOp>(plan, func, 0), "1*30->32");
  EXPECT_EQ(padded<ReluOp>(plan, func), "1*30->32");
  EXPECT_EQ(padded<MatmulOp>(plan, func, 1), "1*30->32");
  EXPECT_EQ(plan.getRefused(), 0);
}

TEST_F(PaddingTest, HeadsAreUnitsOfTheWidth) {
  func::FuncOp func = parse(R"(
    func.func @f(%x: tensor<32x64xbf16>, %w: tensor<64x100xbf16>) -> tensor<5x32x32xf32> {
      %0 = mpc.matmul %x, %w : (tensor<32x64xbf16>, tensor<64x100xbf16>) -> tensor<32x100xbf16>
      %1 = mpc.reshape %0 : tensor<32x100xbf16> to tensor<32x5x20xbf16>
      %2 = mpc.transpose %1 [1, 0, 2] : tensor<32x5x20xbf16> to tensor<5x32x20xbf16>
      %3 = mpc.matmul %2, %2 transpose_rhs : (tensor<5x32x20xbf16>, tensor<5x32x20xbf16>) -> tensor<5x32x32xf32>
      return %3 : tensor<5x32x32xf32>
    })");
  PaddingPlan plan(func, target("cuda:sm_80"));
  EXPECT_EQ(padded<MatmulOp>(plan, func, 0), "5*20->24");
  EXPECT_EQ(padded<TransposeOp>(plan, func), "1*20->24");
  EXPECT_EQ(padded<MatmulOp>(plan, func, 1), "1*20->24");
}

TEST_F(PaddingTest, RowsOfAllBatchesCountTogether) {
  // 8 x 33 rows are a multiple of 8 as they are.
  func::FuncOp func = parse(R"(
    func.func @f(%x: tensor<8x33x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<8x33x64xf32> {
      %0 = mpc.matmul %x, %w : (tensor<8x33x64xbf16>, tensor<64x64xbf16>) -> tensor<8x33x64xf32>
      return %0 : tensor<8x33x64xf32>
    })");
  EXPECT_TRUE(PaddingPlan(func, target("cuda:sm_80")).isEmpty());
}

TEST_F(PaddingTest, OneRowStays) {
  func::FuncOp func = parse(R"(
    func.func @f(%x: tensor<1x64xbf16>, %w: tensor<64x30xbf16>) -> tensor<1x30xf32> {
      %0 = mpc.matmul %x, %w : (tensor<1x64xbf16>, tensor<64x30xbf16>) -> tensor<1x30xf32>
      return %0 : tensor<1x30xf32>
    })");
  PaddingPlan plan(func, target("cuda:sm_80"));
  EXPECT_EQ(padded<MatmulOp>(plan, func), "1*30->32");
}

TEST_F(PaddingTest, TooFewRowsDoNotKeepTheColumnsFromGrowing) {
  // Padding would extend two rows to eight in both matmuls.
  func::FuncOp func = parse(R"(
    func.func @f(%x: tensor<2x100xbf16>, %w: tensor<100x100xbf16>, %v: tensor<100x10xbf16>) -> tensor<2x10xf32> {
      %0 = mpc.matmul %x, %w : (tensor<2x100xbf16>, tensor<100x100xbf16>) -> tensor<2x100xbf16>
      %1 = mpc.matmul %0, %v : (tensor<2x100xbf16>, tensor<100x10xbf16>) -> tensor<2x10xf32>
      return %1 : tensor<2x10xf32>
    })");
  PaddingPlan plan(func, target("cuda:sm_80"));
  EXPECT_EQ(padded<MatmulOp>(plan, func, 0), "1*100->104 1*100->104");
  EXPECT_EQ(padded<MatmulOp>(plan, func, 1), "1*10->16 1*100->104");
  EXPECT_EQ(plan.getRefused(), 1);
}

TEST_F(PaddingTest, GrowthToTwiceTheSizeIsRefused) {
  for (auto [columns, isPadded] :
       {std::pair(3, false), std::pair(4, false), std::pair(5, true)}) {
    std::string n = std::to_string(columns);
    func::FuncOp func =
        parse("func.func @f(%x: tensor<512x512xbf16>, %w: tensor<512x" + n +
              "xbf16>) -> tensor<512x" + n + "xf32> {\n" +
              "%0 = mpc.matmul %x, %w : (tensor<512x512xbf16>, tensor<512x" +
              n + "xbf16>) -> tensor<512x" + n +
              "xf32>\nreturn %0 : tensor<512x" + n + "xf32>\n}");
    PaddingPlan plan(func, target("cuda:sm_80"));
    EXPECT_EQ(plan.isEmpty(), !isPadded) << n;
    EXPECT_EQ(plan.getRefused(), !isPadded) << n;
  }
}

TEST_F(PaddingTest, WithoutCeilingsNoOperandGrowsByMoreThanAThird) {
  StringRef text = R"(
    func.func @f(%x: tensor<64x64xbf16>, %w: tensor<64x10xbf16>, %v: tensor<64x13xbf16>) -> (tensor<64x10xf32>, tensor<64x13xf32>) {
      %0 = mpc.matmul %x, %w : (tensor<64x64xbf16>, tensor<64x10xbf16>) -> tensor<64x10xf32>
      %1 = mpc.matmul %x, %v : (tensor<64x64xbf16>, tensor<64x13xbf16>) -> tensor<64x13xf32>
      return %0, %1 : tensor<64x10xf32>, tensor<64x13xf32>
    })";
  func::FuncOp func = parse(text);
  ASSERT_FALSE(target("cuda:sm_87").hasCeilings());
  PaddingPlan unknown(func, target("cuda:sm_87"));
  EXPECT_EQ(padded<MatmulOp>(unknown, func, 0), "");
  EXPECT_EQ(padded<MatmulOp>(unknown, func, 1), "1*13->16");
  PaddingPlan known(func, target("cuda:sm_80"));
  EXPECT_EQ(padded<MatmulOp>(known, func, 0), "1*10->16");
}

TEST_F(PaddingTest, CpusAndTypesWithoutUnitsWantNothing) {
  func::FuncOp func = parse(R"(
    func.func @f(%x: tensor<15x31xbf16>, %w: tensor<31x30xbf16>) -> tensor<15x30xf32> {
      %0 = mpc.matmul %x, %w : (tensor<15x31xbf16>, tensor<31x30xbf16>) -> tensor<15x30xf32>
      return %0 : tensor<15x30xf32>
    })");
  for (StringRef name : {"cpu:avx2", "cpu:avx512", "cpu:amx", "cuda:sm_75"})
    EXPECT_TRUE(PaddingPlan(func, target(name)).isEmpty()) << name.str();
  EXPECT_FALSE(PaddingPlan(func, target("cuda:sm_80")).isEmpty());
}

TEST_F(PaddingTest, OneSmallProductDoesNotMakeEverythingLarger) {
  // Padding would extend five rows to eight in every value; the one matmul that
  // gains is too small for that.
  std::string text = R"(
    func.func @f(%x: tensor<5x4096xf32>, %w: tensor<4096x8xbf16>) -> (tensor<5x8xf32>, tensor<5x4096xf32>) {
      %0 = mpc.softmax %x axis(1) : tensor<5x4096xf32>
)";
  for (int i = 0; i < 8; ++i)
    text += "      %" + std::to_string(i + 1) + " = mpc.softmax %" +
            std::to_string(i) + " axis(1) : tensor<5x4096xf32>\n";
  text += R"(
      %h = mpc.cast %8 : tensor<5x4096xf32> to tensor<5x4096xbf16>
      %y = mpc.matmul %h, %w : (tensor<5x4096xbf16>, tensor<4096x8xbf16>) -> tensor<5x8xf32>
      return %y, %8 : tensor<5x8xf32>, tensor<5x4096xf32>
    })";
  func::FuncOp func = parse(text);
  EXPECT_TRUE(PaddingPlan(func, target("cuda:sm_80")).isEmpty());
}

TEST_F(PaddingTest, ParametersArePaddedInEveryRun) {
  // The gain of one small matmul is less than the cost of padding its weights
  // each time; that of a large one is more.
  auto isPadded = [&](int64_t rows, StringRef role) {
    std::string text =
        (Twine(R"(
    func.func @f(%x: tensor<)") +
         Twine(rows) + R"(x512xbf16>,
                 %w: tensor<512x10xbf16> {mpc.role = #mpc.role<)" +
         role + R"(>}) -> tensor<)" + Twine(rows) + R"(x10xf32> {
      %0 = mpc.matmul %x, %w : (tensor<)" +
         Twine(rows) + R"(x512xbf16>, tensor<512x10xbf16>) -> tensor<)" +
         Twine(rows) + R"(x10xf32>
      return %0 : tensor<)" +
         Twine(rows) + R"(x10xf32>
    })")
            .str();
    return !PaddingPlan(parse(text), target("cuda:sm_80")).isEmpty();
  };
  EXPECT_TRUE(isPadded(32, "input"));
  EXPECT_FALSE(isPadded(32, "parameter_copy"));
  EXPECT_TRUE(isPadded(1 << 18, "parameter_copy"));
}

TEST_F(PaddingTest, PaddingAfterSomeOpsIsNotZero) {
  func::FuncOp func = parse(R"(
    func.func @f(%x: tensor<16x30xf32>, %b: tensor<30xf32>) -> tensor<16x30xf32> {
      %0 = mpc.add %x, %b : (tensor<16x30xf32>, tensor<30xf32>) -> tensor<16x30xf32>
      %1 = mpc.exp %0 : tensor<16x30xf32>
      %2 = mpc.mul %1, %x : (tensor<16x30xf32>, tensor<16x30xf32>) -> tensor<16x30xf32>
      return %2 : tensor<16x30xf32>
    })");
  auto lanes = [&](Operation *op, unsigned axis,
                   ArrayRef<PaddingState> operands) {
    return resultLanes(op, paddableAxes(op)[axis], operands);
  };
  PaddingState zero = PaddingState::zero(), finite = PaddingState::finite(),
               any = PaddingState::any();
  // EXPECT_TRUE: a state has no text.
  Operation *add = *func.getOps<AddOp>().begin();
  // New rows repeat the bias, new columns do not.
  EXPECT_TRUE(lanes(add, 0, {zero, zero}) == finite);
  EXPECT_TRUE(lanes(add, 1, {zero, zero}) == zero);
  Operation *exp = *func.getOps<ExpOp>().begin();
  EXPECT_TRUE(lanes(exp, 0, {zero}).holds(1));
  EXPECT_TRUE(lanes(exp, 0, {PaddingState::known(-INFINITY)}) == zero);
  EXPECT_TRUE(lanes(exp, 0, {finite}) == any);
  Operation *mul = *func.getOps<MulOp>().begin();
  EXPECT_TRUE(lanes(mul, 0, {finite, zero}) == zero);
  EXPECT_TRUE(lanes(mul, 0, {any, zero}) == any);
}

TEST_F(PaddingTest, AnglesOfPointsAreFinite) {
  func::FuncOp func = parse(R"(
    func.func @f(%y: tensor<16x30xf32>, %x: tensor<16x30xf32>) -> tensor<16x30xf32> {
      %0 = mpc.atan2 %y, %x : (tensor<16x30xf32>, tensor<16x30xf32>) -> tensor<16x30xf32>
      return %0 : tensor<16x30xf32>
    })");
  Operation *angle = *func.getOps<Atan2Op>().begin();
  PaddingState finite = PaddingState::finite();
  auto lanes = [&](ArrayRef<PaddingState> operands) {
    return resultLanes(angle, paddableAxes(angle)[0], operands);
  };
  EXPECT_TRUE(lanes({finite, finite}) == finite);
  EXPECT_TRUE(lanes({finite, PaddingState::any()}) == PaddingState::any());
}

TEST_F(PaddingTest, BranchesThatTheModelNeverTakesAreNotFinite) {
  func::FuncOp func = parse(R"(
    func.func @f(%x: tensor<16x30xf32>, %keep: tensor<16x1xi1>, %other: tensor<30xf32>)
        -> (tensor<16x30xf32>, tensor<16x30xf32>) {
      %hide = mpc.constant dense<0xFF800000> : tensor<f32>
      %0 = mpc.select %keep, %x, %hide : (tensor<16x1xi1>, tensor<16x30xf32>, tensor<f32>) -> tensor<16x30xf32>
      %1 = mpc.select %keep, %x, %other : (tensor<16x1xi1>, tensor<16x30xf32>, tensor<30xf32>) -> tensor<16x30xf32>
      return %0, %1 : tensor<16x30xf32>, tensor<16x30xf32>
    })");
  auto lanes = [&](Operation *op, unsigned axis,
                   ArrayRef<PaddingState> operands) {
    return resultLanes(op, paddableAxes(op)[axis], operands);
  };
  PaddingState zero = PaddingState::zero(), finite = PaddingState::finite(),
               any = PaddingState::any();
  auto selects = func.getOps<SelectOp>();
  Operation *hide = *selects.begin(), *replace = *++selects.begin();
  // Padding rows are not preserved: their values are the fill or unknown.
  EXPECT_TRUE(lanes(hide, 0, {zero, zero, zero}).holds(-INFINITY));
  EXPECT_TRUE(lanes(hide, 0, {finite, zero, zero}) == any);
  EXPECT_TRUE(lanes(replace, 0, {zero, zero, zero}) == any);
  // New columns select as the old ones do.
  EXPECT_TRUE(lanes(hide, 1, {zero, zero, zero}) == finite);
}
