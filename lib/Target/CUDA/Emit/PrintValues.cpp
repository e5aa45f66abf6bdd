//===- PrintValues.cpp - expressions and variables ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPrinter.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mpc;

/// Maximum length of an inlined expression, for readability.
static constexpr size_t kLongestPart = 56;

static bool isSimple(const Expression &expression) {
  if (expression.precedence > Precedence::Unary)
    return false;
  return llvm::all_of(expression.text, [](char c) {
    return llvm::isAlnum(c) || c == '_' || c == '.' || c == '-';
  });
}

Expression KernelPrinter::whole(Expression expression, Type type) {
  auto vector = dyn_cast<VectorType>(type);
  if (!vector || !expression.splat)
    return expression;
  Type element = vector.getElementType();
  std::string arguments = std::to_string(vector.getDimSize(0));
  // The literal's type implies the lane type, except for short types.
  if (!element.isF32() && !element.isInteger(32) && !element.isInteger(1))
    arguments += ", " + typeName(element, kernel);
  Expression result = call("mpc::splat<" + arguments + ">", expression);
  return result;
}

Expression KernelPrinter::take(Value value) {
  auto found = values.find(value);
  if (found == values.end()) {
    fail(value.getDefiningOp() ? value.getDefiningOp() : kernel.getOperation(),
         "has a value without an expression");
    return Expression("0");
  }
  llvm::erase(waiting, value);
  return found->second;
}

Expression KernelPrinter::takeWhole(Value value) {
  return whole(take(value), value.getType());
}

Expression KernelPrinter::takeSimple(Value value, StringRef hint) {
  Expression expression = take(value);
  if (isSimple(expression) && !expression.readsMemory)
    return expression;
  std::string name = newVariable(value, names.add(hint), &expression);
  return values[value] = Expression(name);
}

StringRef KernelPrinter::givenName(Value value) const {
  auto name = dyn_cast<NameLoc>(value.getLoc());
  if (!name || !isa<UnknownLoc>(name.getChildLoc()) ||
      value.getLoc() == kernel->getLoc())
    return {};
  return name.getName();
}

/// Returns the name of an unnamed value, by its defining op.
static std::string defaultName(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return "value";
  if (auto prelude = dyn_cast<cuda::CallOp>(op))
    return prelude.getCallee().str();
  if (auto reduction = dyn_cast<gpu::SubgroupReduceOp>(op)) {
    gpu::AllReduceOperation kind = reduction.getOp();
    if (kind == gpu::AllReduceOperation::MAXIMUMF ||
        kind == gpu::AllReduceOperation::MAXSI)
      return "largest";
    if (kind == gpu::AllReduceOperation::MINIMUMF ||
        kind == gpu::AllReduceOperation::MINSI)
      return "smallest";
  }
  StringRef name = op->getName().getStringRef();
  StringRef common =
      llvm::StringSwitch<StringRef>(name)
          .Case("gpu.thread_id", "thread")
          .Case("gpu.block_id", "block")
          .Case("gpu.lane_id", "lane")
          .Case("gpu.subgroup_id", "warp")
          .Cases({"arith.addf", "arith.addi", "gpu.subgroup_reduce"}, "sum")
          .Cases({"arith.subf", "arith.subi"}, "difference")
          .Cases({"arith.mulf", "arith.muli"}, "product")
          .Cases({"arith.divf", "arith.divsi", "arith.divui"}, "quotient")
          .Cases({"arith.remf", "arith.remsi", "arith.remui"}, "rest")
          .Cases(
              {"arith.maximumf", "arith.maxnumf", "arith.maxsi", "arith.maxui"},
              "larger")
          .Cases(
              {"arith.minimumf", "arith.minnumf", "arith.minsi", "arith.minui"},
              "smaller")
          .Cases({"arith.cmpf", "arith.cmpi"}, "condition")
          .Case("arith.select", "chosen")
          .Cases({"memref.load", "vector.load"}, "loaded")
          .Case("gpu.shuffle", "other")
          .Case("memref.subview", "part")
          .Cases({"memref.alloca", "memref.alloc"}, "local")
          .Case("math.fma", "sum")
          .Case("memref.atomic_rmw", "before")
          .Default("");
  if (!common.empty()) {
    if (value.getType().isIndex() && isa<arith::ArithDialect>(op->getDialect()))
      return "index";
    return common.str();
  }
  if (isa<arith::ArithDialect>(op->getDialect()) && value.getType().isIndex())
    return "index";
  if (isa<math::MathDialect>(op->getDialect()))
    return name.drop_front(StringRef("math.").size()).str();
  return "value";
}

/// Returns the name of the buffer that a value is loaded from.
static StringRef loadedFrom(Value value) {
  Value memref;
  if (auto load = value.getDefiningOp<memref::LoadOp>())
    memref = load.getMemRef();
  else if (auto load = value.getDefiningOp<vector::LoadOp>())
    memref = load.getBase();
  return memref ? nameOf(memref.getLoc()) : StringRef();
}

std::string KernelPrinter::declareName(Value value) {
  std::string name = identifierFrom(givenName(value));
  if (name.empty())
    if (std::string source = identifierFrom(loadedFrom(value));
        !source.empty() && source.size() < 20)
      name = source + "Value";
  if (name.empty())
    name = defaultName(value);
  return names.add(name);
}

std::string KernelPrinter::newVariable(Value value, StringRef name,
                                       const Expression *initial) {
  std::string text = typeName(value.getType(), kernel) + " " + name.str();
  if (initial)
    text += " = " + whole(*initial, value.getType()).text;
  line(text + ";");
  return name.str();
}

void KernelPrinter::declare(Value value, const Expression &expression) {
  std::string name = declareName(value);
  newVariable(value, name, &expression);
  values[value] = Expression(name);
  llvm::erase(waiting, value);
}

bool KernelPrinter::inlines(Value value, const Expression &expression) const {
  if (!givenName(value).empty() || !value.hasOneUse() ||
      expression.text.size() > kLongestPart)
    return false;
  return value.use_begin()->getOwner()->getBlock() == value.getParentBlock();
}

void KernelPrinter::define(Value value, Expression expression) {
  // Alias of an existing identifier or literal.
  if (isSimple(expression) && expression.variables.empty() &&
      !expression.readsMemory && givenName(value).empty()) {
    values[value] = std::move(expression);
    return;
  }
  if (inlines(value, expression)) {
    values[value] = std::move(expression);
    waiting.push_back(value);
    return;
  }
  declare(value, expression);
}

void KernelPrinter::settle() {
  for (Value value : llvm::to_vector(waiting))
    if (values[value].readsMemory)
      declare(value, Expression(values[value]));
}
