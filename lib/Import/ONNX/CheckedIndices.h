//===- CheckedIndices.h - run-time bounds checks of indices -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_CHECKEDINDICES_H
#define MPC_LIB_IMPORT_ONNX_CHECKEDINDICES_H

#include "Importer.h"

#include "mpc/Dialect/Mpc/IR/IndexChecks.h"

namespace mpc::onnx {

/// Enables bounds checks of the gather or scatter that computed `result`: ONNX
/// defines an index out of range as an error. Known indices were checked or
/// folded at import, unless checksKnownIndicesLater is set.
inline mlir::Value checkIndicesOf(NodeImport &n, mlir::Value result) {
  mlir::Operation *op = result ? result.getDefiningOp() : nullptr;
  if (op && !indexedExtents(op).empty() &&
      (n.importer.options.checksKnownIndicesLater ||
       !n.known(op->getOperand(1))))
    op->setDiscardableAttr(kCheckedIndicesAttr, n.builder.getUnitAttr());
  return result;
}

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_CHECKEDINDICES_H
