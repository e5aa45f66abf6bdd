//===- Fuse.cpp - regions that become kernels -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Groups the ops of each function (FuseRules.cpp) and moves every group into an
// mpc.fusion. Legal because all ops are pure and groups never wait for each
// other. The Fuse stage's only pass; mpc-plan reads its result.
//
//===----------------------------------------------------------------------===//

#include "FusionGraph.h"
#include "OpEmitter.h"

#include "mpc/Analysis/Fusibility.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

namespace mpc {
#define GEN_PASS_DEF_FUSEPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

/// The model's name for an op, or its mnemonic.
std::string nameOf(Operation *op) {
  StringRef name = op->getName().stripDialect();
  Location loc = op->getLoc();
  if (auto fused = dyn_cast<FusedLoc>(loc);
      fused && !fused.getLocations().empty())
    loc = fused.getLocations().front();
  if (auto named = dyn_cast<NameLoc>(loc); named && !named.getName().empty())
    name = named.getName().getValue();
  std::string text;
  for (char c : name)
    if (llvm::isAlnum(c))
      text += c;
    else if (!text.empty() && text.back() != '_')
      text += '_';
  while (!text.empty() && text.back() == '_')
    text.pop_back();
  return text.empty() ? op->getName().stripDialect().str() : text;
}

/// A conversion to a wider float of a value that lies in memory in 16 bits.
bool isWidening(CastOp cast) {
  auto from = dyn_cast<FloatType>(getElementTypeOrSelf(cast.getInput()));
  auto to = dyn_cast<FloatType>(getElementTypeOrSelf(cast.getResult()));
  return from && to && from.getWidth() < to.getWidth();
}

/// Lets data move in 16 bits: a movement of a widened value becomes the
/// widening of the moved value. In block order, so that casts travel as far as
/// they can.
void widenAfterMovement(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (!isa<ReshapeOp, TransposeOp, SliceOp, BroadcastOp>(op))
      continue;
    auto cast = op.getOperand(0).getDefiningOp<CastOp>();
    if (!cast || !isWidening(cast) || cast.getPinned())
      continue;
    OpBuilder builder(&op);
    Operation *narrow = builder.clone(op);
    narrow->setOperand(0, cast.getInput());
    auto type = mlir::cast<RankedTensorType>(op.getResult(0).getType());
    narrow->getResult(0).setType(
        type.clone(getElementTypeOrSelf(cast.getInput())));
    Operation *wide = builder.clone(*cast);
    wide->setOperand(0, narrow->getResult(0));
    wide->getResult(0).setType(type);
    op.getResult(0).replaceAllUsesWith(wide->getResult(0));
    op.erase();
  }
}

/// Brings a narrowing cast back over movement that only it reads, to the op
/// whose kernel can store 16 bits: the movement else keeps them apart.
void narrowBeforeMovement(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto cast = dyn_cast<CastOp>(op);
    if (!cast)
      continue;
    Type from = getElementTypeOrSelf(cast.getInput());
    Type to = getElementTypeOrSelf(cast.getResult());
    if (!isa<FloatType>(from) || !isa<FloatType>(to) ||
        from.getIntOrFloatBitWidth() <= to.getIntOrFloatBitWidth())
      continue;
    SmallVector<Operation *> movements;
    Value source = cast.getInput();
    while (Operation *producer = source.getDefiningOp()) {
      if (!source.hasOneUse() || !isa<ReshapeOp, TransposeOp>(producer))
        break;
      movements.push_back(producer);
      source = producer->getOperand(0);
    }
    Operation *producer = source.getDefiningOp();
    if (movements.empty() || !producer || !source.hasOneUse() ||
        isa<ReshapeOp, TransposeOp, CastOp>(producer) ||
        !absorbsResultCast(producer, FusionTarget()))
      continue;
    OpBuilder builder(movements.back());
    Operation *narrow = builder.clone(op);
    narrow->setOperand(0, source);
    narrow->getResult(0).setType(
        mlir::cast<RankedTensorType>(source.getType()).clone(to));
    movements.back()->setOperand(0, narrow->getResult(0));
    for (Operation *movement : movements) {
      Value result = movement->getResult(0);
      result.setType(mlir::cast<RankedTensorType>(result.getType()).clone(to));
    }
    cast.getResult().replaceAllUsesWith(movements.front()->getResult(0));
    cast.erase();
  }
}

/// Gives each reader of a widening cast its own, so that the wide value needs
/// no memory.
void repeatWideningCasts(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto cast = dyn_cast<CastOp>(op);
    if (!cast || !isWidening(cast))
      continue;
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : cast.getResult().getUses())
      uses.push_back(&use);
    DenseMap<Operation *, Value> copies;
    for (OpOperand *use :
         ArrayRef<OpOperand *>(uses).drop_front(uses.empty() ? 0 : 1)) {
      if (use->getOwner() == uses.front()->getOwner())
        continue;
      Value &copy = copies[use->getOwner()];
      if (!copy)
        copy = OpBuilder(use->getOwner()).clone(*cast)->getResult(0);
      use->set(copy);
    }
  }
}

