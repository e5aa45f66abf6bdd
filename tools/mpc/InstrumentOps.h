//===- InstrumentOps.h - all op results as outputs --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A second compile, in which every op numbered by OpTrace is an output.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_INSTRUMENTOPS_H
#define MPC_TOOLS_MPC_INSTRUMENTOPS_H

#include "mpc/Reference/Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>
#include <vector>

namespace mpc::tool {

/// A numbered op whose first result became an output.
struct InstrumentedOp {
  int64_t number;
  /// Index among the function's results.
  size_t output;
  std::string name, kind, layer;
};

/// Makes the first result of every numbered op an output of `function`, after
/// its existing outputs.
std::vector<InstrumentedOp> exposeOps(mlir::func::FuncOp function);

/// Returns the root mean square of the elements.
double rms(const reference::Tensor &tensor);

/// Return name, precision kind and layer path of an op for reports.
std::string opName(mlir::Operation *op);
std::string opKind(mlir::Operation *op);
std::string opLayer(mlir::Operation *op);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_INSTRUMENTOPS_H
