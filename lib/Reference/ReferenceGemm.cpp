//===- ReferenceGemm.cpp - GEMM of all contractions -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Register-tiled GEMM: tiles of 4 rows by 32 bytes stay in registers over all
// of K; both operands are packed for contiguous access. Every sum runs over k
// in ascending order, like a naive loop.
//
//===----------------------------------------------------------------------===//

#include "ReferenceGemm.h"

#include "RoundingKernels.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"

#include <vector>

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

static constexpr int64_t kTileRows = 4;
template <typename T> static constexpr int64_t kTileColumns = 32 / sizeof(T);
static constexpr int64_t kBlockColumns = 256;

/// Returns term `term` of the bf16 split (or tf32 rounding) of `value` in
/// `mode`.
static double splitTerm(double value, ComputeMode mode, int term) {
  if (mode == ComputeMode::native)
    return value;
  if (mode == ComputeMode::tf32)
    return roundToTf32(value);
  double rounded = RoundBF16()(value);
  // The remainder of an infinity or overflow is no number.
  for (; term > 0 && std::isfinite(rounded); --term) {
    value -= rounded;
    rounded = RoundBF16()(value);
  }
  return term > 0 ? 0.0 : rounded;
}

/// Packs `extent` (up to `tile`) rows of the view into [depth][tile], missing
/// rows zero. `lineStride` is the stride between rows, `depthStride` along K.
template <typename T>
static void packTile(const double *source, int64_t lineStride,
                     int64_t depthStride, int64_t extent, int64_t tile,
                     int64_t depth, ComputeMode mode, int term, T *target) {
  if (depth == 0) // the source may be null
    return;
  for (int64_t line = 0; line < tile; ++line) {
    if (line >= extent) {
      for (int64_t k = 0; k < depth; ++k)
        target[k * tile + line] = 0;
      continue;
    }
    const double *from = source + line * lineStride;
    if (mode == ComputeMode::native)
      for (int64_t k = 0; k < depth; ++k)
        target[k * tile + line] = static_cast<T>(from[k * depthStride]);
    else
      for (int64_t k = 0; k < depth; ++k)
        target[k * tile + line] =
            static_cast<T>(splitTerm(from[k * depthStride], mode, term));
  }
}

