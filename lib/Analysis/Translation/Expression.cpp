//===- Expression.cpp - symbolic elements of tensors ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Expression.h"

#include "mpc/Reference/Tensor.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <numeric>

using namespace mlir;
using namespace mpc;
using namespace mpc::translation;

void Node::Profile(llvm::FoldingSetNodeID &profile) const {
  profile.AddInteger(unsigned(kind));
  profile.AddPointer(type.getAsOpaquePointer());
  profile.AddPointer(attr ? Attribute(attr).getAsOpaquePointer() : nullptr);
  profile.AddPointer(label.data());
  profile.AddInteger(numbers.size());
  for (int64_t number : numbers)
    profile.AddInteger(number);
  for (const Node *operand : operands)
    profile.AddPointer(operand);
}

/// A multiplicative hash that does not differ between processes, unlike
/// llvm::hash_combine, so that the order of operands is reproducible.
static uint64_t mix(uint64_t a, uint64_t b) {
  a = (a ^ b) * 0x9E3779B97F4A7C15ull;
  return a ^ (a >> 29);
}

Expr Expressions::intern(Node node, ArrayRef<int64_t> numbers,
                         ArrayRef<Expr> operands) {
  if (!node.label.empty())
    node.label = labels.try_emplace(node.label).first->getKey();
  else
    node.label = StringRef();
  node.numbers = numbers;
  node.operands = operands;
  llvm::FoldingSetNodeID profile;
  node.Profile(profile);
  void *position = nullptr;
  if (Node *known = nodes.FindNodeOrInsertPos(profile, position))
    return known;
  numberStorage.emplace_back(numbers);
  operandStorage.emplace_back(operands);
  node.numbers = numberStorage.back();
  node.operands = operandStorage.back();
  node.id = unsigned(storage.size());
  uint64_t shape = mix(uint64_t(node.kind) + 1, node.label.size());
  for (char c : node.label)
    shape = mix(shape, uint64_t(c));
  if (node.kind == Kind::Variable)
    shape = mix(shape, uint64_t(numbers[2]));
  else if (node.kind != Kind::Number)
    for (int64_t number : numbers)
      shape = mix(shape, uint64_t(number));
  // The layout and the splats of constants are normalized later.
  bool isConstant = node.kind == Kind::Number || node.kind == Kind::Constant;
  if (isConstant)
    shape = 1;
  if (auto type = dyn_cast_or_null<FloatType>(node.type))
    shape = mix(shape, type.getWidth());
  for (Expr operand : operands) {
    if (!isConstant)
      shape = mix(shape, operand->shape);
    node.isOpen |= operand->isOpen;
  }
  if (node.kind == Kind::Variable)
    node.isOpen = true;
  if (node.kind == Kind::Function)
    node.isOpen = false;
  node.shape = shape;
  storage.push_back(node);
  nodes.InsertNode(&storage.back(), position);
  return &storage.back();
}

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

Expr Expressions::index(int64_t value) {
  Node node;
  node.kind = Kind::Linear;
  node.low = node.high = value;
  return intern(node, value, {});
}

Expr Expressions::variable(Space space, int64_t id, int64_t extent) {
  // Extent 1 leaves one index.
  if (extent == 1)
    return index(0);
  Node node;
  node.kind = Kind::Variable;
  node.high = std::max<int64_t>(extent - 1, 0);
  return intern(node, {int64_t(space), id, extent}, {});
}

/// Appends `factor * expr` to a sum.
static void addTerms(Expr expr, int64_t factor, int64_t &constant,
                     SmallVectorImpl<std::pair<Expr, int64_t>> &terms) {
  if (expr->kind != Kind::Linear) {
    terms.push_back({expr, factor});
    return;
  }
  constant += factor * expr->numbers[0];
  for (auto [i, atom] : llvm::enumerate(expr->operands))
    terms.push_back({atom, factor * expr->numbers[i + 1]});
}

