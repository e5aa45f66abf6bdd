//===- OperandSums.cpp - reductions fused into kernels --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/OperandSums.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

using namespace mlir;
using namespace mpc;

bool mpc::sumsInFloat32(ReduceSumOp sum) {
  return !sum.getKeepDims() &&
         sum.getInput().getType().getElementType().isF32() &&
         sum.getResult().getType().getElementType().isF32() &&
         sum.getAccumulate()
             .value_or(Float32Type::get(sum.getContext()))
             .isF32();
}

Value mpc::summedValue(ReduceSumOp sum) {
  auto cast = sum.getInput().getDefiningOp<CastOp>();
  if (!cast)
    return sum.getInput();
  auto from = dyn_cast<FloatType>(getElementTypeOrSelf(cast.getInput()));
  return from && from.getWidth() < 32 ? cast.getInput() : sum.getInput();
}

/// Returns the column of `operand` that is the first column of `part`; nullopt
/// unless all rows of `part` are rows of it.
static std::optional<int64_t> columnIn(Value operand, Value part) {
  if (operand == part)
    return 0;
  if (auto reshape = operand.getDefiningOp<ReshapeOp>()) {
    ArrayRef<int64_t> from = shapeOf(reshape.getInput());
    if (from.empty() || from.back() != shapeOf(operand).back())
      return std::nullopt;
    return columnIn(reshape.getInput(), part);
  }
  auto concat = operand.getDefiningOp<ConcatOp>();
  if (!concat ||
      static_cast<size_t>(concat.getAxis()) + 1 != shapeOf(operand).size())
    return std::nullopt;
  int64_t begin = 0;
  for (Value piece : concat.getInputs()) {
    if (std::optional<int64_t> column = columnIn(piece, part))
      return begin + *column;
    begin += shapeOf(piece).back();
  }
  return std::nullopt;
}

/// Returns true if kernels with sums exist for the GEMM.
static bool isPlainProduct(MatmulOp product) {
  auto isMultiplied = [](Type type) {
    return type.isF16() || type.isBF16() || type.isF32();
  };
  ComputeMode mode = product.getCompute();
  return !product.getPacked() &&
         (mode == ComputeMode::native || mode == ComputeMode::tf32) &&
         shapeOf(product.getLhs()).size() == 2 &&
         shapeOf(product.getRhs()).size() == 2 &&
         elementCount(product.getLhs()) > 0 &&
         elementCount(product.getRhs()) > 0 &&
         isMultiplied(getElementTypeOrSelf(product.getLhs())) &&
         isMultiplied(getElementTypeOrSelf(product.getResult())) &&
         !(product.getAccumulate() && product.getAccumulate()->isF64());
}

std::optional<OperandSum> mpc::operandSumOf(ReduceSumOp sum, MatmulOp product) {
  Value part = summedValue(sum);
  int64_t rank = shapeOf(part).size();
  if (rank < 2 || !sumsInFloat32(sum) || !isPlainProduct(product))
    return std::nullopt;
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(rank - 1));
  if (sum.getAxes() != ArrayRef<int64_t>(axes))
    return std::nullopt;
  int64_t extent = shapeOf(part).back();
  if (!product.getTransposeRhs())
    if (std::optional<int64_t> begin = columnIn(product.getRhs(), part))
      return OperandSum{/*isLeft=*/false, *begin, extent};
  if (product.getTransposeLhs())
    if (std::optional<int64_t> begin = columnIn(product.getLhs(), part))
      return OperandSum{/*isLeft=*/true, *begin, extent};
  return std::nullopt;
}

bool mpc::isMadeElementwise(Value value, Value from) {
  SmallVector<Value> pending = {value};
  SmallPtrSet<Operation *, 8> seen;
  while (!pending.empty()) {
    Value next = pending.pop_back_val();
    if (next == from)
      return true;
    Operation *op = next.getDefiningOp();
    if (op && isElementwise(op) && shapeOf(next) == shapeOf(from) &&
        seen.insert(op).second)
      llvm::append_range(pending, op->getOperands());
  }
  return false;
}

bool mpc::poolsImages(Operation *op, ConvOp conv) {
  if (!isa<ReduceSumOp, ReduceMeanOp>(op))
    return false;
  Value image = conv.getResult(), pooled = op->getOperand(0);
  int64_t rank = shapeOf(image).size();
  auto isFloat = [](Value value) {
    Type type = getElementTypeOrSelf(value);
    return type.isF16() || type.isBF16() || type.isF32();
  };
  auto reduction = cast<ReductionOpInterface>(op);
  return rank >= 3 && shapeOf(pooled) == shapeOf(image) &&
         elementCount(image) > 0 &&
         conv.getLayout() == ImageLayout::channels_last && !conv.getPacked() &&
         conv.getGroups() > 1 && shapeOf(conv.getFilter())[1] == 1 &&
         isFloat(conv.getInput()) && isFloat(image) && isFloat(pooled) &&
         isFloat(op->getResult(0)) &&
         !(conv.getAccumulate() && conv.getAccumulate()->isF64()) &&
         reduction.getAccumulateType().isF32() &&
         reduction.getReductionAxes() ==
             llvm::to_vector(llvm::seq<int64_t>(1, rank - 1)) &&
         isMadeElementwise(pooled, image);
}

bool mpc::keepsMagnitudes(Operation *op) {
  if (auto cast = dyn_cast<CastOp>(op))
    return isWidening(cast);
  auto movement = dyn_cast<MovementOpInterface>(op);
  return isa<ReshapeOp>(op) ||
         (movement && op->getNumOperands() == 1 && movement.isPermutation());
}

bool mpc::isLargestMagnitude(ReduceMaxOp reduce) {
  Type type = reduce.getInput().getType().getElementType();
  if (!(type.isF32() || type.isBF16() || type.isF16()) ||
      reduce.getAxes().size() != shapeOf(reduce.getInput()).size() ||
      elementCount(reduce.getInput()) == 0)
    return false;
  Operation *op = reduce.getInput().getDefiningOp();
  while (op && keepsMagnitudes(op))
    op = op->getOperand(0).getDefiningOp();
  return isa_and_present<AbsOp>(op);
}