/// Adds the product of two packed tiles to `sums`, a row-major tile.
template <typename T, typename Round>
static void multiplyTile(int64_t depth, const T *lhs, const T *rhs, T *sums,
                         Round round) {
  constexpr int64_t columns = kTileColumns<T>;
  T tile[kTileRows][columns];
  for (int64_t i = 0; i < kTileRows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      tile[i][j] = sums[i * columns + j];
  for (int64_t k = 0; k < depth; ++k, lhs += kTileRows, rhs += columns)
    for (int64_t i = 0; i < kTileRows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        tile[i][j] = round(tile[i][j] + round(lhs[i] * rhs[j]));
  for (int64_t i = 0; i < kTileRows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      sums[i * columns + j] = tile[i][j];
}

/// Pairs of split terms whose products are summed.
static ArrayRef<std::pair<int, int>> termPairs(ComputeMode mode) {
  static const std::pair<int, int> pairs[] = {{0, 0}, {0, 1}, {1, 0},
                                              {1, 1}, {0, 2}, {2, 0}};
  size_t count = mode == ComputeMode::bf16x2   ? 3
                 : mode == ComputeMode::bf16x3 ? 6
                                               : 1;
  return ArrayRef(pairs).take_front(count);
}

template <typename T, typename Round>
static void multiply(int64_t rows, int64_t depth, int64_t columns, Matrix lhs,
                     Matrix rhs, double *result, ComputeMode mode,
                     Round round) {
  constexpr int64_t tileColumns = kTileColumns<T>;
  std::vector<T> lhsTile(depth * kTileRows);
  std::vector<T> rhsBlock(depth *
                          std::min(llvm::alignTo(columns, tileColumns),
                                   static_cast<uint64_t>(kBlockColumns)));
  int64_t rowTiles = llvm::divideCeil(rows, kTileRows);
  // Accumulators of the first terms' products, and of all others.
  std::vector<T> sums(rowTiles * kTileRows * kBlockColumns);
  std::vector<T> others(termPairs(mode).size() > 1 ? sums.size() : 0);
  for (int64_t block = 0; block < columns; block += kBlockColumns) {
    int64_t width = std::min(kBlockColumns, columns - block);
    int64_t panels = llvm::divideCeil(width, tileColumns);
    std::fill(sums.begin(), sums.end(), T(0));
    std::fill(others.begin(), others.end(), T(0));
    for (auto [lhsTerm, rhsTerm] : termPairs(mode)) {
      std::vector<T> &target = lhsTerm + rhsTerm == 0 ? sums : others;
      for (int64_t panel = 0; panel < panels; ++panel) {
        int64_t first = block + panel * tileColumns;
        packTile(rhs.data + first * rhs.columnStride, rhs.columnStride,
                 rhs.rowStride, std::min(tileColumns, columns - first),
                 tileColumns, depth, mode, rhsTerm,
                 rhsBlock.data() + panel * depth * tileColumns);
      }
      for (int64_t tile = 0; tile < rowTiles; ++tile) {
        int64_t first = tile * kTileRows;
        packTile(lhs.data + first * lhs.rowStride, lhs.rowStride,
                 lhs.columnStride, std::min(kTileRows, rows - first), kTileRows,
                 depth, mode, lhsTerm, lhsTile.data());
        for (int64_t panel = 0; panel < panels; ++panel)
          multiplyTile(depth, lhsTile.data(),
                       rhsBlock.data() + panel * depth * tileColumns,
                       target.data() + first * kBlockColumns +
                           panel * kTileRows * tileColumns,
                       round);
      }
    }
    // Keep an infinite first product: other terms may not know its sign.
    for (size_t i = 0; i < others.size(); ++i)
      if (std::isfinite(sums[i]))
        sums[i] = round(sums[i] + others[i]);
    for (int64_t row = 0; row < rows; ++row) {
      const T *tileSums = sums.data() +
                          (row / kTileRows) * kTileRows * kBlockColumns +
                          row % kTileRows * tileColumns;
      for (int64_t column = 0; column < width; ++column)
        result[row * columns + block + column] =
            tileSums[column / tileColumns * kTileRows * tileColumns +
                     column % tileColumns];
    }
  }
}

//===----------------------------------------------------------------------===//
// Tensor cores
//===----------------------------------------------------------------------===//

/// Returns the operand type of the instructions that multiply `element` on GPUs
/// of `capability`.
static std::optional<TensorCoreType>
tensorCoreType(Type element, ComputeMode mode, int capability) {
  if (element.isF16())
    return TensorCoreType::Float16;
  if (element.isBF16() && capability >= 80)
    return TensorCoreType::BFloat16;
  if (element.isF32() && mode == ComputeMode::tf32 && capability >= 80)
    return TensorCoreType::TensorFloat32;
  if (isa<Float8E4M3FNType>(element) && capability >= 89)
    return TensorCoreType::E4M3;
  if (isa<Float8E5M2Type>(element) && capability >= 89)
    return TensorCoreType::E5M2;
  return std::nullopt;
}

std::optional<TensorCoreGemm> TensorCoreGemm::of(MatmulOp matmul,
                                                 const TensorCores &cores) {
  Type lhs = getElementTypeOrSelf(matmul.getLhs()),
       rhs = getElementTypeOrSelf(matmul.getRhs());
  auto typeOf = [&](Type element) {
    return tensorCoreType(element, matmul.getComputeMode(), cores.capability);
  };
  std::optional<TensorCoreType> left = typeOf(lhs), right = typeOf(rhs);
  Type accumulate =
      matmul.getAccumulate().value_or(Float32Type::get(matmul.getContext()));
  if (!left || !right || !accumulate.isF32())
    return std::nullopt;
  auto arithmetic =
      TensorCoreArithmetic::of(cores.instruction, *left, cores.capability);
  return TensorCoreGemm{arithmetic, *left, *right,
                        matmul.getAccumulate() && arithmetic.resultBits < 23};
}

/// Converts `lines` lines of `depth` elements to factors, [lines][depth].
static std::vector<TensorCoreFactor>
toFactors(const double *data, int64_t lines, int64_t depth, int64_t lineStride,
          int64_t depthStride, TensorCoreType type) {
  std::vector<TensorCoreFactor> factors;
  factors.reserve(size_t(lines * depth));
  for (int64_t line = 0; line < lines; ++line)
    for (int64_t k = 0; k < depth; ++k) {
      double value = data[line * lineStride + k * depthStride];
      if (type == TensorCoreType::TensorFloat32)
        value = roundToTf32(value);
      factors.push_back(TensorCoreFactor::of(static_cast<float>(value), type));
    }
  return factors;
}

static void multiplyOnTensorCores(int64_t rows, int64_t depth, int64_t columns,
                                  Matrix lhs, Matrix rhs, double *result,
                                  const TensorCoreGemm &gemm) {
  std::vector<TensorCoreFactor> left = toFactors(lhs.data, rows, depth,
                                                 lhs.rowStride,
                                                 lhs.columnStride, gemm.lhs),
                                right = toFactors(rhs.data, columns, depth,
                                                  rhs.columnStride,
                                                  rhs.rowStride, gemm.rhs);
  int64_t run = gemm.promotes ? TensorCoreGemm::kPromotion : depth;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      float sum = 0;
      for (int64_t k = 0; k < depth; k += run)
        sum += gemm.arithmetic.multiplyAdd(&left[row * depth + k],
                                           &right[column * depth + k],
                                           int(std::min(run, depth - k)), 0);
      result[row * columns + column] = sum;
    }
}

ArrayRef<double> mpc::reference::constantFloats(const Tensor &tensor,
                                                std::vector<double> &storage) {
  if (tensor.isFloat())
    return tensor.floats();
  storage.assign(tensor.ints().begin(), tensor.ints().end());
  return storage;
}

void mpc::reference::referenceGemm(int64_t rows, int64_t depth, int64_t columns,
                                   Matrix lhs, Matrix rhs, double *result,
                                   const GemmRounding &rules) {
  if (rows == 0 || columns == 0)
    return;
  // An empty operand has no address.
  if (depth == 0) {
    std::fill_n(result, rows * columns, 0.0);
    return;
  }
  if (rules.tensorCores)
    return multiplyOnTensorCores(rows, depth, columns, lhs, rhs, result,
                                 *rules.tensorCores);
  if (rules.rounding == Rounding::Float64 || rules.accumulate.isF64())
    return multiply<double>(
        rows, depth, columns, lhs, rhs, result,
        rules.rounding == Rounding::Float64 ? ComputeMode::native : rules.mode,
        [](double value) { return value; });
  if (rules.accumulate.isF16())
    return multiply<float>(
        rows, depth, columns, lhs, rhs, result, rules.mode,
        [](float value) { return static_cast<float>(RoundF16()(value)); });
  if (rules.accumulate.isBF16())
    return multiply<float>(
        rows, depth, columns, lhs, rhs, result, rules.mode,
        [](float value) { return static_cast<float>(RoundBF16()(value)); });
  multiply<float>(rows, depth, columns, lhs, rhs, result, rules.mode,
                  [](float value) { return value; });
}
