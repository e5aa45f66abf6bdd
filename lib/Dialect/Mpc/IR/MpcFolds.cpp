//===- MpcFolds.cpp - folders ---------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Folders are bit-exact: x + 0.0 stays, because it turns -0.0 into +0.0, while
// x - 0.0 folds.
//
//===----------------------------------------------------------------------===//

#include "MpcShapes.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::shapes;

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

/// Strips ops that a saturating cast to `target` makes redundant: a clamp to a
/// range that contains the type's, or an addition of zero, which changes at
/// most the sign of zero. Returns null if there is none.
static Value beforeSaturation(Value value, IntegerType target) {
  if (target.getWidth() < 8 || target.getWidth() > 16)
    return {};
  auto splatOf = [](Value operand) -> std::optional<double> {
    Attribute attr;
    if (matchPattern(operand, m_Constant(&attr)))
      return splatValue(cast<ElementsAttr>(attr));
    return std::nullopt;
  };
  if (auto clamp = value.getDefiningOp<ClampOp>()) {
    double span = std::exp2(double(target.getWidth()));
    double least = target.isUnsigned() ? 0 : -span / 2;
    std::optional<double> low = splatOf(clamp->getOperand(1)),
                          high = splatOf(clamp->getOperand(2));
    if (low && high && *low <= least && *high >= least + span - 1)
      return clamp->getOperand(0);
  } else if (auto sum = value.getDefiningOp<AddOp>()) {
    for (int side = 0; side < 2; ++side)
      if (sum->getOperand(1 - side).getType() == sum.getType() &&
          splatOf(sum->getOperand(side)) == 0.0)
        return sum->getOperand(1 - side);
  }
  return {};
}

OpFoldResult CastOp::fold(FoldAdaptor) {
  if (getInput().getType() == getResult().getType() && !getPinned())
    return getInput();
  auto integer = dyn_cast<IntegerType>(tensor(getResult()).getElementType());
  if (integer && isa<FloatType>(tensor(getInput()).getElementType()))
    if (Value before = beforeSaturation(getInput(), integer)) {
      getInputMutable().assign(before);
      return getResult();
    }
  // Widening and narrowing back is exact; narrowing first is not.
  CastOp inner = getInput().getDefiningOp<CastOp>();
  if (!inner || inner.getInput().getType() != getResult().getType() ||
      getPinned() || inner.getPinned())
    return {};
  FloatType from =
      dyn_cast<FloatType>(tensor(inner.getInput()).getElementType());
  FloatType via =
      dyn_cast<FloatType>(tensor(inner.getResult()).getElementType());
  if (!from || !via)
    return {};
  const llvm::fltSemantics &a = from.getFloatSemantics(),
                           &b = via.getFloatSemantics();
  bool exact = llvm::APFloat::semanticsPrecision(b) >=
                   llvm::APFloat::semanticsPrecision(a) &&
               llvm::APFloat::semanticsMaxExponent(b) >=
                   llvm::APFloat::semanticsMaxExponent(a) &&
               llvm::APFloat::semanticsMinExponent(b) <=
                   llvm::APFloat::semanticsMinExponent(a);
  return exact ? OpFoldResult(inner.getInput()) : OpFoldResult();
}

//===----------------------------------------------------------------------===//
// Neutral elements
//===----------------------------------------------------------------------===//

/// Returns true if `attr` is a splat of `value`, including the sign of zero.
static bool isSplatOf(Attribute attr, double value) {
  std::optional<double> splat = attr ? splatValue(attr) : std::nullopt;
  return splat && *splat == value &&
         std::signbit(*splat) == std::signbit(value);
}

static bool isIntegerTensor(Value value) {
  return isa<IntegerType>(tensor(value).getElementType());
}

OpFoldResult AddOp::fold(FoldAdaptor adaptor) {
  // x + -0.0 is x for every float; x + 0 for every integer.
  double neutral = isIntegerTensor(getLhs()) ? 0.0 : -0.0;
  if (getLhs().getType() == getType() && isSplatOf(adaptor.getRhs(), neutral))
    return getLhs();
  if (getRhs().getType() == getType() && isSplatOf(adaptor.getLhs(), neutral))
    return getRhs();
  return {};
}

OpFoldResult SubOp::fold(FoldAdaptor adaptor) {
  if (getLhs().getType() == getType() && isSplatOf(adaptor.getRhs(), 0.0))
    return getLhs();
  return {};
}

OpFoldResult MulOp::fold(FoldAdaptor adaptor) {
  if (getLhs().getType() == getType() && isSplatOf(adaptor.getRhs(), 1.0))
    return getLhs();
  if (getRhs().getType() == getType() && isSplatOf(adaptor.getLhs(), 1.0))
    return getRhs();
  return {};
}

OpFoldResult DivOp::fold(FoldAdaptor adaptor) {
  if (getLhs().getType() == getType() && isSplatOf(adaptor.getRhs(), 1.0))
    return getLhs();
  return {};
}

//===----------------------------------------------------------------------===//
// Data movement
//===----------------------------------------------------------------------===//

/// Returns the same elements in another shape, or null.
static Attribute reshapeConstant(Attribute attr, RankedTensorType type) {
  if (DenseResourceElementsAttr resource =
          dyn_cast_if_present<DenseResourceElementsAttr>(attr))
    return DenseResourceElementsAttr::get(type, resource.getRawHandle());
  DenseElementsAttr dense = dyn_cast_if_present<DenseElementsAttr>(attr);
  return dense && dense.getNumElements() == type.getNumElements()
             ? dense.reshape(type)
             : nullptr;
}

static Attribute splatOf(Attribute attr, RankedTensorType type) {
  SplatElementsAttr splat = dyn_cast_if_present<SplatElementsAttr>(attr);
  return splat ? splat.resizeSplat(type) : nullptr;
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getType())
    return getInput();
  if (Attribute constant =
          reshapeConstant(adaptor.getInput(), tensor(getResult())))
    return constant;
  if (ReshapeOp inner = getInput().getDefiningOp<ReshapeOp>()) {
    if (inner.getInput().getType() == getType())
      return inner.getInput();
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  return {};
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  ArrayRef<int64_t> permutation = getPermutation();
  if (llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size())))
    return getInput();
  if (Attribute splat = splatOf(adaptor.getInput(), tensor(getResult())))
    return splat;
  if (TransposeOp inner = getInput().getDefiningOp<TransposeOp>()) {
    Shape composed;
    for (int64_t axis : permutation)
      composed.push_back(inner.getPermutation()[axis]);
    getInputMutable().assign(inner.getInput());
    setPermutation(composed);
    return getResult();
  }
  return {};
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getType())
    return getInput();
  return splatOf(adaptor.getInput(), tensor(getResult()));
}

OpFoldResult ConcatOp::fold(FoldAdaptor) {
  if (getInputs().size() == 1)
    return getInputs().front();
  return {};
}

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getType() &&
      llvm::all_of(getOffsets(), [](int64_t o) { return o == 0; }))
    return getInput();
  return splatOf(adaptor.getInput(), tensor(getResult()));
}

OpFoldResult PadOp::fold(FoldAdaptor) {
  auto isZero = [](int64_t value) { return value == 0; };
  if (llvm::all_of(getLow(), isZero) && llvm::all_of(getHigh(), isZero) &&
      (!getInterior() || llvm::all_of(*getInterior(), isZero)))
    return getInput();
  return {};
}
