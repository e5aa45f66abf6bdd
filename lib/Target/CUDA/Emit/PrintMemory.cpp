//===- PrintMemory.cpp - printing of memory ops ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelAttributes.h"
#include "KernelPrinter.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

KernelPrinter::Buffer KernelPrinter::bufferOf(Value memref, Operation *op) {
  auto found = buffers.find(memref);
  if (found != buffers.end())
    return found->second;
  fail(op,
       "uses memory that is neither an argument nor allocated in the kernel");
  return {"nothing"};
}

Expression KernelPrinter::offset(MemRefType type, Indices indices,
                                 Operation *op) {
  SmallVector<int64_t> strides;
  int64_t start;
  if (mlir::failed(type.getStridesAndOffset(strides, start)) ||
      llvm::is_contained(strides, ShapedType::kDynamic)) {
    fail(op, "accesses memory with unknown strides");
    return Expression("0");
  }
  std::optional<Expression> sum;
  int64_t known = 0;
  for (auto [index, stride] : llvm::zip(indices, strides)) {
    APInt constant;
    if (matchPattern(index, m_ConstantInt(&constant))) {
      known += constant.getSExtValue() * stride;
      continue;
    }
    Expression term = take(index);
    if (stride != 1)
      term = binary(term, "*", Expression(std::to_string(stride)),
                    Precedence::Product);
    sum = sum ? binary(*sum, "+", term, Precedence::Sum) : term;
  }
  if (!sum)
    return Expression(std::to_string(known));
  if (known)
    sum = binary(*sum, known < 0 ? "-" : "+",
                 Expression(std::to_string(std::abs(known))), Precedence::Sum);
  return *sum;
}

Expression KernelPrinter::element(Value memref, Indices indices,
                                  Operation *op) {
  Buffer buffer = bufferOf(memref, op);
  auto type = cast<MemRefType>(memref.getType());
  Expression result(buffer.name);
  if (buffer.isArray) {
    for (Value index : indices) {
      Expression position = take(index);
      result.text += "[" + position.text + "]";
      result.depend(position);
    }
    return result;
  }
  Expression position = offset(type, indices, op);
  result.text += "[" + position.text + "]";
  result.depend(position);
  return result;
}

Expression KernelPrinter::address(Value memref, Indices indices,
                                  Operation *op) {
  Buffer buffer = bufferOf(memref, op);
  if (buffer.isArray) {
    Expression lvalue = element(memref, indices, op);
    Expression result("&" + lvalue.text, Precedence::Unary);
    result.depend(lvalue);
    return result;
  }
  Expression position = offset(cast<MemRefType>(memref.getType()), indices, op);
  if (position.text == "0")
    return Expression(buffer.name);
  // Offsets of a pointer can be added in any order.
  Expression result(buffer.name + " + " + position.in(Precedence::Sum),
                    Precedence::Sum);
  result.depend(position);
  return result;
}

