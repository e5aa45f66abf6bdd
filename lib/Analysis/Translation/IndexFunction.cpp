//===- IndexFunction.cpp - evaluation of affine indices -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IndexFunction.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc::translation;

static bool dependsOn(Expr expr, Expr leaf) {
  return expr == leaf || llvm::any_of(expr->operands, [&](Expr operand) {
           return dependsOn(operand, leaf);
         });
}

IndexFunction::IndexFunction(Expr expr, ArrayRef<Expr> leaves)
    : leaves(leaves), tables(leaves.size()) {
  SmallVector<std::pair<Expr, int64_t>> terms;
  if (expr->kind == Kind::Linear) {
    base = expr->numbers[0];
    for (auto [i, atom] : llvm::enumerate(expr->operands))
      terms.push_back({atom, expr->numbers[i + 1]});
  } else {
    terms.push_back({expr, 1});
  }
  for (auto [table, leaf] : llvm::zip_equal(tables, leaves))
    table.assign(size_t(leaf->high + 1), 0);
  SmallVector<int64_t> values(leaves.size(), 0);
  for (auto [atom, factor] : terms) {
    // The leaf on which the term depends, if it is the only one.
    SmallVector<size_t> used;
    for (auto [i, leaf] : llvm::enumerate(leaves))
      if (dependsOn(atom, leaf))
        used.push_back(i);
    if (used.size() != 1) {
      others.push_back({atom, factor});
      continue;
    }
    size_t i = used[0];
    for (int64_t at = 0; at <= leaves[i]->high; ++at) {
      values[i] = at;
      tables[i][size_t(at)] += factor * evaluate(atom, values);
    }
    values[i] = 0;
  }
}

int64_t IndexFunction::at(ArrayRef<int64_t> values) const {
  int64_t sum = base;
  for (auto [table, value] : llvm::zip_equal(tables, values))
    sum += table[size_t(value)];
  for (auto [atom, factor] : others)
    sum += factor * evaluate(atom, values);
  return sum;
}

int64_t IndexFunction::evaluate(Expr expr, ArrayRef<int64_t> values) const {
  const auto *leaf = llvm::find(leaves, expr);
  if (leaf != leaves.end())
    return values[size_t(leaf - leaves.begin())];
  switch (expr->kind) {
  case Kind::Linear: {
    int64_t sum = expr->numbers[0];
    for (auto [i, atom] : llvm::enumerate(expr->operands))
      sum += expr->numbers[i + 1] * evaluate(atom, values);
    return sum;
  }
  case Kind::Quotient:
    return llvm::divideFloorSigned(evaluate(expr->operands[0], values),
                                   expr->numbers[0]);
  case Kind::Remainder:
    return llvm::mod(evaluate(expr->operands[0], values), expr->numbers[0]);
  default:
    return 0;
  }
}

bool mpc::translation::advance(MutableArrayRef<int64_t> at,
                               ArrayRef<Expr> leaves) {
  for (size_t i = leaves.size(); i-- > 0;) {
    if (++at[i] <= leaves[i]->high)
      return true;
    at[i] = 0;
  }
  return false;
}
