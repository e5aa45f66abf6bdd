//===- KernelPrinter.cpp - prints kernels as CUDA C++ ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPrinter.h"

#include "KernelAttributes.h"
#include "KernelComment.h"

#include "mpc/Support/EscapedText.h"
#include "mpc/Target/CUDA/Codegen.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Error.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

KernelPrinter::KernelPrinter(gpu::GPUFuncOp kernel)
    : kernel(kernel), index64(kernel->hasAttr(kIndex64Attr)) {
  kernel.walk([&](Operation *op) {
    if (op->getNumResults())
      ++sharers[op->getLoc()];
  });
}

void KernelPrinter::fail(Operation *op, const Twine &why) {
  if (!failed)
    op->emitError() << "kernel '" << kernel.getName() << "': '"
                    << op->getName().getStringRef() << "' " << why;
  failed = true;
}

//===----------------------------------------------------------------------===//
// Lines
//===----------------------------------------------------------------------===//

void KernelPrinter::line(StringRef text) {
  body += wrapped(text, indent) + "\n";
}

void KernelPrinter::open(StringRef head) {
  line((head + " {").str());
  indent += 2;
}

void KernelPrinter::close(StringRef tail) {
  indent -= 2;
  line(tail);
}

void KernelPrinter::effect(const Twine &text) {
  std::string statement = text.str();
  settle();
  line(statement);
}

//===----------------------------------------------------------------------===//
// Types and literals
//===----------------------------------------------------------------------===//

/// Returns the signed and the unsigned type of a width, in bits.
static std::pair<StringRef, StringRef> integerNames(unsigned width) {
  switch (width) {
  case 1:
    return {"bool", "bool"};
  case 8:
    return {"signed char", "unsigned char"};
  case 16:
    return {"short", "unsigned short"};
  case 32:
    return {"int", "unsigned"};
  case 64:
    return {"long long", "unsigned long long"};
  default:
    return {};
  }
}

std::string KernelPrinter::typeName(Type type, Operation *op) {
  if (auto vector = dyn_cast<VectorType>(type);
      vector && vector.getRank() == 1 && !vector.isScalable())
    return "mpc::Vector<" + typeName(vector.getElementType(), op) + ", " +
           std::to_string(vector.getDimSize(0)) + ">";
  if (type.isIndex())
    return index64 ? "long long" : "int";
  if (type.isF32())
    return "float";
  if (type.isF64())
    return "double";
  if (type.isF16())
    return "mpc::half";
  if (type.isBF16())
    return "mpc::bfloat16";
  if (isa<Float8E4M3FNType, Float8E5M2Type>(type))
    return "unsigned char";
  if (isa<IntegerType>(type))
    if (StringRef name = integerNames(type.getIntOrFloatBitWidth()).first;
        !name.empty())
      return name.str();
  std::string text;
  llvm::raw_string_ostream(text) << type;
  fail(op, "uses the type " + text + ", which kernels do not support");
  return "void";
}

std::string KernelPrinter::unsignedName(Type type) {
  Type element = getElementTypeOrSelf(type);
  return integerNames(element.isIndex() ? (index64 ? 64 : 32)
                                        : element.getIntOrFloatBitWidth())
      .second.str();
}

/// Returns the shortest decimal that round-trips `value`, with a point or
/// exponent.
static std::string decimal(const APFloat &value) {
  for (unsigned digits = 1;; ++digits) {
    SmallString<32> text;
    value.toString(text, digits, /*FormatMaxPadding=*/6);
    APFloat back(value.getSemantics());
    auto status = back.convertFromString(text, APFloat::rmNearestTiesToEven);
    bool exact = status && back.bitwiseIsEqual(value);
    if (!status)
      llvm::consumeError(status.takeError());
    // 17 digits suffice for every double.
    if (!exact && digits < 17)
      continue;
    std::string result = text.str().lower();
    if (!text.str().contains('.') && !text.str().contains('E'))
      result += ".0";
    return result;
  }
}

