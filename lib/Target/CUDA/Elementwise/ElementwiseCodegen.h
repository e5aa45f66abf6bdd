//===- ElementwiseCodegen.h - one vector per thread -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Per-thread code of the kernel families "map" and "update": computes a few
// contiguous elements of results of one shape. Private to this folder.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_ELEMENTWISE_ELEMENTWISECODEGEN_H
#define MPC_LIB_TARGET_CUDA_ELEMENTWISE_ELEMENTWISECODEGEN_H

#include "../Plan/Schedule.h"

#include "Target/Kernel/LoopKernels.h"

namespace mpc::cuda {

/// An elementwise kernel under analysis or construction. Results of one shape
/// form a group that is computed together.
class ElementwiseCodegen {
public:
  ElementwiseCodegen(mlir::func::FuncOp kernel, mlir::OpBuilder &builder,
                     llvm::ArrayRef<mlir::Value> inputs,
                     llvm::ArrayRef<mlir::Value> outputs);
  ElementwiseCodegen(mlir::func::FuncOp kernel, TrialCodegen &trial)
      : ElementwiseCodegen(kernel, trial.builder, trial.memory.inputs,
                           trial.memory.outputs) {}
  ~ElementwiseCodegen() { copy.erase(); }

  /// Returns true if the kernel is elementwise in this sense.
  bool applies();
  size_t groups() const { return rootsOf.size(); }
  /// Returns the maximum vector width by the group's types.
  int64_t widest(size_t group);
  /// Returns the number of threads of the group for vectors of `lanes`; 0 if it
  /// cannot be split into such vectors.
  int64_t items(size_t group, int64_t lanes);
  /// Generates the code of thread `item`.
  mlir::LogicalResult emit(size_t group, int64_t lanes, mlir::Value item);

  /// Vector width of a group, and the number of threads.
  struct Width {
    int64_t lanes = 1, items = 0;
  };
  /// Chooses the width with the fewest memory accesses for each group; nullopt
  /// if no code can be generated.
  static std::optional<llvm::SmallVector<Width>>
  chooseWidths(mlir::func::FuncOp kernel);

private:
  static std::optional<Width> chooseWidth(mlir::func::FuncOp kernel,
                                          size_t group);
  mlir::LogicalResult store(size_t group, llvm::ArrayRef<mlir::Value> indices,
                            int64_t lanes);

  mlir::func::FuncOp copy;
  mlir::OpBuilder &builder;
  ElementTarget target = cudaElementTarget();
  ElementEmitter emitter;
  llvm::SmallVector<llvm::SmallVector<Root>> rootsOf;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_ELEMENTWISE_ELEMENTWISECODEGEN_H
