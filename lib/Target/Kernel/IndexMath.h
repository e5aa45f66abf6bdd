//===- IndexMath.h - builder of index arithmetic and loops ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_INDEXMATH_H
#define MPC_LIB_TARGET_KERNEL_INDEXMATH_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"

namespace mpc {

/// Returns the largest known divisor of an index, from constants, sums,
/// products, remainders and loop steps; 0 for the index 0.
int64_t knownDivisor(mlir::Value index);

/// Values carried by a loop, or returned by a branch.
using Carried = llvm::SmallVector<mlir::Value, 4>;

using CarriedBody = llvm::function_ref<Carried(mlir::Value, mlir::ValueRange)>;

/// Returns the part lengths for hierarchical (pairwise-style) summation of
/// `steps` terms, each a multiple of the next; empty for few terms. No
/// accumulator takes many terms; the last one, whose roundings are not averaged
/// with others, takes the fewest.
llvm::SmallVector<int64_t, 4> partsOfSum(int64_t steps);

/// Builds folded index arithmetic, loops and memory accesses at the insertion
/// point. All values are non-negative, so unsigned division is used.
struct IndexMath {
  mlir::OpBuilder &b;
  mlir::Location loc;

  mlir::Value constant(int64_t value) const {
    return mlir::arith::ConstantIndexOp::create(b, loc, value);
  }
  mlir::Value add(mlir::Value x, mlir::Value y) const {
    return b.createOrFold<mlir::arith::AddIOp>(loc, x, y);
  }
  mlir::Value add(mlir::Value x, int64_t y) const {
    return y ? add(x, constant(y)) : x;
  }
  mlir::Value sub(mlir::Value x, mlir::Value y) const {
    return b.createOrFold<mlir::arith::SubIOp>(loc, x, y);
  }
  mlir::Value mul(mlir::Value x, int64_t y) const {
    if (y == 1)
      return x;
    return y == 0 ? constant(0)
                  : b.createOrFold<mlir::arith::MulIOp>(loc, x, constant(y));
  }
  mlir::Value div(mlir::Value x, int64_t y) const {
    return y == 1 ? x
                  : b.createOrFold<mlir::arith::DivUIOp>(loc, x, constant(y));
  }
  mlir::Value rem(mlir::Value x, int64_t y) const {
    return y == 1 ? constant(0)
                  : b.createOrFold<mlir::arith::RemUIOp>(loc, x, constant(y));
  }
  mlir::Value min(mlir::Value x, int64_t y) const {
    return b.createOrFold<mlir::arith::MinUIOp>(loc, x, constant(y));
  }
  mlir::Value min(mlir::Value x, mlir::Value y) const {
    return b.createOrFold<mlir::arith::MinUIOp>(loc, x, y);
  }
  /// Bitwise.
  mlir::Value exclusiveOr(mlir::Value x, mlir::Value y) const {
    return b.createOrFold<mlir::arith::XOrIOp>(loc, x, y);
  }
  /// x < y as i1.
  mlir::Value less(mlir::Value x, mlir::Value y) const {
    return b.createOrFold<mlir::arith::CmpIOp>(
        loc, mlir::arith::CmpIPredicate::ult, x, y);
  }
  mlir::Value less(mlir::Value x, int64_t y) const {
    return less(x, constant(y));
  }
  /// max(x - y, 0).
  mlir::Value subOrZero(mlir::Value x, int64_t y) const {
    mlir::Value larger =
        b.createOrFold<mlir::arith::MaxUIOp>(loc, x, constant(y));
    return sub(larger, constant(y));
  }
  /// The index of a row-major position in each dimension of `shape`.
  llvm::SmallVector<mlir::Value>
  delinearize(mlir::Value position, llvm::ArrayRef<int64_t> shape) const {
    llvm::SmallVector<mlir::Value> indices(shape.size());
    for (size_t i = shape.size(); i-- > 0;) {
      indices[i] = i == 0 ? position : rem(position, shape[i]);
      position = i == 0 ? position : div(position, shape[i]);
    }
    return indices;
  }

