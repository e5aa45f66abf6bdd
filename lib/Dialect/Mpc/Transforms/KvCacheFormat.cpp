//===- KvCacheFormat.cpp - storage formats of KV caches -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/Transforms/KvCacheFormat.h"

#include "mpc/Analysis/Float32Subgraphs.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"
#include "mpc/Dialect/Mpc/IR/RoundingCasts.h"
#include "mpc/Dialect/Mpc/IR/RuntimeTypes.h"
#include "mpc/Support/NarrowFloat.h"

using namespace mlir;
using namespace mpc;

RowOrder::RowOrder(int64_t rank, int64_t rowDimension)
    : toRows({rowDimension}), fromRows(rank) {
  for (int64_t i = 0; i < rank; ++i)
    if (i != rowDimension)
      toRows.push_back(i);
  for (auto [to, from] : llvm::enumerate(toRows))
    fromRows[from] = to;
}

Value mpc::transposed(OpBuilder &builder, Location loc, Value value,
                      ArrayRef<int64_t> order) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape;
  for (int64_t dimension : order)
    shape.push_back(type.getDimSize(dimension));
  return TransposeOp::create(builder, loc, type.clone(shape), value, order);
}

static Value converted(OpBuilder &builder, Location loc, Value value,
                       Type element) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementType() == element)
    return value;
  return CastOp::create(builder, loc, type.clone(element), value);
}

Value KvCacheFormat::constant(double value) const {
  auto type = RankedTensorType::get({}, builder.getF32Type());
  return mpc::ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(type, builder.getF32FloatAttr(float(value))));
}

Type KvCacheFormat::float8() const {
  return Float8E4M3FNType::get(builder.getContext());
}

Type KvCacheFormat::numberType() const {
  if (isFloat8())
    return builder.getIntegerType(8, /*isSigned=*/false);
  return compilerType({element, {}}, *builder.getContext()).getElementType();
}

KvCacheRows KvCacheFormat::quantize(Value rows) const {
  if (!isScaled())
    return {converted(builder, loc, rows, numberType()), {}};
  constexpr double kLargestInteger = 127;
  // Minimum scale, to avoid a division by zero for rows of zeros.
  constexpr double kLeastScale = 0x1p-126;
  rows = converted(builder, loc, rows, builder.getF32Type());
  auto type = cast<RankedTensorType>(rows.getType());
  SmallVector<int64_t> shape(type.getShape());
  int64_t last = type.getRank() - 1;
  shape.back() = 1;
  auto inFloat32 = [&](auto op) {
    op->setDiscardableAttr(kScaleAttr, builder.getUnitAttr());
    return op;
  };
  auto magnitudes = inFloat32(AbsOp::create(builder, loc, rows));
  auto largest = inFloat32(ReduceMaxOp::create(
      builder, loc, type.clone(shape), magnitudes,
      builder.getDenseI64ArrayAttr({last}), builder.getUnitAttr(), TypeAttr()));
  auto quotient = inFloat32(DivOp::create(
      builder, loc, largest,
      constant(isFloat8() ? kFloat8E4M3FN.largest() : kLargestInteger)));
  auto scale =
      inFloat32(MaxOp::create(builder, loc, quotient, constant(kLeastScale)));
  auto steps = inFloat32(DivOp::create(builder, loc, rows, scale));
  if (isFloat8())
    return {inFloat32(EncodeFloatOp::create(builder, loc, steps, float8(),
                                            /*saturate=*/true)),
            scale};
  auto rounded = inFloat32(RoundOp::create(builder, loc, steps));
  return {CastOp::create(builder, loc, type.clone(numberType()), rounded),
          scale};
}

Value KvCacheFormat::dequantize(const KvCacheRows &rows, Type to) const {
  if (!isScaled())
    return converted(builder, loc, rows.numbers, to);
  auto type = cast<RankedTensorType>(rows.numbers.getType());
  Type f32 = builder.getF32Type();
  Value numbers;
  if (isFloat8())
    numbers = DecodeFloatOp::create(builder, loc, rows.numbers, float8(), f32);
  else
    numbers = CastOp::create(builder, loc, type.clone(f32), rows.numbers);
  return converted(builder, loc,
                   MulOp::create(builder, loc, numbers, rows.scales), to);
}

std::optional<ElementType> mpc::kvCacheElement(std::optional<WeightType> type) {
  switch (type.value_or(WeightType::Float32)) {
  case WeightType::Float16:
    return ElementType::F16;
  case WeightType::BFloat16:
    return ElementType::BF16;
  case WeightType::Int8:
    return ElementType::I8;
  case WeightType::Float8:
    return ElementType::F8E4M3FN;
  case WeightType::Float32:
  case WeightType::Int16:
  case WeightType::Int4:
    return std::nullopt;
  }
  llvm_unreachable("all types are listed");
}

SmallVector<ConcatOp> mpc::findKvCaches(func::FuncOp function) {
  SmallVector<ConcatOp> caches;
  for (Value result : function.getBody().front().getTerminator()->getOperands())
    if (auto concat = result.getDefiningOp<ConcatOp>()) {
      auto past = dyn_cast<BlockArgument>(concat.getInputs().front());
      auto name = past ? function.getArgAttrOfType<StringAttr>(
                             past.getArgNumber(), MpcDialect::kNameAttr)
                       : StringAttr();
      auto type = cast<RankedTensorType>(result.getType());
      if (name && name.getValue().starts_with("past") &&
          type.getElementType().isF32() && type.getRank() >= 3)
        caches.push_back(concat);
    }
  return caches;
}

void mpc::roundKvCache(ConcatOp concat, ElementType element) {
  OpBuilder builder(concat);
  Location loc = concat.getLoc();
  KvCacheFormat format(builder, loc, element);
  RowOrder order(cast<RankedTensorType>(concat.getType()).getRank(),
                 concat.getAxis());
  for (OpOperand &use : concat->getOpOperands()) {
    KvCacheRows rows =
        format.quantize(transposed(builder, loc, use.get(), order.toRows));
    if (auto cast = rows.numbers.getDefiningOp<CastOp>();
        cast && !format.isScaled())
      cast->setDiscardableAttr(kRoundsAttr, builder.getUnitAttr());
    use.set(transposed(builder, loc,
                       format.dequantize(rows, builder.getF32Type()),
                       order.fromRows));
  }
}
