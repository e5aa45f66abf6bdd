//===- GraphDigest.h - which model a file was made for ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_GRAPHDIGEST_H
#define MPC_ANALYSIS_GRAPHDIGEST_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace mpc {

/// A hash of what makes a model the same one again, in hexadecimal digits: its
/// ops in order, what they read, their names, and the values of its float
/// constants. Shapes do not count: a model keeps its hash under another batch.
/// `function` has one block and stands after Simplify.
std::string graphDigest(mlir::func::FuncOp function);

} // namespace mpc

#endif // MPC_ANALYSIS_GRAPHDIGEST_H