  /// for (iv = begin; iv < end; iv += step) body(iv); leaves the insertion
  /// point after the loop.
  void loop(mlir::Value begin, mlir::Value end, int64_t step,
            llvm::function_ref<void(mlir::Value)> body) const {
    auto op = mlir::scf::ForOp::create(b, loc, begin, end, constant(step));
    mlir::OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(op.getBody()->getTerminator());
    body(op.getInductionVar());
  }
  void loop(int64_t end, llvm::function_ref<void(mlir::Value)> body) const {
    if (end == 1)
      body(constant(0));
    else if (end > 1)
      loop(constant(0), constant(end), 1, body);
  }
  /// The same with carried values: `body(iv, carried)` returns the next ones.
  Carried loop(mlir::Value begin, mlir::Value end, mlir::Value step,
               mlir::ValueRange initial, CarriedBody body) const;
  Carried loop(mlir::Value begin, mlir::Value end, int64_t step,
               mlir::ValueRange initial, CarriedBody body) const {
    return loop(begin, end, constant(step), initial, body);
  }
  /// The same, but a single iteration becomes straight-line code.
  Carried carry(mlir::Value begin, mlir::Value end, int64_t step,
                mlir::ValueRange initial, CarriedBody body) const;
  /// The same if all carried values are sums. Long sums are split into parts,
  /// each starting from `zeros`, because the error grows with the number of
  /// terms per accumulator. `terms`: terms per call of `body` and accumulator,
  /// more than one if it is a loop itself.
  Carried carrySum(mlir::Value begin, mlir::Value end, int64_t step,
                   mlir::ValueRange sums, mlir::ValueRange zeros, int64_t terms,
                   CarriedBody body) const;
  /// if (condition) yes(); else no();
  void branch(mlir::Value condition, llvm::function_ref<void()> yes,
              llvm::function_ref<void()> no = {}) const;
  /// The values that yes() or no() returns, of `types`; yes() without a
  /// condition.
  Carried choose(mlir::Value condition, mlir::TypeRange types,
                 llvm::function_ref<Carried()> yes,
                 llvm::function_ref<Carried()> no) const;

  /// Loads `lanes` elements (1: a scalar) of `memory`, or a vector.
  mlir::Value load(mlir::Value memory, mlir::ValueRange at,
                   int64_t lanes = 1) const;
  mlir::Value load(mlir::Value memory, mlir::ValueRange at,
                   mlir::VectorType type) const;
  /// Stores a scalar or vector.
  void store(mlir::Value value, mlir::Value memory, mlir::ValueRange at) const;
  /// Prefetches the cache line of an element, to read it; `locality` as in
  /// memref.prefetch.
  void prefetch(mlir::Value memory, mlir::ValueRange at,
                unsigned locality = 3) const;

  /// `count` elements of `type` at byte `offset` of the byte buffer `scratch`.
  mlir::Value view(mlir::Value scratch, int64_t offset, int64_t count,
                   mlir::Type type) const {
    return mlir::memref::ViewOp::create(
        b, loc, mlir::MemRefType::get({count}, type), scratch, constant(offset),
        mlir::ValueRange{});
  }
  /// A contiguous memref as one dimension.
  mlir::Value flatten(mlir::Value memref) const {
    auto type = mlir::cast<mlir::MemRefType>(memref.getType());
    if (type.getRank() == 1)
      return memref;
    int64_t count = type.getNumElements();
    return mlir::memref::ReinterpretCastOp::create(
        b, loc, mlir::MemRefType::get({count}, type.getElementType()), memref,
        /*offset=*/0, llvm::ArrayRef<int64_t>{count},
        llvm::ArrayRef<int64_t>{1});
  }
};

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_INDEXMATH_H
