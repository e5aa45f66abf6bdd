//===- CarriedPrecision.h - a policy's types on another graph ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The graph of the storage-rounding mode: the imported model, before any
// rewrite, with the types that the precision stage gave its rewritten form. A
// tolerance that comes from it does not know what the rewrites did. Knows LLVM;
// internal.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_CARRIEDPRECISION_H
#define MPC_LIB_JIT_CARRIEDPRECISION_H

#include "OpTrace.h"

#include "llvm/ADT/DenseMap.h"

namespace mpc {

/// Sums over the elements of a function's float values in one run, in which
/// values of two graphs are recognised whatever the order of their elements.
class ValueDigests {
public:
  /// What the interpreter calls after each op.
  OpObserver observer();
  void add(mlir::Value value, const reference::Tensor &tensor);
  /// Adds the arguments of a run of `function`.
  void addArguments(mlir::func::FuncOp function,
                    llvm::ArrayRef<reference::Tensor> arguments);

  /// Whether a value of this run and one of `others` have the same elements, as
  /// far as their number, their sum and the sum of their squares tell; false
  /// where one was not seen, as a constant.
  bool isSame(mlir::Value value, const ValueDigests &others,
              mlir::Value other) const;

private:
  struct Digest {
    int64_t size = 0;
    double sum = 0, magnitude = 0, squares = 0;
  };
  llvm::DenseMap<mlir::Value, Digest> digests;
};

/// A graph and what a float64 run of it gave.
struct ObservedGraph {
  mlir::func::FuncOp function;
  ValueDigests values;
};

/// Gives the f32 values of `imported` the types that stage precision gave them
/// in `typed`, which it made of `simplified`, by casts and by types of results.
/// All are functions of one context; both observed runs had the same arguments.
///
/// An op takes the types of the op of its name and kind. Of a composite that
/// stands for several ops, those that read its operands and make its results,
/// by value, round as it does; values inside are rounded where contractions
/// read them. An op without a counterpart takes the narrowest type of its
/// family (FusionClass) in `typed` once: the operands of a contraction, the
/// results of other ops. What is computed from constants alone keeps its types,
/// to which constant folding rounds as well.
void carryPrecision(const ObservedGraph &imported,
                    const ObservedGraph &simplified, mlir::func::FuncOp typed);

} // namespace mpc

#endif // MPC_LIB_JIT_CARRIEDPRECISION_H
