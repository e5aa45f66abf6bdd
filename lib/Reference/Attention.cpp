//===- Attention.cpp - attention and its gradient -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One score matrix per batch entry and query head, in storage-rounding mode in
// f32 (f64 for f64 operands).
//
//===----------------------------------------------------------------------===//

#include "Evaluation.h"
#include "ReferenceGemm.h"
#include "RoundingKernels.h"
#include "StridedLoop.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

/// Softmax of a row of scores; `kept` returns whether position t is unmasked. A
/// fully masked row becomes zeros.
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

namespace {

/// Common extents and operands of attention and its gradient.
class Heads {
public:
  template <typename OpTy>
  Heads(OpTy op, Evaluation &evaluation)
      : query(evaluation.operand(0)), key(evaluation.operand(1)),
        value(evaluation.operand(2)), mask(evaluation.find(op.getMask())),
        rounding(evaluation.rounding), scale(op.getScale().convertToDouble()),
        causal(op.getCausal()) {
    size_t rank = query.getRank();
    ArrayRef<int64_t> shape = query.getShape();
    heads = shape[rank - 3];
    length = shape[rank - 2];
    width = shape[rank - 1];
    groups = key.getShape()[rank - 3];
    positions = key.getShape()[rank - 2];
    valueWidth = value.getShape()[rank - 1];
    inner = query.getElementType().isF64()
                ? query.getElementType()
                : Type(Float32Type::get(op.getContext()));
    rules = GemmRounding{rounding, inner, op.getCompute()};

    matrices = SmallVector<int64_t>(shape.drop_back(2));
    SmallVector<int64_t> scores(matrices);
    scores.append({length, positions});
    maskStrides.assign(scores.size(), 0);
    if (mask)
      maskStrides = broadcastStrides(mask->getShape(), scores);
  }

  /// Calls `fn(query matrix, key matrix, mask offset)` per batch entry and
  /// query head; query head h reads key head h * G / H.
  template <typename Fn> void run(Fn fn) const {
    SmallVector<int64_t> outer(ArrayRef(maskStrides).drop_back(2));
    StridedLoop<1> loop(matrices, {outer});
    loop.run([&](int64_t matrix, const std::array<int64_t, 1> &at) {
      int64_t batch = matrix / heads, head = matrix % heads;
      fn(matrix, batch * groups + head * groups / heads, at[0]);
    });
  }

