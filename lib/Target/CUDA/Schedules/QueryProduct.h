//===- QueryProduct.h - products that lead attention ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An attention to keys that are there already, as a decoder's to its encoder,
// waits for its query alone, which a product makes. A block of attention reads
// some rows of one head: cut into tiles of as many rows and a head's columns,
// the product has a block for each, and both run as one, that of the product
// first. Nothing is computed twice.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_QUERYPRODUCT_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_QUERYPRODUCT_H

#include "Schedule.h"

namespace mpc {

struct QueryProduct {
  /// Of the product: its block makes what the block of the same number of
  /// attention reads, with as many threads or more.
  Schedule schedule;
  /// How much longer the product takes than by the tiles that suit it best.
  double extraSeconds = 0;

  /// nullopt where `attention`, which runs by `given`, reads anything else of
  /// its argument number `argument`, the only result of `product`, in its
  /// order, or where there are no such tiles.
  static std::optional<QueryProduct>
  of(mlir::func::FuncOp product, mlir::func::FuncOp attention,
     unsigned argument, const Schedule &given, const CudaTarget &target);
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_QUERYPRODUCT_H
