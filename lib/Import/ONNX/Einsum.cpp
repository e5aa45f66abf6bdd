//===- Einsum.cpp - Einsum operator ---------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers einsum to pairwise batched matmuls: shared letters that are still
// needed are batch dimensions, other shared letters are contracted, and letters
// of one operand are rows or columns.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"

#include "NodeImport.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

namespace {

/// Index letters as numbers; ellipsis dimensions are negative, counted from the
/// end (-1 is the last).
using Letters = SmallVector<int, 8>;

struct Operand {
  Value value;
  Letters letters;
};

} // namespace

/// Parses one term; `ellipsisRank` is the rank of "..." (-1: not present in
/// this term). Returns false if the term is malformed.
static bool parseTerm(StringRef term, int64_t ellipsisRank, Letters &letters,
                      bool &hasEllipsis) {
  hasEllipsis = false;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term.substr(i, 3) == "...") {
      if (hasEllipsis)
        return false;
      hasEllipsis = true;
      for (int64_t d = ellipsisRank; d > 0; --d)
        letters.push_back(int(-d));
      i += 2;
    } else if (llvm::isAlpha(term[i])) {
      letters.push_back(term[i]);
    } else if (term[i] != ' ') {
      return false;
    }
  }
  return true;
}

/// Replaces a repeated letter of an operand by its diagonal; returns false if
/// there is none.
static bool takeDiagonal(NodeImport &n, Operand &operand) {
  for (size_t i = 0; i < operand.letters.size(); ++i) {
    auto second = std::find(operand.letters.begin() + i + 1,
                            operand.letters.end(), operand.letters[i]);
    if (second == operand.letters.end())
      continue;
    int64_t j = second - operand.letters.begin();
    int64_t extent = n.dim(operand.value, int64_t(i));
    if (extent != n.dim(operand.value, j)) {
      n.error() << "a letter stands for the extents " << extent << " and "
                << n.dim(operand.value, j);
      return false;
    }
    // Move both dimensions to the end, flatten them, and take a strided slice.
    SmallVector<int64_t> order, shape;
    Letters letters;
    for (int64_t d = 0; d < n.rank(operand.value); ++d) {
      if (d == int64_t(i) || d == j)
        continue;
      order.push_back(d);
      shape.push_back(n.dim(operand.value, d));
      letters.push_back(operand.letters[d]);
    }
    order.append({int64_t(i), j});
    letters.push_back(operand.letters[i]);
    shape.push_back(extent * extent);
    Value flat = n.reshape(n.transpose(operand.value, order), shape);
    operand.value =
        n.sliceAxis(flat, int64_t(shape.size()) - 1, 0, extent, extent + 1);
    operand.letters = letters;
    return !n.failed();
  }
  return false;
}

/// Sums over the letters that are not in `keep`.
static void sumAway(NodeImport &n, Operand &operand,
                    const llvm::SmallDenseSet<int> &keep) {
  SmallVector<int64_t> axes;
  Letters left;
  for (auto [d, letter] : llvm::enumerate(operand.letters)) {
    if (keep.contains(letter))
      left.push_back(letter);
    else
      axes.push_back(int64_t(d));
  }
  if (axes.empty())
    return;
  operand.value =
      n.reduce<ReduceSumOp>(operand.value, axes, /*keepDims=*/false);
  operand.letters = left;
}

/// Transposes to `order` and reshapes to merged dimensions `shape`.
static Value arrange(NodeImport &n, const Operand &operand, ArrayRef<int> order,
                     ArrayRef<int64_t> shape) {
  SmallVector<int64_t> permutation;
  for (int letter : order)
    permutation.push_back(llvm::find(operand.letters, letter) -
                          operand.letters.begin());
  return n.reshape(n.transpose(operand.value, permutation), shape);
}

static int64_t extentOf(const Operand &operand, int letter) {
  size_t position =
      llvm::find(operand.letters, letter) - operand.letters.begin();
  return NodeImport::dim(operand.value, int64_t(position));
}

