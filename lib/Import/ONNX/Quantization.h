//===- Quantization.h - linear quantization ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_QUANTIZATION_H
#define MPC_LIB_IMPORT_ONNX_QUANTIZATION_H

#include "NodeImport.h"

namespace mpc::onnx {

/// A tensor of integers that stand for (values - zeroPoint) * scale.
struct QuantizedTensor {
  mlir::Value values, scale, zeroPoint;
};

/// `x` in ui8, with the scale and zero point that its own range gives. Null
/// values after an error.
QuantizedTensor quantizeDynamically(NodeImport &n, mlir::Value x);

/// x - zeroPoint, exactly, in `type`; `zeroPoint` may be null.
mlir::Value centred(NodeImport &n, mlir::Value x, mlir::Value zeroPoint,
                    mlir::Type type);

/// The integers of `x` less its zero point in the type that holds sums of
/// products of them.
mlir::Value centredFactor(NodeImport &n, const QuantizedTensor &x);
/// The product of two matrices that are centred factors, as i32.
mlir::Value multiplyIntegers(NodeImport &n, mlir::Value lhs, mlir::Value rhs);

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_QUANTIZATION_H
