//===- KnownValues.h - values computed from given inputs --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_KNOWNVALUES_H
#define MPC_LIB_JIT_KNOWNVALUES_H

#include "mpc/Reference/Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseMap.h"

#include <map>

namespace mpc {

/// Returns the name of an argument of an imported model.
std::string argumentName(mlir::func::FuncOp function, unsigned number);

/// Evaluates values of an imported model that depend only on constants and on
/// inputs with given values.
class KnownValues {
public:
  /// Elements of the given inputs by name, row-major.
  using Inputs = std::map<std::string, std::vector<int64_t>>;

  KnownValues(mlir::func::FuncOp function, Inputs inputs)
      : function(function), inputs(std::move(inputs)) {}

  /// Returns null if `value` depends on another input, unknownInput(), or,
  /// after a diagnostic, if an op cannot be evaluated.
  const reference::Tensor *find(mlir::Value value);
  const std::string &unknownInput() const { return unknown; }

private:
  mlir::func::FuncOp function;
  Inputs inputs;
  std::string unknown;
  llvm::DenseMap<mlir::Value, std::unique_ptr<reference::Tensor>> known;
};

} // namespace mpc

#endif // MPC_LIB_JIT_KNOWNVALUES_H
