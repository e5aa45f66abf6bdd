//===- AddIndexChecks.cpp - run-time index bounds checks ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Exe/Transforms/Passes.h"
#include "mpc/Dialect/Mpc/IR/IndexChecks.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"

namespace mpc {
#define GEN_PASS_DEF_ADDINDEXCHECKSPASS
#include "mpc/Dialect/Exe/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

/// Returns the index of the function argument whose elements `value` holds in
/// some order, inside a fusion or not; -1 if there is none.
static int64_t argumentBehind(Value value) {
  while (true) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      auto fusion = dyn_cast<FusionOp>(argument.getOwner()->getParentOp());
      if (!fusion)
        return argument.getArgNumber();
      value = fusion.getInputs()[argument.getArgNumber()];
    } else if (auto fusion = value.getDefiningOp<FusionOp>()) {
      Operation *yield = fusion.getBody().front().getTerminator();
      value = yield->getOperand(cast<OpResult>(value).getResultNumber());
    } else if (Operation *op = value.getDefiningOp();
               isa<CastOp>(op) || isUnaryMovement(op)) {
      value = op->getOperand(0);
    } else {
      return -1;
    }
  }
}

namespace {
struct AddIndexChecksPass
    : mpc::impl::AddIndexChecksPassBase<AddIndexChecksPass> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal() || !function.getBody().hasOneBlock())
      return markAllAnalysesPreserved();
    Block &block = function.getBody().front();
    Builder attributes(function.getContext());
    SmallVector<IndexCheck> checks;
    SmallVector<FusionOp> readers;
    for (auto fusion : block.getOps<FusionOp>()) {
      size_t known = checks.size();
      fusion.getBody().walk([&](Operation *op) {
        bool isLength = checksLengths(op);
        if (!op->removeDiscardableAttr(kCheckedIndicesAttr))
          return;
        op->setDiscardableAttr(kIndexCheckAttr, attributes.getI64IntegerAttr(
                                                    int64_t(checks.size())));
        for (int64_t extent : indexedExtents(op))
          checks.push_back({mpc::opName(op), extent,
                            argumentBehind(op->getOperand(1)), isLength});
      });
      if (checks.size() > known)
        readers.push_back(fusion);
    }
    if (checks.empty())
      return markAllAnalysesPreserved();
    OpBuilder builder = OpBuilder::atBlockBegin(&block);
    Location loc =
        NameLoc::get(builder.getStringAttr("index_checks"), function.getLoc());
    RankedTensorType type = indexChecksType(function.getContext(), checks);
    auto words = mpc::ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(type, builder.getI64IntegerAttr(0)));
    for (FusionOp fusion : readers) {
      fusion->insertOperands(fusion->getNumOperands(), words->getResults());
      fusion.getBody().front().addArgument(type, loc);
    }
    numChecks += checks.size();
  }
};
} // namespace
