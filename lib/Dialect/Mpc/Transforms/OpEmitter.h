//===- OpEmitter.h - concise creation of ops --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builder used by the decomposition passes.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_OPEMITTER_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_OPEMITTER_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

namespace mpc {
class CastOp;

/// Returns the constant attribute that defines `value`, or null.
mlir::ElementsAttr constantOf(mlir::Value value);

/// Creates ops at one insertion point with the location and discardable
/// attributes of the op they replace. Folds reshapes, transposes, slices and
/// reversals of constants.
class OpEmitter {
public:
  OpEmitter(mlir::OpBuilder &builder, mlir::Operation *origin)
      : builder(builder), loc(origin->getLoc()),
        attributes(origin->getDiscardableAttrDictionary()) {}

  mlir::OpBuilder &builder;
  mlir::Location loc;

  /// Applies the cast `cast` to `value`.
  static mlir::Value castLike(mlir::OpBuilder &builder, CastOp cast,
                              mlir::Value value);

  /// Copies the discardable attributes of the original op to `op`; the padding
  /// attribute only to contractions.
  template <typename OpTy> OpTy keep(OpTy op) {
    op->setDiscardableAttrs(attributes);
    if (!llvm::isa<ContractionOpInterface>(op.getOperation()))
      op->removeDiscardableAttr(MpcDialect::kPaddingAttr);
    return op;
  }
  template <typename OpTy, typename... Args> OpTy create(Args &&...args) {
    return keep(OpTy::create(builder, loc, std::forward<Args>(args)...));
  }

  mlir::Value constant(mlir::ElementsAttr value);
  mlir::Value splat(llvm::ArrayRef<int64_t> shape, mlir::Type element,
                    double value);
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  /// Emits a reshape if only extents of 1 move.
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> permutation);
  /// Strided slice; unit steps by default.
  mlir::Value slice(mlir::Value value, llvm::ArrayRef<int64_t> offsets,
                    llvm::ArrayRef<int64_t> sizes,
                    llvm::ArrayRef<int64_t> steps = {});
  /// Slice `[begin, begin + size)` of one dimension.
  mlir::Value sliceAxis(mlir::Value value, int64_t axis, int64_t begin,
                        int64_t size);
  mlir::Value reverse(mlir::Value value, llvm::ArrayRef<int64_t> axes);
  /// Returns `value` itself if it has the element type.
  mlir::Value cast(mlir::Value value, mlir::Type element);
  mlir::Value pad(mlir::Value value, llvm::ArrayRef<int64_t> low,
                  llvm::ArrayRef<int64_t> high,
                  llvm::ArrayRef<int64_t> interior);
  mlir::Value concat(mlir::ValueRange values, int64_t axis);

private:
  mlir::DictionaryAttr attributes;
};

/// Returns the inverse permutation.
llvm::SmallVector<int64_t>
inversePermutation(llvm::ArrayRef<int64_t> permutation);

/// Returns the permutation that swaps the last two of `rank` dimensions.
llvm::SmallVector<int64_t> swapLast(int64_t rank);

/// Returns true if a transpose of `shape` moves only extents of 1, so that the
/// bytes stay in place.
bool isTrivialTranspose(llvm::ArrayRef<int64_t> shape,
                        llvm::ArrayRef<int64_t> permutation);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_OPEMITTER_H
