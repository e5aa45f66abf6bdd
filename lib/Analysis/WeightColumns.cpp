//===- WeightColumns.cpp - quantization columns of weights ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/WeightColumns.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "mlir/IR/Threading.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <array>
#include <cmath>

using namespace mlir;
using namespace mpc;

std::optional<WeightColumns> WeightColumns::of(Operation *op) {
  ArrayRef<int64_t> shape = shapeOf(op->getOperand(1));
  if (auto conv = dyn_cast<ConvOp>(op)) {
    int64_t length = productOf(shape.drop_front());
    return WeightColumns{shape[0],
                         length,
                         length,
                         1,
                         productOf(shape.drop_front(2)),
                         shape[0] / int64_t(conv.getGroups())};
  }
  if (productOf(shape.drop_back(2)) != 1)
    return std::nullopt;
  int64_t rows = shape[shape.size() - 2], width = shape.back();
  if (cast<MatmulOp>(op).getTransposeRhs())
    return WeightColumns{rows, width, width, 1, 1, rows};
  return WeightColumns{width, rows, 1, width, 1, width};
}

WeightFormat WeightColumns::formatFor(WeightFormat format,
                                      Operation *op) const {
  if (format.type != WeightType::Int4)
    return format;
  // For filters a group is a set of channels at one window position, and
  // grouped filters are not packed into panels.
  auto conv = dyn_cast<ConvOp>(op);
  bool fits = conv ? conv.getGroups() == 1 &&
                         shapeOf(conv.getFilter())[1] % format.group == 0
                   : length % format.group == 0;
  if (!fits) {
    format.type = WeightType::Int8;
    format.zeroPoint = false;
  }
  return format;
}

/// Calls `fn` with each column of `values` and its elements in the order of
/// panels, which store the channels of one window position consecutively. With
/// `writes` the elements are written back. Columns are gathered in blocks,
/// since neighbours of a GEMM's share cache lines.
template <typename Fn>
static void forEachColumn(MLIRContext *context, const WeightColumns &columns,
                          float *values, bool writes, Fn fn) {
  constexpr int64_t kBlock = 32, kTile = 16;
  int64_t length = columns.length, run = columns.run;
  bool isContiguous = columns.step == 1 && run == 1;
  int64_t channels = length / run;
  auto offsetOf = [&, run](int64_t position) {
    int64_t place =
        run == 1 ? position : position % channels * run + position / channels;
    return place * columns.step;
  };
  parallelFor(
      context, 0, llvm::divideCeil(columns.count, kBlock), [&](size_t number) {
        int64_t first = int64_t(number) * kBlock;
        int64_t count = std::min(kBlock, columns.count - first);
        float *block = values + first * columns.stride;
        if (isContiguous) {
          for (int64_t i = 0; i < count; ++i)
            fn(first + i, MutableArrayRef(block + i * columns.stride, length));
          return;
        }
        // Columns a power of two apart would share sets of the cache.
        int64_t pitch = length + 16;
        std::vector<float> together(count * pitch);
        // In tiles: a column's elements fill whole cache lines.
        std::array<std::array<float, kBlock>, kTile> tile;
        for (int64_t from = 0; from < length; from += kTile) {
          int64_t positions = std::min(kTile, length - from);
          for (int64_t k = 0; k < positions; ++k) {
            const float *place = block + offsetOf(from + k);
            for (int64_t i = 0; i < count; ++i)
              tile[k][i] = place[i * columns.stride];
          }
          for (int64_t i = 0; i < count; ++i)
            for (int64_t k = 0; k < positions; ++k)
              together[i * pitch + from + k] = tile[k][i];
        }
        for (int64_t i = 0; i < count; ++i)
          fn(first + i, MutableArrayRef(together).slice(i * pitch, length));
        if (writes)
          for (int64_t position = 0; position < length; ++position)
            for (int64_t i = 0; i < count; ++i)
              block[i * columns.stride + offsetOf(position)] =
                  together[i * pitch + position];
      });
}

