//===- KvCacheFormat.h - storage formats of KV caches -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRANSFORMS_KVCACHEFORMAT_H
#define MPC_DIALECT_MPC_TRANSFORMS_KVCACHEFORMAT_H

#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Policy/Policy.h"
#include "mpc/Runtime/TensorType.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace mpc {

/// KV-cache rows in a buffer's layout: the row dimension first.
struct KvCacheRows {
  mlir::Value numbers;
  /// Scales [rows, ..., 1]; null if the elements are not quantized.
  mlir::Value scales;
};

/// Permutations between a cache's dimensions and the buffer's layout.
struct RowOrder {
  RowOrder(int64_t rank, int64_t rowDimension);
  llvm::SmallVector<int64_t> toRows, fromRows;
};

/// Transposes `value`: dimension `i` of the result is `order[i]`.
mlir::Value transposed(mlir::OpBuilder &builder, mlir::Location loc,
                       mlir::Value value, llvm::ArrayRef<int64_t> order);

/// Storage format of a KV cache's elements: a float type, or 8 bits with a
/// scale per row of the last dimension. Builds the ops that store and read it.
class KvCacheFormat {
public:
  KvCacheFormat(mlir::OpBuilder &builder, mlir::Location loc,
                ElementType element)
      : builder(builder), loc(loc), element(element) {}

  bool isScaled() const { return elementBytes(element) == 1; }
  /// Converts or quantizes `rows` to the format.
  KvCacheRows quantize(mlir::Value rows) const;
  /// Converts or dequantizes `rows` to type `to`.
  mlir::Value dequantize(const KvCacheRows &rows, mlir::Type to) const;

private:
  mlir::Type numberType() const;
  mlir::Value constant(double value) const;
  bool isFloat8() const { return element == ElementType::F8E4M3FN; }
  mlir::Type float8() const;

  mlir::OpBuilder &builder;
  mlir::Location loc;
  ElementType element;
};

/// Returns the element type of caches that a policy stores as `type`; nullopt
/// if it names none or f32.
std::optional<ElementType> kvCacheElement(std::optional<WeightType> type);

/// Returns the concatenations that append rows to a KV cache in f32 of at least
/// three dimensions: of an argument whose name starts with "past" and new rows,
/// returned by `function`.
llvm::SmallVector<ConcatOp> findKvCaches(mlir::func::FuncOp function);

/// Rounds the operands of `concat`, a KV cache, to `element`, as a decoder
/// stores them.
void roundKvCache(ConcatOp concat, ElementType element);

} // namespace mpc

#endif // MPC_DIALECT_MPC_TRANSFORMS_KVCACHEFORMAT_H
