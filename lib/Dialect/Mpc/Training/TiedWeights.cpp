//===- TiedWeights.cpp - weights that are stored twice --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TiedWeights.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include <cstring>

using namespace mlir;
using namespace mpc;

/// Returns true if `right` is the transpose of `left`, bit by bit.
static bool isTranspose(ConstantOp left, ConstantOp right) {
  auto leftType = cast<RankedTensorType>(left.getType()),
       rightType = cast<RankedTensorType>(right.getType());
  int64_t rows = leftType.getDimSize(0), columns = leftType.getDimSize(1);
  if (leftType.getElementType() != rightType.getElementType() ||
      rightType.getDimSize(0) != columns || rightType.getDimSize(1) != rows)
    return false;
  FailureOr<ConstantBytes> leftBytes = ConstantBytes::get(left.getValue()),
                           rightBytes = ConstantBytes::get(right.getValue());
  if (failed(leftBytes) || failed(rightBytes))
    return false;
  size_t width = size_t(bytesPerElement(leftType.getElementType()));
  const char *from = leftBytes->bytes().data(),
             *to = rightBytes->bytes().data();
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      if (std::memcmp(from + size_t(row * columns + column) * width,
                      to + size_t(column * rows + row) * width, width) != 0)
        return false;
  return true;
}

llvm::MapVector<ConstantOp, ConstantOp>
mpc::findTransposedCopies(ArrayRef<ConstantOp> weights) {
  llvm::MapVector<ConstantOp, ConstantOp> originals;
  llvm::DenseSet<Operation *> copied;
  SmallVector<ConstantOp> matrices;
  for (ConstantOp weight : weights) {
    auto type = cast<RankedTensorType>(weight.getType());
    if (type.getRank() != 2 || splatValue(weight.getValue()) ||
        isTranspose(weight, weight))
      continue;
    ConstantOp original;
    for (ConstantOp matrix : matrices)
      if ((!original ||
           (copied.contains(original) && !copied.contains(matrix))) &&
          isTranspose(matrix, weight))
        original = matrix;
    if (original) {
      originals[weight] = original;
      copied.insert(original);
    } else {
      matrices.push_back(weight);
    }
  }
  return originals;
}
