//===- Matmul.h - matrix products -------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_MATMUL_H
#define MPC_LIB_IMPORT_ONNX_MATMUL_H

#include "NodeImport.h"

namespace mpc::onnx {

/// MatMul of operands of any rank: vectors become matrices for the product.
/// Integer operands (see quantization) must have been cast before.
mlir::Value matmulAnyRank(NodeImport &n, mlir::Value lhs, mlir::Value rhs);

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_MATMUL_H
