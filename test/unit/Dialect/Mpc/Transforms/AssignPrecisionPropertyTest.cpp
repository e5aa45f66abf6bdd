//===- AssignPrecisionPropertyTest.cpp - properties on random graphs ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomGraph.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Analysis/PrecisionPlan.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/Reference/Interpreter.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;

namespace {

constexpr const char *kPolicies[] = {"mixed_bfloat16", "mixed_float16",
                                     "bfloat16", "float16", "float32"};

class AssignPrecisionPropertyTest : public ::testing::Test {
protected:
  AssignPrecisionPropertyTest() {
    context.loadDialect<MpcDialect, func::FuncDialect>();
    context.disableMultithreading();
  }

  OwningOpRef<ModuleOp> parse(const std::string &text) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    return module;
  }

  static func::FuncOp mainOf(ModuleOp module) {
    return *module.getOps<func::FuncOp>().begin();
  }

  void fuse(ModuleOp module) {
    PassManager manager(&context);
    addFusionPasses(manager.nest<func::FuncOp>());
    EXPECT_TRUE(succeeded(manager.run(module)));
  }

  void apply(ModuleOp module, std::unique_ptr<Pass> pass) {
    PassManager manager(&context);
    if (pass->getOpName() == func::FuncOp::getOperationName())
      manager.addNestedPass<func::FuncOp>(std::move(pass));
    else
      manager.addPass(std::move(pass));
    EXPECT_TRUE(succeeded(manager.run(module)));
  }

  void assign(ModuleOp module, StringRef policy,
              std::vector<std::string> sets = {},
              StringRef placement = "mincut") {
    AssignPrecisionPassOptions options;
    options.policy = policy.str();
    options.castPlacement = placement.str();
    for (std::string &set : sets)
      options.sets.push_back(std::move(set));
    apply(module, createAssignPrecisionPass(options));
  }

  PrecisionPlan plan(func::FuncOp func, const Policy &policy,
                     CastPlacement placement) {
    FailureOr<PrecisionPlan> plan =
        PrecisionPlan::create(func, policy, target, placement);
    EXPECT_TRUE(succeeded(plan));
    return *plan;
  }

  static Policy load(StringRef name) {
    llvm::Expected<Policy> policy = Policy::load(name);
    EXPECT_TRUE(bool(policy));
    return *policy;
  }

  static std::string print(ModuleOp module) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    module.print(stream);
    return text;
  }

  MLIRContext context;
  CastFusionTarget target;
};

TEST_F(AssignPrecisionPropertyTest, AssigningIsIdempotent) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    OwningOpRef<ModuleOp> module =
        parse(test::RandomGraph(seed, /*size=*/64, /*ops=*/25).text());
    const char *policy = kPolicies[seed % std::size(kPolicies)];
    assign(*module, policy);
    std::string once = print(*module);
    assign(*module, policy);
    ASSERT_EQ(print(*module), once);
  }
}

TEST_F(AssignPrecisionPropertyTest, HardLabelsHold) {
  int kept = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    OwningOpRef<ModuleOp> module =
        parse(test::RandomGraph(seed, /*size=*/64, /*ops=*/25).text());
    std::string forced = "op" + std::to_string(seed % 25);
    bool mixed = seed % 2;
    assign(*module, mixed ? "mixed_bfloat16" : "float32",
           {"op:softmax=float32", "op:tanh=bfloat16"});
    func::FuncOp func = mainOf(*module);
    // The signature is what it was, and outputs come as they were computed.
    for (Type type : func.getResultTypes())
      ASSERT_TRUE(getElementTypeOrSelf(type).isF32());
    for (Value result : func.getBody().front().getTerminator()->getOperands()) {
      auto cast = result.getDefiningOp<CastOp>();
      bool exact = !cast || isa<TanhOp, ReshapeOp, TransposeOp>(
                                cast.getInput().getDefiningOp());
      ASSERT_TRUE(exact) << "an output is rounded";
    }
    func.walk([&](Operation *op) {
      if (auto softmax = dyn_cast<SoftmaxOp>(op)) {
        EXPECT_TRUE(getElementTypeOrSelf(softmax.getResult()).isF32());
        ++kept;
      }
      if (auto tanh = dyn_cast<TanhOp>(op))
        EXPECT_TRUE(getElementTypeOrSelf(tanh.getResult()).isBF16());
      if (auto matmul = dyn_cast<MatmulOp>(op)) {
        EXPECT_EQ(getElementTypeOrSelf(matmul.getLhs()).isBF16(), mixed);
        EXPECT_EQ(getElementTypeOrSelf(matmul.getRhs()).isBF16(), mixed);
        EXPECT_TRUE(getElementTypeOrSelf(matmul.getResult()).isF32());
      }
      // The result of a sensitive op is not rounded for another f32 op.
      auto cast = dyn_cast<CastOp>(op);
      if (!cast || !getElementTypeOrSelf(cast.getResult()).isF32())
        return;
      auto narrowing = cast.getInput().getDefiningOp<CastOp>();
      bool sensitive = narrowing && isa_and_present<ExpOp, ReduceMeanOp>(
                                        narrowing.getInput().getDefiningOp());
      EXPECT_FALSE(sensitive);
    });
  }
  EXPECT_GT(kept, 100);
}