/// Whether a constant operand of `op` can be an immediate in the kernel.
bool takesImmediates(Operation *op) {
  auto fusion = dyn_cast<FusionOpInterface>(op);
  if (!fusion)
    return false;
  switch (fusion.getFusionClass()) {
  case FusionClass::Elementwise:
  case FusionClass::IndexMap:
  case FusionClass::RowWise:
    return true;
  default:
    return false;
  }
}

struct FusePass : mpc::impl::FusePassBase<FusePass> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal() || !function.getOps<FusionOp>().empty())
      return markAllAnalysesPreserved();
    if (!function.getBody().hasOneBlock()) {
      function.emitError() << "mpc-fuse needs a function of one block, found "
                           << function.getBody().getBlocks().size();
      return signalPassFailure();
    }
    Block &block = function.getBody().front();
    widenAfterMovement(block);
    narrowBeforeMovement(block);
    repeatWideningCasts(block);
    eraseDead(block);

    FusionGraph graph(block);
    groupOps(graph, block);
    SmallVector<FusionGroup *> order = graph.inOrder();
    names.clear();
    Operation *terminator = block.getTerminator();
    for (FusionGroup *group : order) {
      if (group->isLoose) {
        group->ops.front()->moveBefore(terminator);
        continue;
      }
      ++numFusions;
      if (group->ops.size() > 1)
        numFused += group->ops.size();
      emitFusion(graph, group, terminator);
    }
    eraseDead(block);
  }

private:
  static void eraseDead(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

  /// A name that no other fusion of the function has.
  std::string uniqueName(FusionGroup *group) {
    Operation *leader = group->anchor ? group->anchor : group->ops.back();
    std::string base = nameOf(leader);
    auto isInput = [](Value value) { return isa<BlockArgument>(value); };
    if (group->ops.size() == 1 && isa<CastOp>(leader) &&
        llvm::all_of(leader->getOperands(), isInput))
      base = "input_cast";
    std::string name = base;
    for (int64_t i = 1; !names.insert(name).second; ++i)
      name = base + "_" + std::to_string(i);
    return name;
  }

  void emitFusion(FusionGraph &graph, FusionGroup *group,
                  Operation *terminator) {
    SmallVector<Value> results = graph.resultsOf(group), inputs;
    DenseMap<Value, mpc::ConstantOp> immediates;
    for (Operation *op : group->ops)
      for (Value operand : op->getOperands()) {
        if (graph.groupOf(operand) == group ||
            llvm::is_contained(inputs, operand))
          continue;
        auto constant = operand.getDefiningOp<mpc::ConstantOp>();
        if (constant && takesImmediates(op) && splatValue(constant.getValue()))
          immediates[operand] = constant;
        else
          inputs.push_back(operand);
      }

    OpBuilder builder(terminator);
    Operation *leader = group->anchor ? group->anchor : group->ops.back();
    auto fusion = FusionOp::create(builder, leader->getLoc(),
                                   TypeRange(ValueRange(results)), inputs,
                                   group->kind, uniqueName(group));
    if (Attribute layer = leader->getDiscardableAttr(MpcDialect::kLayerAttr))
      fusion->setDiscardableAttr(MpcDialect::kLayerAttr, layer);
    Block *body = fusion.getBody().empty() ? &fusion.getBody().emplaceBlock()
                                           : &fusion.getBody().front();
    IRMapping mapping;
    for (Value input : inputs)
      mapping.map(input, body->addArgument(input.getType(), input.getLoc()));
    builder.setInsertionPointToEnd(body);
    for (Operation *op : group->ops) {
      for (Value operand : op->getOperands())
        if (mpc::ConstantOp constant = immediates.lookup(operand);
            constant && !mapping.contains(operand))
          mapping.map(operand, builder.clone(*constant)->getResult(0));
      builder.clone(*op, mapping);
    }
    SmallVector<Value> yielded;
    for (Value result : results)
      yielded.push_back(mapping.lookup(result));
    YieldOp::create(builder, leader->getLoc(), yielded);
    // Every reader lies behind: in a later group, in a view, or in the return.
    for (auto [result, output] : llvm::zip_equal(results, fusion.getOutputs()))
      result.replaceUsesWithIf(output, [&](OpOperand &use) {
        return graph.groupOf(use.getOwner()) != group;
      });
    for (Operation *op : llvm::reverse(group->ops))
      op->dropAllUses();
  }

  llvm::StringSet<> names;
};

} // namespace
