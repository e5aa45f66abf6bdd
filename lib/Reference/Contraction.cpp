//===- Contraction.cpp - matmul -------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"

#include "Evaluation.h"
#include "Packing.h"
#include "ReferenceGemm.h"
#include "StridedLoop.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

//===----------------------------------------------------------------------===//
// Packed operands
//===----------------------------------------------------------------------===//

int64_t mpc::reference::packedColumn(int64_t lane, PackedAttr packed) {
  if (packed.getInterleave() != 2)
    return lane;
  return lane / 2 + lane % 2 * (packed.getColumns() / 2);
}

template <typename T>
void mpc::reference::unpackPanels(ArrayRef<T> panels, int64_t depth,
                                  int64_t run, int64_t columns,
                                  PackedAttr packed,
                                  MutableArrayRef<T> result) {
  int64_t width = packed.getColumns(), together = packed.getDepth();
  int64_t steps = packed.getSteps(depth, run);
  for (int64_t first = 0; first < columns; first += width)
    for (int64_t k = 0; k < depth; ++k) {
      int64_t step = packed.getSteps(k / run * run, run) + k % run / together;
      ArrayRef<T> row = panels.slice(
          (first / width * steps + step) * width * together, width * together);
      for (int64_t lane = 0; lane < width; ++lane) {
        int64_t column = first + packedColumn(lane, packed);
        if (column < columns)
          result[k * columns + column] =
              row[lane * together + k % run % together];
      }
    }
}

template void mpc::reference::unpackPanels(ArrayRef<double>, int64_t, int64_t,
                                           int64_t, PackedAttr,
                                           MutableArrayRef<double>);
template void mpc::reference::unpackPanels(ArrayRef<int64_t>, int64_t, int64_t,
                                           int64_t, PackedAttr,
                                           MutableArrayRef<int64_t>);

//===----------------------------------------------------------------------===//
// Matmul
//===----------------------------------------------------------------------===//

/// Extents and strides of a batched matmul.
struct MatmulShape {
  explicit MatmulShape(MatmulOp op, Evaluation &evaluation) {
    ArrayRef<int64_t> result = evaluation.resultType().getShape();
    ArrayRef<int64_t> lhs = evaluation.operand(0).getShape();
    ArrayRef<int64_t> rhs = evaluation.operand(1).getShape();
    rows = result[result.size() - 2];
    columns = result.back();
    depth = op.getTransposeLhs() ? lhs[lhs.size() - 2] : lhs.back();
    lhsRow = op.getTransposeLhs() ? 1 : depth;
    lhsDepth = op.getTransposeLhs() ? rows : 1;
    bool transposed = op.getTransposeRhs();
    rhsDepth = transposed ? 1 : columns;
    rhsColumn = transposed ? depth : 1;
    batch = SmallVector<int64_t>(result.drop_back(2));
    lhsBatch = broadcastStrides(lhs.drop_back(2), batch);
    for (int64_t &stride : lhsBatch)
      stride *= rows * depth;
    if (op.getPackedAttr())
      rhsBatch.assign(batch.size(), 0);
    else
      rhsBatch = broadcastStrides(rhs.drop_back(2), batch);
    for (int64_t &stride : rhsBatch)
      stride *= depth * columns;
    // A weight shared by the whole batch: one matmul of all rows.
    bool shared =
        llvm::all_of(rhsBatch, [](int64_t stride) { return stride == 0; });
    bool full = productOf(lhs.drop_back(2)) == productOf(batch);
    if (shared && full && !op.getTransposeLhs()) {
      rows *= productOf(batch);
      batch.clear();
      lhsBatch.clear();
      rhsBatch.clear();
    }
  }

  int64_t rows, depth, columns;
  int64_t lhsRow, lhsDepth, rhsDepth, rhsColumn;
  SmallVector<int64_t> batch, lhsBatch, rhsBatch;
};

static void integerMatmul(const MatmulShape &shape, const int64_t *lhs,
                          const int64_t *rhs, int64_t *result,
                          IntegerKind kind) {
  for (int64_t row = 0; row < shape.rows; ++row)
    for (int64_t column = 0; column < shape.columns; ++column) {
      uint64_t sum = 0;
      for (int64_t k = 0; k < shape.depth; ++k)
        sum += static_cast<uint64_t>(
                   lhs[row * shape.lhsRow + k * shape.lhsDepth]) *
               static_cast<uint64_t>(
                   rhs[k * shape.rhsDepth + column * shape.rhsColumn]);
      result[row * shape.columns + column] =
          kind.wrap(static_cast<int64_t>(sum));
    }
}

static void evaluateMatmulOp(MatmulOp op, Evaluation &evaluation) {
  const Tensor &lhs = evaluation.operand(0), &rhs = evaluation.operand(1);
  Tensor &result = evaluation.addResult();
  MatmulShape shape(op, evaluation);
  StridedLoop<2> batches(shape.batch, {shape.lhsBatch, shape.rhsBatch});
  if (!lhs.isFloat()) {
    IntegerKind kind(result.getElementType());
    ArrayRef<int64_t> rhsElements = rhs.ints();
    std::vector<int64_t> unpacked;
    if (PackedAttr packed = op.getPackedAttr()) {
      unpacked.resize(shape.depth * shape.columns);
      unpackPanels<int64_t>(rhsElements, shape.depth, shape.depth,
                            shape.columns, packed, unpacked);
      rhsElements = unpacked;
    }
    batches.run([&](int64_t position, const std::array<int64_t, 2> &at) {
      integerMatmul(
          shape, lhs.ints().data() + at[0], rhsElements.data() + at[1],
          result.ints().data() + position * shape.rows * shape.columns, kind);
    });
    return;
  }
  ArrayRef<double> rhsElements = rhs.floats();
  std::vector<double> unpacked;
  if (PackedAttr packed = op.getPackedAttr()) {
    unpacked.resize(shape.depth * shape.columns);
    unpackPanels<double>(rhs.floats(), shape.depth, shape.depth, shape.columns,
                         packed, unpacked);
    rhsElements = unpacked;
  }
  GemmRounding rules{evaluation.rounding, op.getAccumulateType(),
                     op.getComputeMode()};
  std::optional<TensorCoreGemm> tensorCores;
  if (evaluation.tensorCores && roundsToTypes(evaluation.rounding))
    tensorCores = TensorCoreGemm::of(op, *evaluation.tensorCores);
  rules.tensorCores = tensorCores ? &*tensorCores : nullptr;
  batches.run([&](int64_t position, const std::array<int64_t, 2> &at) {
    referenceGemm(
        shape.rows, shape.depth, shape.columns,
        {lhs.floats().data() + at[0], shape.lhsRow, shape.lhsDepth},
        {rhsElements.data() + at[1], shape.rhsDepth, shape.rhsColumn},
        result.floats().data() + position * shape.rows * shape.columns, rules);
  });
}

FailureOr<bool> mpc::reference::evaluateMatmul(Evaluation &evaluation) {
  auto matmul = dyn_cast<MatmulOp>(evaluation.op);
  if (!matmul)
    return false;
  evaluateMatmulOp(matmul, evaluation);
  evaluation.roundResults();
  return true;
}
