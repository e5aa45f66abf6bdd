//===- PrintControlFlow.cpp - printing of loops and branches --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPrinter.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Mutable variables
//===----------------------------------------------------------------------===//

void KernelPrinter::bindVariable(Value value, StringRef name) {
  Expression expression(name.str());
  expression.variables = {name.str()};
  values[value] = expression;
  carried[value] = name.str();
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
    bindVariable(inside[i], name);
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
    StringRef text = next[i].text;
    std::string target = variables[i];
    bool compound = false;
    for (StringRef sign : {"+", "-", "*"}) {
      std::string head = target + " " + sign.str() + " ";
      bool isOuter = next[i].precedence ==
                     (sign == "*" ? Precedence::Product : Precedence::Sum);
      // x - y - z is (x - y) - z: only two operands allow x -= y.
      StringRef rest = text;
      if (!isOuter || !rest.consume_front(head))
        continue;
      int depth = 0;
      bool single = true;
      for (size_t k = 0; k < rest.size(); ++k) {
        if (rest[k] == '(' || rest[k] == '[')
          ++depth;
        else if (rest[k] == ')' || rest[k] == ']')
          --depth;
        else if (depth == 0 && rest[k] == ' ' && k + 2 < rest.size() &&
                 rest[k + 2] == ' ' &&
                 StringRef(sign == "*" ? "*/%" : "+-").contains(rest[k + 1]))
          single = false;
      }
      if (!single)
        continue;
      line(target + " " + sign.str() + "= " + rest.str() + ";");
      compound = true;
      break;
    }
    if (!compound)
      line(target + " = " + next[i].text + ";");
  }
}

//===----------------------------------------------------------------------===//
// Loops
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
  for (auto [result, variable] : llvm::zip(op.getResults(), variables))
    bindVariable(result, variable);
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
  for (auto [result, variable] : llvm::zip(op.getResults(), variables))
    bindVariable(result, variable);
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
  for (auto [argument, variable] : llvm::zip(after.getArguments(), passed))
    bindVariable(argument, variable);
  printBlock(after);
  // Polling loop of an inter-block barrier.
  if (op->hasAttr("mpc.pause"))
    line("mpc::pause();");
  assign(variables, yield.getOperands());
  names.pop();
  close();
  for (auto [result, variable] : llvm::zip(op.getResults(), passed))
    bindVariable(result, variable);
}