/// Contracts two operands over the shared letters that are not in `keep`.
static Operand contract(NodeImport &n, Operand lhs, Operand rhs,
                        const llvm::SmallDenseSet<int> &keep) {
  llvm::SmallDenseSet<int> inLhs(lhs.letters.begin(), lhs.letters.end());
  llvm::SmallDenseSet<int> inRhs(rhs.letters.begin(), rhs.letters.end());
  // First sum over letters of only one operand that are not needed.
  llvm::SmallDenseSet<int> keepLhs = keep, keepRhs = keep;
  keepLhs.insert(inRhs.begin(), inRhs.end());
  keepRhs.insert(inLhs.begin(), inLhs.end());
  sumAway(n, lhs, keepLhs);
  sumAway(n, rhs, keepRhs);

  Letters batch, sum, rows, columns;
  SmallVector<int64_t> shape;
  int64_t sumSize = 1, rowSize = 1, columnSize = 1;
  for (int letter : lhs.letters) {
    int64_t extent = extentOf(lhs, letter);
    if (!inRhs.contains(letter)) {
      rows.push_back(letter);
      rowSize *= extent;
      continue;
    }
    if (extent != extentOf(rhs, letter) && !n.failed())
      n.error() << "a letter stands for the extents " << extent << " and "
                << extentOf(rhs, letter);
    if (keep.contains(letter)) {
      batch.push_back(letter);
      shape.push_back(extent);
    } else {
      sum.push_back(letter);
      sumSize *= extent;
    }
  }
  for (int letter : rhs.letters) {
    if (!inLhs.contains(letter)) {
      columns.push_back(letter);
      columnSize *= extentOf(rhs, letter);
    }
  }
  if (n.failed())
    return {};
  auto joined = [](std::initializer_list<ArrayRef<int>> parts) {
    Letters all;
    for (ArrayRef<int> part : parts)
      all.append(part.begin(), part.end());
    return all;
  };
  SmallVector<int64_t> lhsShape(shape), rhsShape(shape), resultShape(shape);
  lhsShape.append({rowSize, sumSize});
  rhsShape.append({sumSize, columnSize});
  for (int letter : rows)
    resultShape.push_back(extentOf(lhs, letter));
  for (int letter : columns)
    resultShape.push_back(extentOf(rhs, letter));
  Value left = arrange(n, lhs, joined({batch, rows, sum}), lhsShape);
  Value right = arrange(n, rhs, joined({batch, sum, columns}), rhsShape);
  Value product = n.narrow(n.matmulWide(left, right), n.element(lhs.value));
  return {n.reshape(product, resultShape), joined({batch, rows, columns})};
}

static LogicalResult convertEinsum(NodeImport &n) {
  std::string equation = n.stringAttr("equation", "");
  auto [inputText, outputText] = StringRef(equation).split("->");
  SmallVector<StringRef> terms;
  inputText.split(terms, ',');
  SmallVector<Value> values = n.ins();
  if (n.failed())
    return failure();
  auto malformed = [&] {
    return n.error() << "equation '" << equation << "' does not fit its "
                     << values.size() << " operands";
  };
  if (terms.size() != values.size())
    return malformed();
  SmallVector<Operand> operands;
  int64_t ellipsisRank = 0;
  for (auto [term, value] : llvm::zip_equal(terms, values)) {
    Operand operand{value, {}};
    Letters bare;
    bool hasEllipsis;
    if (!parseTerm(term, 0, bare, hasEllipsis))
      return malformed();
    int64_t spare = n.rank(value) - int64_t(bare.size());
    if (spare < 0 || (!hasEllipsis && spare != 0))
      return malformed();
    (void)parseTerm(term, spare, operand.letters, hasEllipsis);
    ellipsisRank = std::max(ellipsisRank, spare);
    while (takeDiagonal(n, operand)) {
    }
    operands.push_back(std::move(operand));
  }
  Letters output;
  bool hasEllipsis;
  if (equation.find("->") != std::string::npos) {
    if (!parseTerm(outputText, ellipsisRank, output, hasEllipsis))
      return malformed();
  } else {
    // Implicit output: the ellipsis, then letters that occur once,
    // alphabetically.
    for (int64_t d = ellipsisRank; d > 0; --d)
      output.push_back(int(-d));
    for (int letter = 0; letter < 128; ++letter)
      if (llvm::isAlpha(char(letter)) && inputText.count(char(letter)) == 1)
        output.push_back(letter);
  }
  // Drop a dimension of extent 1 that is broadcast against another operand.
  for (Operand &operand : operands) {
    SmallVector<int64_t> shape;
    Letters letters;
    for (auto [d, letter] : llvm::enumerate(operand.letters)) {
      bool larger = llvm::any_of(operands, [&](const Operand &other) {
        return llvm::is_contained(other.letters, letter) &&
               extentOf(other, letter) != 1;
      });
      if (letter < 0 && n.dim(operand.value, int64_t(d)) == 1 && larger)
        continue;
      shape.push_back(n.dim(operand.value, int64_t(d)));
      letters.push_back(letter);
    }
    operand.value = n.reshape(operand.value, shape);
    operand.letters = letters;
  }

  Operand result = operands.front();
  for (size_t i = 1; i < operands.size() && !n.failed(); ++i) {
    llvm::SmallDenseSet<int> keep(output.begin(), output.end());
    for (size_t j = i + 1; j < operands.size(); ++j)
      keep.insert(operands[j].letters.begin(), operands[j].letters.end());
    result = contract(n, result, operands[i], keep);
  }
  if (n.failed())
    return failure();
  sumAway(n, result, llvm::SmallDenseSet<int>(output.begin(), output.end()));
  SmallVector<int64_t> shape;
  llvm::SmallDenseSet<int> seen;
  for (int letter : output) {
    if (!llvm::is_contained(result.letters, letter) ||
        !seen.insert(letter).second)
      return malformed();
    shape.push_back(extentOf(result, letter));
  }
  return n.result(arrange(n, result, output, shape));
}

OpFamily mpc::onnx::einsumOps() {
  static const OpEntry entries[] = {
      {"Einsum 12 1+ equation", convertEinsum},
  };
  return entries;
}
