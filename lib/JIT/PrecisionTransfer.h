//===- PrecisionTransfer.h - precision types on another graph ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds the graph of the storage-rounding mode: the imported model, before any
// rewrite, with the types that the precision stage assigned to its rewritten
// form. A tolerance from this graph is independent of the rewrites. Uses LLVM;
// internal.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_PRECISIONTRANSFER_H
#define MPC_LIB_JIT_PRECISIONTRANSFER_H

#include "OpTrace.h"

#include "llvm/ADT/DenseMap.h"

namespace mpc {

/// Checksums of a function's float values in one run, which identify equal
/// values of two graphs regardless of element order.
class ValueDigests {
public:
  /// Callback for the interpreter, called after each op.
  OpObserver observer();
  void add(mlir::Value value, const reference::Tensor &tensor);
  /// Adds the arguments of a run of `function`.
  void addArguments(mlir::func::FuncOp function,
                    llvm::ArrayRef<reference::Tensor> arguments);

  /// Returns true if a value of this run and one of `others` have equal element
  /// counts, sums and sums of squares; false if one was not observed, such as a
  /// constant.
  bool isSame(mlir::Value value, const ValueDigests &others,
              mlir::Value other) const;

private:
  struct Digest {
    int64_t size = 0;
    double sum = 0, magnitude = 0, squares = 0;
  };
  llvm::DenseMap<mlir::Value, Digest> digests;
};

/// A graph and the checksums of its float64 run.
struct ObservedGraph {
  mlir::func::FuncOp function;
  ValueDigests values;
};

/// Assigns to the f32 values of `imported` the types that the precision stage
/// gave them in `typed`, which was derived from `simplified`, by inserting
/// casts and changing result types. All functions share one context; both runs
/// had the same arguments.
///
/// An op takes the types of its counterpart, the op of the same name and kind.
/// If a composite op replaced several ops, those that read its operands or
/// compute its results, matched by value, round as it does; inner values are
/// rounded at contraction operands. An op without a counterpart takes the
/// narrowest type of its family (FusionClass) in `typed`: of operands for a
/// contraction, else of results. Constant subexpressions keep their types, as
/// constant folding also rounds to them.
void transferPrecision(const ObservedGraph &imported,
                       const ObservedGraph &simplified,
                       mlir::func::FuncOp typed);

} // namespace mpc

#endif // MPC_LIB_JIT_PRECISIONTRANSFER_H
