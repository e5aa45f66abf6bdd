//===- TorchGraph.cpp - a graph of torch ops ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TorchGraph.h"

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::replay;

static Type elementOf(Value value) {
  return getElementTypeOrSelf(value.getType());
}
static bool isFloat(Value value) { return isa<FloatType>(elementOf(value)); }
static bool isLow(Type type) {
  return isa<FloatType>(type) && type.getIntOrFloatBitWidth() == 16;
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

TorchGraph::TorchGraph(MLIRContext &context, const Policy &policy)
    : builder(&context), policy(policy), listener(*this),
      module(ModuleOp::create(UnknownLoc::get(&context))) {
  builder.setInsertionPointToStart(module->getBody());
  func = func::FuncOp::create(builder, module->getLoc(), "main",
                              builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(func.addEntryBlock());
  builder.setListener(&listener);
}

Value TorchGraph::argument(ArrayRef<int64_t> shape, Type element) {
  if (!element)
    throw NotCovered("an argument's type is outside the dialect");
  return func.getBody().front().addArgument(
      RankedTensorType::get(shape, element), func.getLoc());
}

Value TorchGraph::parameter(ArrayRef<int64_t> shape) {
  Value value = argument(shape, builder.getF32Type());
  parameters.insert(value);
  return value;
}

void TorchGraph::tag(Operation *op) {
  built.insert(op);
  if (!open || isa<ConstantOp>(op))
    return;
  open->ops.push_back(op);
  op->setAttr(MpcDialect::kSourceAttr,
              SourceAttr::get(op->getContext(),
                              builder.getStringAttr(open->name), calls.size()));
}

Value TorchGraph::call(const std::string &name, ArrayRef<Value> tensors,
                       const Body &body) {
  Call made;
  made.name = name;
  made.operands.assign(tensors.begin(), tensors.end());
  open = &made;
  // Type promotion: an f64 operand upcasts all, a 16-bit one becomes f32 in the
  // graph and is 16 bits for the preset.
  bool anyDouble = llvm::any_of(
      tensors, [](Value value) { return elementOf(value).isF64(); });
  Type wide = anyDouble ? builder.getF64Type() : builder.getF32Type();
  SmallVector<Value> operands;
  for (Value value : tensors) {
    if (isFloat(value) && elementOf(value) != wide)
      value = CastOp::create(
          builder, func.getLoc(),
          cast<RankedTensorType>(value.getType()).clone(wide), value);
    operands.push_back(value);
  }
  try {
    made.result = body(operands);
  } catch (...) {
    open = nullptr;
    throw;
  }
  open = nullptr;
  calls.push_back(std::move(made));
  return calls.back().result;
}

Value TorchGraph::view(const std::string &name, Value tensor,
                       const std::function<Value(Value)> &body) {
  // A view has the type of what it shows, 16-bit arguments included.
  Call made;
  made.name = name;
  made.isView = true;
  made.operands = {tensor};
  open = &made;
  made.result = body(tensor);
  open = nullptr;
  calls.push_back(std::move(made));
  return calls.back().result;
}

Value TorchGraph::convert(Value tensor, Type element) {
  if (elementOf(tensor) == element)
    return tensor;
  Call made;
  made.name = "_to_copy";
  made.operands = {tensor};
  open = &made;
  auto cast = CastOp::create(
      builder, func.getLoc(),
      mlir::cast<RankedTensorType>(tensor.getType()).clone(element), tensor);
  cast.setPinned(true);
  open = nullptr;
  made.result = cast;
  calls.push_back(std::move(made));
  return calls.back().result;
}

Value TorchGraph::typed(StringRef name, Type type, ValueRange operands,
                        const Attributes &attributes) {
  FailureOr<Operation *> made = createChecked(builder, builder.getUnknownLoc(),
                                              name, type, operands, attributes);
  if (failed(made))
    throw NotCovered("the graph does not verify: " + name.str());
  return (*made)->getResult(0);
}

Value TorchGraph::filled(double value, ArrayRef<int64_t> shape, Value like) {
  Type element = elementOf(like);
  auto type = RankedTensorType::get(shape, element);
  Attribute scalar;
  if (isa<FloatType>(element))
    scalar = builder.getFloatAttr(element, value);
  else
    scalar = builder.getIntegerAttr(element, int64_t(value));
  return ConstantOp::create(builder, func.getLoc(),
                            DenseElementsAttr::get(type, scalar));
}

Value TorchGraph::number(double value, Value like) {
  return filled(value, {}, like);
}

Value TorchGraph::reshape(Value value, ArrayRef<int64_t> shape) {
  return typed(ReshapeOp::getOperationName(),
               RankedTensorType::get(shape, elementOf(value)), {value}, {});
}

Value TorchGraph::broadcast(Value value, ArrayRef<int64_t> shape) {
  return typed(BroadcastOp::getOperationName(),
               RankedTensorType::get(shape, elementOf(value)), {value}, {});
}

Value TorchGraph::transpose(Value value, ArrayRef<int64_t> order) {
  return op<TransposeOp>(
      {value}, {attribute("permutation", builder.getDenseI64ArrayAttr(order))});
}

Value TorchGraph::slice(Value value, int64_t axis, int64_t start,
                        int64_t size) {
  Shape sizes = shapeOf(value), offsets(sizes.size(), 0);
  offsets[axis] = start;
  sizes[axis] = size;
  return op<SliceOp>(
      {value}, {attribute("offsets", builder.getDenseI64ArrayAttr(offsets)),
                attribute("sizes", builder.getDenseI64ArrayAttr(sizes))});
}

Value TorchGraph::compare(ComparePredicate predicate, Value lhs, Value rhs) {
  return op<CompareOp>(
      {lhs, rhs},
      {attribute("predicate",
                 ComparePredicateAttr::get(builder.getContext(), predicate))});
}

Shape TorchGraph::allAxes(Value value) {
  Shape axes;
  for (size_t i = 0; i < shapeOf(value).size(); ++i)
    axes.push_back(i);
  return axes;
}

//===----------------------------------------------------------------------===//
// After the pass
//===----------------------------------------------------------------------===//

llvm::Error TorchGraph::assign(const std::string &preset,
                               ArrayRef<Value> outputs) {
  builder.setListener(nullptr);
  llvm::SetVector<Value> shown;
  for (Call &call : calls)
    shown.insert(call.result);
  shown.insert(outputs.begin(), outputs.end());
  SmallVector<Value> results = shown.takeVector();
  func::ReturnOp::create(builder, func.getLoc(), results);
  func.setFunctionType(
      builder.getFunctionType(func.getBody().front().getArgumentTypes(),
                              ValueRange(results).getTypes()));
  if (failed(verify(*module)))
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "the graph does not verify");
  if (llvm::Error error = assignPrecision(*module, preset))
    return error;
  if (failed(verify(*module)))
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "the graph does not verify after the pass");
  // A returned value passes through the downcast of a value that is stored in a
  // low-precision type, and through the upcast that restores its type.
  Operation *end = func.getBody().front().getTerminator();
  for (auto [value, returned] : llvm::zip(results, end->getOperands())) {
    Type narrowest = elementOf(value);
    for (Value current = returned; current != value;) {
      auto cast = current.getDefiningOp<CastOp>();
      if (!cast || built.contains(cast))
        break;
      current = cast.getInput();
      if (isLow(elementOf(current)))
        narrowest = elementOf(current);
    }
    types[value] = shortName(narrowest);
  }
  return llvm::Error::success();
}

