//===- MovementVjps.cpp - derivatives of data movement --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Moves the cotangent back, sums over copies, fills cropped elements with 0.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "VjpBuilder.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// slice and pad
//===----------------------------------------------------------------------===//

static void vjpOfSlice(SliceOp op, VjpBuilder &v) {
  ArrayRef<int64_t> whole = shapeOf(op.getInput()), sizes = op.getSizes();
  SmallVector<int64_t> strides = op.getStrideValues(), low(op.getOffsets()),
                       high, interior;
  for (size_t i = 0; i < whole.size(); ++i) {
    int64_t reach = std::max<int64_t>(sizes[i] - 1, 0) * strides[i] +
                    std::min<int64_t>(sizes[i], 1);
    high.push_back(whole[i] - low[i] - reach);
    interior.push_back(strides[i] - 1);
  }
  v.give(0, v.pad(v.dy(), low, high, interior));
}

/// Elements of a constant pad's result that come from its input; 0 where
/// negative padding cropped.
static Value uncropped(PadOp op, VjpBuilder &v, ArrayRef<int64_t> interior) {
  ArrayRef<int64_t> input = shapeOf(op.getInput());
  SmallVector<int64_t> offsets, sizes, strides, low, high;
  for (size_t i = 0; i < input.size(); ++i) {
    int64_t stride = interior[i] + 1, extent = shapeOf(v.dy())[i];
    // Input element e is at low + e * stride.
    int64_t first =
        op.getLow()[i] < 0 ? (-op.getLow()[i] + stride - 1) / stride : 0;
    int64_t end = input[i];
    while (end > first && op.getLow()[i] + (end - 1) * stride >= extent)
      --end;
    first = std::min(first, end);
    offsets.push_back(end > first ? op.getLow()[i] + first * stride
                                  : int64_t(0));
    sizes.push_back(end - first);
    strides.push_back(stride);
    low.push_back(first);
    high.push_back(input[i] - end);
  }
  Value part = v.dy();
  if (shapeOf(part) != ArrayRef(sizes))
    part = v.create<SliceOp>(
        RankedTensorType::get(sizes, v.elementOf(part)), part,
        v.builder.getDenseI64ArrayAttr(offsets),
        v.builder.getDenseI64ArrayAttr(sizes),
        llvm::all_of(strides, [](int64_t stride) { return stride == 1; })
            ? DenseI64ArrayAttr()
            : v.builder.getDenseI64ArrayAttr(strides));
  return v.pad(part, low, high, SmallVector<int64_t>(sizes.size(), 0));
}

/// Pads `part` so that it starts at index `place` of an axis of `extent`
/// elements.
static Value moved(VjpBuilder &v, Value part, int64_t axis, int64_t place,
                   int64_t extent) {
  SmallVector<int64_t> low(v.rankOf(part), 0), high(low), none(low);
  low[axis] = place;
  high[axis] = extent - place - shapeOf(part)[axis];
  return v.pad(part, low, high, none);
}

