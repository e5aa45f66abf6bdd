//===- FusedGemm.cpp - matmuls as GEMM problems -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Gemm.h"

#include "mpc/Analysis/OperandSums.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

bool cuda::chooseUnit(Type element, Type result, ComputeMode compute,
                      const CudaTarget &target, FusedGemm &problem) {
  if (!result.isF16() && !result.isBF16() && !result.isF32())
    return false;
  problem.tileType = element;
  problem.unit = mmaUnit(element, compute, target);
  if (problem.unit)
    return true;
  // Values of bf16, which has no unit before sm_80, are exact in f32.
  problem.tileType = Float32Type::get(element.getContext());
  problem.unit = &fmaUnit();
  return element.isF32() || element.isBF16();
}

namespace {
/// A matrix operand: [batch..., rows, depth] or [batch..., depth, rows].
class MatrixOperand : public GemmOperand {
public:
  /// `flattened`: batch dimensions are merged into rows.
  MatrixOperand(Value operand, bool depthLast, bool flattened, size_t batchRank,
                int64_t tileBytes) {
    tensor = operand;
    alongDepth = depthLast;
    this->batchRank = batchRank;
    ArrayRef<int64_t> shape = shapeOf(operand);
    size_t rank = shape.size();
    batchShape.assign(shape.begin(), shape.end() - 2);
    rowShape = {shape[rank - (depthLast ? 2 : 1)]};
    depth = shape[rank - (depthLast ? 1 : 2)];
    if (flattened) {
      rowShape.insert(rowShape.begin(), batchShape.begin(), batchShape.end());
      batchShape.clear();
    }
    rows = productOf(rowShape);

    int64_t most = 16 / tileBytes;
    view = StridedView::of(operand);
    if (view && view->strides.back() != 1 && shape.back() != 1) {
      // The other dimension may be the contiguous one.
      if (view->strides[rank - 2] == 1 && rowShape.size() == 1)
        alongDepth = !depthLast;
      lastDimension = false;
    }
    if (view) {
      unsigned dim = lastDimension ? rank - 1 : rank - 2;
      chunk = view->alignedRun(dim, shape[dim], most);
      argument = view->argument;
      rowStride = view->joinedStride(shape, depthLast ? 0 : rank - 1,
                                     depthLast ? rank - 1 : rank);
      if (!flattened)
        rowStride = view->strides[rank - (depthLast ? 2 : 1)];
      depthStride = view->strides[rank - (depthLast ? 1 : 2)];
    } else {
      chunk = alignedRunOf(operand, most);
    }
    this->depthLast = depthLast;
  }

  OperandLocation locate(const IndexMath &math, ValueRange batch, Value row,
                         Value k) const override {
    OperandLocation place;
    if (!view) {
      place.indices = batchIndices(math, batch);
      SmallVector<Value> rowIndices = math.delinearize(row, rowShape);
      if (!depthLast)
        place.indices.push_back(k);
      llvm::append_range(place.indices, rowIndices);
      if (depthLast)
        place.indices.push_back(k);
      return place;
    }
    Value offset = math.constant(view->offset);
    for (auto [index, stride] :
         llvm::zip(batchIndices(math, batch), view->strides))
      offset = math.add(offset, math.mul(index, stride));
    if (rowStride) {
      offset = math.add(offset, math.mul(row, *rowStride));
    } else {
      SmallVector<Value> rowIndices = math.delinearize(row, rowShape);
      for (auto [index, stride] : llvm::zip(rowIndices, view->strides))
        offset = math.add(offset, math.mul(index, stride));
    }
    place.offset = math.add(offset, math.mul(k, depthStride));
    return place;
  }

  std::optional<int64_t> lineStride() const override {
    if (!view)
      return std::nullopt;
    return alongDepth ? rowStride : depthStride;
  }

private:
  /// Broadcasts the operand's batch dimensions to those of the result.
  SmallVector<Value> batchIndices(const IndexMath &math,
                                  ValueRange batch) const {
    SmallVector<Value> indices;
    size_t missing = batchRank - batchShape.size();
    for (auto [i, extent] : llvm::enumerate(batchShape))
      indices.push_back(extent == 1 ? math.constant(0) : batch[missing + i]);
    return indices;
  }

  std::optional<StridedView> view;
  SmallVector<int64_t> batchShape, rowShape;
  size_t batchRank = 0;
  bool depthLast = true, lastDimension = true;
  std::optional<int64_t> rowStride;
  int64_t depthStride = 0;
};
} // namespace

SmallVector<Value> FusedGemm::roots() const {
  if (pair)
    return SmallVector<Value>(pair->halves.begin(), pair->halves.end());
  return {anchor->getResult(0)};
}

Operation *cuda::soleContraction(func::FuncOp kernel) {
  Operation *sole = nullptr;
  int64_t contractions = 0;
  kernel.walk([&](ContractionOpInterface found) {
    ++contractions;
    sole = found.getOperation();
  });
  return contractions == 1 ? sole : nullptr;
}