/// Returns true if the memory is read-only, for a pointer to const.
static bool isConstant(Value memref) {
  while (Operation *op = memref.getDefiningOp()) {
    if (!isa<memref::SubViewOp, memref::ReinterpretCastOp, memref::CastOp,
             memref::CollapseShapeOp, memref::ExpandShapeOp, memref::ViewOp,
             memref::AssumeAlignmentOp>(op))
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

void KernelPrinter::definePointer(Value memref, Expression start,
                                  Operation *op) {
  Type element = cast<MemRefType>(memref.getType()).getElementType();
  StringRef given = givenName(memref);
  if (given.empty() && start.precedence == Precedence::Primary &&
      llvm::all_of(start.text,
                   [](char c) { return llvm::isAlnum(c) || c == '_'; })) {
    buffers[memref] = {start.text};
    return;
  }
  std::string hint = identifierFrom(given);
  if (hint.empty())
    hint = identifierFrom(nameOf(op->getOperand(0).getLoc()));
  if (hint.empty())
    hint = "part";
  std::string name = names.add(hint);
  line((isConstant(memref) ? "const " : "") + typeName(element, op) + " *" +
       name + " = " + start.text + ";");
  buffers[memref] = {name};
}

void KernelPrinter::printSubview(memref::SubViewOp op) {
  Value source = op.getSource();
  Buffer buffer = bufferOf(source, op);
  auto sourceType = op.getSourceType();
  auto resultType = op.getType();
  SmallVector<OpFoldResult> offsets = op.getMixedOffsets();
  auto text = [&](OpFoldResult value) {
    if (auto number = getConstantIntValue(value))
      return Expression(std::to_string(*number));
    return take(cast<Value>(value));
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
    Expression place(buffer.name);
    for (auto [i, offset] : llvm::enumerate(offsets)) {
      if (isRow && static_cast<int64_t>(i) >= dropped)
        break;
      // A row may be used many times.
      Expression position = text(offset);
      if (auto value = dyn_cast<Value>(offset);
          value && position.precedence != Precedence::Primary)
        position = values[value] =
            Expression(newVariable(value, names.add("row"), &position));
      place.text += "[" + position.text + "]";
      place.depend(position);
    }
    if (isRow) {
      buffers[op] = {place.text, /*isArray=*/true};
      return;
    }
    place.text = "&" + place.text;
    place.precedence = Precedence::Unary;
    definePointer(op, place, op);
    return;
  }
  SmallVector<int64_t> strides;
  int64_t start;
  if (mlir::failed(sourceType.getStridesAndOffset(strides, start)) ||
      llvm::is_contained(strides, ShapedType::kDynamic)) {
    fail(op, "takes a view of memory with unknown strides");
    return;
  }
  std::optional<Expression> sum;
  for (auto [offset, stride] : llvm::zip(offsets, strides)) {
    if (isConstantIntValue(offset, 0))
      continue;
    Expression term = text(offset);
    if (stride != 1)
      term = binary(term, "*", Expression(std::to_string(stride)),
                    Precedence::Product);
    sum = sum ? binary(*sum, "+", term, Precedence::Sum) : term;
  }
  Expression base(buffer.name);
  definePointer(op, sum ? binary(base, "+", *sum, Precedence::Sum) : base, op);
}

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

void KernelPrinter::effect(const Twine &text) {
  std::string statement = text.str();
  settle();
  line(statement);
}

/// Returns the prelude function ("atomicAdd") of a read-modify-write.
static StringRef atomicName(arith::AtomicRMWKind kind) {
  using Kind = arith::AtomicRMWKind;
  switch (kind) {
  case Kind::addf:
  case Kind::addi:
    return "atomicAdd";
  case Kind::maximumf:
  case Kind::maxs:
    return "atomicMax";
  case Kind::minimumf:
  case Kind::mins:
    return "atomicMin";
  case Kind::maxu:
    return "atomicMaxUnsigned";
  case Kind::minu:
    return "atomicMinUnsigned";
  case Kind::ori:
    return "atomicOr";
  case Kind::andi:
    return "atomicAnd";
  case Kind::assign:
    return "atomicExchange";
  default:
    return {};
  }
}

void KernelPrinter::printAtomic(memref::AtomicRMWOp op) {
  StringRef name = atomicName(op.getKind());
  if (name.empty())
    return fail(op, "has no atomic function in CUDA C++");
  Expression to = address(op.getMemref(), op.getIndices(), op);
  Expression text = call(("mpc::" + name).str(), {to, take(op.getValue())});
  if (op->use_empty())
    return effect(text.text + ";");
  settle();
  declare(op.getResult(), text);
}

bool KernelPrinter::printMemory(Operation *op) {
  if (auto load = dyn_cast<memref::LoadOp>(op)) {
    Expression place = element(load.getMemRef(), load.getIndices(), op);
    place.readsMemory = true;
    define(load, place);
    return true;
  }
  if (auto store = dyn_cast<memref::StoreOp>(op)) {
    Expression value = takeWhole(store.getValueToStore());
    Expression place = element(store.getMemRef(), store.getIndices(), op);
    effect(place.text + " = " + value.text + ";");
    return true;
  }
  if (auto load = dyn_cast<vector::LoadOp>(op)) {
    if (load.getVectorType().getRank() != 1)
      return false;
    std::string lanes = std::to_string(load.getVectorType().getDimSize(0));
    Expression result = call("mpc::load<" + lanes + ">",
                             address(load.getBase(), load.getIndices(), op));
    result.readsMemory = true;
    define(load, result);
    return true;
  }
  if (auto store = dyn_cast<vector::StoreOp>(op)) {
    if (store.getVectorType().getRank() != 1)
      return false;
    Expression value = takeWhole(store.getValueToStore());
    Expression to = address(store.getBase(), store.getIndices(), op);
    effect("mpc::store(" + to.text + ", " + value.text + ");");
    return true;
  }
  if (auto atomic = dyn_cast<memref::AtomicRMWOp>(op)) {
    printAtomic(atomic);
    return true;
  }
  if (auto array = dyn_cast<memref::AllocaOp>(op)) {
    MemRefType type = array.getType();
    if (!type.hasStaticShape())
      return false;
    std::string hint = identifierFrom(givenName(array));
    std::string name = names.add(hint.empty() ? "local" : hint);
    std::string text = typeName(type.getElementType(), op) + " " + name;
    for (int64_t extent : type.getShape())
      text += "[" + std::to_string(extent) + "]";
    line(text + ";");
    buffers[array] = {name, /*isArray=*/true};
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
    std::string name = names.add("table");
    std::string text = "static const " + typeName(type, op) + " " + name;
    for (int64_t extent : elements.getType().getShape())
      text += "[" + std::to_string(extent) + "]";
    // C++ fills inner dimensions in order without inner braces.
    text += " = {";
    bool isFirst = true;
    for (Attribute element : elements.getValues<Attribute>()) {
      text += (isFirst ? "" : ", ") + literal(element, type, op).text;
      isFirst = false;
    }
    line(text + "};");
    buffers[table] = {name, /*isArray=*/true};
    return true;
  }
  if (auto subview = dyn_cast<memref::SubViewOp>(op)) {
    printSubview(subview);
    return true;
  }
  if (auto view = dyn_cast<memref::ViewOp>(op)) {
    Expression start(bufferOf(view.getSource(), op).name);
    Expression shift = take(view.getByteShift());
    if (shift.text != "0")
      start = binary(start, "+", shift, Precedence::Sum);
    definePointer(view,
                  call("reinterpret_cast<" +
                           typeName(view.getType().getElementType(), op) +
                           " *>",
                       start),
                  op);
    return true;
  }
  if (auto cast = dyn_cast<memref::ReinterpretCastOp>(op)) {
    Buffer source = bufferOf(cast.getSource(), op);
    int64_t rank = mlir::cast<MemRefType>(cast.getSource().getType()).getRank();
    Expression start(source.name);
    if (source.isArray) {
      for (int64_t i = 0; i < rank; ++i)
        start.text += "[0]";
      start = Expression("&" + start.text, Precedence::Unary);
    }
    OpFoldResult offset = cast.getMixedOffsets().front();
    if (auto value = dyn_cast<Value>(offset))
      start = binary(start, "+", take(value), Precedence::Sum);
    else if (!isConstantIntValue(offset, 0))
      start = binary(start, "+",
                     Expression(std::to_string(*getConstantIntValue(offset))),
                     Precedence::Sum);
    definePointer(cast, start, op);
    return true;
  }
  if (isa<memref::CollapseShapeOp, memref::ExpandShapeOp, memref::CastOp,
          memref::AssumeAlignmentOp, memref::MemorySpaceCastOp>(op)) {
    Buffer source = bufferOf(op->getOperand(0), op);
    bool reshapes = isa<memref::CollapseShapeOp, memref::ExpandShapeOp>(op);
    if (!source.isArray || !reshapes) {
      buffers[op->getResult(0)] = source;
      return true;
    }
    auto type = mlir::cast<MemRefType>(op->getOperand(0).getType());
    Expression start("&" + source.name, Precedence::Unary);
    for (int64_t i = 0; i < type.getRank(); ++i)
      start.text += "[0]";
    definePointer(op->getResult(0), start, op);
    return true;
  }
  return false;
}
