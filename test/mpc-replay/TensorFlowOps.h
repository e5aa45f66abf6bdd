//===- TensorFlowOps.h - TensorFlow's ops in the dialect --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_REPLAY_TENSORFLOWOPS_H
#define MPC_TOOLS_REPLAY_TENSORFLOWOPS_H

#include "mlir/IR/Builders.h"

#include <string>

namespace mpc::replay {

/// A node of a recorded graph.
struct TensorFlowNode {
  std::string name, op;
  llvm::SmallVector<mlir::Value> inputs;
  /// Shapes of the results.
  llvm::SmallVector<llvm::SmallVector<int64_t>> shapes;
  llvm::SmallVector<mlir::Type> types;
};

/// A constant whose elements are all `value`.
mlir::Value makeConstant(mlir::OpBuilder &builder,
                         llvm::ArrayRef<int64_t> shape, mlir::Type type,
                         double value);

/// Builds `node`; returns its results by port, only the first ones where the
/// dialect computes no others. Empty if the dialect has no equivalent op.
llvm::SmallVector<mlir::Value> buildTensorFlowOp(mlir::OpBuilder &builder,
                                                 const TensorFlowNode &node);

} // namespace mpc::replay

#endif // MPC_TOOLS_REPLAY_TENSORFLOWOPS_H