/// Finds results that sum an operand over k, possibly cast. Returns false if
/// the kernel has other sums, or sums of both operands.
static bool findSums(func::FuncOp kernel, MatmulOp product,
                     FusedGemm &problem) {
  auto results = kernel.getBody().front().getTerminator()->getOperands();
  for (auto sum : kernel.getOps<ReduceSumOp>()) {
    std::optional<OperandSum> part = operandSumOf(sum, product);
    if (!part || (!problem.sums.empty() && problem.sumsLeft != part->isLeft))
      return false;
    problem.sumsLeft = part->isLeft;
    for (auto [number, result] : llvm::enumerate(results)) {
      auto cast = result.getDefiningOp<CastOp>();
      bool isStored = cast ? cast.getInput() == sum.getResult() &&
                                 isa<FloatType>(getElementTypeOrSelf(result))
                           : result == sum.getResult();
      if (isStored)
        problem.sums.push_back({number, part->begin, part->extent});
    }
  }
  return true;
}

std::optional<FusedGemm> FusedGemm::matmul(func::FuncOp kernel,
                                           const CudaTarget &target) {
  auto op = dyn_cast_if_present<MatmulOp>(soleContraction(kernel));
  if (!op || op.getPacked())
    return std::nullopt;
  auto lhs = cast<RankedTensorType>(op.getLhs().getType());
  auto rhs = cast<RankedTensorType>(op.getRhs().getType());
  auto result = cast<RankedTensorType>(op.getResult().getType());
  FusedGemm problem;
  if (result.getRank() < 2 || productOf(result.getShape()) == 0 ||
      op.getAccumulate().value_or(result.getElementType()).isF64() ||
      !chooseUnit(lhs.getElementType(), result.getElementType(),
                  op.getCompute(), target, problem))
    return std::nullopt;
  if (problem.unit->isFloat8()) {
    problem.needsF32Sums = op.getAccumulate().has_value();
    if (rhs.getElementType() != lhs.getElementType())
      problem.rightType = rhs.getElementType();
  }
  problem.anchor = op;
  int64_t rank = result.getRank();
  problem.m = result.getDimSize(rank - 2);
  problem.n = result.getDimSize(rank - 1);
  problem.k = lhs.getDimSize(lhs.getRank() - (op.getTransposeLhs() ? 2 : 1));
  if (problem.k == 0 || !findSums(kernel, op, problem))
    return std::nullopt;
  problem.pair = GatedMatmulColumns::of(op);
  // Other block sizes may separate the halves of pairs.
  if (problem.pair && problem.pair->block != GatedMatmulColumns::blockFor(
                                                 target.target().kernels()))
    return std::nullopt;
  SmallVector<int64_t> rowShape = {problem.m};
  problem.batchShape.assign(result.getShape().begin(),
                            result.getShape().end() - 2);

  // Batch dimensions missing on the right-hand side are merged into rows.
  bool flattened =
      !op.getTransposeLhs() &&
      lhs.getShape().drop_back(2) == ArrayRef<int64_t>(problem.batchShape) &&
      productOf(rhs.getShape().drop_back(2)) == 1;
  if (flattened) {
    rowShape.insert(rowShape.begin(), problem.batchShape.begin(),
                    problem.batchShape.end());
    problem.m = productOf(rowShape);
    problem.batchShape.clear();
  }
  problem.batches = productOf(problem.batchShape);
  int64_t tileBytes = problem.tileType.getIntOrFloatBitWidth() / 8;
  problem.lhs = std::make_unique<MatrixOperand>(
      op.getLhs(), !op.getTransposeLhs(), flattened, problem.batchShape.size(),
      tileBytes);
  if (GemmRowPrologue::make(op.getLhs())) {
    // The row prologue needs all of k in each row of the left-hand side.
    if (op.getTransposeLhs() || problem.batches != 1 || !problem.sums.empty())
      return std::nullopt;
    problem.rows =
        GemmRowPrologue::of(kernel, op, op.getLhs(), problem.m, problem.k);
    if (!problem.rows)
      return std::nullopt;
  }
  // If all batch extents are 1, the right-hand side is a single matrix.
  size_t batchRank =
      std::max<size_t>(problem.batchShape.size(), rhs.getRank() - 2);
  problem.rhs = std::make_unique<MatrixOperand>(
      op.getRhs(), op.getTransposeRhs(), /*flattened=*/false, batchRank,
      tileBytes);
  problem.resultIndices = [rowShape](const IndexMath &math, ValueRange batch,
                                     Value row, Value column) {
    SmallVector<Value> indices(batch);
    llvm::append_range(indices, math.delinearize(row, rowShape));
    indices.push_back(column);
    return indices;
  };
  return problem;
}
