//===- StepFunction.cpp - the interface of a training step ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/Training/StepFunction.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mpc;

func::ReturnOp StepFunction::terminator() const {
  return cast<func::ReturnOp>(body().getTerminator());
}

OpBuilder StepFunction::atEnd() const {
  return OpBuilder(body().getTerminator());
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

RoleAttr StepFunction::argumentRole(unsigned index) const {
  return function.getArgAttrOfType<RoleAttr>(index, MpcDialect::kRoleAttr);
}

RoleAttr StepFunction::resultRole(unsigned index) const {
  return dyn_cast_if_present<RoleAttr>(
      function.getResultAttr(index, MpcDialect::kRoleAttr));
}

StringRef StepFunction::argumentName(unsigned index) const {
  auto name =
      function.getArgAttrOfType<StringAttr>(index, MpcDialect::kNameAttr);
  return name ? name.getValue() : StringRef();
}

StringRef StepFunction::resultName(unsigned index) const {
  auto name = dyn_cast_if_present<StringAttr>(
      function.getResultAttr(index, MpcDialect::kNameAttr));
  return name ? name.getValue() : StringRef();
}

SmallVector<BlockArgument> StepFunction::arguments(RoleKind kind) const {
  SmallVector<BlockArgument> found;
  for (BlockArgument argument : function.getArguments())
    if (RoleAttr role = argumentRole(argument.getArgNumber());
        role && role.getKind() == kind)
      found.push_back(argument);
  return found;
}

SmallVector<unsigned> StepFunction::results(RoleKind kind) const {
  SmallVector<unsigned> found;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (RoleAttr role = resultRole(i); role && role.getKind() == kind)
      found.push_back(i);
  return found;
}

BlockArgument StepFunction::findArgument(RoleKind kind, StringRef name) const {
  for (BlockArgument argument : arguments(kind))
    if (argumentName(argument.getArgNumber()) == name)
      return argument;
  return nullptr;
}

std::optional<unsigned> StepFunction::findResult(RoleKind kind,
                                                 StringRef name) const {
  for (unsigned i : results(kind))
    if (resultName(i) == name)
      return i;
  return std::nullopt;
}

BlockArgument StepFunction::findField(StringRef field) const {
  for (BlockArgument argument : arguments(RoleKind::loss_scale_state))
    if (StringAttr name = argumentRole(argument.getArgNumber()).getField();
        name && name.getValue() == field)
      return argument;
  return nullptr;
}

std::optional<unsigned> StepFunction::updateOf(BlockArgument argument) const {
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (auto alias = dyn_cast_if_present<IntegerAttr>(
            function.getResultAttr(i, MpcDialect::kAliasAttr));
        alias && alias.getInt() == int64_t(argument.getArgNumber()))
      return i;
  return std::nullopt;
}

Value StepFunction::result(unsigned index) const {
  return terminator().getOperand(index);
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

void StepFunction::setResult(unsigned index, Value value) const {
  terminator().setOperand(index, value);
}

BlockArgument StepFunction::appendArgument(Type type, RoleKind kind,
                                           StringRef name, ElementsAttr initial,
                                           StringRef field) const {
  MLIRContext *context = type.getContext();
  NamedAttrList attributes;
  attributes.set(MpcDialect::kRoleAttr,
                 RoleAttr::get(context, kind,
                               field.empty()
                                   ? StringAttr()
                                   : StringAttr::get(context, field)));
  attributes.set(MpcDialect::kNameAttr, StringAttr::get(context, name));
  if (initial)
    attributes.set(MpcDialect::kInitialAttr, initial);
  unsigned index = function.getNumArguments();
  LogicalResult inserted = function.insertArgument(
      index, type, attributes.getDictionary(context), function.getLoc());
  assert(succeeded(inserted) && "a function's type takes any argument");
  (void)inserted;
  return function.getArgument(index);
}

unsigned StepFunction::appendResult(Value value, RoleKind kind,
                                    StringRef name) const {
  MLIRContext *context = value.getContext();
  NamedAttrList attributes;
  attributes.set(MpcDialect::kRoleAttr,
                 RoleAttr::get(context, kind, StringAttr()));
  attributes.set(MpcDialect::kNameAttr, StringAttr::get(context, name));
  unsigned index = function.getNumResults();
  LogicalResult inserted = function.insertResult(
      index, value.getType(), attributes.getDictionary(context));
  assert(succeeded(inserted) && "a function's type takes any result");
  (void)inserted;
  terminator().getOperandsMutable().append(value);
  return index;
}

unsigned StepFunction::setUpdate(BlockArgument argument, Value value) const {
  if (std::optional<unsigned> index = updateOf(argument)) {
    setResult(*index, value);
    return *index;
  }
  unsigned number = argument.getArgNumber();
  RoleAttr role = argumentRole(number);
  unsigned index = appendResult(value, role.getKind(), argumentName(number));
  Builder builder(value.getContext());
  function.setResultAttr(index, MpcDialect::kRoleAttr, role);
  function.setResultAttr(index, MpcDialect::kAliasAttr,
                         builder.getI64IntegerAttr(number));
  return index;
}

void StepFunction::eraseResult(unsigned index) const {
  terminator().getOperandsMutable().erase(index);
  LogicalResult erased = function.eraseResult(index);
  assert(succeeded(erased) && "a function's type takes any result");
  (void)erased;
}

ElementsAttr mpc::scalarOf(Type elementType, double value) {
  auto type = RankedTensorType::get({}, elementType);
  if (isa<FloatType>(elementType))
    return DenseElementsAttr::get(
        type, Attribute(FloatAttr::get(elementType, value)));
  return DenseElementsAttr::get(
      type, Attribute(IntegerAttr::get(elementType, int64_t(value))));
}