std::string TorchGraph::typeOf(Value value) const {
  auto it = types.find(value);
  return it == types.end() ? shortName(elementOf(value)) : it->second;
}

bool TorchGraph::isLookedThrough(Operation *op, const Call &call) const {
  auto cast = dyn_cast_if_present<CastOp>(op);
  if (!cast)
    return false;
  return !built.contains(op) ||
         (call.name != "_to_copy" && llvm::is_contained(call.ops, op));
}

void TorchGraph::traceCall(const Call &call, Trace &trace) {
  if (call.isView)
    return;
  // The narrowest type between each value and the ops that read it.
  llvm::DenseMap<Value, Type> read;
  for (Operation *op : call.ops) {
    if (isLookedThrough(op, call))
      continue;
    for (Value operand : op->getOperands()) {
      if (!isFloat(operand))
        continue;
      Type narrowest = elementOf(operand);
      Value origin = operand;
      while (isLookedThrough(origin.getDefiningOp(), call)) {
        origin = origin.getDefiningOp()->getOperand(0);
        if (elementOf(origin).getIntOrFloatBitWidth() <
            narrowest.getIntOrFloatBitWidth())
          narrowest = elementOf(origin);
      }
      Type &known = read[origin];
      if (!known ||
          narrowest.getIntOrFloatBitWidth() < known.getIntOrFloatBitWidth())
        known = narrowest;
    }
  }
  std::string widest;
  auto widen = [&](const std::string &type) {
    if (widest.empty() || type == "f64" || (type == "f32" && widest != "f64"))
      widest = type;
  };
  if (call.result && isFloat(call.result))
    widen(typeOf(call.result));
  for (Value operand : call.operands)
    if (Type type = read.lookup(operand))
      widen(shortName(type));
  for (Value operand : call.operands) {
    Type type = read.lookup(operand);
    if (!type)
      continue;
    std::string arrives = typeOf(operand);
    if (arrives == "f32" && isLow(type) &&
        !(parameters.contains(operand) &&
          !castParameters.insert(operand).second))
      ++trace.narrowed;
    if ((arrives == "f16" || arrives == "bf16") && widest == "f32")
      ++trace.widened;
  }
  if (call.name == "_to_copy") {
    bool narrows =
        isLow(elementOf(call.result)) && typeOf(call.operands[0]) == "f32";
    trace.narrowed += narrows;
    return;
  }
  trace.compute(widest);
}

Trace TorchGraph::trace(size_t first, size_t last) {
  Trace trace;
  for (size_t i = first; i < last; ++i)
    traceCall(calls[i], trace);
  return trace;
}

static std::string joinTypes(const std::vector<std::string> &types) {
  std::string text;
  for (const std::string &type : types)
    text += (text.empty() ? "" : " ") + type;
  return text.empty() ? "nothing" : text;
}

std::string Trace::differenceFrom(const Trace &expected) const {
  std::string text;
  auto add = [&](const std::string &what, const std::string &found,
                 const std::string &recorded) {
    if (found != recorded)
      text += (text.empty() ? "" : ", ") + what + " " + found + " instead of " +
              recorded;
  };
  add("computes in", joinTypes(computes), joinTypes(expected.computes));
  add("operands cast to 16 bits", std::to_string(narrowed),
      std::to_string(expected.narrowed));
  add("operands widened", std::to_string(widened),
      std::to_string(expected.widened));
  return text;
}
