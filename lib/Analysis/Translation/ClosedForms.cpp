//===- ClosedForms.cpp - canonical functions of expressions ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An expression is closed over its variables: they are split where it divides
// them, numbered in order of use, and constants become tables of the elements
// that are read, in order of the variables. Layouts, packing and merged
// operands then disappear.
//
//===----------------------------------------------------------------------===//

#include "IndexFunction.h"
#include "SymbolicTensors.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Reference/Tensor.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/xxhash.h"

#include <cstring>
#include <tuple>

using namespace mlir;
using namespace mpc;
using namespace mpc::translation;

/// Calls `visit` once for each open node, operands first, without the indices
/// of constants: packed ones are tabulated.
template <typename Visit>
static void visitOpen(Expr expr, llvm::SmallPtrSetImpl<Expr> &seen,
                      Visit visit) {
  if (!expr->isOpen || expr->kind == Kind::Constant ||
      !seen.insert(expr).second)
    return;
  for (Expr operand : expr->operands)
    visitOpen(operand, seen, visit);
  visit(expr);
}

Expr SymbolicTensors::splitVariables(Expr expr, DenseMap<Expr, Expr> &values) {
  constexpr int kMostRounds = 8;
  for (int round = 0; round < kMostRounds; ++round) {
    // The smallest divisor of each variable.
    llvm::SmallPtrSet<Expr, 32> seen;
    llvm::MapVector<Expr, int64_t> divisors;
    visitOpen(expr, seen, [&](Expr node) {
      if (node->kind != Kind::Quotient && node->kind != Kind::Remainder)
        return;
      Expr of = node->operands[0];
      if (of->kind != Kind::Variable || of->numbers[2] % node->numbers[0])
        return;
      int64_t &least = divisors[of];
      least = least ? std::min(least, node->numbers[0]) : node->numbers[0];
    });
    if (divisors.empty())
      break;
    DenseMap<Expr, Expr> parts;
    for (auto [variable, divisor] : divisors) {
      Expr high = make.fresh(variable->numbers[2] / divisor),
           low = make.fresh(divisor);
      parts[variable] = make.add(make.scale(high, divisor), low);
      Expr value = values.contains(variable) ? values[variable] : variable;
      values[high] = make.quotient(value, divisor);
      values[low] = make.remainder(value, divisor);
    }
    expr = make.substitute(expr, parts);
  }
  return expr;
}

/// Leaves of an index, in order of first use.
static void collectLeaves(Expr expr, SmallVectorImpl<Expr> &leaves) {
  switch (expr->kind) {
  case Kind::Linear:
  case Kind::Quotient:
  case Kind::Remainder:
    for (Expr operand : expr->operands)
      collectLeaves(operand, leaves);
    return;
  default:
    if (!llvm::is_contained(leaves, expr))
      leaves.push_back(expr);
  }
}

/// `index` with `values` in place of its `leaves`.
static Expr replaceLeaves(Expressions &make, Expr index, ArrayRef<Expr> leaves,
                          ArrayRef<Expr> values) {
  if (const auto *leaf = llvm::find(leaves, index); leaf != leaves.end())
    return values[size_t(leaf - leaves.begin())];
  Indices operands;
  for (Expr operand : index->operands)
    operands.push_back(replaceLeaves(make, operand, leaves, values));
  return make.rebuild(index, operands);
}

/// Element `position` of a constant.
static double scalarAt(const ConstantBytes &bytes, Type type,
                       int64_t position) {
  auto scalar = RankedTensorType::get({}, type);
  size_t width = type.isInteger(1) ? 1 : type.getIntOrFloatBitWidth() / 8;
  auto element = reference::Tensor::fromBytes(
      scalar, bytes.bytes().data() + size_t(position) * width);
  return element.isFloat() ? element.floats()[0] : double(element.ints()[0]);
}

