//===- PrintMemory.cpp - printing of memory ops ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelAttributes.h"
#include "KernelPrinter.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

/// Returns true if the memory is read-only, for a pointer to const.
static bool isConstant(Value memref) {
  while (Operation *op = memref.getDefiningOp()) {
    if (!isa<memref::SubViewOp, memref::ReinterpretCastOp, memref::ViewOp>(op))
      return false;
    memref = op->getOperand(0);
  }
  auto argument = cast<BlockArgument>(memref);
  auto function = dyn_cast<gpu::GPUFuncOp>(argument.getOwner()->getParentOp());
  if (!function)
    return false;
  auto inputs = function->getAttrOfType<IntegerAttr>(kInputsAttr);
  return inputs && argument.getArgNumber() < inputs.getInt();
}

static void definePointer(KernelPrinter &p, Value memref, Expression start,
                          Operation *op) {
  Type element = cast<MemRefType>(memref.getType()).getElementType();
  StringRef given = p.givenName(memref);
  if (given.empty() && start.precedence == Precedence::Primary &&
      llvm::all_of(start.text,
                   [](char c) { return llvm::isAlnum(c) || c == '_'; })) {
    p.bindBuffer(memref, {start.text});
    return;
  }
  std::string hint = identifierFrom(given);
  if (hint.empty())
    hint = identifierFrom(nameOf(op->getOperand(0).getLoc()));
  if (hint.empty())
    hint = "part";
  std::string name = p.newName(hint);
  p.line((isConstant(memref) ? "const " : "") + p.typeName(element, op) + " *" +
         name + " = " + start.text + ";");
  p.bindBuffer(memref, {name});
}

static void printSubview(KernelPrinter &p, memref::SubViewOp op) {
  Value source = op.getSource();
  KernelPrinter::Buffer buffer = p.bufferOf(source, op);
  auto sourceType = op.getSourceType();
  auto resultType = op.getType();
  SmallVector<OpFoldResult> offsets = op.getMixedOffsets();
  auto text = [&](OpFoldResult value) {
    if (auto number = getConstantIntValue(value))
      return Expression(std::to_string(*number));
    return p.take(cast<Value>(value));
  };
  if (buffer.isArray) {
    // Leading-index subviews of an array are arrays.
    int64_t dropped = sourceType.getRank() - resultType.getRank();
    bool isRow = dropped >= 0;
    for (int64_t i = 0; isRow && i < sourceType.getRank(); ++i)
      isRow = i < dropped
                  ? op.getStaticSizes()[i] == 1
                  : isConstantIntValue(offsets[i], 0) &&
                        op.getStaticSizes()[i] == sourceType.getDimSize(i);
    std::string place = buffer.name;
    for (auto [i, offset] : llvm::enumerate(offsets)) {
      if (isRow && static_cast<int64_t>(i) >= dropped)
        break;
      // A row may be used many times.
      Expression position = text(offset);
      if (auto value = dyn_cast<Value>(offset);
          value && position.precedence != Precedence::Primary) {
        position =
            Expression(p.newVariable(value, p.newName("row"), &position));
        p.bind(value, position);
      }
      place += "[" + position.text + "]";
    }
    if (isRow)
      p.bindBuffer(op, {place, /*isArray=*/true});
    else
      definePointer(p, op, {"&" + place, Precedence::Unary}, op);
    return;
  }
  Expression base(buffer.name), shift = p.offset(sourceType, offsets, op);
  definePointer(
      p, op,
      shift.text == "0" ? base : binary(base, "+", shift, Precedence::Sum), op);
}

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

static void printAtomic(KernelPrinter &p, memref::AtomicRMWOp op) {
  StringRef name =
      llvm::StringSwitch<StringRef>(arith::stringifyAtomicRMWKind(op.getKind()))
          .Case("addi", "atomicAdd")
          .Case("maxu", "atomicMaxUnsigned")
          .Case("ori", "atomicOr")
          .Default("");
  if (name.empty())
    return p.fail(op, "has no atomic function in CUDA C++");
  Expression to = p.address(op.getMemref(), op.getIndices(), op);
  Expression text = call(("mpc::" + name).str(), {to, p.take(op.getValue())});
  if (op->use_empty())
    return p.effect(text.text + ";");
  p.settle();
  p.declare(op.getResult(), text);
}

