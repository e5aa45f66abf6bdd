//===- OpImport.cpp - op builders for converters --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpImport.h"

#include "Importer.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/CreateChecked.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::hlo;

OpImport::OpImport(Importer &importer, Operation *op, Scope &scope)
    : importer(importer), op(op), scope(scope), builder(importer.builder) {}

//===----------------------------------------------------------------------===//
// Errors, operands, results
//===----------------------------------------------------------------------===//

InFlightDiagnostic OpImport::error() {
  hasFailed = true;
  return op->emitOpError();
}

bool OpImport::isSpread() const { return scope.isSpread; }

Value OpImport::of(Value source) {
  Value value = scope.find(source);
  if (!value && !hasFailed)
    error() << "reads an undefined value";
  return value;
}

Value OpImport::in(unsigned i) { return of(op->getOperand(i)); }

Value OpImport::numbers(unsigned i) {
  Type format = element(op->getOperand(i));
  Value value = in(i);
  if (!narrowFloatOf(format))
    return value;
  return makeTyped<DecodeFloatOp>(shape(value), builder.getF32Type(), value,
                                  attr("format", TypeAttr::get(format)));
}

SmallVector<Value> OpImport::of(ValueRange sources) {
  return llvm::map_to_vector(sources, [&](Value each) { return of(each); });
}

void OpImport::set(unsigned i, Value value) {
  if (hasFailed)
    return;
  if (!value) {
    hasFailed = true;
    return;
  }
  Type wanted = storedType(op->getResult(i).getType());
  bool fits = scope.isSpread ? element(value) == getElementTypeOrSelf(wanted)
                             : value.getType() == wanted;
  if (!fits) {
    error() << "has the type " << value.getType() << ", expected " << wanted;
    return;
  }
  scope.values[op->getResult(i)] = value;
}

