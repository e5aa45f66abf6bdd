//===- FoldConstants.cpp - constant folding -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluates ops whose operands are all constants. One traversal in dominance
// order reaches the fixpoint. Legal because every mpc op is pure and the
// interpreter defines the ops.
//
//===----------------------------------------------------------------------===//

#include "MatchUtils.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCommunicationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/Transforms/ConstantTransforms.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/Reference/Interpreter.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_FOLDCONSTANTSPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

namespace {

struct FoldConstantsPass : mpc::impl::FoldConstantsPassBase<FoldConstantsPass> {
  using Base::Base;

  /// Returns true if folding `op` stays within the size limits. A splat stores
  /// one element of any shape, so only stored bytes justify a large result.
  bool isWithinBounds(Operation *op) {
    int64_t stored = 0;
    for (Value operand : op->getOperands()) {
      int64_t bytes = byteCount(operand.getType());
      auto constant = operand.getDefiningOp<ConstantOp>();
      if (constant && !splatValue(constant.getValue()))
        stored = std::max(stored, bytes);
      else if (bytes > maxBytes)
        return false;
    }
    // Otherwise every run would upcast the largest weights.
    if (isa<CastOp>(op) && stored > 0)
      return true;
    for (Value result : op->getResults())
      if (byteCount(result.getType()) > std::max<int64_t>(maxBytes, stored))
        return false;
    auto cost = dyn_cast<CostOpInterface>(op);
    return !cost || cost.getFlops() <= maxFlops;
  }

  /// Returns true if `op` is an mpc op that reads only constants and iotas. A
  /// lone iota is not folded: it is computed in registers. Collectives are not
  /// folded: every rank must take part, even for the zero gradient of an unused
  /// parameter.
  static bool isFoldable(Operation *op) {
    if (!isa<MpcDialect>(op->getDialect()) || op->getNumRegions() != 0 ||
        op->getNumOperands() == 0 || isa<CollectiveOpInterface>(op))
      return false;
    bool readsConstant = false;
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (!isa_and_present<ConstantOp, IotaOp>(producer))
        return false;
      readsConstant |= isa<ConstantOp>(producer);
    }
    return readsConstant ||
           byteCount(op->getResult(0).getType()) <= kLargestIotaBytes;
  }

  /// Replaces `op` by constants and sets `folded` if it can be folded.
  LogicalResult fold(Operation *op, bool &folded) {
    folded = false;
    if (!isFoldable(op))
      return success();
    if (!isWithinBounds(op)) {
      ++numTooLarge;
      return success();
    }
    if (FailureOr<ElementsAttr> moved = transformConstant(op);
        succeeded(moved)) {
      replace(op, 0, *moved);
      op->erase();
      folded = true;
      return success();
    }
    SmallVector<reference::Tensor> operands;
    for (Value operand : op->getOperands()) {
      FailureOr<reference::Tensor> tensor = valueOf(operand);
      if (failed(tensor))
        return failure();
      operands.push_back(std::move(*tensor));
    }
    SmallVector<const reference::Tensor *> pointers;
    for (reference::Tensor &operand : operands)
      pointers.push_back(&operand);
    SmallVector<reference::Tensor> results;
    if (failed(reference::evaluate(op, pointers, results,
                                   reference::Rounding::Float64)))
      return failure();
    for (auto [index, tensor] : llvm::enumerate(results))
      replace(op, index, tensor.toAttr(mpc::opName(op)));
    op->erase();
    folded = true;
    return success();
  }

  /// Replaces result `index` of `op` by a constant.
  static void replace(Operation *op, size_t index, ElementsAttr value) {
    OpBuilder builder(op);
    auto constant = ConstantOp::create(builder, op->getLoc(), value);
    copyLayer(op, constant);
    op->getResult(index).replaceAllUsesWith(constant.getResult());
  }

  static FailureOr<reference::Tensor> valueOf(Value value) {
    if (auto constant = value.getDefiningOp<ConstantOp>()) {
      FailureOr<reference::Tensor> tensor =
          reference::Tensor::fromAttr(constant.getValue());
      if (failed(tensor))
        constant.emitOpError("has no data");
      return tensor;
    }
    SmallVector<reference::Tensor> results;
    if (failed(reference::evaluate(value.getDefiningOp(), {}, results,
                                   reference::Rounding::Float64)))
      return failure();
    return std::move(results.front());
  }

  void runOnOperation() override {
    for (Block &block : getOperation().getBody()) {
      SmallVector<Operation *> ops;
      for (Operation &op : block)
        ops.push_back(&op);
      for (Operation *op : ops) {
        bool folded;
        if (failed(fold(op, folded)))
          return signalPassFailure();
        numFolded += folded;
      }
      for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
        if (isa<ConstantOp, IotaOp>(op) && op.use_empty())
          op.erase();
    }
  }

  /// Size limit for folding ops of iotas only, in bytes.
  static constexpr int64_t kLargestIotaBytes = 1 << 20;
};

} // namespace
