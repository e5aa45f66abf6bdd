//===- FaultTests.cpp - mpc check catches wrong compiles ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each case injects one fault into the module between the second run of the
// oracle and the rest of the compile, as a wrong pass would, and expects exit
// code 4. The same model without the fault gives 0.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"

#include "mpc/Dialect/Mpc/IR/CreateChecked.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <unistd.h>

using namespace mlir;
using namespace mpc;
using namespace mpc::tool;

namespace {

struct Fault {
  const char *name;
  const char *policy;
  const char *model;
  void (*inject)(ModuleOp);
};

class FaultTest : public testing::TestWithParam<Fault> {
protected:
  void SetUp() override {
    path =
        std::filesystem::temp_directory_path() /
        ("mpc-fault-" + std::to_string(::getpid()) + GetParam().name + ".mlir");
    std::ofstream(path) << GetParam().model;
  }
  void TearDown() override { std::filesystem::remove(path); }

  int check(std::function<void(ModuleOp)> inject) {
    CheckArguments arguments;
    arguments.common.model = path.string();
    arguments.common.policy = GetParam().policy;
    arguments.common.json = true;
    arguments.common.quiet = true;
    arguments.common.threads = 1;
    arguments.afterPrecision = std::move(inject);
    testing::internal::CaptureStdout();
    int code = checkCommand(arguments);
    output = testing::internal::GetCapturedStdout();
    return code;
  }

  std::filesystem::path path;
  std::string output;
};

/// The only op of its kind.
template <typename OpTy> OpTy only(ModuleOp module) {
  OpTy found;
  module.walk([&](OpTy op) { found = op; });
  return found;
}

Value castTo(OpBuilder &builder, Value value, Type element) {
  auto type = cast<RankedTensorType>(value.getType()).clone(element);
  return CastOp::create(builder, value.getLoc(), type, value, /*pinned=*/false);
}

/// Accumulates eight products at a time in `element`.
void accumulateIn(ModuleOp module, Type element) {
  auto matmul = only<MatmulOp>(module);
  OpBuilder builder(matmul);
  Location loc = matmul.getLoc();
  auto lhsType = cast<RankedTensorType>(matmul.getLhs().getType());
  auto rhsType = cast<RankedTensorType>(matmul.getRhs().getType());
  int64_t rows = lhsType.getDimSize(0), columns = rhsType.getDimSize(1),
          step = 8;
  Value sum;
  for (int64_t k = 0; k < lhsType.getDimSize(1); k += step) {
    auto part = [&](Value value, ArrayRef<int64_t> offsets,
                    ArrayRef<int64_t> sizes) -> Value {
      FailureOr<SliceOp> slice =
          createChecked<SliceOp>(builder, loc, value,
                                 {{builder.getStringAttr("offsets"),
                                   builder.getDenseI64ArrayAttr(offsets)},
                                  {builder.getStringAttr("sizes"),
                                   builder.getDenseI64ArrayAttr(sizes)}});
      return slice->getResult();
    };
    FailureOr<Operation *> product =
        createChecked(builder, loc, MatmulOp::getOperationName(),
                      matmul.getResult().getType(),
                      {part(matmul.getLhs(), {0, k}, {rows, step}),
                       part(matmul.getRhs(), {k, 0}, {step, columns})});
    Value next = (*product)->getResult(0);
    if (sum)
      next = createChecked<AddOp>(builder, loc, {sum, next})->getResult();
    Type wide = cast<RankedTensorType>(next.getType()).getElementType();
    sum = castTo(builder, castTo(builder, next, element), wide);
  }
  matmul.getResult().replaceAllUsesWith(sum);
  matmul.erase();
}

constexpr const char *kDense = R"(
func.func @main(%x: tensor<16x512xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %w: tensor<512x32xf32> {mpc.role = #mpc.role<input>, mpc.name = "w"},
                %b: tensor<32xf32> {mpc.role = #mpc.role<input>, mpc.name = "b"})
    -> (tensor<16x32xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.matmul %x, %w : (tensor<16x512xf32>, tensor<512x32xf32>) -> tensor<16x32xf32>
  %1 = mpc.add %0, %b : (tensor<16x32xf32>, tensor<32xf32>) -> tensor<16x32xf32>
  return %1 : tensor<16x32xf32>
})";

constexpr const char *kCast = R"(
func.func @main(%x: tensor<64xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<64xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.cast %x pinned : tensor<64xf32> to tensor<64xi32>
  %1 = mpc.cast %0 pinned : tensor<64xi32> to tensor<64xf32>
  %2 = mpc.mul %1, %x : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %2 : tensor<64xf32>
})";

constexpr const char *kTranspose = R"(
func.func @main(%x: tensor<24x24xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<24x24xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.transpose %x [1, 0] : tensor<24x24xf32> to tensor<24x24xf32>
  %1 = mpc.add %0, %x : (tensor<24x24xf32>, tensor<24x24xf32>) -> tensor<24x24xf32>
  %2 = mpc.softmax %1 axis(1) : tensor<24x24xf32>
  return %2 : tensor<24x24xf32>
})";

constexpr const char *kAttention = R"(
func.func @main(%q: tensor<2x16x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "q"},
                %k: tensor<2x16x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "k"},
                %v: tensor<2x16x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "v"},
                %m: tensor<16x16xi1> {mpc.role = #mpc.role<input>, mpc.name = "m"})
    -> (tensor<2x16x8xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.attention %q, %k, %v mask(%m) scale(0.35)
     : (tensor<2x16x8xf32>, tensor<2x16x8xf32>, tensor<2x16x8xf32>, tensor<16x16xi1>)
    -> tensor<2x16x8xf32>
  return %0 : tensor<2x16x8xf32>
})";

