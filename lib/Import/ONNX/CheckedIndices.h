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

/// Marks the gather or scatter that made `result`: ONNX calls an index out of
/// range an error. Known indices were checked, unless that is done later, or
/// folded with the op.
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
