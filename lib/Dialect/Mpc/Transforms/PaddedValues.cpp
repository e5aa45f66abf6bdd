//===- PaddedValues.cpp - cache of padded values --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PaddedValues.h"

#include "OpEmitter.h"

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/Transforms/ConstantTransforms.h"
#include "mpc/Reference/Tensor.h"

using namespace mlir;
using namespace mpc;

SmallVector<DimPadding> mpc::plainDims(Value value) {
  SmallVector<DimPadding> dims;
  for (int64_t extent : shapeOf(value))
    dims.push_back({1, extent, extent});
  return dims;
}

ElementsAttr mpc::originalIndicesMask(MLIRContext *context,
                                      const DimPadding &padding,
                                      int64_t trailing) {
  SmallVector<int64_t> shape(1 + trailing, 1);
  shape[0] = padding.newExtent();
  reference::Tensor places(
      RankedTensorType::get(shape, IntegerType::get(context, 1)));
  for (auto [place, isOld] : llvm::enumerate(places.ints()))
    isOld = int64_t(place) % padding.to < padding.from;
  return places.toAttr("padding");
}

void PaddedValues::define(Value value, PaddedForm form) {
  forms[value] = std::move(form);
}

PaddedForm PaddedValues::defined(Value value) const {
  auto form = forms.find(value);
  if (form != forms.end())
    return form->second;
  SmallVector<DimPadding> dims = plainDims(value);
  SmallVector<PaddingState> lanes(dims.size(), PaddingState::zero());
  return {value, dims, lanes};
}

PaddedForm PaddedValues::get(Value value, ArrayRef<DimPadding> dims,
                             double fill) {
  PaddedForm form = defined(value);
  if (ArrayRef<DimPadding>(form.dims) == dims)
    return form;
  for (const Version &version : versions[value])
    if (version.fill == fill && ArrayRef<DimPadding>(version.form.dims) == dims)
      return version.form;

  if (constantOf(value)) {
    form = getConstant(value, dims, fill);
  } else {
    SmallVector<bool> dropped, added;
    for (auto [from, to] : llvm::zip_equal(form.dims, dims)) {
      dropped.push_back(from.isPadded() && !(from == to));
      added.push_back(to.isPadded() && !(from == to));
    }
    builder.setInsertionPointAfterValue(form.value);
    if (llvm::is_contained(dropped, true))
      form.value = slice(form.value, form.dims, dropped);
    if (llvm::is_contained(added, true))
      form.value = pad(form.value, dims, added, fill);
    for (size_t dim = 0; dim < dims.size(); ++dim)
      if (dropped[dim] || added[dim])
        form.lanes[dim] = PaddingState::known(fill);
    form.dims.assign(dims.begin(), dims.end());
  }
  if (form.value)
    versions[value].push_back({fill, form});
  return form;
}

PaddedForm PaddedValues::getConstant(Value value, ArrayRef<DimPadding> dims,
                                     double fill) {
  SmallVector<PaddingState> lanes(dims.size(), PaddingState::known(fill));
  SmallVector<DimPadding> to(dims);
  SmallVector<int64_t> groups, from, extents;
  for (const DimPadding &dim : dims) {
    groups.push_back(dim.isPadded() ? dim.groups : 1);
    from.push_back(dim.isPadded() ? dim.from : dim.oldExtent());
    extents.push_back(dim.isPadded() ? dim.to : dim.oldExtent());
  }
  FailureOr<ElementsAttr> padded =
      padConstant(constantOf(value), groups, from, extents, fill);
  if (failed(padded))
    return {};
  builder.setInsertionPointAfterValue(value);
  auto constant = ConstantOp::create(builder, value.getLoc(), *padded);
  constant->setDiscardableAttrs(
      value.getDefiningOp()->getDiscardableAttrDictionary());
  return {constant.getResult(), to, lanes};
}

Value PaddedValues::reshape(Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  return ReshapeOp::create(
      builder, value.getLoc(),
      RankedTensorType::get(shape, getElementTypeOrSelf(value)), value);
}

