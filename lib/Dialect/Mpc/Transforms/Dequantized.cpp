//===- Dequantized.cpp - match dequantized tensors ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dequantized.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"

#include "Int8Values.h"
#include "MatchUtils.h"
#include "OpEmitter.h"

#include <algorithm>

using namespace mlir;
using namespace mpc;
using mpc::reference::Tensor;

std::optional<Tensor> mpc::constantTensor(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  if (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  else if (auto cast = value.getDefiningOp<CastOp>();
           cast && isa<IntegerType>(getElementTypeOrSelf(cast.getInput())) &&
           getElementTypeOrSelf(cast.getInput()).getIntOrFloatBitWidth() <
               type.getElementTypeBitWidth())
    value = cast.getInput();
  else {
    ElementsAttr attr = constantOf(value);
    if (!attr)
      return std::nullopt;
    FailureOr<Tensor> tensor = Tensor::fromAttr(attr);
    if (failed(tensor))
      return std::nullopt;
    return tensor;
  }
  std::optional<Tensor> inner = constantTensor(value);
  if (inner && inner->isFloat() == isa<FloatType>(type.getElementType()))
    return std::move(*inner).withType(type);
  return std::nullopt;
}

SmallVector<int64_t> mpc::withRank(ArrayRef<int64_t> shape, int64_t rank) {
  SmallVector<int64_t> result(rank - shape.size(), 1);
  llvm::append_range(result, shape);
  return result;
}

SmallVector<int64_t> DequantizedTensor::moved(ArrayRef<int64_t> shape) const {
  SmallVector<int64_t> now = withRank(shape, rankOf(numbers));
  for (TransposeOp op : llvm::reverse(transposes)) {
    SmallVector<int64_t> next;
    for (int64_t dimension : op.getPermutation())
      next.push_back(now[dimension]);
    now = std::move(next);
  }
  return now;
}

bool DequantizedTensor::variesAlong(ArrayRef<int64_t> shape,
                                    int64_t axis) const {
  for (auto [i, extent] : llvm::enumerate(moved(shape)))
    if (extent != 1 && int64_t(i) != axis)
      return false;
  return true;
}

/// Matches weights centered at import: i8 minus a zero point.
static bool takeConstant(DequantizedTensor &found) {
  if (found.zero || !isa<IntegerType>(getElementTypeOrSelf(found.numbers)) ||
      getElementTypeOrSelf(found.numbers).isUnsignedInteger(64))
    return false;
  std::optional<Tensor> tensor = constantTensor(found.numbers);
  if (!tensor || tensor->size() == 0)
    return false;
  auto [low, high] =
      std::minmax_element(tensor->ints().begin(), tensor->ints().end());
  if (*low < -255 || *high > 255 || *high - *low > 255)
    return false;
  bool fits = *low >= -128 && *high <= 127;
  int64_t zero = fits ? 0 : -128 - *low;
  for (int64_t &number : tensor->ints())
    number += zero;
  auto i8 = IntegerType::get(found.numbers.getContext(), 8);
  found.constant = std::move(*tensor).withType(
      cast<RankedTensorType>(found.numbers.getType()).clone(i8));
  if (zero) {
    Tensor zeros(
        RankedTensorType::get({}, IntegerType::get(i8.getContext(), 32)));
    zeros.ints()[0] = zero;
    found.zeroTensor = std::move(zeros);
  }
  return true;
}

std::optional<DequantizedTensor> mpc::matchDequantized(Value value) {
  DequantizedTensor found;
  while (auto transpose = value.getDefiningOp<TransposeOp>()) {
    found.transposes.push_back(transpose);
    value = transpose.getInput();
  }
  Type element = getElementTypeOrSelf(value.getType());
  if (!element.isF32() && !element.isF64())
    return std::nullopt;
  ArrayRef<int64_t> shape = shapeOf(value);
  if (auto product = value.getDefiningOp<MulOp>()) {
    for (int side = 0; side < 2 && !found.scale; ++side) {
      // The weights may be constants as well.
      if (shapeOf(product->getOperand(1 - side)) == shape &&
          isa_and_present<CastOp, DecodeFloatOp>(
              product->getOperand(1 - side).getDefiningOp()))
        found.scale = constantTensor(product->getOperand(side));
      if (found.scale)
        value = product->getOperand(1 - side);
    }
    if (!found.scale)
      return std::nullopt;
  }
  if (auto decode = value.getDefiningOp<DecodeFloatOp>();
      decode && !isa<Float8E8M0FNUType>(decode.getFormat())) {
    found.numbers = value;
    return found;
  }
  auto cast = value.getDefiningOp<CastOp>();
  if (!cast)
    return std::nullopt;
  value = cast.getInput();
  if (auto difference = value.getDefiningOp<SubOp>()) {
    value = difference.getLhs();
    found.zero = difference.getRhs();
    if (!holdsDifferences(value))
      return std::nullopt;
    found.zeroTensor = constantTensor(found.zero);
    if (auto cast = found.zero.getDefiningOp<CastOp>();
        cast && isByte(cast.getInput()))
      found.zero = cast.getInput();
    // 8-bit zero points keep the accumulator below the bound.
    if (!isByte(found.zero) &&
        (!found.zeroTensor ||
         !llvm::all_of(found.zeroTensor->ints(), [](int64_t zero) {
           return zero >= -128 && zero <= 255;
         })))
      return std::nullopt;
  }
  if (auto wide = value.getDefiningOp<CastOp>();
      wide && isByte(wide.getInput()) && holdsDifferences(value))
    value = wide.getInput();
  if (shapeOf(value) != shape)
    return std::nullopt;
  found.numbers = value;
  if (isByte(value) || takeConstant(found))
    return found;
  return std::nullopt;
}
