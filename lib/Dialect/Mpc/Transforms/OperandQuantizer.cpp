//===- OperandQuantizer.cpp - scaled quantization of operands -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OperandQuantizer.h"

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCommunicationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mpc;

static constexpr double kLargestFloat = std::numeric_limits<float>::max();

/// Returns the type of the numbers; null for int8.
static FloatType floatTypeOf(OperandType type, MLIRContext *context) {
  switch (type) {
  case OperandType::E4M3:
    return Float8E4M3FNType::get(context);
  case OperandType::E5M2:
    return Float8E5M2Type::get(context);
  case OperandType::E2M1:
    return Float4E2M1FNType::get(context);
  case OperandType::E3M2:
    return Float6E3M2FNType::get(context);
  case OperandType::E2M3:
    return Float6E2M3FNType::get(context);
  case OperandType::Int8:
    return {};
  }
  llvm_unreachable("every type has numbers");
}

Value OperandQuantizer::largestMagnitude(Value value) {
  // A permutation has the same, and reading its result may cost a kernel.
  while (auto move = value.getDefiningOp<MovementOpInterface>()) {
    if (!move.isPermutation() || move->getNumOperands() != 1)
      break;
    value = move->getOperand(0);
  }
  return emit.reduce<ReduceMaxOp>(emit.abs(value), allAxes(value));
}

Value OperandQuantizer::largestAlong(Value value, ArrayRef<int64_t> axes) {
  return emit.reduce<ReduceMaxOp>(emit.abs(value), axes, /*keepDims=*/true);
}

Value OperandQuantizer::overRanks(Value amax, const OperandUse &use) {
  // All ranks have the same weights.
  if (ranks == 1 || use.part == OperandPart::Weight)
    return amax;
  return emit
      .create<AllReduceOp>(TypeRange(amax.getType()), amax, RankReduction::max,
                           uint64_t(ranks), TypeAttr())
      .getOutputs()
      .front();
}

Value OperandQuantizer::scaleFor(Value amax, OperandType type) {
  Value zero = emit.number(0, amax), most = emit.number(kLargestFloat, amax);
  // NaN is neither, and makes the scale and the tensor NaN.
  Value isUnknown =
      emit.binary<OrOp>(emit.compare(ComparePredicate::le, amax, zero),
                        emit.compare(ComparePredicate::gt, amax, most));
  Value scale =
      emit.min(emit.div(emit.number(largestOf(type), amax), amax), most);
  return emit.select(isUnknown, emit.number(1, amax), scale);
}

Value OperandQuantizer::toNumbers(Value value, OperandType type,
                                  const OperandUse &use) {
  OpBuilder &builder = emit.builder;
  FloatType element = floatTypeOf(type, builder.getContext());
  if (!element) {
    Value most = emit.number(largestOf(type), value);
    Value rounded = emit.unary<RoundOp>(value);
    return emit.cast(emit.max(emit.min(rounded, most), emit.neg(most)),
                     builder.getI8Type());
  }
  auto tensor = cast<RankedTensorType>(value.getType());
  Value random;
  if (use.randomState)
    random = emit.create<RandomBitsOp>(tensor.clone(builder.getI32Type()),
                                       use.randomState,
                                       builder.getI64IntegerAttr(use.stream));
  auto codes =
      emit.create<EncodeFloatOp>(value, element, /*saturate=*/true, random);
  return emit.create<DecodeFloatOp>(tensor, codes.getResult(), element);
}

Value OperandQuantizer::powerOfTwo(Value value, bool up) {
  OpBuilder &builder = emit.builder;
  auto tensor = cast<RankedTensorType>(value.getType());
  auto element = Float8E8M0FNUType::get(builder.getContext());
  auto codes = emit.create<EncodeFloatOp>(value, element, /*saturate=*/true);
  codes.setRoundUp(up);
  return emit.create<DecodeFloatOp>(tensor, codes.getResult(), element);
}

