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

#include <cmath>

using namespace mlir;
using namespace mpc;

std::optional<WeightColumns> WeightColumns::of(Operation *op) {
  ArrayRef<int64_t> shape = shapeOf(op->getOperand(1));
  if (isa<ConvOp>(op)) {
    int64_t length = productOf(shape.drop_front());
    return WeightColumns{shape[0], length, length, 1};
  }
  if (productOf(shape.drop_back(2)) != 1)
    return std::nullopt;
  int64_t rows = shape[shape.size() - 2], width = shape.back();
  if (cast<MatmulOp>(op).getTransposeRhs())
    return WeightColumns{rows, width, width, 1};
  return WeightColumns{width, rows, 1, width};
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

/// Returns, for a conv's column, the number of elements that read one input
/// channel, and the number of columns that read the same channels. For a GEMM
/// each element is one channel.
static std::pair<int64_t, int64_t> runOf(Operation *op,
                                         const WeightColumns &columns) {
  auto conv = dyn_cast<ConvOp>(op);
  if (!conv)
    return {1, columns.count};
  return {productOf(shapeOf(conv.getFilter()).drop_front(2)),
          columns.count / conv.getGroups()};
}

void WeightColumns::round(Operation *op, MutableArrayRef<float> values,
                          const StoredWeights &stored) const {
  const WeightFormat &format = stored.format;
  int64_t group = format.type == WeightType::Int4 ? format.group : length;
  auto [run, alike] = runOf(op, *this);
  // Panels store the channels of one window position consecutively.
  auto placeOf = [run = run, channels = length / run](int64_t position) {
    return run == 1 ? position
                    : position % channels * run + position / channels;
  };
  parallelFor(
      op->getContext(), 0, count, [&, run = run, alike = alike](size_t column) {
        std::vector<float> together(group), squares;
        int64_t channel = int64_t(column) / alike * (length / run);
        float *from = values.data() + int64_t(column) * stride;
        for (int64_t first = 0; first < length; first += group) {
          for (int64_t i = 0; i < group; ++i)
            together[i] = from[placeOf(first + i) * step];
          if (!stored.squares.empty()) {
            squares.resize(group);
            for (int64_t i = 0; i < group; ++i)
              squares[i] = stored.squares[channel + placeOf(first + i) / run];
          }
          roundWeights(together, format, stored.bits, squares);
          for (int64_t i = 0; i < group; ++i)
            from[placeOf(first + i) * step] = together[i];
        }
      });
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
