//===- Matmul.h - matrix multiplication operators ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_MATMUL_H
#define MPC_LIB_IMPORT_ONNX_MATMUL_H

#include "NodeImport.h"

namespace mpc::onnx {

/// MatMul of operands of any rank: vectors are treated as matrices. Integer
/// operands (see quantization) must already be cast.
mlir::Value matmulAnyRank(NodeImport &n, mlir::Value lhs, mlir::Value rhs);

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_MATMUL_H