void dropBias(ModuleOp module) {
  auto add = only<AddOp>(module);
  Value product = add.getLhs();
  if (!product.getDefiningOp())
    product = add.getRhs();
  add.getResult().replaceAllUsesWith(product);
  add.erase();
}

void loseCast(ModuleOp module) {
  // The pair to i32 and back: its truncated values are preserved.
  module.walk([](CastOp op) {
    auto inner = op.getInput().getDefiningOp<CastOp>();
    if (inner && inner.getInput().getType() == op.getType())
      op.getResult().replaceAllUsesWith(inner.getInput());
  });
}

void swapAxes(ModuleOp module) {
  auto transpose = only<TransposeOp>(module);
  transpose.getResult().replaceAllUsesWith(transpose.getInput());
  transpose.erase();
}

void skipMask(ModuleOp module) {
  only<AttentionOp>(module).getMaskMutable().clear();
}

/// Multiplies the output by the largest float, twice.
void overflow(ModuleOp module) {
  auto matmul = only<MatmulOp>(module);
  OpBuilder builder(module.getContext());
  builder.setInsertionPointAfter(matmul);
  Value product = matmul.getResult();
  auto scale = ConstantOp::create(
      builder, matmul.getLoc(),
      DenseElementsAttr::get(
          RankedTensorType::get({}, builder.getF32Type()),
          builder.getF32FloatAttr(std::numeric_limits<float>::max())
              .getValue()));
  auto wide = createChecked<MulOp>(builder, matmul.getLoc(), {product, scale});
  product.replaceAllUsesExcept(wide->getResult(), *wide);
}

} // namespace

TEST_P(FaultTest, IsCaught) {
  ASSERT_EQ(check({}), kDone) << output;
  bool injected = false;
  int code = check([&](ModuleOp module) {
    std::string before, after;
    llvm::raw_string_ostream(before) << module;
    GetParam().inject(module);
    llvm::raw_string_ostream(after) << module;
    injected = before != after;
  });
  EXPECT_TRUE(injected) << "the fault did not change the module";
  EXPECT_EQ(code, kCheckFailed) << output;
  EXPECT_NE(output.find("\"ok\":false"), std::string::npos);
}

/// Errors beyond those of the declared types are located in compiled code.
TEST(FirstOverflowTest, IsNamedWhereOnlyTheCompiledCodeOverflows) {
  std::string path = (std::filesystem::temp_directory_path() /
                      ("mpc-overflow-" + std::to_string(::getpid()) + ".mlir"))
                         .string();
  std::ofstream(path) << kDense;
  CheckArguments arguments;
  arguments.common.model = path;
  arguments.common.policy = "float32";
  arguments.common.json = arguments.common.quiet = true;
  arguments.common.threads = 1;
  arguments.afterPrecision = overflow;
  testing::internal::CaptureStdout();
  EXPECT_EQ(checkCommand(arguments), kCheckFailed);
  std::string output = testing::internal::GetCapturedStdout();
  std::filesystem::remove(path);
  EXPECT_NE(output.find("elements are not finite where the reference is"),
            std::string::npos)
      << output;
  EXPECT_NE(output.find("\"first_overflow\":{\"op\":\"matmul\""),
            std::string::npos)
      << output;
}

/// If the simplified graph computes another function, the report says so.
TEST(RewriteFaultTest, IsReportedAsOne) {
  std::string path = (std::filesystem::temp_directory_path() /
                      ("mpc-rewrite-" + std::to_string(::getpid()) + ".mlir"))
                         .string();
  std::ofstream(path) << kDense;
  for (const char *policy : {"float32", "mixed_bfloat16", "mixed_float16"}) {
    CheckArguments arguments;
    arguments.common.model = path;
    arguments.common.policy = policy;
    arguments.common.json = arguments.common.quiet = true;
    arguments.common.threads = 1;
    arguments.afterSimplify = dropBias;
    testing::internal::CaptureStdout();
    EXPECT_EQ(checkCommand(arguments), kCheckFailed) << policy;
    std::string output = testing::internal::GetCapturedStdout();
    EXPECT_NE(output.find("\"rewrite_error\":"), std::string::npos) << output;
  }
  std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(
    Check, FaultTest,
    testing::Values(Fault{"accumulatorFloat16", "float32", kDense,
                          [](ModuleOp m) {
                            accumulateIn(m, Float16Type::get(m.getContext()));
                          }},
                    Fault{"accumulatorBrainFloat", "mixed_bfloat16", kDense,
                          [](ModuleOp m) {
                            accumulateIn(m, BFloat16Type::get(m.getContext()));
                          }},
                    Fault{"accumulatorHalfMixed", "mixed_float16", kDense,
                          [](ModuleOp m) {
                            accumulateIn(m, Float16Type::get(m.getContext()));
                          }},
                    Fault{"droppedBias", "mixed_bfloat16", kDense, dropBias},
                    Fault{"lostCast", "float32", kCast, loseCast},
                    Fault{"swappedAxes", "mixed_float16", kTranspose, swapAxes},
                    Fault{"overflow", "float32", kDense, overflow},
                    Fault{"skippedMask", "mixed_bfloat16", kAttention,
                          skipMask}),
    [](const testing::TestParamInfo<Fault> &info) { return info.param.name; });
