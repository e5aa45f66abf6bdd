//===- Fuse.cpp - regions that become kernels -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Groups the ops of each function (FuseRules.cpp,
// FusionQueue.cpp) and moves every group into an
// mpc.fusion. Legal because all ops are pure and groups never wait for each
// other. The Fuse stage's only pass; mpc-plan reads its result.
//
//===----------------------------------------------------------------------===//

#include "FusePrepare.h"
#include "FusionQueue.h"
#include "OpEmitter.h"

#include "mpc/Analysis/Fusibility.h"
#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/Dialect/Mpc/Transforms/UniqueNames.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

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
    FailureOr<TargetInfo> info = exe::targetOf(function, target);
    if (failed(info))
      return signalPassFailure();
    prepareFusion(block, *info);
    eraseDead(block);

    FusionGraph graph(block);
    std::vector<FusionDecision> decisions = groupOps(graph, block, *info);
    if (report)
      for (const FusionDecision &decision : decisions)
        remark(decision);
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
    eraseDead(block);
  }

private:
  static void eraseDead(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

  /// The same for fusions that do the same to the same values.
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

  /// Movement that was repeated for readers which did not take it is done once.
  static void shareEqual(Block &block) {
    auto isSame = [](FusionOp a, FusionOp b) {
      return a.getKind() == b.getKind() && a.getInputs() == b.getInputs() &&
             a.getResultTypes() == b.getResultTypes() &&
             OperationEquivalence::isRegionEquivalentTo(
                 &a.getBody(), &b.getBody(),
                 OperationEquivalence::IgnoreLocations);
    };
    // In block order what a fusion reads is shared before the fusion is.
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

  /// One decision, at the op that leads the kernel.
  static void remark(const FusionDecision &decision) {
    const FusionSaving &saving = decision.saving;
    InFlightDiagnostic diag = decision.into->emitRemark();
    std::string from = nameOf(decision.from), into = nameOf(decision.into);
    StringRef kind = decision.from->getName().stripDialect();
    if (decision.verdict == FusionDecision::Verdict::Taken)
      diag << "'" << into << "' takes " << kind << " '" << from << "' as "
           << nameOf(decision.step);
    else
      diag << "'" << into << "' leaves " << kind << " '" << from << "' as "
           << nameOf(decision.step)
           << (decision.verdict == FusionDecision::Verdict::Cycle
                   ? ", a kernel lies between them"
                   : ", it costs more than it saves");
    diag << ": " << llvm::formatv("{0:f3}", saving.seconds * 1e6).str()
         << " us, " << saving.bytes << " bytes, " << saving.launches
         << (saving.launches == 1 ? " launch" : " launches");
  }

  /// A name that no other fusion of the function has.
  std::string uniqueName(FusionGroup *group) {
    Operation *leader = group->anchor ? group->anchor : group->ops.back();
    std::string base = nameOf(leader);
    auto isInput = [](Value value) { return isa<BlockArgument>(value); };
    if (group->ops.size() == 1 && isa<CastOp>(leader) &&
        llvm::all_of(leader->getOperands(), isInput))
      base = "input_cast";
    if (group->isJoint)
      base = group->kind == FusionKind::update ? "update" : "check";
    return names.make(base);
  }

  void emitFusion(FusionGraph &graph, FusionGroup *group,
                  Operation *terminator) {
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

    OpBuilder builder(terminator);
    Operation *leader = group->anchor ? group->anchor : group->ops.back();
    auto fusion = FusionOp::create(
        builder, leader->getLoc(), TypeRange(ValueRange(results)),
        inputs.getArrayRef(), group->kind, uniqueName(group));
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

  UniqueNames names;
};

} // namespace