Expr Expressions::linear(int64_t constant,
                         SmallVectorImpl<std::pair<Expr, int64_t>> &terms) {
  // c * d * floor(x / d) + c * (x mod d) = c * x.
  auto combine = [&] {
    llvm::sort(terms, [](const auto &a, const auto &b) {
      return a.first->id < b.first->id;
    });
    SmallVector<std::pair<Expr, int64_t>> sum;
    for (auto [atom, factor] : terms)
      if (!sum.empty() && sum.back().first == atom)
        sum.back().second += factor;
      else
        sum.push_back({atom, factor});
    llvm::erase_if(sum, [](const auto &term) { return term.second == 0; });
    terms.assign(sum.begin(), sum.end());
  };
  combine();
  for (bool changed = true; changed;) {
    changed = false;
    for (auto &[atom, factor] : terms) {
      if (atom->kind != Kind::Remainder)
        continue;
      int64_t divisor = atom->numbers[0];
      auto other = llvm::find_if(terms, [&, atom = atom](const auto &term) {
        return term.first->kind == Kind::Quotient &&
               term.first->numbers[0] == divisor &&
               term.first->operands[0] == atom->operands[0];
      });
      if (other == terms.end() || other->second != factor * divisor)
        continue;
      Expr whole = atom->operands[0];
      int64_t times = factor;
      factor = 0;
      other->second = 0;
      addTerms(whole, times, constant, terms);
      combine();
      changed = true;
      break;
    }
  }
  if (constant == 0 && terms.size() == 1 && terms[0].second == 1)
    return terms[0].first;
  SmallVector<int64_t> numbers{constant};
  Indices atoms;
  Node node;
  node.kind = Kind::Linear;
  node.low = node.high = constant;
  for (auto [atom, factor] : terms) {
    numbers.push_back(factor);
    atoms.push_back(atom);
    node.low += factor * (factor > 0 ? atom->low : atom->high);
    node.high += factor * (factor > 0 ? atom->high : atom->low);
  }
  return intern(node, numbers, atoms);
}

Expr Expressions::add(Expr a, Expr b) {
  int64_t constant = 0;
  SmallVector<std::pair<Expr, int64_t>> terms;
  addTerms(a, 1, constant, terms);
  addTerms(b, 1, constant, terms);
  return linear(constant, terms);
}

Expr Expressions::scale(Expr a, int64_t factor) {
  int64_t constant = 0;
  SmallVector<std::pair<Expr, int64_t>> terms;
  addTerms(a, factor, constant, terms);
  return linear(constant, terms);
}

std::pair<Expr, Expr> Expressions::divide(Expr a, int64_t divisor) {
  if (divisor == 1)
    return {a, index(0)};
  // Multiples of the divisor leave both.
  int64_t constant = 0;
  SmallVector<std::pair<Expr, int64_t>> terms, whole, rest;
  addTerms(a, 1, constant, terms);
  for (auto [atom, factor] : terms) {
    int64_t times = llvm::divideFloorSigned(factor, divisor);
    if (factor % divisor == 0)
      whole.push_back({atom, times});
    else
      rest.push_back({atom, factor});
  }
  int64_t wholeConstant = llvm::divideFloorSigned(constant, divisor);
  int64_t restConstant = constant - wholeConstant * divisor;
  SmallVector<std::pair<Expr, int64_t>> copy(rest);
  Expr part = linear(restConstant, copy);
  int64_t least = llvm::divideFloorSigned(part->low, divisor);
  if (least == llvm::divideFloorSigned(part->high, divisor))
    return {linear(wholeConstant + least, whole),
            offset(part, -least * divisor)};
  // A small part below a common factor g of the rest and the divisor.
  SmallVector<int64_t> factors;
  for (auto [atom, factor] : rest)
    factors.push_back(std::gcd(factor, divisor));
  llvm::sort(factors);
  for (int64_t g : factors) {
    if (g == 1)
      continue;
    SmallVector<std::pair<Expr, int64_t>> large, small;
    for (auto [atom, factor] : rest)
      if (factor % g == 0)
        large.push_back({atom, factor / g});
      else
        small.push_back({atom, factor});
    int64_t largeConstant = restConstant / g;
    Expr low = linear(restConstant - largeConstant * g, small);
    if (low->low < 0 || low->high >= g)
      continue;
    Expr high = linear(largeConstant, large);
    auto [quotient, remainder] = divide(high, divisor / g);
    return {add(linear(wholeConstant, whole), quotient),
            add(scale(remainder, g), low)};
  }
  // floor(floor(x / a) / b) = floor(x / (a * b)).
  Node node;
  node.kind = Kind::Quotient;
  int64_t by = divisor;
  Expr of = part;
  if (part->kind == Kind::Quotient) {
    by *= part->numbers[0];
    of = part->operands[0];
  }
  node.low = llvm::divideFloorSigned(of->low, by);
  node.high = llvm::divideFloorSigned(of->high, by);
  Expr quotient = intern(node, by, of);
  node.kind = Kind::Remainder;
  node.low = 0;
  node.high = divisor - 1;
  Expr remainder = intern(node, divisor, part);
  return {add(linear(wholeConstant, whole), quotient), remainder};
}