TEST_F(AssignPrecisionPropertyTest, FusionKeepsDeclaredTypes) {
  size_t compared = 0;
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    OwningOpRef<ModuleOp> module =
        parse(test::RandomGraph(seed, /*size=*/64, /*ops=*/25).text());
    assign(*module, kPolicies[seed % std::size(kPolicies)]);
    // Casts and moves may travel; what an op reads and yields may not change.
    auto signatures = [&] {
      std::vector<std::string> lines;
      module->walk([&](Operation *op) {
        if (!isa<MpcDialect>(op->getDialect()) ||
            isa<CastOp, ReshapeOp, TransposeOp, mpc::ConstantOp, FusionOp,
                YieldOp>(op))
          return;
        std::string line;
        llvm::raw_string_ostream stream(line);
        stream << opName(op) << ":";
        for (Type type : op->getOperandTypes())
          stream << " " << type;
        stream << " ->";
        for (Type type : op->getResultTypes())
          stream << " " << type;
        lines.push_back(line);
      });
      llvm::sort(lines);
      lines.erase(llvm::unique(lines), lines.end());
      return lines;
    };
    std::vector<std::string> before = signatures();
    fuse(*module);
    std::vector<std::string> after = signatures();
    // Fusing drops what nothing reads.
    ASSERT_TRUE(llvm::includes(before, after));
    compared += after.size();
  }
  EXPECT_GT(compared, 1000u);
}

TEST_F(AssignPrecisionPropertyTest, FusionKeepsDeclaredValues) {
  using namespace reference;
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    OwningOpRef<ModuleOp> module =
        parse(test::RandomGraph(seed, /*size=*/40, /*ops=*/15).text());
    assign(*module, kPolicies[seed % 4]);
    std::mt19937 engine(seed);
    std::normal_distribution<double> normal;
    SmallVector<Tensor> arguments;
    for (Type type : mainOf(*module).getArgumentTypes()) {
      Tensor tensor(cast<RankedTensorType>(type));
      for (double &value : tensor.floats())
        value = roundTo(normal(engine), tensor.getElementType());
      arguments.push_back(std::move(tensor));
    }
    InterpretOptions options;
    options.rounding = Rounding::Declared;
    auto before = interpret(mainOf(*module), arguments, options);
    fuse(*module);
    auto after = interpret(mainOf(*module), arguments, options);
    ASSERT_TRUE(succeeded(before) && succeeded(after));
    for (auto [left, right] : llvm::zip_equal(*before, *after))
      for (auto [a, b] : llvm::zip_equal(left.floats(), right.floats()))
        ASSERT_TRUE(a == b || (a != a && b != b)) << a << " and " << b;
  }
}

/// Bytes that `plan` spends on partial sums that it stores in f32 for accuracy:
/// the savings of 16-bit storage, and the casts.
static int64_t bytesForSums(const PrecisionPlan &plan, func::FuncOp func) {
  int64_t bytes = 0;
  for (Operation &op : func.getBody().front().without_terminator())
    for (Value result : op.getResults()) {
      if (isa<mpc::ConstantOp>(op))
        continue;
      const ValueReason &reason = plan.getReason(result);
      if (StringRef(reason.text)
              .contains("accumulation steps, an error that costs more"))
        bytes += reason.bytesSaved + reason.castBytes;
    }
  return bytes;
}

TEST_F(AssignPrecisionPropertyTest, TheCutMovesNoMoreThanPropagation) {
  int fewer = 0;
  for (const char *name : {"mixed_bfloat16", "mixed_float16"}) {
    Policy policy = load(name);
    for (unsigned seed = 0; seed < 600; ++seed) {
      SCOPED_TRACE(seed);
      OwningOpRef<ModuleOp> module =
          parse(test::RandomGraph(seed, /*size=*/128, /*ops=*/25).text());
      func::FuncOp func = mainOf(*module);
      PrecisionPlan minimum = plan(func, policy, CastPlacement::MinimumCut);
      int64_t cut = minimum.placementBytes(func, target);
      int64_t propagated = plan(func, policy, CastPlacement::Propagate)
                               .placementBytes(func, target);
      EXPECT_LE(cut, propagated + bytesForSums(minimum, func));
      fewer += cut < propagated;
    }
  }
  EXPECT_GT(fewer, 50);
}

TEST_F(AssignPrecisionPropertyTest, EveryEligibleValueHasAReason) {
  Policy policy = load("mixed_bfloat16");
  int free = 0, hard = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    OwningOpRef<ModuleOp> module =
        parse(test::RandomGraph(seed, /*size=*/64, /*ops=*/25).text());
    func::FuncOp func = mainOf(*module);
    PrecisionPlan cut = plan(func, policy, CastPlacement::MinimumCut);
    for (Operation &op : func.getBody().front().without_terminator()) {
      if (isa<mpc::ConstantOp>(op))
        continue;
      const ValueReason &reason = cut.getReason(op.getResult(0));
      ASSERT_FALSE(reason.text.empty());
      (reason.hard ? hard : free) += 1;
      // The op named by the reason exists: a rule's op, or one that agrees.
      for (const ValueReason::Pull &pull : reason.pulls) {
        ASSERT_TRUE(pull.op && pull.type);
        if (!reason.hard && pull.op == reason.because)
          EXPECT_EQ(pull.type, cut.getStorage(op.getResult(0)));
      }
      unsigned distance = 0;
      for (const ValueReason::Pull &pull : reason.pulls) {
        ASSERT_GE(pull.distance, distance);
        distance = pull.distance;
      }
    }
  }
  EXPECT_GT(free, 500);
  EXPECT_GT(hard, 500);
}

} // namespace
