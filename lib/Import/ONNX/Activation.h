//===- Activation.h - activation functions without an op --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Activation functions that ONNX spells by other ops, of any value `x`.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_ACTIVATION_H
#define MPC_LIB_IMPORT_ONNX_ACTIVATION_H

#include "NodeImport.h"

namespace mpc::onnx {

/// clamp(alpha * x + beta, 0, 1).
mlir::Value hardSigmoid(NodeImport &n, mlir::Value x, double alpha,
                        double beta);
/// x / (1 + |x|).
mlir::Value softsign(NodeImport &n, mlir::Value x);
/// x where x > alpha, 0 elsewhere.
mlir::Value thresholdedRelu(NodeImport &n, mlir::Value x, double alpha);

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_ACTIVATION_H