Expr Expressions::quotient(Expr a, int64_t divisor) {
  return divide(a, divisor).first;
}
Expr Expressions::remainder(Expr a, int64_t divisor) {
  return divide(a, divisor).second;
}

Expr Expressions::flatten(ArrayRef<Expr> indices, ArrayRef<int64_t> shape) {
  Expr position = index(0);
  for (auto [at, extent] : llvm::zip_equal(indices, shape))
    position = add(scale(position, extent), at);
  return position;
}

Indices Expressions::unflatten(Expr position, ArrayRef<int64_t> shape) {
  Indices indices(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    int64_t extent = std::max<int64_t>(shape[i], 1);
    if (i == 0) {
      indices[0] = extent == 1 ? index(0) : position;
      break;
    }
    auto [rest, at] = divide(position, extent);
    indices[i] = at;
    position = rest;
  }
  return indices;
}

Expr Expressions::readIndex(Expr value, int64_t extent) {
  Node node;
  node.kind = Kind::Operation;
  node.label = "index";
  node.high = std::max<int64_t>(extent - 1, 0);
  return intern(node, extent, value);
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

Expr Expressions::number(double value, Type type) {
  Node node;
  node.kind = Kind::Number;
  node.type = type;
  return intern(node, llvm::bit_cast<int64_t>(value), {});
}

Expr Expressions::element(StringRef input, Type type, ArrayRef<Expr> at) {
  Node node;
  node.kind = Kind::Element;
  node.type = type;
  node.label = input;
  return intern(node, {}, at);
}

Expr Expressions::constant(ElementsAttr attr, ArrayRef<Expr> at) {
  Node node;
  node.kind = Kind::Constant;
  node.type = attr.getElementType();
  node.attr = attr;
  return intern(node, {}, at);
}

Expr Expressions::table(uint64_t hash, Type type, ArrayRef<Expr> variables) {
  Node node;
  node.kind = Kind::Table;
  node.type = type;
  return intern(node, int64_t(hash), variables);
}

/// Returns true if every value of `from` is a value of `to`.
static bool isExact(Type from, Type to) {
  if (from == to)
    return true;
  auto a = dyn_cast<FloatType>(from), b = dyn_cast<FloatType>(to);
  if (a && b)
    return a.getFPMantissaWidth() <= b.getFPMantissaWidth() &&
           a.getWidth() < b.getWidth();
  auto i = dyn_cast<IntegerType>(from);
  if (!i)
    return false;
  if (b)
    return i.getWidth() < b.getFPMantissaWidth() && b.getWidth() > 16;
  auto j = dyn_cast<IntegerType>(to);
  bool isUnsigned = i.isUnsigned() || i.getWidth() == 1;
  return j && i.getWidth() < j.getWidth() && (isUnsigned || !j.isUnsigned()) &&
         j.getWidth() > 1;
}

Expr Expressions::operation(StringRef label, Type type,
                            ArrayRef<Expr> operands) {
  if (label == "cast") {
    Expr from = operands[0];
    if (from->type == type)
      return from;
    if (from->kind == Kind::Number && isa<FloatType>(type) &&
        isa<FloatType>(from->type))
      return number(
          reference::roundTo(llvm::bit_cast<double>(from->numbers[0]), type),
          type);
    // The choice between two elements does not depend on their type.
    if (from->kind == Kind::Select)
      return select(from->operands[0], from->numbers[0], from->numbers[1],
                    operation(label, type, from->operands[1]),
                    operation(label, type, from->operands[2]));
    if (from->kind == Kind::Operation && from->label == "select")
      return operation(from->label, type,
                       {from->operands[0],
                        operation(label, type, from->operands[1]),
                        operation(label, type, from->operands[2])});
    // bf16 to f32 to bf16.
    if (from->kind == Kind::Operation && from->label == "cast") {
      Type inner = from->operands[0]->type;
      // Integers wrap, but floats saturate when they become integers.
      bool saturates = isa<IntegerType>(inner) && isa<IntegerType>(type) &&
                       isa<FloatType>(from->type) && !type.isInteger(1);
      if (isExact(inner, from->type) && (!saturates || inner == type))
        return operation(label, type, from->operands[0]);
      if (isRelaxed && isa<FloatType>(inner) && isa<FloatType>(from->type) &&
          isExact(from->type, inner))
        return operation(label, type, from->operands[0]);
    }
  }
  Node node;
  node.kind = Kind::Operation;
  node.type = type;
  node.label = label;
  // Sums and products of two operands do not depend on their order.
  if (operands.size() == 2 && operands[0]->shape > operands[1]->shape &&
      (label == "add" || label == "mul" || label == "product" ||
       label == "max" || label == "min" || label == "and" || label == "or"))
    return intern(node, {}, {operands[1], operands[0]});
  return intern(node, {}, operands);
}

Expr Expressions::select(Expr at, int64_t low, int64_t high, Expr a, Expr b) {
  if ((at->low >= low && at->high <= high) || a == b)
    return a;
  if (at->high < low || at->low > high)
    return b;
  Node node;
  node.kind = Kind::Select;
  node.type = a->type;
  return intern(node, {std::max(low, at->low), std::min(high, at->high)},
                {at, a, b});
}

Expr Expressions::reduce(StringRef label, Type type, ArrayRef<Expr> bodies,
                         ArrayRef<Expr> variables) {
  Node node;
  node.kind = Kind::Reduce;
  node.type = type;
  node.label = label;
  SmallVector<int64_t> numbers{int64_t(bodies.size())};
  Indices operands(bodies);
  for (Expr variable : variables)
    // One of extent 1 is the index 0; one may be split into several.
    if (variable->kind == Kind::Variable)
      operands.push_back(variable);
    else
      llvm::append_range(operands, variable->operands);
  std::sort(operands.begin() + long(bodies.size()), operands.end(),
            [](Expr a, Expr b) {
              return a->numbers.take_front(2) < b->numbers.take_front(2);
            });
  return intern(node, numbers, operands);
}

Expr Expressions::function(Expr body) {
  Node node;
  node.kind = Kind::Function;
  node.type = body->type;
  return intern(node, {}, body);
}

Expr Expressions::apply(Expr function, Type type, ArrayRef<Expr> at) {
  Node node;
  node.kind = Kind::Apply;
  node.type = type;
  Indices operands{function};
  llvm::append_range(operands, at);
  return intern(node, {}, operands);
}

//===----------------------------------------------------------------------===//
// Substitution and printing
//===----------------------------------------------------------------------===//

Expr Expressions::rebuild(Expr expr, ArrayRef<Expr> operands) {
  switch (expr->kind) {
  case Kind::Linear: {
    int64_t constant = expr->numbers[0];
    SmallVector<std::pair<Expr, int64_t>> terms;
    for (auto [i, operand] : llvm::enumerate(operands))
      addTerms(operand, expr->numbers[i + 1], constant, terms);
    return linear(constant, terms);
  }
  case Kind::Quotient:
    return quotient(operands[0], expr->numbers[0]);
  case Kind::Remainder:
    return remainder(operands[0], expr->numbers[0]);
  case Kind::Operation:
    // Index operations have a range.
    if (!expr->type)
      break;
    return operation(expr->label, expr->type, operands);
  case Kind::Select:
    return select(operands[0], expr->numbers[0], expr->numbers[1], operands[1],
                  operands[2]);
  case Kind::Reduce: {
    auto bodies = size_t(expr->numbers[0]);
    return reduce(expr->label, expr->type, operands.take_front(bodies),
                  operands.drop_front(bodies));
  }
  default:
    break;
  }
  Node node = *expr;
  return intern(node, SmallVector<int64_t>(expr->numbers), operands);
}

Expr Expressions::substitute(Expr expr, const DenseMap<Expr, Expr> &values,
                             DenseMap<Expr, Expr> &done) {
  if (!expr->isOpen)
    return expr;
  if (auto found = values.find(expr); found != values.end())
    return found->second;
  if (expr->kind == Kind::Variable)
    return expr;
  if (auto found = done.find(expr); found != done.end())
    return found->second;
  Indices operands;
  for (Expr operand : expr->operands)
    operands.push_back(substitute(operand, values, done));
  Expr result = rebuild(expr, operands);
  done[expr] = result;
  return result;
}

Expr Expressions::substitute(Expr expr, const DenseMap<Expr, Expr> &values) {
  DenseMap<Expr, Expr> done;
  return substitute(expr, values, done);
}

static void write(llvm::raw_ostream &out, Expr expr, unsigned depth);

static void writeList(llvm::raw_ostream &out, ArrayRef<Expr> list,
                      unsigned depth, StringRef separator = ", ") {
  llvm::interleave(
      list, [&](Expr expr) { write(out, expr, depth); },
      [&] { out << separator; });
}

static void write(llvm::raw_ostream &out, Expr expr, unsigned depth) {
  if (depth == 0) {
    out << "...";
    return;
  }
  switch (expr->kind) {
  case Kind::Number:
    out << llvm::bit_cast<double>(expr->numbers[0]);
    return;
  case Kind::Variable:
    out << (expr->numbers[0] == int64_t(Space::Fresh) ? 'k' : 'i')
        << expr->numbers[1];
    return;
  case Kind::Linear: {
    bool first = true;
    for (auto [i, atom] : llvm::enumerate(expr->operands)) {
      int64_t factor = expr->numbers[i + 1];
      out << (first ? (factor < 0 ? "-" : "") : (factor < 0 ? " - " : " + "));
      if (std::abs(factor) != 1)
        out << std::abs(factor) << "*";
      write(out, atom, depth);
      first = false;
    }
    int64_t constant = expr->numbers[0];
    if (first)
      out << constant;
    else if (constant)
      out << (constant < 0 ? " - " : " + ") << std::abs(constant);
    return;
  }
  case Kind::Quotient:
  case Kind::Remainder:
    out << "(";
    write(out, expr->operands[0], depth);
    out << (expr->kind == Kind::Quotient ? ") / " : ") mod ")
        << expr->numbers[0];
    return;
  case Kind::Element:
    out << expr->label << "[";
    writeList(out, expr->operands, depth);
    out << "]";
    return;
  case Kind::Constant:
  case Kind::Table:
    out << "constant"
        << (expr->kind == Kind::Table
                ? llvm::utohexstr(uint64_t(expr->numbers[0]) & 0xffff, true)
                : "")
        << "[";
    writeList(out, expr->operands, depth);
    out << "]";
    return;
  case Kind::Operation:
    out << expr->label;
    if (expr->label == "cast")
      out << " to " << expr->type;
    out << "(";
    writeList(out, expr->operands, depth - 1);
    out << ")";
    return;
  case Kind::Select:
    out << "(" << expr->numbers[0] << " <= ";
    write(out, expr->operands[0], depth);
    out << " <= " << expr->numbers[1] << " ? ";
    writeList(out, expr->operands.drop_front(), depth - 1, " : ");
    out << ")";
    return;
  case Kind::Reduce: {
    out << expr->label << " over ";
    auto bodies = size_t(expr->numbers[0]);
    llvm::interleave(
        expr->operands.drop_front(bodies),
        [&](Expr variable) {
          write(out, variable, depth);
          if (variable->kind == Kind::Variable)
            out << " < " << variable->numbers[2];
        },
        [&] { out << ", "; });
    out << " of (";
    writeList(out, expr->operands.take_front(bodies), depth - 1);
    out << ")";
    return;
  }
  case Kind::Function:
    write(out, expr->operands[0], depth);
    return;
  case Kind::Apply:
    out << "{";
    write(out, expr->operands[0], depth - 1);
    out << "}[";
    writeList(out, expr->operands.drop_front(), depth);
    out << "]";
    return;
  }
}

std::string Expressions::print(Expr expr, unsigned depth) {
  std::string text;
  llvm::raw_string_ostream out(text);
  write(out, expr, depth);
  return text;
}
