//===- ShardOptimizer.cpp - ZeRO-1 optimizer sharding ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract in: optimizers read gradients summed over ranks. Contract out:
// gradients, master weights and optimizer states are sharded over ranks;
// parameters that the model reads are all-gathered.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCommunicationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Dialect/Mpc/Training/Passes.h"
#include "mpc/Support/StepNames.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_SHARDOPTIMIZERPASS
#include "mpc/Dialect/Mpc/Training/Passes.h.inc"
} // namespace mpc

namespace {

struct ShardOptimizerPass
    : mpc::impl::ShardOptimizerPassBase<ShardOptimizerPass> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (shard != "optimizer" && shard != "none") {
      function.emitError() << "shards 'none' or 'optimizer', found '"
                           << StringRef(shard) << "'";
      return signalPassFailure();
    }
    if (function.isExternal() || ranks == 1 || shard == "none" ||
        !function.getBody().hasOneBlock())
      return markAllAnalysesPreserved();
    StepFunction step(function);
    SmallVector<OptimizerOpInterface> optimizers(
        step.body().getOps<OptimizerOpInterface>());
    if (optimizers.empty())
      return readWholes(step);
    if (failed(check(step, optimizers)))
      return signalPassFailure();
    scatterGradients(optimizers);
    pieces.clear();
    gathered.clear();
    {
      StepFunction::Ports ports(step);
      for (OptimizerOpInterface optimizer : optimizers)
        cut(step, optimizer);
      gather(step);
    }
    for (auto [number, shape] : pieces)
      function.setArgAttr(number, kShardAttr, shape);
    function.setType(FunctionType::get(
        &getContext(), step.body().getArgumentTypes(),
        ValueRange(step.terminator().getOperands()).getTypes()));
    numPieces += pieces.size();
  }

