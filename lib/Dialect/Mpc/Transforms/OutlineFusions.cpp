//===- OutlineFusions.cpp - outline fusion groups into regions ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Moves every group marked by mpc-select-fusion-groups and mpc-fuse-horizontal
// into an mpc.fusion, in topological order, and merges identical fusions (CSE).
// Last pass of the Fuse stage; mpc-plan consumes its result.
//
//===----------------------------------------------------------------------===//

#include "FusionPasses.h"

#include "mpc/Analysis/Fusion/FusionGraph.h"
#include "mpc/Analysis/Fusion/Views.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/Transforms/UniqueNames.h"

#include "llvm/ADT/SetVector.h"

namespace mpc {
#define GEN_PASS_DEF_OUTLINEFUSIONSPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

/// Returns true if constant operands of `op` can be immediates in the kernel.
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

struct OutlineFusionsPass
    : mpc::impl::OutlineFusionsPassBase<OutlineFusionsPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<FusionScope> scope = scopeOf(getOperation(), *this);
    if (failed(scope))
      return signalPassFailure();
    if (!scope->block)
      return markAllAnalysesPreserved();
    Block &block = *scope->block;
    FusionGraph graph(block);
    if (failed(graph.readMarks(block)))
      return signalPassFailure();
    SmallVector<FusionGroup *> order = graph.inOrder();
    names = UniqueNames();
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
    shareEqual(block);
    eraseDeadOps(block);
    outlineLostViews(graph, block);
  }

private:
  /// Hash that is equal for identical fusions of the same values.
  static size_t hashOf(FusionOp fusion) {
    llvm::DenseMap<Value, size_t> numbers;
    auto number = [&](ValueRange values) {
      for (Value value : values)
        numbers.try_emplace(value, numbers.size());
    };
    number(fusion.getBody().getArguments());
    llvm::hash_code hash = llvm::hash_combine(
        fusion.getKind(), llvm::hash_combine_range(fusion.getInputs()),
        llvm::hash_combine_range(fusion.getResultTypes()));
    for (Operation &op : fusion.getBody().getOps()) {
      hash = llvm::hash_combine(
          hash, OperationEquivalence::computeHash(
                    &op, [&](Value value) { return numbers.lookup(value); },
                    OperationEquivalence::ignoreHashValue,
                    OperationEquivalence::IgnoreLocations));
      number(op.getResults());
    }
    return hash;
  }

  /// CSE of fusions: merges data movement duplicated for readers that did not
  /// fuse it.
  static void shareEqual(Block &block) {
    auto isSame = [](FusionOp a, FusionOp b) {
      return a.getKind() == b.getKind() && a.getInputs() == b.getInputs() &&
             a.getResultTypes() == b.getResultTypes() &&
             OperationEquivalence::isRegionEquivalentTo(
                 &a.getBody(), &b.getBody(),
                 OperationEquivalence::IgnoreLocations);
    };
    // Block order: the inputs of a fusion are merged before the fusion.
    llvm::DenseMap<size_t, SmallVector<FusionOp, 1>> kept;
    for (FusionOp fusion : block.getOps<FusionOp>()) {
      if (fusion.getInputs().empty() || fusion->use_empty())
        continue;
      SmallVector<FusionOp, 1> &alike = kept[hashOf(fusion)];
      auto *same = llvm::find_if(
          alike, [&](FusionOp other) { return isSame(other, fusion); });
      if (same == alike.end())
        alike.push_back(fusion);
      else
        fusion->replaceAllUsesWith(*same);
    }
  }

  /// Creates a kernel for each op that is no longer a view. Whether an op is a
  /// view depends on op order and value identity, which grouping changes. Other
  /// views are unaffected: one view less only reduces the readers of a value.
  void outlineLostViews(FusionGraph &graph, Block &block) {
    for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
      if (!isa<FusionOp, mpc::ConstantOp>(op) && !isView(&op)) {
        ++numFusions;
        emitFusion(graph, graph.groupOf(&op), &op);
      }
  }

  /// Returns the kind of a group; loops are classified by their ops.
  static FusionKind kindOf(FusionGroup *group) {
    if (group->anchor || group->isJoint)
      return group->kind;
    bool moves = llvm::any_of(
        group->ops, [](Operation *op) { return isa<TransposeOp>(op); });
    return moves ? FusionKind::transpose : FusionKind::elementwise;
  }

  /// Returns a fusion name that is unique in the function.
  std::string uniqueName(FusionGroup *group) {
    Operation *leader = group->anchor ? group->anchor : group->ops.back();
    std::string base = identifierOf(leader);
    auto isInput = [](Value value) { return isa<BlockArgument>(value); };
    if (group->ops.size() == 1 && isa<CastOp>(leader) &&
        llvm::all_of(leader->getOperands(), isInput))
      base = "input_cast";
    if (group->isJoint)
      base = group->kind == FusionKind::update ? "update" : "check";
    return names.make(base);
  }

  /// Outlines the group into a fusion before `next`.
  void emitFusion(FusionGraph &graph, FusionGroup *group, Operation *next) {
    SmallVector<Value> results = graph.resultsOf(group);
    llvm::SetVector<Value> inputs;
    DenseMap<Value, mpc::ConstantOp> immediates;
    for (Operation *op : group->ops)
      for (Value operand : op->getOperands()) {
        if (graph.groupOf(operand) == group || inputs.contains(operand))
          continue;
        auto constant = operand.getDefiningOp<mpc::ConstantOp>();
        if (constant && takesImmediates(op) && splatValue(constant.getValue()))
          immediates[operand] = constant;
        else
          inputs.insert(operand);
      }

    OpBuilder builder(next);
    Operation *leader = group->anchor ? group->anchor : group->ops.back();
    auto fusion = FusionOp::create(
        builder, leader->getLoc(), TypeRange(ValueRange(results)),
        inputs.getArrayRef(), kindOf(group), uniqueName(group));
    if (Attribute layer = leader->getDiscardableAttr(MpcDialect::kLayerAttr))
      fusion->setDiscardableAttr(MpcDialect::kLayerAttr, layer);
    Block *body = fusion.getBody().empty() ? &fusion.getBody().emplaceBlock()
                                           : &fusion.getBody().front();
    // Maps inputs of the group to block arguments of the region.
    DenseMap<Value, Value> inside;
    for (Value input : inputs)
      inside[input] = body->addArgument(input.getType(), input.getLoc());
    // All readers come later: a later group, a view or the return.
    for (auto [result, output] : llvm::zip_equal(results, fusion.getOutputs()))
      result.replaceUsesWithIf(output, [&](OpOperand &use) {
        return graph.groupOf(use.getOwner()) != group;
      });
    builder.setInsertionPointToEnd(body);
    for (Operation *op : group->ops) {
      for (OpOperand &operand : op->getOpOperands()) {
        Value &value = inside[operand.get()];
        if (!value)
          if (mpc::ConstantOp constant = immediates.lookup(operand.get()))
            value = builder.clone(*constant)->getResult(0);
        if (value)
          operand.set(value);
      }
      op->moveBefore(body, body->end());
      FusionGraph::eraseMarks(op);
    }
    YieldOp::create(builder, leader->getLoc(), results);
  }

  UniqueNames names;
};

} // namespace
