//===- OperandChangesTest.cpp - errors of quantized operands --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TuningTest.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/Transforms/KvCacheFormat.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/Tuning/Sensitivity.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::test;
using mpc::reference::Tensor;

namespace {

/// A matmul of 64 x 48 normal weights.
std::string modelText() {
  std::string text = R"(
func.func @main(%x: tensor<32x64xf32>) -> tensor<32x48xf32> {
  %w = mpc.constant dense<"0x)";
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 64 * 48; ++i) {
    float value = normal(random);
    text += llvm::toHex(StringRef(reinterpret_cast<char *>(&value), 4));
  }
  return text + R"("> : tensor<64x48xf32>
  %0 = mpc.matmul %x, %w : (tensor<32x64xf32>, tensor<64x48xf32>) -> tensor<32x48xf32> loc("a")
  return %0 : tensor<32x48xf32>
})";
}

class OperandChangesTest : public TuningTest {
protected:
  /// The RMS error of the outputs by the operands that `policy` quantizes.
  double measured(const NamedPolicy &policy, ArrayRef<Tensor> arguments,
                  ArrayRef<Tensor> wanted) {
    func::FuncOp function = parse(modelText());
    PassManager passes(function.getContext(), "func.func");
    QuantizeOperandsPassOptions options;
    options.policy = policy;
    passes.addPass(createQuantizeOperandsPass(options));
    EXPECT_TRUE(succeeded(passes.run(function)));
    auto outputs = reference::interpret(function, arguments, {});
    EXPECT_TRUE(succeeded(outputs));
    ErrorMeter meter(Budget::Measure::Rms);
    meter.add(wanted, *outputs);
    return meter.value();
  }
};

/// The predicted error of a matmul is that of its quantized operands, with any
/// scales; operands that use their scale fully do not saturate.
TEST_F(OperandChangesTest, PredictsWhatQuantizedOperandsDo) {
  func::FuncOp function = parse(modelText());
  Operation *op = *function.getOps<MatmulOp>().begin();
  std::vector<Tensor> arguments = draw(function, 1);
  SmallString<128> rows;
  int file = -1;
  ASSERT_FALSE(llvm::sys::fs::createTemporaryFile("rows", "json", file, rows));
  llvm::FileRemover remover(rows);
  llvm::raw_fd_ostream(file, /*shouldClose=*/true) << R"({
    "name": "rows", "extends": "mixed_bfloat16",
    "operands": {"scaling": "row", "forward": "int8"}})";
  for (const std::string &name :
       {std::string("float8_current"), std::string("float8_block"),
        std::string("mxfp8"), std::string("nvfp4"), std::string(rows)}) {
    SCOPED_TRACE(name);
    NamedPolicy policy(name);
    auto changes = OperandChanges::create(function, policy, {});
    ASSERT_TRUE(succeeded(changes));
    ASSERT_EQ(changes->getOperands().size(), 2u);
    Sensitivity sensitivity(function, Budget::Measure::Rms);
    sensitivity.considerOperands(*changes);
    EXPECT_EQ(sensitivity.ofOperands(op), 0);
    auto outputs = sensitivity.addSample(arguments, /*draws=*/16);
    ASSERT_TRUE(succeeded(outputs));
    double wanted = measured(policy, arguments, *outputs);
    EXPECT_GT(wanted, 1e-3);
    EXPECT_NEAR(std::sqrt(sensitivity.ofOperands(op)) / wanted, 1, 0.2);
    for (const OperandChanges::Operand &operand : changes->getOperands()) {
      const OperandUsage *usage = changes->usageOf(operand);
      ASSERT_TRUE(usage);
      EXPECT_EQ(usage->elements, operand.second == 0 ? 32 * 64 : 64 * 48);
      // Only scales of nvfp4 are rounded to nearest.
      EXPECT_LE(usage->saturatedShare(), name == "nvfp4" ? 0.05 : 0);
      EXPECT_LT(usage->flushedShare(), 0.15);
      EXPECT_GT(usage->leastScale, 0);
      EXPECT_GE(usage->mostScale, usage->leastScale);
    }
  }
}

/// The predicted error of stored keys is that of rounding old and new rows,
/// each with a scale of its own; another concatenation is no cache.
TEST_F(OperandChangesTest, PredictsWhatKvCachesDo) {
  const std::string text = R"(
func.func @main(%past: tensor<2x24x16xf32> {mpc.name = "past_key"}, %new: tensor<2x8x16xf32>,
                %q: tensor<2x8x16xf32>) -> (tensor<2x8x32xf32>, tensor<2x32x16xf32>, tensor<2x16x16xf32>) {
  %keys = mpc.concat %past, %new axis(1) : (tensor<2x24x16xf32>, tensor<2x8x16xf32>) -> tensor<2x32x16xf32> loc("keys")
  %scores = mpc.matmul %q, %keys transpose_rhs : (tensor<2x8x16xf32>, tensor<2x32x16xf32>) -> tensor<2x8x32xf32> loc("scores")
  %other = mpc.concat %new, %q axis(1) : (tensor<2x8x16xf32>, tensor<2x8x16xf32>) -> tensor<2x16x16xf32> loc("other")
  return %scores, %keys, %other : tensor<2x8x32xf32>, tensor<2x32x16xf32>, tensor<2x16x16xf32>
})";
  func::FuncOp function = parse(text), stored = parse(text);
  std::vector<Tensor> arguments = draw(function, 1);
  SmallString<128> file;
  int descriptor = -1;
  ASSERT_FALSE(
      llvm::sys::fs::createTemporaryFile("cache", "json", descriptor, file));
  llvm::FileRemover remover(file);
  llvm::raw_fd_ostream(descriptor, /*shouldClose=*/true)
      << R"({"name": "c", "extends": "float32", "cache": "float8_e4m3fn"})";
  auto changes =
      OperandChanges::create(function, NamedPolicy(std::string(file)), {});
  ASSERT_TRUE(succeeded(changes));
  SmallVector<ConcatOp> caches = findKvCaches(stored);
  ASSERT_EQ(caches.size(), 1u);
  roundKvCache(caches.front(), ElementType::F8E4M3FN);
  Sensitivity sensitivity(function, Budget::Measure::Rms);
  sensitivity.considerOperands(*changes);
  auto wanted = sensitivity.addSample(arguments, /*draws=*/16);
  auto outputs = reference::interpret(stored, arguments, {});
  ASSERT_TRUE(succeeded(wanted) && succeeded(outputs));
  double squares = 0;
  for (auto [exact, rounded] : llvm::zip_equal(*wanted, *outputs)) {
    ErrorMeter meter(Budget::Measure::Rms);
    meter.add(exact, rounded);
    squares += meter.value() * meter.value();
  }
  EXPECT_GT(squares, 1e-4);
  double predicted = sensitivity.ofOperands(findKvCaches(function).front());
  EXPECT_NEAR(std::sqrt(predicted / squares), 1, 0.2);
}

} // namespace