private:
  /// A shard of an argument's new value, to be all-gathered.
  struct Gathered {
    BlockArgument argument;
    Value piece;
    /// Low-precision copy derived from the gathered value; may be null.
    BlockArgument copy;
  };

  static LogicalResult check(const StepFunction &step,
                             ArrayRef<OptimizerOpInterface> optimizers) {
    for (OptimizerOpInterface optimizer : optimizers) {
      OptimizerOpInterface op = optimizer;
      bool areArguments = isa<BlockArgument>(op.getParameter()) &&
                          llvm::all_of(op.getStates(), [](Value state) {
                            return isa<BlockArgument>(state);
                          });
      if (!areArguments)
        return op->emitError() << "updates a value that is not an argument, so "
                                  "it cannot be sharded";
      auto message = op.getGradientMutable().get().getDefiningOp<AllReduceOp>();
      bool isShared =
          message && llvm::all_of(message->getUses(), [](OpOperand &use) {
            auto reader = dyn_cast<OptimizerOpInterface>(use.getOwner());
            return reader && &reader.getGradientMutable() == &use;
          });
      if (!isShared)
        return op->emitError() << "reads a gradient that is not an all-reduce "
                                  "result used only by optimizers";
    }
    return success();
  }

  RankedTensorType pieceOf(Type type) const {
    auto whole = cast<RankedTensorType>(type);
    return RankedTensorType::get(
        {int64_t(llvm::divideCeil(whole.getNumElements(), int64_t(ranks)))},
        whole.getElementType());
  }

  void scatterGradients(ArrayRef<OptimizerOpInterface> optimizers) {
    for (OptimizerOpInterface optimizer : optimizers) {
      auto sum =
          optimizer.getGradientMutable().get().getDefiningOp<AllReduceOp>();
      if (!sum)
        continue;
      OpBuilder builder(sum);
      auto types =
          llvm::map_to_vector(sum.getInputs().getTypes(),
                              [&](Type type) { return Type(pieceOf(type)); });
      auto scatter = ReduceScatterOp::create(
          builder, sum.getLoc(), TypeRange(types), sum.getInputs(),
          sum.getReduction(), sum.getRanks(), sum.getAccumulateAttr());
      sum->replaceAllUsesWith(scatter.getOutputs());
      sum->erase();
    }
  }

  /// Shards the master weights and states of an update, and records the values
  /// to gather.
  void cut(const StepFunction &step, OptimizerOpInterface optimizer) {
    auto master = cast<BlockArgument>(optimizer.getParameter());
    auto whole = cast<RankedTensorType>(master.getType());
    auto shape = DenseI64ArrayAttr::get(&getContext(), whole.getShape());
    for (Value value :
         llvm::concat<Value>(SmallVector<Value>{master},
                             SmallVector<Value>(optimizer.getStates()))) {
      value.setType(pieceOf(value.getType()));
      pieces[cast<BlockArgument>(value).getArgNumber()] = shape;
    }
    unsigned own = 1 + optimizer.getNewStates().size();
    BlockArgument copy;
    for (OpResult result : optimizer->getResults()) {
      if (result.getResultNumber() >= own)
        copy = replacedBy(step, result);
      result.setType(pieceOf(result.getType()));
    }
    SmallVector<OpOperand *> reads;
    for (OpOperand &use : master.getUses())
      if (use.getOwner() != optimizer.getOperation() &&
          use.getOwner() != step.terminator())
        reads.push_back(&use);
    if (copy && reads.empty()) {
      gathered[copy.getType()].push_back(
          {copy, optimizer->getResults().back(), nullptr});
      return;
    }
    StringRef name = step.argumentName(master.getArgNumber());
    BlockArgument read = step.appendArgument(whole, RoleKind::parameter_copy,
                                             (name + kWholeSuffix).str());
    for (OpOperand *use : reads)
      use->set(read);
    gathered[whole].push_back({read, optimizer.getNewParameter(), copy});
  }

  static BlockArgument replacedBy(const StepFunction &step, Value value) {
    for (BlockArgument argument : step.arguments(RoleKind::parameter_copy))
      if (std::optional<unsigned> update = step.updateOf(argument);
          update && step.result(*update) == value)
        return argument;
    return nullptr;
  }

  /// One message per type after all updates: few messages, and none depends on
  /// unchecked gradients.
  void gather(const StepFunction &step) {
    llvm::MapVector<Type, SmallVector<Gathered>> byElement;
    for (auto &[type, list] : gathered)
      llvm::append_range(byElement[getElementTypeOrSelf(type)], list);
    OpBuilder builder = step.atEnd();
    Location loc = NameLoc::get(builder.getStringAttr("parameters"));
    for (auto &[element, list] : byElement) {
      SmallVector<Value> inputs;
      SmallVector<Type> types;
      for (const Gathered &one : list) {
        auto piece = cast<RankedTensorType>(one.piece.getType());
        inputs.push_back(one.piece);
        types.push_back(RankedTensorType::get({ranks, piece.getDimSize(0)},
                                              piece.getElementType()));
      }
      auto all =
          AllGatherOp::create(builder, loc, TypeRange(types),
                              ValueRange(inputs), uint64_t(int64_t(ranks)));
      for (auto [one, rows] : llvm::zip_equal(list, all.getOutputs())) {
        Value value = wholeOf(builder, loc, rows, one.argument.getType());
        step.setUpdate(one.argument, value);
        if (one.copy)
          step.setUpdate(one.copy,
                         CastOp::create(builder, loc, one.copy.getType(), value,
                                        /*pinned=*/false));
      }
      ++numMessages;
    }
  }

  /// Reassembles the tensor from its shards, the rows; drops zero padding.
  static Value wholeOf(OpBuilder &builder, Location loc, Value rows,
                       Type type) {
    auto table = cast<RankedTensorType>(rows.getType()),
         whole = cast<RankedTensorType>(type);
    auto rowOf = [&](int64_t count) {
      return RankedTensorType::get({count}, whole.getElementType());
    };
    int64_t count = whole.getNumElements();
    if (count != table.getNumElements()) {
      rows =
          ReshapeOp::create(builder, loc, rowOf(table.getNumElements()), rows);
      rows = SliceOp::create(
          builder, loc, rowOf(count), rows, builder.getDenseI64ArrayAttr({0}),
          builder.getDenseI64ArrayAttr({count}), DenseI64ArrayAttr());
    }
    return ReshapeOp::create(builder, loc, whole, rows);
  }

  /// A function without updates has no master weights.
  void readWholes(const StepFunction &step) {
    func::FuncOp function = step.getFunction();
    for (BlockArgument parameter : step.arguments(RoleKind::parameter)) {
      unsigned number = parameter.getArgNumber();
      std::string name = step.argumentName(number).str() + kWholeSuffix;
      function.removeArgAttr(number, MpcDialect::kInitialAttr);
      function.setArgAttr(number, MpcDialect::kNameAttr,
                          StringAttr::get(&getContext(), name));
      function.setArgAttr(
          number, MpcDialect::kRoleAttr,
          RoleAttr::get(&getContext(), RoleKind::parameter_copy, StringAttr()));
    }
  }

  llvm::MapVector<unsigned, DenseI64ArrayAttr> pieces;
  /// Values to gather, by type.
  llvm::MapVector<Type, SmallVector<Gathered>> gathered;
};

} // namespace
