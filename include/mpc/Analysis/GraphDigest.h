//===- GraphDigest.h - hash that identifies a model -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_GRAPHDIGEST_H
#define MPC_ANALYSIS_GRAPHDIGEST_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace mpc {

/// Returns a hash that identifies a model, in hexadecimal: its ops in order,
/// their operands and names, and the values of its float constants. Independent
/// of shapes, so that another batch size gives the same hash. `function` has
/// one block and has passed Simplify.
std::string graphDigest(mlir::func::FuncOp function);

} // namespace mpc

#endif // MPC_ANALYSIS_GRAPHDIGEST_H
