//===- EveryOpTests.cpp - every op is interpreted -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs test/Dialect/Mpc/IR/ops.mlir, training-ops.mlir and communication.mlir,
// which have every op of the dialect.
//
//===----------------------------------------------------------------------===//

#include "ReferenceTest.h"

#include "mpc/Dialect/Mpc/IR/MpcCommunicationOps.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

namespace {

class EveryOpTest : public ReferenceTest {
protected:
  EveryOpTest() {
    for (const char *file :
         {"ops.mlir", "training-ops.mlir", "communication.mlir"})
      modules.push_back(parseSourceFile<ModuleOp>(
          std::string(MPC_SOURCE_DIR "/test/Dialect/Mpc/IR/") + file,
          &context));
  }

  /// Normal floats, small integers.
  Tensor draw(RankedTensorType type) {
    Tensor tensor(type);
    std::normal_distribution<double> normal;
    std::uniform_int_distribution<int64_t> small(0, 1);
    for (double &value : tensor.floats())
      value = normal(generator);
    for (int64_t &value : tensor.ints())
      value = small(generator);
    tensor.roundToType();
    return tensor;
  }

  /// Runs every function; `check` sees each result.
  void runAll(Rounding rounding,
              function_ref<void(Operation *, const Tensor &)> check) {
    for (OwningOpRef<ModuleOp> &module : modules) {
      ASSERT_TRUE(module) << messages;
      runFunctions(*module, rounding, check);
    }
  }

  void runFunctions(ModuleOp module, Rounding rounding,
                    function_ref<void(Operation *, const Tensor &)> check) {
    for (auto function : module.getOps<func::FuncOp>()) {
      SmallVector<Tensor> arguments;
      for (Type argument : function.getArgumentTypes())
        arguments.push_back(draw(cast<RankedTensorType>(argument)));
      InterpretOptions options;
      options.rounding = rounding;
      options.observer = [&](Operation *op, ArrayRef<Tensor> results) {
        seen.insert(op->getName().getStringRef());
        ASSERT_EQ(results.size(), op->getNumResults());
        for (auto [result, value] : llvm::zip(results, op->getResults())) {
          EXPECT_EQ(Type(result.getType()), value.getType());
          check(op, result);
        }
      };
      uint64_t ranks = 1;
      function.walk([&](CollectiveOpInterface op) { ranks = op.getRanks(); });
      SmallVector<SmallVector<Tensor>> all(ranks, arguments);
      EXPECT_TRUE(succeeded(interpretRanks(function, all, options)))
          << function.getName().str() << ": " << messages;
    }
  }

  void forEachOp(function_ref<void(Operation *)> visit) {
    for (OwningOpRef<ModuleOp> &module : modules)
      module->walk([&](Operation *op) { visit(op); });
  }

  /// The only result of one op.
  static Tensor evaluate(Operation *op, ArrayRef<Tensor> operands) {
    SmallVector<const Tensor *> pointers;
    for (const Tensor &operand : operands)
      pointers.push_back(&operand);
    SmallVector<Tensor> results;
    EXPECT_TRUE(succeeded(
        reference::evaluate(op, pointers, results, Rounding::Float64)));
    return results.front();
  }

  SmallVector<OwningOpRef<ModuleOp>> modules;
  llvm::StringSet<> seen;
};

TEST_F(EveryOpTest, EveryOpHasAMeaning) {
  runAll(Rounding::Float64, [](Operation *, const Tensor &) {});
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (name.getDialectNamespace() == "mpc" &&
        !llvm::is_contained({"mpc.constant", "mpc.yield"}, name.getStringRef()))
      EXPECT_TRUE(seen.contains(name.getStringRef()))
          << name.getStringRef().str() << " is not executed";
}

TEST_F(EveryOpTest, DeclaredResultsAreValuesOfTheirTypes) {
  runAll(Rounding::Declared, [](Operation *op, const Tensor &result) {
    for (double value : result.floats())
      if (!std::isnan(value)) {
        EXPECT_EQ(value, roundTo(value, result.getElementType()))
            << op->getName().getStringRef().str();
      }
  });
}

TEST_F(EveryOpTest, MovementReadsWhereItSaysSo) {
  int checked = 0;
  forEachOp([&](Operation *op) {
    std::optional<Access> access = accessOf(op);
    if (!access)
      return;
    Tensor input = draw(cast<RankedTensorType>(op->getOperand(0).getType()));
    Tensor result = evaluate(op, {input});
    ArrayRef<int64_t> from = input.getType().getShape(),
                      to = result.getType().getShape();
    SmallVector<int64_t> fromStrides = computeStrides(from),
                         toStrides = computeStrides(to);
    ASSERT_EQ(access->size(), from.size());
    for (int64_t i = 0; i < result.size(); ++i) {
      int64_t place = 0;
      for (auto [read, stride] : llvm::zip_equal(*access, fromStrides)) {
        int64_t at = read.dim < 0 ? 0 : i / toStrides[read.dim] % to[read.dim];
        place += (at * read.stride + read.offset) * stride;
      }
      if (result.isFloat())
        EXPECT_EQ(result.floats()[i], input.floats()[place]);
      else
        EXPECT_EQ(result.ints()[i], input.ints()[place]);
    }
    ++checked;
  });
  EXPECT_GE(checked, 4);
}

TEST_F(EveryOpTest, MonotoneOpsRiseOrFallWithEachOperand) {
  int checked = 0;
  forEachOp([&](Operation *op) {
    auto monotone = dyn_cast<MonotoneOpInterface>(op);
    if (!monotone ||
        !isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType())))
      return;
    for (unsigned index = 0; index < op->getNumOperands(); ++index)
      for (int round = 0; round < 50; ++round) {
        SmallVector<Tensor> operands;
        for (Type type : op->getOperandTypes())
          operands.push_back(draw(cast<RankedTensorType>(type)));
        Tensor before = evaluate(op, operands);
        for (double &value : operands[index].floats())
          value += std::abs(std::normal_distribution<double>()(generator));
        Tensor after = evaluate(op, operands);
        for (auto [x, y] : llvm::zip_equal(before.floats(), after.floats()))
          EXPECT_FALSE(monotone.isIncreasingIn(index) ? y < x : y > x)
              << op->getName().getStringRef().str() << " of operand " << index
              << ": " << x << ", then " << y;
      }
    ++checked;
  });
  EXPECT_GE(checked, 20);
}

} // namespace