static Expression floatLiteral(APFloat value) {
  bool isDouble = &value.getSemantics() == &APFloat::IEEEdouble();
  bool isSingle = &value.getSemantics() == &APFloat::IEEEsingle();
  // Stored as bytes.
  if (APFloat::getSizeInBits(value.getSemantics()) == 8)
    return Expression(
        llvm::toString(value.bitcastToAPInt(), 10, /*Signed=*/false));
  if (!isDouble && !isSingle) {
    // 16-bit storage types have no literals.
    bool isHalf = &value.getSemantics() == &APFloat::IEEEhalf();
    bool lost;
    value.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &lost);
    return Expression((isHalf ? "mpc::toHalf(" : "mpc::toBfloat16(") +
                      floatLiteral(value).text + ")");
  }
  std::string type = isDouble ? "<double>()" : "()";
  if (value.isNaN())
    return Expression("mpc::nan" + type);
  if (value.isInfinity() && !value.isNegative())
    return Expression("mpc::infinity" + type);
  if (value.isInfinity())
    return Expression("-mpc::infinity" + type, Precedence::Unary);
  return Expression(decimal(value) + (isDouble ? "" : "f"),
                    value.isNegative() ? Precedence::Unary
                                       : Precedence::Primary);
}

static Expression integerLiteral(const APInt &value, unsigned width,
                                 bool isBool) {
  if (isBool)
    return Expression(value.isZero() ? "false" : "true");
  std::string suffix = width == 64 ? "ll" : "";
  Precedence precedence =
      value.isNegative() ? Precedence::Unary : Precedence::Primary;
  // The smallest number has no literal: its magnitude does not fit.
  if (value.isMinSignedValue() && width >= 32)
    return Expression("(" + llvm::toString(value + 1, 10, true) + suffix +
                      " - 1)");
  return Expression(llvm::toString(value, 10, /*Signed=*/true) + suffix,
                    precedence);
}

Expression KernelPrinter::literal(Attribute value, Type type, Operation *op) {
  if (auto number = dyn_cast<FloatAttr>(value))
    return floatLiteral(number.getValue());
  if (auto number = dyn_cast<IntegerAttr>(value)) {
    if (type.isIndex()) {
      bool wide = index64 && !llvm::isInt<32>(number.getInt());
      if (!index64 && !llvm::isInt<32>(number.getInt()))
        fail(op, "has an index beyond 32 bits in a kernel without mpc.index64");
      return integerLiteral(APInt(64, number.getInt(), true), wide ? 64 : 32,
                            false);
    }
    return integerLiteral(number.getValue(), type.getIntOrFloatBitWidth(),
                          type.isInteger(1));
  }
  if (auto elements = dyn_cast<DenseElementsAttr>(value)) {
    Type element = elements.getElementType();
    auto one = [&](Attribute attribute) {
      return literal(attribute, element, op);
    };
    if (elements.isSplat()) {
      Expression lane = one(elements.getSplatValue<Attribute>());
      lane.splat = true;
      return lane;
    }
    return call(typeName(type, op),
                llvm::map_to_vector(elements.getValues<Attribute>(), one),
                "{}");
  }
  fail(op, "has a constant that cannot be printed");
  return Expression("0");
}

//===----------------------------------------------------------------------===//
// Expressions and variables
//===----------------------------------------------------------------------===//

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
  return call("mpc::splat<" + arguments + ">", expression);
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
  if (isa<arith::ArithDialect>(op->getDialect()) && value.getType().isIndex())
    return "index";
  if (!common.empty())
    return common.str();
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

