//===- LossScalingArithmetic.cpp - arithmetic of loss scaling
//-----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inverse scale, norm and clipping factor of each preset, and shared helpers.
//
//===----------------------------------------------------------------------===//

#include "LossScaling.h"

#include <limits>

using namespace mlir;
using namespace mpc;

Value LossScaling::constant(Type element, double value) {
  return create<mpc::ConstantOp>(scalarOf(element, value));
}

Value LossScaling::zerosOf(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  return create<BroadcastOp>(type, constant(type.getElementType(), 0));
}

Value LossScaling::castTo(Value value, Type element) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementType() == element)
    return value;
  return create<CastOp>(type.clone(element), value, /*pinned=*/false);
}

Value LossScaling::inverseScale() {
  if (inverse)
    return inverse;
  Type element = preset.unscale == LossScalePreset::Unscale::Reciprocal64
                     ? Type(builder.getF64Type())
                     : Type(builder.getF32Type());
  inverse = castTo(create<DivOp>(constant(element, 1), castTo(scale, element)),
                   builder.getF32Type());
  return inverse;
}

Value LossScaling::globalNorm(const Group &group, ValueRange gradients,
                              Value unscale, UnscaleMode mode) {
  if (isSharded(group))
    return normOfPieces(group, gradients, unscale, mode);
  return create<GlobalNormOp>(
      RankedTensorType::get({}, builder.getF32Type()), gradients, unscale, mode,
      /*of_norms=*/preset.clip == LossScalePreset::Clip::Torch);
}

Value LossScaling::clipFactor(Value norm) {
  Type f32 = builder.getF32Type();
  double limit = *options.clipNorm;
  if (preset.clip == LossScalePreset::Clip::Torch) {
    norm = create<AddOp>(norm, constant(f32, 1e-6));
    return create<MinOp>(create<DivOp>(constant(f32, limit), norm),
                         constant(f32, 1));
  }
  Value smaller = create<MinOp>(create<DivOp>(constant(f32, 1), norm),
                                constant(f32, 1 / limit));
  return create<MulOp>(constant(f32, limit), smaller);
}

Value LossScaling::isFinite(Value value) {
  // Norms are never negative.
  return create<CompareOp>(
      ComparePredicate::le, value,
      constant(builder.getF32Type(), std::numeric_limits<float>::max()));
}

Value LossScaling::unscaled(OptimizerOpInterface optimizer) {
  Type element = getElementTypeOrSelf(optimizer.getParameter());
  Value gradient = castTo(optimizer.getGradientMutable().get(), element);
  if (!scale)
    return gradient;
  if (preset.unscale == LossScalePreset::Unscale::Divide)
    return create<DivOp>(gradient, castTo(scale, element));
  return create<MulOp>(gradient, castTo(inverseScale(), element));
}

BlockArgument LossScaling::field(StringRef name, Type type,
                                 ElementsAttr initial) {
  if (BlockArgument argument = step.findField(name))
    return argument;
  return step.appendArgument(type, RoleKind::loss_scale_state,
                             ("loss_scale." + name).str(), initial, name);
}

BlockArgument LossScaling::counter(StringRef name, unsigned width,
                                   int64_t initial) {
  Type element = builder.getIntegerType(width);
  return field(name, RankedTensorType::get({}, element),
               scalarOf(element, double(initial)));
}
