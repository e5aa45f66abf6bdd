//===- MapKernel.h - vectors of elements, each by one thread ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to this folder. What a thread of the families "map" and "update"
// does: it computes a few neighbouring elements of results of one shape.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_MAPKERNEL_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_MAPKERNEL_H

#include "Schedule.h"

#include "Target/Kernel/LoopKernels.h"

namespace mpc {

/// A map kernel while it is scheduled or written: results of one shape are
/// computed together.
class MapKernel {
public:
  MapKernel(mlir::func::FuncOp kernel, mlir::OpBuilder &builder,
            llvm::ArrayRef<mlir::Value> inputs,
            llvm::ArrayRef<mlir::Value> outputs);
  ~MapKernel() { copy.erase(); }

  /// Whether the kernel is a map at all.
  bool applies();
  size_t groups() const { return rootsOf.size(); }
  /// The widest vectors that the group's types suggest.
  int64_t widest(size_t group);
  /// Threads that the group needs with vectors of `lanes`; 0 where it cannot be
  /// cut into such vectors.
  int64_t items(size_t group, int64_t lanes);
  /// Writes what thread `item` does.
  mlir::LogicalResult
  emit(size_t group, int64_t lanes, mlir::Value item,
       llvm::function_ref<void(mlir::Value, llvm::StringRef)> setName);

  /// The vector width of a group whose code accesses memory least, and the
  /// threads that it needs; nullopt where no code can be written.
  struct Width {
    int64_t lanes = 1, items = 0;
  };
  static std::optional<Width> chooseWidth(mlir::func::FuncOp kernel,
                                          size_t group);

private:
  mlir::LogicalResult store(size_t group, llvm::ArrayRef<mlir::Value> indices,
                            int64_t lanes);

  mlir::func::FuncOp copy;
  mlir::OpBuilder &builder;
  ElementTarget target = cudaElementTarget();
  ElementEmitter emitter;
  llvm::SmallVector<llvm::SmallVector<Root>> rootsOf;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_MAPKERNEL_H
