//===- Distribute.cpp - data-parallel training steps ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract in: Precision's, so that gradients have their wire types. Contract
// out: optimizers read sums over ranks, and loss gradients start with the
// rank's share of the batch. Bucketing of messages: Analysis/BucketPlan.h.
//
//===----------------------------------------------------------------------===//

#include "IgnoredTargets.h"

#include "mpc/Analysis/GradientBucketing.h"
#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCommunicationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Dialect/Mpc/Training/Passes.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_DISTRIBUTEPASS
#include "mpc/Dialect/Mpc/Training/Passes.h.inc"
} // namespace mpc

namespace {

/// Values of one type in program order.
using Values = SmallVector<Value>;

struct DistributePass : mpc::impl::DistributePassBase<DistributePass> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal())
      return markAllAnalysesPreserved();
    if (failed(checkOptions(function)))
      return signalPassFailure();
    if (ranks == 1 || !function.getBody().hasOneBlock())
      return markAllAnalysesPreserved();
    ready.clear();
    shared.clear();
    StepFunction step(function);
    if (failed(shareSeeds(step)))
      return signalPassFailure();
    readyTimes(step.body());
    narrowGradients(step.body());
    addGradients(step.body());
    averageStatistics(step);
    // Optimizers come after the messages that they depend on.
    sortTopologically(&step.body());
  }