/// Adjoint of reflect, edge or wrap padding along one axis: adds the padding's
/// cotangents to the elements that were copied.
static Value foldPadding(VjpBuilder &v, Value dy, int64_t axis, PadMode mode,
                         int64_t low, int64_t high, int64_t extent) {
  int64_t keptLow = std::max<int64_t>(low, 0),
          keptHigh = std::max<int64_t>(high, 0);
  // Negative padding crops: those elements get 0.
  int64_t cutLow = std::max<int64_t>(-low, 0),
          cutHigh = std::max<int64_t>(-high, 0);
  int64_t middle = extent - cutLow - cutHigh;
  Value total =
      moved(v, v.sliceAxis(dy, axis, keptLow, middle), axis, cutLow, extent);
  auto addAt = [&](Value part, int64_t place) {
    total = v.add(total, moved(v, part, axis, place, extent));
  };
  auto turned = [&](Value part) { return v.reverse(part, {axis}); };
  switch (mode) {
  case PadMode::constant:
    break;
  case PadMode::reflect:
    if (keptLow)
      addAt(turned(v.sliceAxis(dy, axis, 0, keptLow)), 1);
    if (keptHigh)
      addAt(turned(v.sliceAxis(dy, axis, keptLow + middle, keptHigh)),
            extent - 1 - keptHigh);
    break;
  case PadMode::edge:
    if (keptLow)
      addAt(v.sum(v.sliceAxis(dy, axis, 0, keptLow), {axis}), 0);
    if (keptHigh)
      addAt(v.sum(v.sliceAxis(dy, axis, keptLow + middle, keptHigh), {axis}),
            extent - 1);
    break;
  case PadMode::wrap:
    // Whole periods of the axis, the last one partial.
    for (int64_t left = keptLow; left > 0;) {
      int64_t count = std::min(left, extent);
      addAt(v.sliceAxis(dy, axis, left - count, count), extent - count);
      left -= count;
    }
    for (int64_t done = 0; done < keptHigh;) {
      int64_t count = std::min(keptHigh - done, extent);
      addAt(v.sliceAxis(dy, axis, keptLow + middle + done, count), 0);
      done += count;
    }
    break;
  }
  return total;
}

static LogicalResult vjpOfPad(PadOp op, VjpBuilder &v) {
  int64_t rank = v.rankOf(op.getInput());
  if (op.getMode() == PadMode::constant) {
    SmallVector<int64_t> interior =
        op.getInterior() ? SmallVector<int64_t>(*op.getInterior())
                         : SmallVector<int64_t>(rank, 0);
    Value inside = uncropped(op, v, interior);
    v.give(0, inside);
    if (v.needs(1))
      v.give(1, v.sub(v.sumTo(v.dy(), {}), v.sumTo(inside, {})));
    return success();
  }
  Value dy = v.dy();
  for (int64_t axis = rank - 1; axis >= 0; --axis) {
    int64_t low = op.getLow()[axis], high = op.getHigh()[axis];
    if ((low < 0 || high < 0) && (low > 0 || high > 0))
      return op.emitOpError()
             << "has no derivative: it crops one end of axis " << axis
             << " and extends the other; slice first, then pad";
    if (low || high)
      dy = foldPadding(v, dy, axis, op.getMode(), low, high,
                       shapeOf(op.getInput())[axis]);
  }
  v.give(0, dy);
  return success();
}

void mpc::attachMovementVjps(MLIRContext *context) {
  attachVjp<ReshapeOp>(context, [](ReshapeOp op, VjpBuilder &v) {
    v.give(0, v.reshape(v.dy(), shapeOf(op.getInput())));
  });
  attachVjp<TransposeOp>(context, [](TransposeOp op, VjpBuilder &v) {
    v.give(0, v.transpose(v.dy(), inversePermutation(op.getPermutation())));
  });
  // give() reduces over broadcast dimensions.
  attachVjp<BroadcastOp>(context,
                         [](BroadcastOp, VjpBuilder &v) { v.give(0, v.dy()); });
  attachVjp<ReverseOp>(context, [](ReverseOp op, VjpBuilder &v) {
    v.give(0, v.reverse(v.dy(), op.getAxes()));
  });
  attachVjp<ConcatOp>(context, [](ConcatOp op, VjpBuilder &v) {
    int64_t axis = op.getAxis(), begin = 0;
    for (auto [index, input] : llvm::enumerate(op.getInputs())) {
      int64_t size = shapeOf(input)[axis];
      if (v.needs(index))
        v.give(index, v.sliceAxis(v.dy(), axis, begin, size));
      begin += size;
    }
  });
  attachVjp<SliceOp>(context,
                     [](SliceOp op, VjpBuilder &v) { vjpOfSlice(op, v); });
  attachVjp<PadOp>(context,
                   [](PadOp op, VjpBuilder &v) { return vjpOfPad(op, v); });
}