Expression KernelPrinter::function(Operation *op, StringRef name) {
  SmallVector<Expression> arguments;
  bool anyVector = false;
  for (Value operand : op->getOperands()) {
    arguments.push_back(take(operand));
    anyVector |= isa<VectorType>(operand.getType()) && !arguments.back().splat;
  }
  if (!anyVector && !arguments.empty())
    arguments[0] = whole(arguments[0], op->getOperand(0).getType());
  return call(("mpc::" + name).str(), arguments);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

KernelPrinter::Buffer KernelPrinter::bufferOf(Value memref, Operation *op) {
  auto found = buffers.find(memref);
  if (found != buffers.end())
    return found->second;
  fail(op,
       "uses memory that is neither an argument nor allocated in the kernel");
  return {"nothing"};
}

Expression KernelPrinter::offset(MemRefType type,
                                 ArrayRef<OpFoldResult> indices,
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
    if (std::optional<int64_t> constant = getConstantIntValue(index)) {
      known += *constant * stride;
      continue;
    }
    Expression term = take(cast<Value>(index));
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
  SmallVector<Expression> positions;
  if (buffer.isArray)
    for (Value index : indices)
      positions.push_back(take(index));
  else
    positions.push_back(offset(cast<MemRefType>(memref.getType()),
                               getAsOpFoldResult(indices), op));
  std::string text = buffer.name;
  for (const Expression &position : positions)
    text += "[" + position.text + "]";
  return {text, Precedence::Primary, positions};
}

Expression KernelPrinter::address(Value memref, Indices indices,
                                  Operation *op) {
  Buffer buffer = bufferOf(memref, op);
  if (buffer.isArray)
    return prefix("&", element(memref, indices, op));
  Expression position = offset(cast<MemRefType>(memref.getType()),
                               getAsOpFoldResult(indices), op);
  if (position.text == "0")
    return Expression(buffer.name);
  // Offsets of a pointer can be added in any order.
  return {buffer.name + " + " + position.in(Precedence::Sum), Precedence::Sum,
          position};
}

/// Returns the smallest element size, in bytes, of dynamic shared memory views.
static unsigned smallestView(gpu::GPUFuncOp kernel) {
  unsigned bytes = 16;
  kernel.walk([&](memref::ViewOp view) {
    if (view.getSource().getDefiningOp<gpu::DynamicSharedMemoryOp>())
      bytes = std::min(bytes, view.getType().getElementTypeBitWidth() / 8);
  });
  return std::max(bytes, 1u);
}

const KernelPrinter::Buffer &KernelPrinter::dynamicShared() {
  if (shared.name.empty()) {
    shared.name = names.add("shared");
    line("MPC_DYNAMIC_SHARED_BYTES(" + shared.name + ", " +
         std::to_string(smallestView(kernel)) + ");");
  }
  return shared;
}

//===----------------------------------------------------------------------===//
// Mutable variables
//===----------------------------------------------------------------------===//

void KernelPrinter::bindVariables(ValueRange bound,
                                  ArrayRef<std::string> variables) {
  for (auto [value, name] : llvm::zip(bound, variables)) {
    Expression expression(name);
    expression.variables = {name};
    values[value] = expression;
    carried[value] = name;
  }
}

bool KernelPrinter::ownsVariable(Value value, Operation *op) const {
  // In a loop around `op` but not around the value, the next iteration would
  // need the old value.
  return carried.contains(value) && value.getParentBlock() == op->getBlock() &&
         llvm::all_of(value.getUses(), [&](OpOperand &use) {
           return op->isAncestor(use.getOwner());
         });
}

/// Returns a name for a carried value, by the op that computes its next value.
static StringRef carriedName(Value yielded) {
  Operation *op = yielded.getDefiningOp();
  if (!op)
    return "value";
  // Look through a nested branch or loop.
  unsigned number = cast<OpResult>(yielded).getResultNumber();
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return carriedName(branch.thenYield().getOperand(number));
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return carriedName(loop.getBody()->getTerminator()->getOperand(number));
  return llvm::StringSwitch<StringRef>(op->getName().getStringRef())
      .Cases({"arith.addf", "arith.addi", "math.fma"}, "sum")
      .Cases({"arith.mulf", "arith.muli"}, "product")
      .Cases({"arith.maximumf", "arith.maxnumf", "arith.maxsi", "arith.maxui"},
             "largest")
      .Cases({"arith.minimumf", "arith.minnumf", "arith.minsi", "arith.minui"},
             "smallest")
      .Case("arith.ori", "any")
      .Case("arith.andi", "all")
      .Default("value");
}

SmallVector<std::string> KernelPrinter::carry(Operation *op, ValueRange initial,
                                              ValueRange inside,
                                              ValueRange results,
                                              ValueRange yielded) {
  SmallVector<std::string> variables;
  llvm::StringSet<> shared;
  for (auto [i, value] : llvm::enumerate(initial)) {
    std::string name;
    // Several variables may start from one value; one of them may reuse its
    // variable.
    if (value.hasOneUse() && ownsVariable(value, op) &&
        givenName(inside[i]).empty()) {
      name = carried[value];
    } else {
      StringRef hint = givenName(inside[i]);
      if (hint.empty() && i < results.size())
        hint = givenName(results[i]);
      std::string wanted = identifierFrom(hint);
      if (wanted.empty())
        wanted = carriedName(yielded[i]).str();
      Expression start = take(value);
      name = newVariable(value, names.add(wanted), &start);
    }
    variables.push_back(name);
    bindVariables(inside[i], name);
  }
  return variables;
}

void KernelPrinter::assign(ArrayRef<std::string> variables,
                           ValueRange assigned) {
  SmallVector<Expression> next;
  for (Value value : assigned)
    next.push_back(takeWhole(value));
  // Read memory before any assignment; pending expressions end with their
  // block.
  for (size_t i = 0; i < variables.size(); ++i) {
    if (next[i].text == variables[i])
      continue;
    // Save a later value that still needs the old one.
    for (size_t j = i + 1; j < variables.size(); ++j)
      if (next[j].reads(variables[i])) {
        std::string name = names.add("next");
        newVariable(assigned[j], name, &next[j]);
        next[j] = Expression(name);
      }
    // sum = sum + x.
    const std::string &variable = variables[i];
    StringRef text = next[i].text, rest = text;
    if (next[i].left == variable && rest.consume_front(variable + " ") &&
        StringRef("+-*").contains(rest.front()))
      line((Twine(variable) + " " + rest.take_front() + "=" +
            rest.drop_front() + ";")
               .str());
    else
      line((Twine(variable) + " = " + text + ";").str());
  }
}

//===----------------------------------------------------------------------===//
// Loops and branches
//===----------------------------------------------------------------------===//

void KernelPrinter::printFor(scf::ForOp op) {
  auto yield = cast<scf::YieldOp>(op.getBody()->getTerminator());
  SmallVector<std::string> variables =
      carry(op, op.getInitArgs(), op.getRegionIterArgs(), op.getResults(),
            yield.getOperands());
  Expression begin = take(op.getLowerBound());
  Expression end = takeSimple(op.getUpperBound(), "end");
  Expression step = takeSimple(op.getStep(), "step");
  settle();

  if (auto times = op->getAttrOfType<IntegerAttr>("mpc.unroll"))
    line("#pragma unroll " + std::to_string(times.getInt()));
  else if (op->hasAttr("mpc.unroll"))
    line("#pragma unroll");
  names.push();
  Value counter = op.getInductionVar();
  std::string given = identifierFrom(givenName(counter));
  std::string name = given.empty() ? names.addCounter() : names.add(given);
  values[counter] = Expression(name);
  std::string next = step.text == "1" ? "++" + name : name + " += " + step.text;
  open("for (" + typeName(counter.getType(), op) + " " + name + " = " +
       begin.text + "; " + name + " < " + end.text + "; " + next + ")");
  printBlock(*op.getBody());
  assign(variables, yield.getOperands());
  close();
  names.pop();
  bindVariables(op.getResults(), variables);
}

void KernelPrinter::printIf(scf::IfOp op) {
  Expression condition = take(op.getCondition());
  SmallVector<std::string> variables;
  if (op.getNumResults()) {
    auto thenYield = op.thenYield(), elseYield = op.elseYield();
    for (auto [i, result] : llvm::enumerate(op.getResults())) {
      // A branch that returns its variable unchanged prints nothing.
      std::string name;
      if (givenName(result).empty())
        for (Value value : {elseYield.getOperand(i), thenYield.getOperand(i)})
          if (name.empty() && ownsVariable(value, op) &&
              !llvm::is_contained(variables, carried[value]))
            name = carried[value];
      if (name.empty()) {
        std::string wanted = identifierFrom(givenName(result));
        if (wanted.empty())
          wanted = carriedName(thenYield.getOperand(i)).str();
        name = newVariable(result, names.add(wanted), nullptr);
      }
      variables.push_back(name);
    }
  }
  settle();
  open("if (" + condition.text + ")");
  names.push();
  printBlock(*op.thenBlock());
  if (op.getNumResults())
    assign(variables, op.thenYield().getOperands());
  names.pop();
  if (Block *other = op.elseBlock()) {
    bool empty = llvm::hasSingleElement(*other);
    if (op.getNumResults())
      for (auto [value, variable] :
           llvm::zip(op.elseYield().getOperands(), variables))
        empty &= carried.lookup(value) == variable;
    if (!empty) {
      close("} else {");
      indent += 2;
      names.push();
      printBlock(*other);
      if (op.getNumResults())
        assign(variables, op.elseYield().getOperands());
      names.pop();
    }
  }
  close();
  bindVariables(op.getResults(), variables);
}

void KernelPrinter::printWhile(scf::WhileOp op) {
  Block &before = *op.getBeforeBody(), &after = *op.getAfterBody();
  auto condition = cast<scf::ConditionOp>(before.getTerminator());
  auto yield = cast<scf::YieldOp>(after.getTerminator());
  SmallVector<std::string> variables =
      carry(op, op.getInits(), before.getArguments(), op.getResults(),
            yield.getOperands());
  // Values passed by the condition: an unchanged variable of the loop, or a new
  // one that outlives the loop.
  SmallVector<std::string> passed;
  for (auto [i, value] : llvm::enumerate(condition.getArgs())) {
    auto argument = dyn_cast<BlockArgument>(value);
    bool same = argument && argument.getOwner() == &before &&
                !llvm::is_contained(passed, carried[value]);
    passed.push_back(same ? carried[value]
                          : newVariable(value, names.add("value"), nullptr));
  }
  settle();
  size_t head = body.size();
  open("while (true)");
  names.push();
  size_t start = body.size();
  printBlock(before);
  Expression goes = take(condition.getCondition());
  // Evaluate the condition before the values are passed.
  bool changes = false;
  for (auto [variable, value] : llvm::zip(passed, condition.getArgs()))
    changes |= carried.lookup(value) != variable;
  if (changes && goes.precedence != Precedence::Primary) {
    Value flag = condition.getCondition();
    goes = Expression(newVariable(flag, names.add("goesOn"), &goes));
  }
  assign(passed, condition.getArgs());
  if (body.size() == start) {
    // The block is empty but for the condition.
    body.resize(head);
    indent -= 2;
    open("while (" + goes.text + ")");
  } else {
    line("if (!" + goes.in(Precedence::Unary) + ")");
    line("  break;");
  }
  bindVariables(after.getArguments(), passed);
  printBlock(after);
  // Polling loop of an inter-block barrier.
  if (op->hasAttr("mpc.pause"))
    line("mpc::pause();");
  assign(variables, yield.getOperands());
  names.pop();
  close();
  bindVariables(op.getResults(), passed);
}

void KernelPrinter::printBlock(Block &block) {
  SmallVector<Value> outer;
  std::swap(outer, waiting);
  for (Operation &op : block.without_terminator()) {
    if (failed)
      break;
    if (isOpTriviallyDead(&op))
      continue;
    printOp(&op);
  }
  // The terminator's operands are in `values`.
  waiting = std::move(outer);
}

void KernelPrinter::printOp(Operation *op) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return printFor(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return printIf(branch);
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return printWhile(loop);
  if (printArithmetic(*this, op) || printVector(*this, op) ||
      printMemory(*this, op) || printGpu(*this, op) || printCuda(*this, op))
    return;
  fail(op, "has no form in CUDA C++");
}

//===----------------------------------------------------------------------===//
// Function
//===----------------------------------------------------------------------===//

void KernelPrinter::printComment(raw_ostream &os) {
  if (auto description = kernel->getAttrOfType<StringAttr>(kDescriptionAttr)) {
    SmallVector<StringRef> lines;
    description.getValue().split(lines, '\n');
    for (StringRef text : lines)
      os << "// " << commentText(text) << "\n";
  }
}

/// Returns true if the kernel writes to an input: counters of index checks.
static bool isWritten(BlockArgument input) {
  return llvm::any_of(input.getUsers(), [](Operation *user) {
    return isa<memref::AtomicRMWOp>(user);
  });
}

void KernelPrinter::printSignature(raw_ostream &os) {
  int64_t threads = 1;
  if (auto block = kernel.getKnownBlockSize())
    for (int32_t extent : *block)
      threads *= extent;
  int64_t inputs = 0;
  if (auto count = kernel->getAttrOfType<IntegerAttr>(kInputsAttr))
    inputs = count.getInt();
  bool hasScratch = kernel->hasAttr(kScratchAttr);
  // Results may alias arguments.
  bool isInPlace = kernel->hasAttr("mpc.in_place");

  std::string head = "MPC_KERNEL(" + std::to_string(threads) + ") void " +
                     kernel.getName().str() + "(";
  SmallVector<std::string> parameters;
  // Shared arrays follow the parameters.
  int64_t count = kernel.getFunctionType().getNumInputs();
  for (BlockArgument argument : kernel.getArguments().take_front(count)) {
    auto type = dyn_cast<MemRefType>(argument.getType());
    if (!type) {
      fail(kernel, "has an argument that is not a memref");
      return;
    }
    int64_t number = argument.getArgNumber();
    bool isInput = number < inputs;
    bool isScratch = hasScratch && number == count - 1;
    std::string wanted = identifierFrom(nameOf(argument.getLoc()));
    if (wanted.empty())
      wanted = isInput ? "x" : "y";
    std::string name = names.add(wanted);
    buffers[argument] = {name};
    parameters.push_back((isInput && !isWritten(argument) ? "const " : "") +
                         typeName(type.getElementType(), kernel) + " *" +
                         (isScratch || isInPlace ? "" : "__restrict__ ") +
                         name);
  }
  size_t length = head.size() + 3;
  for (const std::string &parameter : parameters)
    length += parameter.size() + 2;
  bool oneLine = length <= 80;
  os << head;
  for (auto [i, parameter] : llvm::enumerate(parameters)) {
    if (!oneLine)
      os << "\n    ";
    os << parameter;
    if (i + 1 < parameters.size())
      os << (oneLine ? ", " : ",");
  }
  os << ") {\n";
}

void KernelPrinter::printSharedArrays() {
  for (BlockArgument array : kernel.getWorkgroupAttributions()) {
    auto type = cast<MemRefType>(array.getType());
    std::string wanted = identifierFrom(nameOf(array.getLoc()));
    std::string name = names.add(wanted.empty() ? "tile" : wanted);
    std::string extents;
    for (int64_t extent : type.getShape())
      extents += "[" + std::to_string(extent) + "]";
    line("MPC_SHARED(" + typeName(type.getElementType(), kernel) + ", " + name +
         ", " + (extents.empty() ? "[1]" : extents) + ");");
    buffers[array] = {name, /*isArray=*/type.getRank() > 0};
  }
  if (!kernel.getPrivateAttributions().empty())
    fail(kernel, "has private memory as an argument; use memref.alloca");
}

/// Returns true if `name`, possibly read from a file, is an ASCII identifier.
static bool isIdentifier(StringRef name) {
  return !name.empty() && !llvm::isDigit(name.front()) &&
         llvm::all_of(name,
                      [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

LogicalResult KernelPrinter::print(raw_ostream &os) {
  if (!isIdentifier(kernel.getName()))
    return kernel.emitError() << "kernel '" << kernel.getName()
                              << "' has a name that is not a C++ identifier";
  std::string head;
  llvm::raw_string_ostream headStream(head);
  printComment(headStream);
  printSignature(headStream);
  printSharedArrays();
  line("mpc::kernelBegin();");
  if (!llvm::hasSingleElement(kernel.getBody()))
    fail(kernel, "has several blocks; kernels use scf for control flow");
  else
    printBlock(kernel.getBody().front());
  if (failed)
    return failure();
  os << head << body << "}\n";
  return success();
}

LogicalResult cuda::emitCuda(gpu::GPUFuncOp kernel, raw_ostream &os) {
  return KernelPrinter(kernel).print(os);
}

LogicalResult cuda::emitCuda(gpu::GPUModuleOp module, raw_ostream &os) {
  StringRef separator = "";
  for (auto kernel : module.getOps<gpu::GPUFuncOp>()) {
    os << separator;
    if (mlir::failed(emitCuda(kernel, os)))
      return failure();
    separator = "\n";
  }
  return success();
}
