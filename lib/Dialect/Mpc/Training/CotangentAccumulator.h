//===- CotangentAccumulator.h - accumulation of cotangents ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRAINING_COTANGENTACCUMULATOR_H
#define MPC_LIB_DIALECT_MPC_TRAINING_COTANGENTACCUMULATOR_H

#include "../Transforms/OpEmitter.h"

#include "llvm/ADT/DenseMap.h"

namespace mpc {

/// Accumulates the cotangents that the users of each value contribute.
/// Contributions from slices are collected separately: slices that tile one
/// axis become one concat instead of a sum of padded tensors.
class CotangentAccumulator {
public:
  /// Inserts ops at the builder's insertion point.
  explicit CotangentAccumulator(mlir::OpBuilder &builder) : builder(builder) {}

  /// Adds a cotangent of the value's type.
  void add(mlir::Value value, mlir::Value cotangent) {
    pending[value].whole.push_back(cotangent);
  }

  /// Collects the cotangent of a unit-stride slice along one axis, or of a
  /// gather at one constant index; returns false for any other op.
  bool addSlice(mlir::Operation *op, llvm::ArrayRef<mlir::Value> results);

  /// Returns the sum of all cotangents of `value` and forgets them; null if
  /// there are none.
  mlir::Value take(mlir::Value value);

private:
  /// Cotangent of the elements from `begin` on along `axis`; `number` is the
  /// order of arrival.
  struct Part {
    int64_t axis, begin, number;
    mlir::Value cotangent;
    mlir::Operation *origin;
  };
  struct Pending {
    llvm::SmallVector<mlir::Value> whole;
    llvm::SmallVector<Part> parts;
  };
  /// Assembles non-overlapping parts along one axis.
  mlir::Value join(mlir::Value value, llvm::ArrayRef<Part> parts);

  mlir::OpBuilder &builder;
  llvm::DenseMap<mlir::Value, Pending> pending;
};

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRAINING_COTANGENTACCUMULATOR_H
