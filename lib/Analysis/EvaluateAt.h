//===- EvaluateAt.h - elementwise ops at one element ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_EVALUATEAT_H
#define MPC_LIB_ANALYSIS_EVALUATEAT_H

#include "mlir/IR/Operation.h"

#include <optional>

namespace mpc {

/// What an elementwise op of any shape makes of one element of each operand, as
/// the interpreter computes it in the op's types; with `type` all elements are
/// of that instead.
std::optional<double> evaluateAt(mlir::Operation *op,
                                 llvm::ArrayRef<double> values,
                                 mlir::Type type = {});

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_EVALUATEAT_H
