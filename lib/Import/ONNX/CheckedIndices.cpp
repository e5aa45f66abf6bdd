//===- CheckedIndices.cpp - run-time bounds checks of indices -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckedIndices.h"

#include "mpc/Dialect/Mpc/IR/IndexChecks.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

Value mpc::onnx::checkIndicesOf(NodeImport &n, Value result, bool areLengths) {
  Operation *op = result ? result.getDefiningOp() : nullptr;
  if (!op || indexedExtents(op).empty() ||
      (n.known(op->getOperand(1)) &&
       !n.importer.options.checksKnownIndicesLater))
    return result;
  Attribute mark = n.builder.getUnitAttr();
  if (areLengths)
    mark = n.builder.getStringAttr(kLengths);
  op->setDiscardableAttr(kCheckedIndicesAttr, mark);
  return result;
}

Value mpc::onnx::checkedLengths(NodeImport &n, size_t input, StringRef name,
                                int64_t most, StringRef bound) {
  Value lengths = n.in(input);
  if (n.failed())
    return nullptr;
  if (n.known(lengths)) {
    for (int64_t length : n.constantIntValues(input, name)) {
      if (length < 0 || length > most) {
        n.error() << name << " has the entry " << length << ", expected 0 to "
                  << most << ", " << bound;
        return nullptr;
      }
    }
    return lengths;
  }
  // A table of the valid lengths: a length out of range is an index out of
  // range.
  Value table = n.iota(most + 1, 0, 1, n.element(lengths));
  return checkIndicesOf(n, n.gather(table, lengths, 0), /*areLengths=*/true);
}