void WeightColumns::chooseScales(MLIRContext *context, ArrayRef<float> values,
                                 const StoredWeights &stored,
                                 const MutableScales &scales) const {
  if (!stored.format.isScaled())
    return;
  int64_t group = groupSize(stored.format), groups = length / group;
  int64_t channels = length / run;
  forEachColumn(
      context, *this, const_cast<float *>(values.data()), /*writes=*/false,
      [&](int64_t column, ArrayRef<float> elements) {
        std::vector<float> squares;
        int64_t channel = column / alike * channels;
        for (int64_t i = 0; i < groups; ++i) {
          if (!stored.squares.empty()) {
            squares.resize(group);
            for (int64_t j = 0; j < group; ++j)
              squares[j] = stored.squares[channel + (i * group + j) % channels];
          }
          WeightScale scale = chooseScale(elements.slice(i * group, group),
                                          stored.format, stored.bits, squares);
          scales.scales[column * groups + i] = scale.scale;
          if (!scales.zeros.empty())
            scales.zeros[column * groups + i] = uint8_t(scale.zero);
        }
      });
}

void WeightColumns::round(MLIRContext *context, MutableArrayRef<float> values,
                          const StoredWeights &stored,
                          const GroupScales &scales) const {
  int64_t group = groupSize(stored.format), groups = length / group;
  // Row by row, without gathering columns.
  if (stride == 1 && step == count && run == 1 && stored.format.isInteger()) {
    parallelFor(context, 0, groups, [&](size_t number) {
      std::vector<float> ofRow(count), zeros(count);
      for (int64_t column = 0; column < count; ++column) {
        WeightScale scale = scales.at(column * groups + int64_t(number));
        ofRow[column] = scale.scale;
        zeros[column] = float(scale.zero);
      }
      float *rows = values.data() + int64_t(number) * group * count;
      for (int64_t row = 0; row < group; ++row)
        roundRow({rows + row * count, size_t(count)}, stored.format,
                 stored.bits, ofRow, zeros);
    });
    return;
  }
  forEachColumn(context, *this, values.data(), /*writes=*/true,
                [&](int64_t column, MutableArrayRef<float> elements) {
                  for (int64_t i = 0; i < groups; ++i) {
                    auto shared = elements.slice(i * group, group);
                    if (stored.format.isScaled())
                      roundToScale(shared, stored.format, stored.bits,
                                   scales.at(column * groups + i));
                    else
                      roundWeights(shared, stored.format);
                  }
                });
}

void WeightColumns::round(MLIRContext *context, MutableArrayRef<float> values,
                          const StoredWeights &stored) const {
  std::vector<float> scales(groupCount(stored.format));
  std::vector<uint8_t> zeros(stored.format.zeroPoint ? scales.size() : 0);
  chooseScales(context, values, stored, {scales, zeros});
  round(context, values, stored, {scales, zeros});
}

ConstantOp mpc::weightsOf(Operation *op) {
  if (!isa<MatmulOp, ConvOp>(op))
    return {};
  auto constant = op->getOperand(1).getDefiningOp<mpc::ConstantOp>();
  if (!constant || !getElementTypeOrSelf(constant.getType()).isF32())
    return {};
  return constant;
}

std::optional<std::vector<float>> mpc::finiteWeights(ConstantOp constant) {
  FailureOr<ConstantBytes> bytes = ConstantBytes::get(constant.getValue());
  if (failed(bytes))
    return std::nullopt;
  ArrayRef<float> values = bytes->as<float>();
  if (!llvm::all_of(values, [](float value) { return std::isfinite(value); }))
    return std::nullopt;
  return values.vec();
}

int mpc::significantBits(PolicyType type) {
  return type == PolicyType::BFloat16  ? kBFloat16Bits
         : type == PolicyType::Float16 ? kFloat16Bits
                                       : kFloat32Bits;
}
