//===- StepFunction.cpp - signature of a training step --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/StepFunction.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Ports
//===----------------------------------------------------------------------===//

struct StepFunction::Tables {
  SmallVector<DictionaryAttr> arguments, results;
  llvm::StringMap<SmallVector<unsigned, 1>> argumentsByName, resultsByName;
  /// Result index, keyed by the argument that it updates.
  llvm::DenseMap<int64_t, unsigned> updates;
  bool isChanged = false;

  void addArgument(DictionaryAttr attributes);
  void addResult(DictionaryAttr attributes);
};

func::ReturnOp StepFunction::terminator() const {
  return cast<func::ReturnOp>(body().getTerminator());
}

OpBuilder StepFunction::atEnd() const {
  return OpBuilder(body().getTerminator());
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

DictionaryAttr StepFunction::argumentAttributes(unsigned index) const {
  return tables ? tables->arguments[index] : function.getArgAttrDict(index);
}

DictionaryAttr StepFunction::resultAttributes(unsigned index) const {
  return tables ? tables->results[index] : function.getResultAttrDict(index);
}

unsigned StepFunction::numResults() const {
  return tables ? tables->results.size() : function.getNumResults();
}

/// Returns the attribute `name` of a port, or null.
template <typename AttrTy>
static AttrTy attributeOf(DictionaryAttr attributes, StringRef name) {
  return attributes ? attributes.getAs<AttrTy>(name) : AttrTy();
}

static StringRef nameOf(DictionaryAttr attributes) {
  auto name = attributeOf<StringAttr>(attributes, MpcDialect::kNameAttr);
  return name ? name.getValue() : StringRef();
}

RoleAttr StepFunction::argumentRole(unsigned index) const {
  return attributeOf<RoleAttr>(argumentAttributes(index),
                               MpcDialect::kRoleAttr);
}

RoleAttr StepFunction::resultRole(unsigned index) const {
  return attributeOf<RoleAttr>(resultAttributes(index), MpcDialect::kRoleAttr);
}

StringRef StepFunction::argumentName(unsigned index) const {
  return nameOf(argumentAttributes(index));
}

StringRef StepFunction::resultName(unsigned index) const {
  return nameOf(resultAttributes(index));
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
  for (unsigned i = 0; i < numResults(); ++i)
    if (RoleAttr role = resultRole(i); role && role.getKind() == kind)
      found.push_back(i);
  return found;
}

BlockArgument StepFunction::findArgument(RoleKind kind, StringRef name) const {
  if (tables) {
    for (unsigned i : tables->argumentsByName.lookup(name))
      if (RoleAttr role = argumentRole(i); role && role.getKind() == kind)
        return body().getArgument(i);
    return nullptr;
  }
  for (BlockArgument argument : arguments(kind))
    if (argumentName(argument.getArgNumber()) == name)
      return argument;
  return nullptr;
}

std::optional<unsigned> StepFunction::findResult(RoleKind kind,
                                                 StringRef name) const {
  if (tables) {
    for (unsigned i : tables->resultsByName.lookup(name))
      if (RoleAttr role = resultRole(i); role && role.getKind() == kind)
        return i;
    return std::nullopt;
  }
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

/// Returns the argument that a result updates, or -1.
static int64_t replacedBy(DictionaryAttr attributes) {
  auto alias = attributeOf<IntegerAttr>(attributes, MpcDialect::kAliasAttr);
  return alias ? alias.getInt() : -1;
}

std::optional<unsigned> StepFunction::updateOf(BlockArgument argument) const {
  int64_t number = argument.getArgNumber();
  if (tables) {
    auto update = tables->updates.find(number);
    return update == tables->updates.end() ? std::nullopt
                                           : std::optional(update->second);
  }
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (replacedBy(resultAttributes(i)) == number)
      return i;
  return std::nullopt;
}

void StepFunction::Tables::addArgument(DictionaryAttr attributes) {
  argumentsByName[nameOf(attributes)].push_back(arguments.size());
  arguments.push_back(attributes);
}

void StepFunction::Tables::addResult(DictionaryAttr attributes) {
  unsigned index = results.size();
  resultsByName[nameOf(attributes)].push_back(index);
  if (int64_t replaced = replacedBy(attributes); replaced >= 0)
    updates.try_emplace(replaced, index);
  results.push_back(attributes);
}

/// Replaces null by an empty dictionary, as functions store it.
static DictionaryAttr orEmpty(DictionaryAttr attributes, MLIRContext *context) {
  return attributes ? attributes : DictionaryAttr::get(context);
}

StepFunction::Ports::Ports(const StepFunction &step) : step(step) {
  func::FuncOp function = step.getFunction();
  auto tables = std::make_shared<Tables>();
  MLIRContext *context = function.getContext();
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    tables->addArgument(orEmpty(function.getArgAttrDict(i), context));
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    tables->addResult(orEmpty(function.getResultAttrDict(i), context));
  step.tables = std::move(tables);
}

StepFunction::Ports::~Ports() {
  std::shared_ptr<Tables> tables = std::move(step.tables);
  step.tables = nullptr;
  if (!tables->isChanged)
    return;
  func::FuncOp function = step.getFunction();
  SmallVector<Value> returned;
  SmallVector<DictionaryAttr> results;
  for (auto [value, attributes] :
       llvm::zip_equal(step.terminator().getOperands(), tables->results))
    if (attributes) {
      returned.push_back(value);
      results.push_back(attributes);
    }
  step.terminator().getOperandsMutable().assign(returned);
  function.setType(FunctionType::get(function.getContext(),
                                     step.body().getArgumentTypes(),
                                     ValueRange(returned).getTypes()));
  function.setAllArgAttrs(tables->arguments);
  function.setAllResultAttrs(results);
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
  if (tables) {
    tables->addArgument(attributes.getDictionary(context));
    tables->isChanged = true;
    return body().addArgument(type, function.getLoc());
  }
  unsigned index = function.getNumArguments();
  LogicalResult inserted = function.insertArgument(
      index, type, attributes.getDictionary(context), function.getLoc());
  assert(succeeded(inserted) && "a function's type takes any argument");
  (void)inserted;
  return function.getArgument(index);
}

unsigned StepFunction::append(Value value, DictionaryAttr attributes) const {
  unsigned index = numResults();
  if (tables) {
    tables->addResult(attributes);
    tables->isChanged = true;
  } else {
    LogicalResult inserted =
        function.insertResult(index, value.getType(), attributes);
    assert(succeeded(inserted) && "a function's type takes any result");
    (void)inserted;
  }
  terminator().getOperandsMutable().append(value);
  return index;
}

unsigned StepFunction::appendResult(Value value, RoleKind kind,
                                    StringRef name) const {
  MLIRContext *context = value.getContext();
  NamedAttrList attributes;
  attributes.set(MpcDialect::kRoleAttr,
                 RoleAttr::get(context, kind, StringAttr()));
  attributes.set(MpcDialect::kNameAttr, StringAttr::get(context, name));
  return append(value, attributes.getDictionary(context));
}

unsigned StepFunction::setUpdate(BlockArgument argument, Value value) const {
  if (std::optional<unsigned> index = updateOf(argument)) {
    setResult(*index, value);
    return *index;
  }
  unsigned number = argument.getArgNumber();
  Builder builder(value.getContext());
  NamedAttrList attributes;
  attributes.set(MpcDialect::kRoleAttr, argumentRole(number));
  attributes.set(MpcDialect::kNameAttr,
                 builder.getStringAttr(argumentName(number)));
  attributes.set(MpcDialect::kAliasAttr, builder.getI64IntegerAttr(number));
  return append(value, attributes.getDictionary(value.getContext()));
}

BlockArgument StepFunction::randomState() const {
  SmallVector<BlockArgument> states = arguments(RoleKind::rng_state);
  if (!states.empty())
    return states.front();
  OpBuilder builder = atEnd();
  auto type = RankedTensorType::get({2}, builder.getI64Type());
  BlockArgument state =
      appendArgument(type, RoleKind::rng_state, "rng",
                     DenseElementsAttr::get(type, ArrayRef<int64_t>{0, 0}));
  Location loc = NameLoc::get(builder.getStringAttr("rng"));
  Value one = ConstantOp::create(
      builder, loc, DenseElementsAttr::get(type, ArrayRef<int64_t>{0, 1}));
  setUpdate(state, AddOp::create(builder, loc, type, state, one));
  return state;
}

void StepFunction::eraseResult(unsigned index) const {
  if (tables) {
    tables->updates.erase(replacedBy(tables->results[index]));
    tables->results[index] = {};
    tables->isChanged = true;
    return;
  }
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
