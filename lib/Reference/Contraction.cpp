//===- Contraction.cpp - matmul and attention -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluation.h"
#include "MatrixProduct.h"
#include "Packing.h"
#include "RoundingKernels.h"
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

void mpc::reference::unpackPanels(ArrayRef<double> panels, int64_t depth,
                                  int64_t columns, PackedAttr packed,
                                  MutableArrayRef<double> result) {
  int64_t width = packed.getColumns();
  for (int64_t first = 0; first < columns; first += width)
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t lane = 0; lane < width; ++lane) {
        int64_t column = first + packedColumn(lane, packed);
        if (column < columns)
          result[k * columns + column] =
              panels[(first * depth) + k * width + lane];
      }
}

//===----------------------------------------------------------------------===//
// Matmul
//===----------------------------------------------------------------------===//

/// Extents and strides of a batched product.
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
    // A weight shared by the whole batch: one product of all rows.
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

static void multiplyIntegers(const MatmulShape &shape, const int64_t *lhs,
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
    batches.run([&](int64_t position, const std::array<int64_t, 2> &at) {
      multiplyIntegers(
          shape, lhs.ints().data() + at[0], rhs.ints().data() + at[1],
          result.ints().data() + position * shape.rows * shape.columns, kind);
    });
    return;
  }
  ArrayRef<double> rhsElements = rhs.floats();
  std::vector<double> unpacked;
  if (PackedAttr packed = op.getPackedAttr()) {
    unpacked.resize(shape.depth * shape.columns);
    unpackPanels(rhs.floats(), shape.depth, shape.columns, packed, unpacked);
    rhsElements = unpacked;
  }
  ProductRules rules{evaluation.rounding, op.getAccumulateType(),
                     op.getComputeMode()};
  batches.run([&](int64_t position, const std::array<int64_t, 2> &at) {
    multiplyMatrices(
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

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Applies the mask to a row of scores and turns it into probabilities. `kept`
/// says whether position t takes part; a row without one becomes zeros.
template <typename Kept, typename Round>
static void maskedSoftmax(MutableArrayRef<double> row, Kept kept, Round round) {
  double largest = -std::numeric_limits<double>::infinity();
  for (auto [t, score] : llvm::enumerate(row)) {
    if (!kept(t))
      score = -std::numeric_limits<double>::infinity();
    largest = maximum(largest, score);
  }
  if (std::isinf(largest) && largest < 0) {
    llvm::fill(row, 0.0);
    return;
  }
  double sum = 0;
  for (double &score : row) {
    score = round(std::exp(round(score - largest)));
    sum = round(sum + score);
  }
  for (double &score : row)
    score = round(score / sum);
}

static void evaluateAttentionOp(AttentionOp op, Evaluation &evaluation) {
  const Tensor &query = evaluation.operand(0), &key = evaluation.operand(1),
               &value = evaluation.operand(2);
  const Tensor *mask = evaluation.find(op.getMask());
  Tensor &result = evaluation.addResult();
  size_t rank = query.getRank();
  ArrayRef<int64_t> shape = query.getShape();
  int64_t heads = shape[rank - 3], length = shape[rank - 2],
          width = shape[rank - 1];
  int64_t groups = key.getShape()[rank - 3],
          positions = key.getShape()[rank - 2];
  int64_t valueWidth = value.getShape()[rank - 1];
  double scale = op.getScale().convertToDouble();
  bool causal = op.getCausal();
  Type inner = query.getElementType().isF64()
                   ? query.getElementType()
                   : Type(Float32Type::get(op.getContext()));
  ProductRules rules{evaluation.rounding, inner};

  // One matrix per batch entry and head; the mask gives the offset of its rows.
  SmallVector<int64_t> matrices(shape.drop_back(2));
  SmallVector<int64_t> scoreShape(matrices);
  scoreShape.append({length, positions});
  SmallVector<int64_t> maskStrides(scoreShape.size(), 0);
  if (mask)
    maskStrides = broadcastStrides(mask->getShape(), scoreShape);
  SmallVector<int64_t> maskOuter(ArrayRef(maskStrides).drop_back(2));
  int64_t maskRow = maskStrides[rank - 2], maskColumn = maskStrides[rank - 1];

  std::vector<double> scores(length * positions);
  StridedLoop<1> loop(matrices, {maskOuter});
  loop.run([&](int64_t matrix, const std::array<int64_t, 1> &at) {
    int64_t batch = matrix / heads, head = matrix % heads;
    // Query head h reads key head h * G / H.
    int64_t keyMatrix = batch * groups + head * groups / heads;
    multiplyMatrices(
        length, width, positions,
        {query.floats().data() + matrix * length * width, width, 1},
        {key.floats().data() + keyMatrix * positions * width, 1, width},
        scores.data(), rules);
    withRounding(evaluation.rounding, inner, [&](auto round) {
      for (int64_t s = 0; s < length; ++s) {
        MutableArrayRef<double> row(scores.data() + s * positions, positions);
        int64_t maskBase = at[0] + s * maskRow;
        for (auto [t, score] : llvm::enumerate(row)) {
          score = round(score * scale);
          if (mask && mask->isFloat())
            score = round(score + mask->floats()[maskBase + t * maskColumn]);
        }
        auto kept = [&](int64_t t) {
          if (causal && t > s + positions - length)
            return false;
          return !mask || mask->isFloat() ||
                 mask->ints()[maskBase + t * maskColumn] != 0;
        };
        maskedSoftmax(row, kept, round);
      }
    });
    multiplyMatrices(
        length, positions, valueWidth, {scores.data(), positions, 1},
        {value.floats().data() + keyMatrix * positions * valueWidth, valueWidth,
         1},
        result.floats().data() + matrix * length * valueWidth, rules);
  });
}

FailureOr<bool> mpc::reference::evaluateAttention(Evaluation &evaluation) {
  auto attention = dyn_cast<AttentionOp>(evaluation.op);
  if (!attention)
    return false;
  evaluateAttentionOp(attention, evaluation);
  evaluation.roundResults();
  return true;
}
