//===- ZeroPointSums.cpp - filter sums without padding --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ZeroPointSums.h"

#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"

#include "MatchUtils.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;
using namespace mpc;
using mpc::reference::Tensor;

/// Range of filter indices of axis `i` that read inside the input at output
/// index `at`.
static std::pair<int64_t, int64_t> insideWindow(ConvOp op, int64_t i,
                                                int64_t at) {
  int64_t dilation = op.getDilations()[i],
          extent = shapeOf(op.getInput())[i + 2],
          first = at * op.getStrides()[i] - op.getPadLow()[i];
  int64_t begin = first < 0 ? llvm::divideCeil(-first, dilation) : 0;
  int64_t end = std::min<int64_t>(
      shapeOf(op.getFilter())[i + 2],
      first >= extent ? 0 : (extent - 1 - first) / dilation + 1);
  return {begin, std::max(begin, end)};
}

Tensor mpc::filterSumsInside(ConvOp op, const Tensor &filter) {
  auto type = cast<RankedTensorType>(op.getType());
  ArrayRef<int64_t> window = filter.getShape().drop_front(2),
                    spatial = type.getShape().drop_front(2);
  int64_t rank = int64_t(window.size()), depth = filter.getShape()[1];
  Tensor sums(RankedTensorType::get(type.getShape().drop_front(1),
                                    IntegerType::get(type.getContext(), 32)));
  int64_t windowSize = llvm::product_of(window),
          positions = llvm::product_of(spatial);
  SmallVector<int64_t> taps(windowSize);
  for (int64_t channel = 0; channel < type.getDimSize(1); ++channel) {
    std::fill(taps.begin(), taps.end(), 0);
    const int64_t *from = filter.ints().data() + channel * depth * windowSize;
    for (int64_t i = 0; i < depth * windowSize; ++i)
      taps[i % windowSize] += from[i];
    for (int64_t position = 0; position < positions; ++position) {
      // Filter range inside the input, per axis from the last.
      SmallVector<std::pair<int64_t, int64_t>> ranges(rank);
      for (int64_t i = rank - 1, rest = position; i >= 0; --i) {
        ranges[i] = insideWindow(op, i, rest % spatial[i]);
        rest /= spatial[i];
      }
      int64_t sum = 0;
      for (int64_t tap = 0; tap < windowSize; ++tap) {
        bool inside = true;
        for (int64_t i = rank - 1, rest = tap; i >= 0; --i) {
          inside &= rest % window[i] >= ranges[i].first &&
                    rest % window[i] < ranges[i].second;
          rest /= window[i];
        }
        sum += inside ? taps[tap] : 0;
      }
      sums.ints()[channel * positions + position] = sum;
    }
  }
  return sums;
}
