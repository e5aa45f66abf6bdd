//===- Quantization.h - quantization operators ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_QUANTIZATION_H
#define MPC_LIB_IMPORT_ONNX_QUANTIZATION_H

#include "NodeImport.h"

namespace mpc::onnx {

/// A quantized tensor: (values - zeroPoint) * scale.
struct QuantizedTensor {
  mlir::Value values, scale, zeroPoint;
};

/// Dynamic quantization of `x` to ui8, with scale and zero point from its
/// range. Null values after an error.
QuantizedTensor quantizeDynamically(NodeImport &n, mlir::Value x);

/// Returns x - zeroPoint, exactly, in `type`; `zeroPoint` may be null.
mlir::Value centred(NodeImport &n, mlir::Value x, mlir::Value zeroPoint,
                    mlir::Type type);

/// Returns the integers of `x` minus its zero point in the type for exact sums
/// of products.
mlir::Value centredFactor(NodeImport &n, const QuantizedTensor &x);
/// Multiplies two matrices of centered integers, as i32.
mlir::Value multiplyIntegers(NodeImport &n, mlir::Value lhs, mlir::Value rhs);

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_QUANTIZATION_H
