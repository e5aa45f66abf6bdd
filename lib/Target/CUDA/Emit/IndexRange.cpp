//===- IndexRange.cpp - range analysis of indices -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IndexRange.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Larger than every index, and safe to multiply.
static constexpr int64_t kFar = int64_t(1) << 31;

/// Returns the range of an index, or nullopt if unknown.
static std::optional<IndexRange> rangeOf(Value value, int depth) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return IndexRange{constant.getSExtValue(), constant.getSExtValue()};
  if (!value.getType().isIndex() || depth == 0)
    return std::nullopt;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    if (!loop || value != loop.getInductionVar())
      return std::nullopt;
    auto begin = rangeOf(loop.getLowerBound(), depth - 1);
    auto end = rangeOf(loop.getUpperBound(), depth - 1);
    if (!begin)
      return std::nullopt;
    return IndexRange{begin->low,
                      end ? std::max(end->high - 1, begin->low) : kFar};
  }
  Operation *op = value.getDefiningOp();
  if (isa<gpu::ThreadIdOp, gpu::BlockIdOp, gpu::BlockDimOp, gpu::GridDimOp,
          gpu::LaneIdOp, gpu::SubgroupIdOp>(op)) {
    auto kernel = op->getParentOfType<gpu::GPUFuncOp>();
    auto grid = kernel.getKnownGridSize();
    if (auto id = dyn_cast<gpu::BlockIdOp>(op); id && grid)
      return IndexRange{0, (*grid)[static_cast<int>(id.getDimension())] - 1};
    if (isa<gpu::BlockIdOp, gpu::GridDimOp>(op))
      return IndexRange{0, kFar};
    if (isa<gpu::LaneIdOp, gpu::SubgroupIdOp>(op))
      return IndexRange{0, 31};
    auto block = kernel.getKnownBlockSize();
    if (auto id = dyn_cast<gpu::ThreadIdOp>(op); id && block)
      return IndexRange{0, (*block)[static_cast<int>(id.getDimension())] - 1};
    // Threads per block.
    return IndexRange{0, 1024};
  }
  if (op->getNumOperands() < 2)
    return std::nullopt;
  bool isSelect = isa<arith::SelectOp>(op);
  auto x = rangeOf(op->getOperand(isSelect ? 1 : 0), depth - 1);
  auto y = rangeOf(op->getOperand(isSelect ? 2 : 1), depth - 1);
  bool xGood = x && x->low >= 0, yGood = y && y->low >= 0;
  // One known operand bounds these.
  if (isa<arith::AndIOp, arith::MinUIOp>(op) && (xGood || yGood))
    return IndexRange{0,
                      std::min(xGood ? x->high : kFar, yGood ? y->high : kFar)};
  if (isa<arith::RemUIOp>(op) && yGood)
    return IndexRange{0, y->high};
  if (!x || !y)
    return std::nullopt;
  std::optional<IndexRange> result;
  if (isa<arith::AddIOp>(op))
    result = IndexRange{x->low + y->low, x->high + y->high};
  else if (isa<arith::SubIOp>(op))
    result = IndexRange{x->low - y->high, x->high - y->low};
  else if (isSelect)
    result = IndexRange{std::min(x->low, y->low), std::max(x->high, y->high)};
  else if (isa<arith::MinSIOp>(op))
    result = IndexRange{std::min(x->low, y->low), std::min(x->high, y->high)};
  else if (isa<arith::MaxSIOp>(op))
    result = IndexRange{std::max(x->low, y->low), std::max(x->high, y->high)};
  else if (!xGood || !yGood)
    return std::nullopt;
  else if (isa<arith::MulIOp>(op))
    result = IndexRange{x->low * y->low, x->high * y->high};
  else if (isa<arith::DivUIOp, arith::DivSIOp>(op))
    result = IndexRange{0, y->low ? x->high / y->low : x->high};
  else if (isa<arith::RemSIOp>(op))
    result = IndexRange{0, y->high};
  else if (isa<arith::MaxUIOp>(op))
    result = IndexRange{std::max(x->low, y->low), std::max(x->high, y->high)};
  else if (isa<arith::ShRUIOp>(op))
    result = IndexRange{0, x->high};
  else if (isa<arith::ShLIOp>(op) && y->high < 31)
    result = IndexRange{0, x->high << y->high};
  else if (isa<arith::XOrIOp>(op))
    result = IndexRange{0, 2 * std::max(x->high, y->high)};
  if (!result)
    return std::nullopt;
  return IndexRange{std::max(result->low, -kFar), std::min(result->high, kFar)};
}

std::optional<IndexRange> cuda::indexRange(Value value) {
  return rangeOf(value, /*depth=*/8);
}
