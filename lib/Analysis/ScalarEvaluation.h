//===- ScalarEvaluation.h - elementwise ops on scalars ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_SCALAREVALUATION_H
#define MPC_LIB_ANALYSIS_SCALAREVALUATION_H

#include "mlir/IR/Operation.h"

#include <optional>

namespace mpc {

/// Evaluates an elementwise op of any shape on one element per operand with the
/// interpreter, in the op's types, or in `type` if given.
std::optional<double> evaluateAt(mlir::Operation *op,
                                 llvm::ArrayRef<double> values,
                                 mlir::Type type = {});

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_SCALAREVALUATION_H
