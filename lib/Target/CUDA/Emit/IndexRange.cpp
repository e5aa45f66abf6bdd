//===- IndexRange.cpp - range analysis of indices -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IndexRange.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/InferIntRangeInterface.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Returns the range [low, high], up to a bound that is larger than every index
/// and safe to multiply.
static ConstantIntRanges interval(int64_t low, int64_t high) {
  auto bound = [](int64_t value) {
    constexpr int64_t kFar = int64_t(1) << 31;
    return APInt(64, std::clamp(value, -kFar, kFar), /*isSigned=*/true);
  };
  return ConstantIntRanges::fromSigned(bound(low), bound(high));
}

/// Returns the range of an index, or nullopt if unknown.
static std::optional<ConstantIntRanges> rangeOf(Value value, int depth) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return ConstantIntRanges::constant(constant);
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
    int64_t low = begin->smin().getSExtValue();
    return interval(low, end ? std::max(end->smax().getSExtValue() - 1, low)
                             : std::numeric_limits<int64_t>::max());
  }
  auto op = value.getDefiningOp<InferIntRangeInterface>();
  if (!op)
    return std::nullopt;
  SmallVector<ConstantIntRanges> operands;
  bool allKnown = true, allGood = true, anyGood = false, lastGood = false;
  for (Value operand : op->getOperands()) {
    auto range = rangeOf(operand, depth - 1);
    lastGood = range && range->smin().isNonNegative();
    anyGood |= lastGood;
    if (!operand.getType().isInteger(1)) {
      allKnown &= range.has_value();
      allGood &= lastGood;
    }
    operands.push_back(
        range ? *range
              : ConstantIntRanges::maxRange(
                    ConstantIntRanges::getStorageBitwidth(operand.getType())));
  }
  // Indices have 64 bits in the analysis, but 32 in most kernels: unsigned
  // operations on negative ones differ.
  bool applies = allGood;
  if (isa<arith::AndIOp, arith::MinUIOp>(op))
    applies = anyGood;
  else if (isa<arith::RemUIOp>(op))
    applies = lastGood;
  else if (isa<arith::AddIOp, arith::SubIOp, arith::SelectOp, arith::MinSIOp,
               arith::MaxSIOp>(op))
    applies = allKnown;
  if (!applies)
    return std::nullopt;
  std::optional<ConstantIntRanges> result;
  op.inferResultRanges(
      operands, [&](Value, const ConstantIntRanges &range) { result = range; });
  return interval(result->smin().getSExtValue(), result->smax().getSExtValue());
}

bool cuda::isNonNegative(Value value) {
  auto range = rangeOf(value, /*depth=*/8);
  return range && range->smin().isNonNegative();
}