  /// Computes the probabilities of one matrix, `[length][positions]`.
  void probabilities(int64_t matrix, int64_t keyMatrix, int64_t maskOffset,
                     std::vector<double> &scores) const {
    referenceGemm(length, width, positions, queries(matrix),
                  transposed(keys(keyMatrix)), scores.data(), rules);
    int64_t maskRow = maskStrides[maskStrides.size() - 2],
            maskColumn = maskStrides.back();
    withRounding(rounding, inner, [&](auto round) {
      for (int64_t s = 0; s < length; ++s) {
        MutableArrayRef<double> row(scores.data() + s * positions, positions);
        int64_t maskBase = maskOffset + s * maskRow;
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
  }

  Matrix queries(int64_t matrix) const {
    return {query.floats().data() + matrix * length * width, width, 1};
  }
  Matrix keys(int64_t matrix) const {
    return {key.floats().data() + matrix * positions * width, width, 1};
  }
  Matrix values(int64_t matrix) const {
    return {value.floats().data() + matrix * positions * valueWidth, valueWidth,
            1};
  }
  static Matrix transposed(Matrix matrix) {
    return {matrix.data, matrix.columnStride, matrix.rowStride};
  }

  const Tensor &query, &key, &value;
  const Tensor *mask;
  Rounding rounding;
  double scale;
  bool causal;
  int64_t heads, length, width, groups, positions, valueWidth;
  /// Type of scores and accumulators.
  Type inner;
  GemmRounding rules;

private:
  SmallVector<int64_t> matrices, maskStrides;
};

} // namespace

static void runAttention(AttentionOp op, Evaluation &evaluation) {
  Heads heads(op, evaluation);
  Tensor &result = evaluation.addResult();
  std::vector<double> scores(heads.length * heads.positions);
  heads.run([&](int64_t matrix, int64_t keyMatrix, int64_t maskOffset) {
    heads.probabilities(matrix, keyMatrix, maskOffset, scores);
    referenceGemm(heads.length, heads.positions, heads.valueWidth,
                  {scores.data(), heads.positions, 1}, heads.values(keyMatrix),
                  result.floats().data() +
                      matrix * heads.length * heads.valueWidth,
                  heads.rules);
  });
}

static void runAttentionGradient(AttentionGradientOp op,
                                 Evaluation &evaluation) {
  Heads heads(op, evaluation);
  for (int i = 0; i < 3; ++i)
    evaluation.addResult();
  const int64_t length = heads.length, positions = heads.positions,
                width = heads.width, valueWidth = heads.valueWidth;
  // Matmul operands have the operands' type.
  Type element = heads.query.getElementType();
  auto asFactor = [&](double number) {
    return roundsToTypes(heads.rounding) ? roundTo(number, element) : number;
  };
  Tensor gradient = evaluation.operand(3);
  for (double &number : gradient.floats())
    number = asFactor(number);

  std::vector<double> probability(length * positions),
      factor(length * positions), slope(length * positions),
      product(std::max(
          {length * width, positions * width, positions * valueWidth}));
  heads.run([&](int64_t matrix, int64_t keyMatrix, int64_t maskOffset) {
    heads.probabilities(matrix, keyMatrix, maskOffset, probability);
    Matrix outer{gradient.floats().data() + matrix * length * valueWidth,
                 valueWidth, 1};
    referenceGemm(length, valueWidth, positions, outer,
                  Heads::transposed(heads.values(keyMatrix)), slope.data(),
                  heads.rules);
    withRounding(heads.rounding, heads.inner, [&](auto round) {
      // Accumulates `scale` times the product into a result.
      auto gather = [&](unsigned result, int64_t offset, int64_t count,
                        double scale) {
        double *target = evaluation.results[result].floats().data() + offset;
        for (int64_t i = 0; i < count; ++i)
          target[i] = round(target[i] + round(scale * product[i]));
      };
      llvm::transform(probability, factor.begin(), asFactor);
      Matrix factors{factor.data(), positions, 1};
      referenceGemm(positions, length, valueWidth, Heads::transposed(factors),
                    outer, product.data(), heads.rules);
      gather(2, keyMatrix * positions * valueWidth, positions * valueWidth, 1);

      for (int64_t s = 0; s < length; ++s) {
        const double *p = probability.data() + s * positions;
        double *d = slope.data() + s * positions, mean = 0;
        for (int64_t t = 0; t < positions; ++t)
          mean = round(mean + round(p[t] * d[t]));
        for (int64_t t = 0; t < positions; ++t)
          factor[s * positions + t] =
              asFactor(round(p[t] * round(d[t] - mean)));
      }
      referenceGemm(length, positions, width, factors, heads.keys(keyMatrix),
                    product.data(), heads.rules);
      gather(0, matrix * length * width, length * width, heads.scale);
      referenceGemm(positions, length, width, Heads::transposed(factors),
                    heads.queries(matrix), product.data(), heads.rules);
      gather(1, keyMatrix * positions * width, positions * width, heads.scale);
    });
  });
}

FailureOr<bool> mpc::reference::evaluateAttention(Evaluation &evaluation) {
  if (auto attention = dyn_cast<AttentionOp>(evaluation.op))
    runAttention(attention, evaluation);
  else if (auto gradient = dyn_cast<AttentionGradientOp>(evaluation.op))
    runAttentionGradient(gradient, evaluation);
  else
    return false;
  evaluation.roundResults();
  return true;
}
