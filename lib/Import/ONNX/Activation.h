//===- Activation.h - activation functions by name --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Activation functions of the recurrent operators (ONNX operator LSTM).
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_ACTIVATION_H
#define MPC_LIB_IMPORT_ONNX_ACTIVATION_H

#include "NodeImport.h"

namespace mpc::onnx {

/// An activation function and its parameters.
struct Activation {
  std::string name; ///< lower case; empty: no such function
  bool takesAlpha = false, takesBeta = false;
  double alpha = 0, beta = 0;
};

/// Returns the function `name`, in lower case, with ONNX's default parameters.
Activation activationOf(llvm::StringRef name);

/// Emits `function` of `x`.
mlir::Value activate(NodeImport &n, const Activation &function, mlir::Value x);

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_ACTIVATION_H