//===----------------------------------------------------------------------===//
// Scales of tensors and rows
//===----------------------------------------------------------------------===//

QuantizedOperand OperandQuantizer::quantizeScaled(Value value, Value amax,
                                                  const OperandUse &use) {
  OperandType type = typeFor(use);
  Value scale = use.scale;
  if (!scale)
    scale = scaleFor(amax, type);
  if (!use.scale && format.powersOfTwo)
    scale = powerOfTwo(scale, /*up=*/false);
  return {toNumbers(emit.mul(value, scale), type, use), reciprocal(scale)};
}

//===----------------------------------------------------------------------===//
// Scales of blocks
//===----------------------------------------------------------------------===//

Value OperandQuantizer::scaleOfBlocks(Value amax, OperandType type) {
  FloatType element = floatTypeOf(type, emit.builder.getContext());
  double largest = largestOf(type), power = std::exp2(std::ilogb(largest));
  if (format.scaling == OperandScaling::Block)
    return reciprocal(powerOfTwo(scaleFor(amax, type), /*up=*/false));
  switch (format.rounding) {
  case ScaleRounding::Floor:
    return powerOfTwo(emit.scale(amax, 1 / power), /*up=*/false);
  case ScaleRounding::Ceil:
    return powerOfTwo(emit.scale(amax, 1 / power), /*up=*/true);
  case ScaleRounding::RCeil:
    return powerOfTwo(emit.div(amax, emit.number(largest, amax)), /*up=*/true);
  case ScaleRounding::Even: {
    // Half a last place of the type may carry into the exponent.
    unsigned bits =
        llvm::APFloat::semanticsPrecision(element.getFloatSemantics());
    Value half =
        emit.scale(powerOfTwo(amax, /*up=*/false), std::exp2(-double(bits)));
    return powerOfTwo(emit.scale(emit.add(amax, half), 1 / power),
                      /*up=*/false);
  }
  }
  llvm_unreachable("every rounding has a formula");
}

Value OperandQuantizer::hadamard(Value value, int64_t axis) {
  // Signs of the transform, which all of the recipe's implementations share.
  static constexpr int kSigns[] = {1,  1,  1,  -1, 1,  -1, -1, -1,
                                   -1, -1, -1, 1,  -1, 1,  -1, -1};
  constexpr int64_t kSize = 16;
  SmallVector<int64_t> shape(shapeOf(value)), runs = shape;
  bool isLast = axis + 1 == int64_t(shape.size());
  runs[axis] = kSize;
  runs.insert(runs.begin() + axis, shape[axis] / kSize);
  // Sylvester's matrix has the sign of the parity of the common bits.
  SmallVector<float> matrix;
  for (int64_t i = 0; i < kSize; ++i)
    for (int64_t j = 0; j < kSize; ++j) {
      // The run is the left operand along rows, else the right one.
      int64_t position = isLast ? i : j;
      bool isOdd = llvm::popcount(uint64_t(i & j)) & 1;
      matrix.push_back(float(isOdd ? -kSigns[position] : kSigns[position]) / 4);
    }
  Value transform = emit.constant(DenseElementsAttr::get(
      RankedTensorType::get({kSize, kSize}, emit.builder.getF32Type()),
      ArrayRef<float>(matrix)));
  Value split = emit.reshape(value, runs);
  Value lhs = isLast ? split : transform, rhs = isLast ? transform : split;
  Value product = emit.create<MatmulOp>(
      split.getType(), lhs, rhs, /*transpose_lhs=*/false,
      /*transpose_rhs=*/false, TypeAttr(), ComputeMode::native, PackedAttr());
  auto bf16 = cast<RankedTensorType>(product.getType())
                  .clone(emit.builder.getBF16Type());
  Value narrow = emit.create<CastOp>(bf16, product, /*pinned=*/true);
  return emit.reshape(
      emit.create<CastOp>(product.getType(), narrow, /*pinned=*/true), shape);
}