LogicalResult OpImport::result(Value value) {
  set(0, value);
  return status();
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

OpImport::Ints OpImport::shape(Value value) {
  return value ? mlir::cast<ShapedType>(value.getType()).getShape() : Ints();
}

Type OpImport::element(Value value) {
  return value ? getElementTypeOrSelf(value.getType()) : Type();
}

bool OpImport::isFloat(Value value) {
  return value && isa<FloatType>(element(value));
}

bool OpImport::isBool(Value value) {
  return value && element(value).isInteger(1);
}

bool OpImport::isUnsigned(Value value) {
  return value && element(value).isUnsignedInteger();
}

Type OpImport::wideType(Type element) {
  return element && (element.isF16() || element.isBF16())
             ? Type(builder.getF32Type())
             : element;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

Operation *OpImport::finish(FailureOr<Operation *> created) {
  Operation *made = succeeded(created) ? importer.adopt(*created) : nullptr;
  hasFailed |= !made;
  return made;
}

Operation *OpImport::typed(StringRef name, TypeRange types, ValueRange operands,
                           Attributes attributes) {
  if (hasFailed || llvm::is_contained(operands, Value()))
    return nullptr;
  return finish(
      createChecked(builder, op->getLoc(), name, types, operands, attributes));
}

Operation *OpImport::inferred(StringRef name, ValueRange operands,
                              Attributes attributes) {
  if (hasFailed || llvm::is_contained(operands, Value()))
    return nullptr;
  SmallVector<Type> types;
  if (failed(
          inferResultTypes(op->getLoc(), name, operands, attributes, types))) {
    hasFailed = true;
    return nullptr;
  }
  return typed(name, types, operands, attributes);
}

Value OpImport::widened(StringRef name, ValueRange operands,
                        Attributes attributes) {
  if (hasFailed || llvm::is_contained(operands, Value()))
    return nullptr;
  SmallVector<Type> types;
  if (failed(
          inferResultTypes(op->getLoc(), name, operands, attributes, types))) {
    hasFailed = true;
    return nullptr;
  }
  auto type = mlir::cast<RankedTensorType>(types.front());
  Operation *made =
      typed(name,
            TypeRange(Type(RankedTensorType::get(
                type.getShape(), wideType(type.getElementType())))),
            operands, attributes);
  return made ? made->getResult(0) : Value();
}

/// Returns the NumPy broadcast shape of compatible values.
static SmallVector<int64_t> joinedShape(ArrayRef<Value> values) {
  SmallVector<int64_t> joined;
  for (Value value : values) {
    ArrayRef<int64_t> shape = OpImport::shape(value);
    if (shape.size() > joined.size())
      joined.insert(joined.begin(), shape.size() - joined.size(), 1);
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t &extent = joined[joined.size() - shape.size() + i];
      extent = extent == 1 ? shape[i] : extent;
    }
  }
  return joined;
}

Value OpImport::elementwise(StringRef name, ValueRange operands,
                            Attributes attributes) {
  if (hasFailed || llvm::is_contained(operands, Value()))
    return nullptr;
  // Drop explicit broadcasts of operands, which mpc's ops do implicitly, if the
  // result's shape stays the same.
  SmallVector<Value> compact(operands);
  SmallVector<int64_t> due = joinedShape(compact);
  // A clamp has the shape of its first operand, regardless of its bounds.
  bool isClamp = name == ClampOp::getOperationName();
  for (Value &value : MutableArrayRef(compact).drop_front(isClamp)) {
    Value spread = value;
    while (auto broadcast = value.getDefiningOp<BroadcastOp>())
      value = broadcast.getInput();
    if (joinedShape(compact) != due)
      value = spread;
  }
  Operation *made = inferred(name, compact, attributes);
  return made ? made->getResult(0) : Value();
}

NamedAttribute OpImport::attr(StringRef name, Attribute value) {
  return builder.getNamedAttr(name, value);
}
NamedAttribute OpImport::attr(StringRef name, int64_t value) {
  return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
}
NamedAttribute OpImport::attr(StringRef name, Ints value) {
  return builder.getNamedAttr(name, builder.getDenseI64ArrayAttr(value));
}
NamedAttribute OpImport::unit(StringRef name) {
  return builder.getNamedAttr(name, builder.getUnitAttr());
}

Value OpImport::cast(Value value, Type to, bool pinned) {
  if (!value || hasFailed || element(value) == to)
    return value;
  SmallVector<NamedAttribute> attributes;
  if (pinned)
    attributes.push_back(unit("pinned"));
  return makeTyped<CastOp>(shape(value), to, value, attributes);
}

Value OpImport::reshape(Value value, Ints to) {
  if (!value || hasFailed || shape(value) == to)
    return value;
  // Merge reshapes.
  if (auto inner = value.getDefiningOp<ReshapeOp>();
      inner && shape(inner.getInput()) == to)
    return inner.getInput();
  return makeTyped<ReshapeOp>(to, element(value), value);
}

Value OpImport::transpose(Value value, Ints permutation) {
  if (llvm::equal(permutation, llvm::seq<int64_t>(permutation.size())))
    return value;
  return make<TransposeOp>(value, attr("permutation", permutation));
}

Value OpImport::broadcast(Value value, Ints to) {
  if (!value || hasFailed || shape(value) == to)
    return value;
  return makeTyped<BroadcastOp>(to, element(value), value);
}

Value OpImport::slice(Value value, Ints offsets, Ints sizes, Ints strides) {
  auto isOne = [](int64_t number) { return number == 1; };
  auto isZero = [](int64_t number) { return number == 0; };
  bool unitStrides = llvm::all_of(strides, isOne);
  if (unitStrides && shape(value) == sizes && llvm::all_of(offsets, isZero))
    return value;
  SmallVector<NamedAttribute> attributes = {attr("offsets", offsets),
                                            attr("sizes", sizes)};
  if (!unitStrides)
    attributes.push_back(attr("strides", strides));
  return make<SliceOp>(value, attributes);
}

/// Slice of a concatenation along its axis without the unused inputs; null if
/// `value` is not one.
static Value partOfConcat(OpImport &op, Value value, int64_t axis,
                          int64_t offset, int64_t size) {
  auto join = value.getDefiningOp<ConcatOp>();
  if (!join || int64_t(join.getAxis()) != axis)
    return {};
  SmallVector<Value> parts;
  int64_t begin = 0;
  for (Value part : join.getInputs()) {
    int64_t extent = OpImport::shape(part)[axis];
    int64_t from = std::max(begin, offset);
    int64_t to = std::min(begin + extent, offset + size);
    if (from < to)
      parts.push_back(op.sliceAxis(part, axis, from - begin, to - from));
    begin += extent;
  }
  return parts.empty() ? Value() : op.concat(parts, axis);
}

Value OpImport::sliceAxis(Value value, int64_t axis, int64_t offset,
                          int64_t size, int64_t stride) {
  if (!value || hasFailed)
    return nullptr;
  if (stride == 1) {
    if (Value part = partOfConcat(*this, value, axis, offset, size))
      return part;
    // A slice of a broadcast scalar is a smaller broadcast.
    if (auto spread = value.getDefiningOp<BroadcastOp>();
        spread && rank(spread.getInput()) == 0) {
      SmallVector<int64_t> smaller(shape(value));
      smaller[axis] = size;
      return broadcast(spread.getInput(), smaller);
    }
  }
  SmallVector<int64_t> offsets(rank(value), 0), sizes(shape(value)),
      strides(rank(value), 1);
  offsets[axis] = offset;
  sizes[axis] = size;
  strides[axis] = stride;
  return slice(value, offsets, sizes, strides);
}

Value OpImport::concat(ValueRange values, int64_t axis) {
  // Flatten nested concatenations along the same axis and drop empty inputs.
  SmallVector<Value> parts;
  for (Value value : values) {
    auto inner = value ? value.getDefiningOp<ConcatOp>() : ConcatOp();
    if (inner && int64_t(inner.getAxis()) == axis)
      llvm::append_range(parts, inner.getInputs());
    else if (!value || shape(value)[axis] > 0 || values.size() == 1)
      parts.push_back(value);
  }
  if (parts.empty())
    parts.push_back(values.front());
  return parts.size() == 1 ? parts.front()
                           : make<ConcatOp>(parts, attr("axis", axis));
}

Value OpImport::pad(Value value, Value with, Ints low, Ints high,
                    Ints interior) {
  auto isZero = [](int64_t amount) { return amount == 0; };
  bool inside = !llvm::all_of(interior, isZero);
  if (llvm::all_of(low, isZero) && llvm::all_of(high, isZero) && !inside)
    return value;
  SmallVector<NamedAttribute> attributes = {attr("low", low),
                                            attr("high", high)};
  if (inside)
    attributes.push_back(attr("interior", interior));
  return make<PadOp>({value, with}, attributes);
}

Value OpImport::compare(ComparePredicate predicate, Value lhs, Value rhs) {
  return map<CompareOp>(
      {lhs, rhs}, attr("predicate", ComparePredicateAttr::get(
                                        builder.getContext(), predicate)));
}

Value OpImport::iota(int64_t extent, int64_t axis, int64_t rank, Type element) {
  SmallVector<int64_t> extents(rank, 1);
  extents[axis] = extent;
  return makeTyped<IotaOp>(extents, element, {}, attr("axis", axis));
}

Value OpImport::reduce(StringRef name, Value value, Ints axes, bool keepDims) {
  SmallVector<NamedAttribute> attributes = {attr("axes", axes)};
  if (keepDims)
    attributes.push_back(unit("keep_dims"));
  // Min and max need no wide accumulator.
  if (name == ReduceMaxOp::getOperationName() ||
      name == ReduceMinOp::getOperationName()) {
    Operation *made = inferred(name, value, attributes);
    return made ? made->getResult(0) : Value();
  }
  return cast(widened(name, value, attributes), element(value));
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

Value OpImport::constant(ElementsAttr value) {
  Operation *made =
      typed(ConstantOp::getOperationName(),
            TypeRange(Type(value.getShapedType())), {}, attr("value", value));
  return made ? made->getResult(0) : Value();
}

Value OpImport::scalar(double value, Type element) {
  return constant(makeSplat(RankedTensorType::get({}, element), value));
}

Value OpImport::integer(uint64_t bits, Type element) {
  auto type = mlir::cast<IntegerType>(element);
  APInt value = APInt(64, bits).trunc(type.getWidth());
  return constant(
      DenseElementsAttr::get(RankedTensorType::get({}, element), value));
}

std::optional<SmallVector<int64_t>> OpImport::known(Value value) {
  auto constant = value ? value.getDefiningOp<ConstantOp>() : ConstantOp();
  return constant ? integerElements(constant.getValue()) : std::nullopt;
}

std::optional<int64_t> OpImport::constantScalar(Value value) {
  std::optional<SmallVector<int64_t>> all = known(value);
  return all && all->size() == 1 ? std::optional(all->front()) : std::nullopt;
}

SmallVector<int64_t> hlo::inverted(ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> inverse(permutation.size());
  for (auto [i, from] : llvm::enumerate(permutation))
    inverse[from] = int64_t(i);
  return inverse;
}