/// Appends dimension `dim` to a shape, as groups and runs if `isSplit`.
static void appendDim(SmallVectorImpl<int64_t> &shape, int64_t groups,
                      int64_t run, bool isSplit) {
  if (isSplit && groups > 1) {
    shape.push_back(groups);
    shape.push_back(run);
  } else {
    shape.push_back(groups * run);
  }
}

/// Copies the layer path of the producer of `value` to `op`.
static void copyLayerOf(Value value, Operation *op) {
  if (Operation *producer = value.getDefiningOp())
    if (Attribute layer = producer->getDiscardableAttr(MpcDialect::kLayerAttr))
      op->setDiscardableAttr(MpcDialect::kLayerAttr, layer);
}

Value PaddedValues::slice(Value value, ArrayRef<DimPadding> from,
                          ArrayRef<bool> dropped) {
  SmallVector<int64_t> split, kept, shape;
  for (auto [dim, isDropped] : llvm::zip_equal(from, dropped)) {
    appendDim(split, dim.groups, dim.to, isDropped);
    appendDim(kept, dim.groups, isDropped ? dim.from : dim.to, isDropped);
    shape.push_back(isDropped ? dim.oldExtent() : dim.newExtent());
  }
  ++slices;
  SmallVector<int64_t> offsets(kept.size(), 0);
  auto slice = SliceOp::create(
      builder, value.getLoc(),
      RankedTensorType::get(kept, getElementTypeOrSelf(value)),
      reshape(value, split), offsets, kept, DenseI64ArrayAttr());
  copyLayerOf(value, slice);
  return reshape(slice.getResult(), shape);
}

Value PaddedValues::pad(Value value, ArrayRef<DimPadding> to,
                        ArrayRef<bool> added, double fill) {
  SmallVector<int64_t> split, grown, shape, high;
  for (auto [dim, isAdded] : llvm::zip_equal(to, added)) {
    appendDim(split, dim.groups, isAdded ? dim.from : dim.to, isAdded);
    appendDim(grown, dim.groups, dim.to, isAdded);
    shape.push_back(dim.newExtent());
  }
  for (auto [before, after] : llvm::zip_equal(split, grown))
    high.push_back(after - before);
  ++pads;
  Type element = getElementTypeOrSelf(value);
  Value filling =
      ConstantOp::create(builder, value.getLoc(),
                         makeSplat(RankedTensorType::get({}, element), fill));
  auto pad = PadOp::create(
      builder, value.getLoc(), RankedTensorType::get(grown, element),
      reshape(value, split), filling,
      builder.getDenseI64ArrayAttr(SmallVector<int64_t>(grown.size(), 0)),
      builder.getDenseI64ArrayAttr(high), DenseI64ArrayAttr(),
      PadModeAttr::get(builder.getContext(), PadMode::constant));
  copyLayerOf(value, pad);
  return reshape(pad.getResult(), shape);
}

PaddedForm PaddedValues::hold(OpBuilder &at, Location loc,
                              const PaddedForm &form, unsigned dim,
                              double fill) {
  if (!form.dims[dim].isPadded() || form.lanes[dim].holds(fill))
    return form;
  ++masks;
  Type element = getElementTypeOrSelf(form.value);
  SmallVector<int64_t> shape;
  for (const DimPadding &padding : form.dims)
    shape.push_back(padding.newExtent());
  auto type = RankedTensorType::get(shape, element);
  Value isOld =
      ConstantOp::create(at, loc,
                         originalIndicesMask(at.getContext(), form.dims[dim],
                                             int64_t(shape.size()) - dim - 1));
  PaddedForm masked = form;
  masked.lanes[dim] = PaddingState::known(fill);
  if (element.isInteger(1) && fill == 0) {
    masked.value = AndOp::create(at, loc, type, form.value, isOld).getResult();
    return masked;
  }
  Value filling = ConstantOp::create(
      at, loc, makeSplat(RankedTensorType::get({}, element), fill));
  masked.value =
      SelectOp::create(at, loc, type, isOld, form.value, filling).getResult();
  return masked;
}