bool cuda::printMemory(KernelPrinter &p, Operation *op) {
  if (auto load = dyn_cast<memref::LoadOp>(op)) {
    Expression place = p.element(load.getMemRef(), load.getIndices(), op);
    place.readsMemory = true;
    p.define(load, place);
    return true;
  }
  if (auto store = dyn_cast<memref::StoreOp>(op)) {
    Expression value = p.takeWhole(store.getValueToStore());
    Expression place = p.element(store.getMemRef(), store.getIndices(), op);
    p.effect(place.text + " = " + value.text + ";");
    return true;
  }
  if (auto load = dyn_cast<vector::LoadOp>(op)) {
    if (load.getVectorType().getRank() != 1)
      return false;
    std::string lanes = std::to_string(load.getVectorType().getDimSize(0));
    Expression result = call("mpc::load<" + lanes + ">",
                             p.address(load.getBase(), load.getIndices(), op));
    result.readsMemory = true;
    p.define(load, result);
    return true;
  }
  if (auto store = dyn_cast<vector::StoreOp>(op)) {
    if (store.getVectorType().getRank() != 1)
      return false;
    Expression value = p.takeWhole(store.getValueToStore());
    Expression to = p.address(store.getBase(), store.getIndices(), op);
    p.effect("mpc::store(" + to.text + ", " + value.text + ");");
    return true;
  }
  if (auto atomic = dyn_cast<memref::AtomicRMWOp>(op)) {
    printAtomic(p, atomic);
    return true;
  }
  if (auto array = dyn_cast<memref::AllocaOp>(op)) {
    MemRefType type = array.getType();
    if (!type.hasStaticShape())
      return false;
    std::string hint = identifierFrom(p.givenName(array));
    std::string name = p.newName(hint.empty() ? "local" : hint);
    std::string text = p.typeName(type.getElementType(), op) + " " + name;
    for (int64_t extent : type.getShape())
      text += "[" + std::to_string(extent) + "]";
    p.line(text + ";");
    p.bindBuffer(array, {name, /*isArray=*/true});
    return true;
  }
  if (auto table = dyn_cast<memref::GetGlobalOp>(op)) {
    auto global = SymbolTable::lookupNearestSymbolFrom<memref::GlobalOp>(
        op, table.getNameAttr());
    auto elements =
        global
            ? dyn_cast_or_null<DenseElementsAttr>(global.getConstantInitValue())
            : nullptr;
    if (!elements)
      return false;
    Type type = elements.getElementType();
    std::string name = p.newName("table");
    std::string text = "static const " + p.typeName(type, op) + " " + name;
    for (int64_t extent : elements.getType().getShape())
      text += "[" + std::to_string(extent) + "]";
    // C++ fills inner dimensions in order without inner braces.
    text += " = {";
    bool isFirst = true;
    for (Attribute element : elements.getValues<Attribute>()) {
      text += (isFirst ? "" : ", ") + p.literal(element, type, op).text;
      isFirst = false;
    }
    p.line(text + "};");
    p.bindBuffer(table, {name, /*isArray=*/true});
    return true;
  }
  if (auto subview = dyn_cast<memref::SubViewOp>(op)) {
    printSubview(p, subview);
    return true;
  }
  if (auto view = dyn_cast<memref::ViewOp>(op)) {
    Expression start(p.bufferOf(view.getSource(), op).name);
    Expression shift = p.take(view.getByteShift());
    if (shift.text != "0")
      start = binary(start, "+", shift, Precedence::Sum);
    definePointer(p, view,
                  call("reinterpret_cast<" +
                           p.typeName(view.getType().getElementType(), op) +
                           " *>",
                       start),
                  op);
    return true;
  }
  if (auto cast = dyn_cast<memref::ReinterpretCastOp>(op)) {
    KernelPrinter::Buffer source = p.bufferOf(cast.getSource(), op);
    int64_t rank = mlir::cast<MemRefType>(cast.getSource().getType()).getRank();
    Expression start(source.name);
    if (source.isArray) {
      for (int64_t i = 0; i < rank; ++i)
        start.text += "[0]";
      start = prefix("&", start);
    }
    OpFoldResult offset = cast.getMixedOffsets().front();
    if (auto value = dyn_cast<Value>(offset))
      start = binary(start, "+", p.take(value), Precedence::Sum);
    else if (!isConstantIntValue(offset, 0))
      start = binary(start, "+",
                     Expression(std::to_string(*getConstantIntValue(offset))),
                     Precedence::Sum);
    definePointer(p, cast, start, op);
    return true;
  }
  return false;
}