QuantizedOperand OperandQuantizer::quantizeNvFp4(Value blocks,
                                                 ArrayRef<int64_t> axes,
                                                 const OperandUse &use) {
  double mostScale = largestOf(OperandType::E4M3),
         mostNumber = largestOf(typeFor(use));
  Value tensorAmax = overRanks(largestMagnitude(blocks), use);
  Value most = emit.number(kLargestFloat, tensorAmax);
  Value encode = emit.min(
      emit.div(emit.number(mostScale * mostNumber, most), tensorAmax), most);
  Value isZero =
      emit.compare(ComparePredicate::eq, encode, emit.number(0, most));
  encode = emit.select(isZero, emit.number(1, most), encode);
  Value decode = reciprocal(encode);
  Value amax = largestAlong(blocks, axes);
  Value factor = emit.mul(encode, emit.number(1 / mostNumber, most));
  Value scale = toNumbers(emit.min(emit.mul(amax, factor), most),
                          OperandType::E4M3, OperandUse());
  Value inverse = emit.min(reciprocal(emit.mul(scale, decode)), most);
  Value numbers = toNumbers(emit.mul(blocks, inverse), typeFor(use), use);
  return {emit.mul(numbers, scale), decode};
}

QuantizedOperand OperandQuantizer::quantizeBlocks(Value value,
                                                  const OperandUse &use) {
  int64_t size = format.blockSize();
  SmallVector<int64_t> shape(shapeOf(value));
  int64_t rank = int64_t(shape.size());
  SmallVector<int64_t> blocked = {use.axis};
  if (use.part == OperandPart::Weight && format.weightSquares &&
      format.scaling != OperandScaling::Mx)
    blocked = {rank - 2, rank - 1};
  // Whole blocks: zeros do not change a largest magnitude.
  SmallVector<int64_t> none(rank, 0), high(rank, 0), whole = shape;
  for (int64_t axis : blocked) {
    whole[axis] = llvm::alignTo(shape[axis], size);
    high[axis] = whole[axis] - shape[axis];
  }
  if (whole != shape)
    value = emit.pad(value, none, high, none);
  if (format.scaling == OperandScaling::NvFp4 && format.hadamard &&
      use.isWeightGradient) {
    value = hadamard(value, use.axis);
    // The transform of both operands fills the padding.
    shape[use.axis] = whole[use.axis];
  }
  SmallVector<int64_t> split, axes;
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (!llvm::is_contained(blocked, axis)) {
      split.push_back(whole[axis]);
      continue;
    }
    split.push_back(whole[axis] / size);
    axes.push_back(int64_t(split.size()));
    split.push_back(size);
  }
  Value blocks = emit.reshape(value, split);
  QuantizedOperand result;
  if (format.scaling == OperandScaling::NvFp4) {
    result = quantizeNvFp4(blocks, axes, use);
  } else {
    OperandType type = typeFor(use);
    Value scale = scaleOfBlocks(largestAlong(blocks, axes), type);
    result.value =
        emit.mul(toNumbers(emit.div(blocks, scale), type, use), scale);
  }
  result.value = emit.reshape(result.value, whole);
  if (whole != shape)
    result.value = emit.slice(result.value, none, shape);
  return result;
}

QuantizedOperand OperandQuantizer::quantize(Value value,
                                            const OperandUse &use) {
  if (format.isBlocked())
    return quantizeBlocks(value, use);
  bool hasRows = format.scaling == OperandScaling::Row ||
                 (format.scaling == OperandScaling::Calibrated &&
                  use.part == OperandPart::Weight);
  Value amax;
  if (!use.scale && !hasRows)
    amax = overRanks(largestMagnitude(value), use);
  else if (!use.scale)
    amax = largestAlong(value, {use.axis});
  // Examples are contracted by the gradients of weights only.
  if (amax && hasRows && use.isWeightGradient)
    amax = overRanks(amax, use);
  return quantizeScaled(value, amax, use);
}
