//===- StridedView.cpp - strided views of kernel arguments ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StridedView.h"

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

int64_t cuda::powerOfTwoIn(int64_t value, int64_t most) {
  int64_t power = most;
  while (power > 1 && value % power != 0)
    power /= 2;
  return power;
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

/// Returns the dimensions with extents other than 1.
static SmallVector<unsigned> longDimensions(ArrayRef<int64_t> shape) {
  SmallVector<unsigned> dimensions;
  for (auto [i, extent] : llvm::enumerate(shape))
    if (extent != 1)
      dimensions.push_back(i);
  return dimensions;
}

/// Returns the strides of a reshaped view: merges contiguous dimensions and
/// splits them at common boundaries.
static std::optional<SmallVector<int64_t>>
reshapeStrides(ArrayRef<int64_t> from, ArrayRef<int64_t> strides,
               ArrayRef<int64_t> to) {
  SmallVector<int64_t> result(to.size(), 0);
  SmallVector<unsigned> inputs = longDimensions(from),
                        outputs = longDimensions(to);
  while (!inputs.empty()) {
    // Process a group of dimensions with equal element counts.
    int64_t stride = strides[inputs.back()], next = stride;
    int64_t fromCount = 1, toCount = 1;
    do {
      if (fromCount <= toCount) {
        unsigned dimension = inputs.pop_back_val();
        if (strides[dimension] != next)
          return std::nullopt;
        fromCount *= from[dimension];
        next = strides[dimension] * from[dimension];
      } else {
        unsigned dimension = outputs.pop_back_val();
        result[dimension] = stride * toCount;
        toCount *= to[dimension];
      }
    } while (fromCount != toCount);
  }
  return result;
}

std::optional<StridedView> StridedView::of(Value tensor) {
  ArrayRef<int64_t> shape = shapeOf(tensor);
  if (llvm::is_contained(shape, 0))
    return std::nullopt;
  if (auto argument = dyn_cast<BlockArgument>(tensor)) {
    StridedView view;
    view.argument = argument;
    view.strides.assign(shape.size(), 0);
    int64_t stride = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      view.strides[i] = shape[i] == 1 ? 0 : stride;
      stride *= shape[i];
    }
    return view;
  }
  Operation *op = tensor.getDefiningOp();
  std::optional<Access> access = accessOf(op);
  if (!access && !isa<ReshapeOp>(op))
    return std::nullopt;
  Value input = op->getOperand(0);
  std::optional<StridedView> view = of(input);
  if (!view)
    return std::nullopt;
  SmallVector<int64_t> strides(shape.size(), 0);
  if (!access) {
    std::optional<SmallVector<int64_t>> reshaped =
        reshapeStrides(shapeOf(input), view->strides, shape);
    if (!reshaped)
      return std::nullopt;
    strides = *reshaped;
  } else {
    // Extents of 1, and added dimensions, have stride 0.
    for (auto [from, stride] : llvm::zip_equal(*access, view->strides)) {
      if (from.stride < 0)
        return std::nullopt;
      view->offset += from.offset * stride;
      if (from.dim >= 0 && shape[from.dim] != 1)
        strides[from.dim] = from.stride * stride;
    }
  }
  view->strides = strides;
  return view;
}

int64_t StridedView::alignedRun(unsigned dim, int64_t extent,
                                int64_t most) const {
  if (extent != 1 && strides[dim] != 1)
    return 1;
  int64_t run = powerOfTwoIn(extent, powerOfTwoIn(offset, most));
  for (auto [i, stride] : llvm::enumerate(strides))
    if (i != dim)
      run = powerOfTwoIn(stride, run);
  return run;
}

Value StridedView::offsetAt(const IndexMath &math, ValueRange indices) const {
  Value position = math.constant(offset);
  for (auto [index, stride] : llvm::zip_equal(indices, strides))
    if (stride)
      position = math.add(position, math.mul(index, stride));
  return position;
}

std::optional<int64_t> StridedView::joinedStride(ArrayRef<int64_t> shape,
                                                 unsigned begin,
                                                 unsigned end) const {
  int64_t stride = -1, next = 0;
  for (unsigned i = end; i-- > begin;) {
    if (shape[i] == 1)
      continue;
    if (stride < 0)
      stride = strides[i];
    else if (strides[i] != next)
      return std::nullopt;
    next = strides[i] * shape[i];
  }
  return std::max<int64_t>(stride, 0);
}

//===----------------------------------------------------------------------===//
// Aligned vectors of computed tensors
//===----------------------------------------------------------------------===//

static int64_t alignedRun(Value tensor, int64_t most,
                          const llvm::DenseMap<Value, int64_t> &known,
                          llvm::DenseMap<Value, int64_t> &found) {
  if (auto entry = known.find(tensor); entry != known.end())
    return std::min(entry->second, most);
  if (auto entry = found.find(tensor); entry != found.end())
    return std::min(entry->second, most);
  ArrayRef<int64_t> shape = shapeOf(tensor);
  if (shape.empty() || shape.back() == 1)
    return most;
  Operation *op = tensor.getDefiningOp();
  int64_t run = powerOfTwoIn(shape.back(), most);
  if (op) {
    auto operand = [&](Value value, int64_t limit) {
      return alignedRun(value, limit, known, found);
    };
    run = llvm::TypeSwitch<Operation *, int64_t>(op)
              .Case<ElementwiseOpInterface, BroadcastOp>([&](auto) {
                int64_t least = run;
                for (Value value : op->getOperands())
                  least = operand(value, least);
                return least;
              })
              .Case([&](ConstantOp) { return run; })
              // The elements of a run share one scale.
              .Case([&](DequantizeOp narrow) {
                return narrow.isMatrix() ? powerOfTwoIn(narrow.getGroup(), run)
                                         : int64_t(1);
              })
              .Case([&](ReshapeOp reshape) {
                Value input = reshape.getInput();
                if (isa<BlockArgument>(input))
                  return run;
                ArrayRef<int64_t> from = shapeOf(input);
                return !from.empty() && from.back() == shape.back()
                           ? operand(input, run)
                           : int64_t(1);
              })
              .Case([&](TransposeOp transpose) {
                return transpose.getPermutation().back() + 1 ==
                               static_cast<int64_t>(shape.size())
                           ? operand(transpose.getInput(), run)
                           : int64_t(1);
              })
              .Case([&](SliceOp slice) {
                if (slice.getStrideValues().back() != 1)
                  return int64_t(1);
                return operand(slice.getInput(),
                               powerOfTwoIn(slice.getOffsets().back(), run));
              })
              .Case([&](ConcatOp concat) {
                // Inputs are concatenated at multiples of their extents'
                // divisors.
                int64_t least = run;
                for (Value part : concat.getInputs())
                  least =
                      operand(part, powerOfTwoIn(shapeOf(part).back(), least));
                return least;
              })
              .Default([](Operation *) { return int64_t(1); });
  }
  found[tensor] = run;
  return run;
}

int64_t cuda::alignedRunOf(Value tensor, int64_t most,
                           const llvm::DenseMap<Value, int64_t> &known) {
  // Only as an operand, a broadcast element is as wide as the row.
  ArrayRef<int64_t> shape = shapeOf(tensor);
  if (!known.contains(tensor) && !shape.empty() && shape.back() == 1)
    return 1;
  llvm::DenseMap<Value, int64_t> found;
  return alignedRun(tensor, most, known, found);
}