private:
  LogicalResult checkOptions(func::FuncOp function) {
    if (ranks < 1 || ranks > 65536)
      return function.emitError()
             << "trains on 1 to 65,536 ranks, found " << int64_t(ranks);
    if (!(latency >= 0) || !(bandwidth > 0))
      return function.emitError()
             << "needs a latency of 0 seconds or more and a positive "
                "bandwidth, "
                "found "
             << double(latency) << " and " << double(bandwidth);
    if (!wire.empty() && !wireType())
      return function.emitError()
             << "sends gradients in float32, float16 or bfloat16, found '"
             << StringRef(wire) << "'";
    return success();
  }

  /// Scales loss gradients by 1 / `ranks`: a rank's loss is a mean over its own
  /// examples, so the gradients sum to those of the global batch and have the
  /// magnitude of one device's. With ignored targets, by the share of valid
  /// ones (IgnoredTargets).
  LogicalResult shareSeeds(const StepFunction &step) {
    IgnoredTargets counted(step, ranks);
    for (auto seed :
         llvm::make_early_inc_range(step.body().getOps<GradientSeedOp>())) {
      OpBuilder builder(&getContext());
      builder.setInsertionPointAfter(seed);
      Value count = mpc::ConstantOp::create(
          builder, seed.getLoc(),
          scalarOf(getElementTypeOrSelf(seed.getType()), double(ranks)));
      auto share = DivOp::create(builder, seed.getLoc(), seed.getType(),
                                 seed.getResult(), count);
      if (failed(counted.join(seed, share)))
        return failure();
      if (share->use_empty())
        share->erase();
    }
    return success();
  }

  /// Estimated completion time of each op in block order, from the target's
  /// roofline.
  void readyTimes(Block &block) {
    TargetInfo target = exe::targetOf(getOperation());
    double now = 0;
    for (Operation &op : block) {
      if (auto cost = dyn_cast<CostOpInterface>(op);
          cost && target.hasCeilings())
        now += std::max(
            double(cost.getFlops()) / target.flopsPerSecond(typeOf(&op), true),
            double(operandAndResultBytes(&op)) / target.bytesPerSecond());
      ready[&op] = now;
    }
  }

  /// Returns the type in which the op multiplies.
  static PolicyType typeOf(Operation *op) {
    for (Type type : op->getOperandTypes()) {
      Type element = getElementTypeOrSelf(type);
      if (element.isF16())
        return PolicyType::Float16;
      if (element.isBF16())
        return PolicyType::BFloat16;
    }
    return PolicyType::Float32;
  }

  /// Orders arguments first, then results in block order.
  static bool comesBefore(Value a, Value b) {
    Operation *left = a.getDefiningOp(), *right = b.getDefiningOp();
    auto number = [](Value value) {
      auto result = dyn_cast<OpResult>(value);
      return result ? result.getResultNumber()
                    : cast<BlockArgument>(value).getArgNumber();
    };
    if (left == right)
      return number(a) < number(b);
    return !left || (right && left->isBeforeInBlock(right));
  }

  double readyOf(Value value) const {
    Operation *op = value.getDefiningOp();
    return op ? ready.lookup(op) : 0;
  }

  /// Returns the wire type of gradients; null to use each gradient's own.
  FloatType wireType() {
    Builder builder(&getContext());
    return llvm::StringSwitch<FloatType>(wire)
        .Case("float32", builder.getF32Type())
        .Case("float16", builder.getF16Type())
        .Case("bfloat16", builder.getBF16Type())
        .Default(nullptr);
  }

  /// Casts gradients to the wire type, each once.
  void narrowGradients(Block &block) {
    FloatType type = wireType();
    if (!type)
      return;
    DenseMap<Value, Value> sent;
    for (Operation &op : llvm::make_early_inc_range(block)) {
      auto optimizer = dyn_cast<OptimizerOpInterface>(op);
      if (!optimizer)
        continue;
      OpOperand &operand = optimizer.getGradientMutable();
      Value gradient = operand.get();
      auto tensor = cast<RankedTensorType>(gradient.getType());
      if (tensor.getElementType() == type)
        continue;
      Value &narrow = sent[gradient];
      if (!narrow) {
        OpBuilder builder(&getContext());
        if (Operation *maker = gradient.getDefiningOp())
          builder.setInsertionPointAfter(maker);
        else
          builder.setInsertionPointToStart(&block);
        narrow = CastOp::create(builder, gradient.getLoc(), tensor.clone(type),
                                gradient, /*pinned=*/false);
        ready[narrow.getDefiningOp()] = readyOf(gradient);
      }
      operand.set(narrow);
    }
  }

  void addGradients(Block &block) {
    llvm::MapVector<Type, Values> byType;
    SmallPtrSet<Value, 16> seen;
    SmallVector<OptimizerOpInterface> optimizers;
    for (Operation &op : block)
      if (auto optimizer = dyn_cast<OptimizerOpInterface>(op)) {
        optimizers.push_back(optimizer);
        Value gradient = optimizer.getGradientMutable().get();
        if (seen.insert(gradient).second)
          byType[getElementTypeOrSelf(gradient)].push_back(gradient);
      }
    DenseMap<Value, Value> sums;
    for (auto &[type, gradients] : byType) {
      llvm::sort(gradients, comesBefore);
      SmallVector<GradientMessageItem> items;
      for (Value gradient : gradients)
        items.push_back({readyOf(gradient), byteCount(gradient.getType())});
      size_t begin = 0;
      for (size_t end : planBuckets(items, {latency, bandwidth})) {
        reduce(block, ArrayRef(gradients).slice(begin, end - begin),
               RankReduction::sum, sums, "gradients");
        begin = end;
      }
      numGradients += gradients.size();
    }
    for (OptimizerOpInterface optimizer : optimizers) {
      OpOperand &gradient = optimizer.getGradientMutable();
      gradient.set(sums.lookup(gradient.get()));
    }
  }

  void averageStatistics(const StepFunction &step) {
    llvm::MapVector<Type, Values> byType;
    SmallVector<unsigned> results;
    for (BlockArgument argument : step.arguments(RoleKind::statistics)) {
      std::optional<unsigned> update = step.updateOf(argument);
      Type element = getElementTypeOrSelf(argument.getType());
      // Counters are equal on all ranks.
      if (!update || !isa<FloatType>(element) ||
          isShared(step.result(*update), step))
        continue;
      results.push_back(*update);
      Values &values = byType[element];
      if (!llvm::is_contained(values, step.result(*update)))
        values.push_back(step.result(*update));
    }
    DenseMap<Value, Value> means;
    for (auto &[type, values] : byType)
      reduce(step.body(), values, RankReduction::mean, means, "statistics");
    for (unsigned result : results)
      step.setResult(result, means.lookup(step.result(result)));
  }

  /// Returns true if all ranks have the same value: it depends on examples only
  /// through messages.
  bool isShared(Value value, const StepFunction &step) {
    auto [known, inserted] = shared.try_emplace(value, false);
    if (!inserted)
      return known->second;
    bool isSame;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      RoleAttr role = step.argumentRole(argument.getArgNumber());
      isSame = role && role.getKind() != RoleKind::input &&
               role.getKind() != RoleKind::label &&
               role.getKind() != RoleKind::rng_state;
    } else {
      Operation *op = value.getDefiningOp();
      isSame = isa<AllReduceOp, AllGatherOp, CollectiveBroadcastOp>(op) ||
               llvm::all_of(op->getOperands(), [&](Value operand) {
                 return isShared(operand, step);
               });
    }
    return shared[value] = isSame;
  }

  /// Emits one message; `reduced` maps each value to its reduction.
  void reduce(Block &block, ArrayRef<Value> values, RankReduction how,
              DenseMap<Value, Value> &reduced, StringRef name) {
    Operation *last = nullptr;
    for (Value value : values)
      if (Operation *op = value.getDefiningOp();
          op && (!last || last->isBeforeInBlock(op)))
        last = op;
    OpBuilder builder(&getContext());
    if (last)
      builder.setInsertionPointAfter(last);
    else
      builder.setInsertionPointToStart(&block);
    Type element = getElementTypeOrSelf(values.front());
    TypeAttr accumulate;
    if (element.getIntOrFloatBitWidth() < 32)
      accumulate = TypeAttr::get(builder.getF32Type());
    Location loc = NameLoc::get(builder.getStringAttr(name));
    auto message =
        AllReduceOp::create(builder, loc, TypeRange(ValueRange(values)), values,
                            how, uint64_t(int64_t(ranks)), accumulate);
    for (auto [value, result] : llvm::zip_equal(values, message.getOutputs()))
      reduced[value] = result;
    ++numMessages;
  }

  llvm::DenseMap<Operation *, double> ready;
  llvm::DenseMap<Value, bool> shared;
};

} // namespace
