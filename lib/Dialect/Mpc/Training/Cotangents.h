//===- Cotangents.h - what flows back into values ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRAINING_COTANGENTS_H
#define MPC_LIB_DIALECT_MPC_TRAINING_COTANGENTS_H

#include "../Transforms/OpEmitter.h"

#include "llvm/ADT/DenseMap.h"

namespace mpc {

/// The cotangents that the users of each value gave so far. Parts that slices
/// of a value give are kept apart until the value is taken: parts that tile one
/// axis join in one concat instead of padded sums.
class Cotangents {
public:
  /// Writes at the builder's place.
  explicit Cotangents(mlir::OpBuilder &builder) : builder(builder) {}

  /// Adds a cotangent of the value's type.
  void add(mlir::Value value, mlir::Value cotangent) {
    pending[value].whole.push_back(cotangent);
  }

  /// Keeps what flows back through a slice of unit strides that cuts one axis,
  /// or a gather of one known position; false for any other op.
  bool addSlice(mlir::Operation *op, llvm::ArrayRef<mlir::Value> results);

  /// The sum of all cotangents of `value`, null where there is none. Forgets
  /// them.
  mlir::Value take(mlir::Value value);

private:
  /// The cotangent of elements from `begin` on along `axis`; `number` counts
  /// the parts of a value.
  struct Part {
    int64_t axis, begin, number;
    mlir::Value cotangent;
    mlir::Operation *origin;
  };
  struct Pending {
    llvm::SmallVector<mlir::Value> whole;
    llvm::SmallVector<Part> parts;
  };
  /// The parts of one axis, none overlapping the other, as a whole.
  mlir::Value join(mlir::Value value, llvm::ArrayRef<Part> parts);

  mlir::OpBuilder &builder;
  llvm::DenseMap<mlir::Value, Pending> pending;
};

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRAINING_COTANGENTS_H
