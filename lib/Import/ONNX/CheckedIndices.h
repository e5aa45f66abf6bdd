//===- CheckedIndices.h - run-time bounds checks of indices -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_CHECKEDINDICES_H
#define MPC_LIB_IMPORT_ONNX_CHECKEDINDICES_H

#include "Importer.h"

namespace mpc::onnx {

/// Enables bounds checks of the gather or scatter that computed `result`: ONNX
/// defines an index out of range as an error. With `areLengths` negative
/// indices are errors as well. Known indices were checked or folded at import,
/// unless checksKnownIndicesLater is set.
mlir::Value checkIndicesOf(NodeImport &n, mlir::Value result,
                           bool areLengths = false);

/// Returns input `input` of a node, the lengths `name`, checked to be between 0
/// and `most`, which errors describe as `bound`. Known lengths are checked at
/// import, others at run time. Null after an error.
mlir::Value checkedLengths(NodeImport &n, size_t input, llvm::StringRef name,
                           int64_t most, llvm::StringRef bound);

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_CHECKEDINDICES_H