Expr SymbolicTensors::tabulate(Expr expr, DenseMap<Expr, Expr> &done) {
  if (expr->kind == Kind::Function || expr->kind == Kind::Variable)
    return expr;
  if (auto found = done.find(expr); found != done.end())
    return found->second;
  Indices operands;
  for (Expr operand : expr->operands)
    operands.push_back(tabulate(operand, done));
  Expr result = expr;
  if (expr->kind != Kind::Constant) {
    result = llvm::equal(operands, expr->operands)
                 ? expr
                 : make.rebuild(expr, operands);
    done[expr] = result;
    return result;
  }
  auto type = cast<ShapedType>(expr->attr.getType());
  Expr position = make.flatten(operands, type.getShape());
  SmallVector<Expr> leaves;
  collectLeaves(position, leaves);
  // Variables by number, then indices that are read.
  llvm::sort(leaves, [](Expr a, Expr b) {
    auto rank = [](Expr leaf) {
      return std::tuple(leaf->kind == Kind::Variable ? leaf->numbers[1]
                                                     : INT64_MAX,
                        leaf->shape, leaf->id);
    };
    return rank(a) < rank(b);
  });
  // The elements depend on the ranges of the leaves only.
  SmallVector<Expr> variables;
  for (auto [i, leaf] : llvm::enumerate(leaves))
    variables.push_back(
        make.variable(Space::Canonical, int64_t(i), leaf->high + 1));
  position = replaceLeaves(make, position, leaves, variables);
  Expr key = make.constant(expr->attr, position);
  uint64_t &hash = hashes.try_emplace(key, 0).first->second;
  if (!hash) {
    FailureOr<ConstantBytes> bytes = ConstantBytes::get(expr->attr);
    // What is read from an empty constant, guards exclude.
    if (failed(bytes) || type.getNumElements() == 0) {
      done[expr] = expr;
      return expr;
    }
    size_t width = bytes->bytes().size() / size_t(type.getNumElements());
    IndexFunction index(position, variables);
    std::string gathered;
    SmallVector<int64_t> at(variables.size(), 0);
    uint64_t sum = 1;
    int64_t first = index.at(at);
    bool isSplat = true;
    auto flush = [&] {
      sum = sum * 0x9E3779B97F4A7C15ull ^
            llvm::xxh3_64bits(
                ArrayRef(reinterpret_cast<const uint8_t *>(gathered.data()),
                         gathered.size()));
      gathered.clear();
    };
    do {
      int64_t element = index.at(at);
      // Guards exclude other positions.
      if (element < 0 || element >= type.getNumElements())
        element = 0;
      const char *data = bytes->bytes().data();
      isSplat &= std::memcmp(data + size_t(element) * width,
                             data + size_t(first) * width, width) == 0;
      StringRef number(data + size_t(element) * width, width);
      // Weights that are stored in fewer bits lose the signs of zeros.
      bool isZero =
          isa<FloatType>(expr->type) &&
          number.drop_back().find_first_not_of('\0') == StringRef::npos &&
          (number.back() & 0x7F) == 0;
      gathered.append(isZero ? std::string(width, '\0') : number.str());
      if (gathered.size() >= 1 << 16)
        flush();
    } while (advance(at, variables));
    flush();
    hash = sum | 1;
    double value = scalarAt(*bytes, expr->type, first);
    if (isSplat && isExactNumber(value, expr->type))
      splats[key] = value;
  }
  if (auto splat = splats.find(key); splat != splats.end())
    result = make.number(splat->second, expr->type);
  else
    result = make.table(hash, expr->type, leaves);
  done[expr] = result;
  return result;
}

ClosedForm SymbolicTensors::close(Expr expr) {
  if (auto found = closed.find(expr); found != closed.end())
    return found->second;
  // Values of variables that a split introduced.
  DenseMap<Expr, Expr> values;
  Expr body = splitVariables(expr, values);
  // Numbers in order of use; those that occur only in constants are last.
  DenseMap<Expr, Expr> numbers;
  SmallVector<Expr> order;
  llvm::SmallPtrSet<Expr, 8> bound;
  llvm::SmallPtrSet<Expr, 32> seen;
  SmallVector<Expr> constants;
  auto number = [&](auto &self, Expr node, bool inConstants) -> void {
    if (!node->isOpen)
      return;
    if (node->kind == Kind::Variable) {
      auto [entry, isNew] = numbers.try_emplace(node);
      if (isNew) {
        entry->second = make.variable(Space::Canonical, int64_t(order.size()),
                                      node->numbers[2]);
        order.push_back(node);
      }
      return;
    }
    if (!seen.insert(node).second)
      return;
    if (node->kind == Kind::Constant && !inConstants) {
      seen.erase(node);
      constants.push_back(node);
      return;
    }
    size_t count = node->operands.size();
    if (node->kind == Kind::Reduce) {
      count = size_t(node->numbers[0]);
      for (Expr variable : node->operands.drop_front(count))
        bound.insert(variable);
    }
    SmallVector<unsigned> positions(
        llvm::to_vector(llvm::seq<unsigned>(count)));
    // Terms of an index are in order of creation, which layouts change.
    if (node->kind == Kind::Linear)
      llvm::sort(positions, [&](unsigned a, unsigned b) {
        auto rank = [&](unsigned i) {
          return std::tuple(-std::abs(node->numbers[i + 1]),
                            node->operands[i]->shape, i);
        };
        return rank(a) < rank(b);
      });
    for (unsigned position : positions)
      self(self, node->operands[position], inConstants);
  };
  number(number, body, /*inConstants=*/false);
  for (Expr constant : constants)
    number(number, constant, /*inConstants=*/true);
  // Variables that no term uses.
  llvm::SmallPtrSet<Expr, 32> again;
  visitOpen(body, again, [&](Expr node) {
    if (node->kind == Kind::Variable)
      number(number, node, false);
  });
  body = make.substitute(body, numbers);
  DenseMap<Expr, Expr> done;
  body = tabulate(body, done);
  ClosedForm form;
  form.function = make.function(body);
  // A table whose elements are equal uses no variable.
  llvm::SmallPtrSet<Expr, 32> used;
  visitOpen(body, used, [](Expr) {});
  for (Expr variable : order)
    if (!bound.contains(variable) && used.contains(numbers[variable]))
      form.arguments.push_back(values.contains(variable) ? values[variable]
                                                         : variable);
  closed[expr] = form;
  return form;
}
