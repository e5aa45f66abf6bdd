//===- ElementEmitter.h - the value of a tensor at an index -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits scalar or vector code for one element (or a run of elements along the
// last dimension) of a tensor value by recursion through the mpc ops that
// define it. Every kernel, contraction epilogues included, gets its
// elementwise code here.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_ELEMENTEMITTER_H
#define MPC_LIB_TARGET_KERNEL_ELEMENTEMITTER_H

#include "ElementMemory.h"
#include "ElementTarget.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <functional>

namespace mpc {

/// Scalar type in which generated code carries an element: f32 for f16, bf16
/// and f32, f64, i1, and signless integers.
mlir::Type carriedType(mlir::Type elementType);

/// `lanes` of a scalar type: the scalar itself for 1.
mlir::Type lanesOf(mlir::Type scalar, int64_t lanes);

/// A half-open range of positions along a last dimension.
struct LaneRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

/// Emits tensor elements at the builder's insertion point. Results are reused
/// while they dominate the insertion point, so code must be appended in order.
/// Diagnostics go to the op that cannot be emitted.
class ElementEmitter {
public:
  /// Produces a bound tensor's value; same arguments as `emit`.
  using Source = std::function<mlir::FailureOr<mlir::Value>(
      mlir::ValueRange, int64_t lanes, mlir::Value mask)>;

  ElementEmitter(mlir::OpBuilder &builder, mlir::Location loc,
                 const ElementTarget &target);

  /// `tensor` (a kernel argument or a value stored earlier) lies in `memref`.
  void bindMemory(mlir::Value tensor, mlir::Value memref);
  /// `tensor` is `ssa` (a carried value) at whatever index is asked for next. A
  /// scalar serves vector requests by broadcasting.
  void bindValue(mlir::Value tensor, mlir::Value ssa);
  /// `tensor` is computed by `source`.
  void bindSource(mlir::Value tensor, Source source);
  /// Forgets what `tensor` was bound to.
  void unbind(mlir::Value tensor);
  /// The memref that `tensor` lies in, or null.
  mlir::Value memoryOf(mlir::Value tensor) const {
    return memory.lookup(tensor);
  }

  /// Value of `tensor` at `indices` (one index Value per dimension), `lanes`
  /// consecutive positions along the last dimension (lanes == 1: scalar).
  /// `mask` (vector<lanes x i1>, null = all) guards loads. f16, bf16 and f32
  /// values are carried as f32, already rounded to the tensor's type.
  mlir::FailureOr<mlir::Value> emit(mlir::Value tensor,
                                    mlir::ValueRange indices, int64_t lanes,
                                    mlir::Value mask = {});
  /// The same where all positions asked for along the last dimension lie in
  /// `range`; joins and paddings are decided by it at compile time.
  mlir::FailureOr<mlir::Value> emitIn(mlir::Value tensor,
                                      mlir::ValueRange indices, int64_t lanes,
                                      LaneRange range, mlir::Value mask = {});

  /// The same for an operand whose shape broadcasts to the one that `indices`
  /// belong to.
  mlir::FailureOr<mlir::Value> emitBroadcast(mlir::Value operand,
                                             mlir::ValueRange indices,
                                             int64_t lanes, LaneRange range,
                                             mlir::Value mask = {}) {
    return emitOperand(operand, Request{indices, lanes, mask, range});
  }

  /// Stores a carried value, narrowed to the memory's element type.
  void store(mlir::Value value, mlir::Value memref, mlir::ValueRange indices,
             int64_t lanes, mlir::Value mask = {});
  /// Loads and widens elements of a tensor element type.
  mlir::Value load(mlir::Value memref, mlir::Type elementType,
                   mlir::ValueRange indices, int64_t lanes,
                   mlir::Value mask = {});
  /// The bits in memory of a carried value that was loaded as it is, or rounded
  /// to them by an instruction; null for others and for types that are carried
  /// as they are stored.
  mlir::Value storedBits(mlir::Value value) const {
    return narrow.lookup(value);
  }
  /// The same where they are those of `elementType`: a cast to a wider type
  /// carries the same value.
  mlir::Value storedBits(mlir::Value value, mlir::Type elementType) const {
    return rounded.lookup(value) == elementType ? storedBits(value)
                                                : mlir::Value();
  }
  /// Tells that `value` holds lanes of `from` only, and is as exact.
  void keepRounding(mlir::Value value, mlir::Value from) {
    if (mlir::Type type = rounded.lookup(from))
      rounded[value] = type;
  }
  /// The carried value of bits of `elementType` in memory.
  mlir::Value widen(mlir::Value raw, mlir::Type elementType);
  /// Rounds a carried value to `elementType`; nothing to do for f32, f64,
  /// integers.
  mlir::Value round(mlir::Value value, mlir::Type elementType);
  /// A contiguous memref under another shape of as many elements; created
  /// beside it.
  mlir::Value viewAs(mlir::Value memref, llvm::ArrayRef<int64_t> shape);
  /// An index read from a tensor, counted from the end where negative; clamped
  /// to the extent where asked for.
  mlir::Value normalizeIndex(mlir::Value raw, int64_t extent, bool clamp);
  /// Index constant, created once per function.
  mlir::Value index(int64_t value);

  /// Positions along the last dimension of `tensor` that a vector must not
  /// straddle to be loaded in one piece (joins, paddings), ascending.
  llvm::SmallVector<int64_t> breaksOf(mlir::Value tensor);
  /// Whether vectors inside `range` are emitted without taking lanes apart.
  bool isContiguous(mlir::Value tensor, LaneRange range);
  /// Rough instructions per element of computing `tensor` from bound values.
  int64_t costOf(mlir::Value tensor);
  /// Whether `tensor` is bound (memory, value or source).
  bool isBound(mlir::Value tensor) const;

  mlir::OpBuilder &getBuilder() { return builder; }
  mlir::Location getLoc() const { return loc; }
  const ElementTarget &getTarget() const { return target; }

private:
  struct Request {
    mlir::ValueRange indices;
    int64_t lanes;
    mlir::Value mask;
    LaneRange range;
  };
  struct CacheEntry {
    llvm::SmallVector<mlir::Value, 4> indices;
    int64_t lanes;
    mlir::Value mask, value;
  };
  using Result = mlir::FailureOr<mlir::Value>;

  Result emitRequest(mlir::Value tensor, const Request &at);
  Result emitDefinition(mlir::Value tensor, const Request &at);
  Result emitConstant(mlir::Operation *op, const Request &at);
  Result emitElementwise(mlir::Operation *op, const Request &at);
  Result emitIndexing(mlir::Operation *op, const Request &at);
  Result emitReshape(mlir::Operation *op, const Request &at);
  Result emitAccess(mlir::Operation *op, llvm::ArrayRef<AccessDim> access,
                    const Request &at);
  Result emitConcat(mlir::Operation *op, const Request &at);
  Result emitPad(mlir::Operation *op, const Request &at);
  Result emitGather(mlir::Operation *op, const Request &at);
  Result emitOneHot(mlir::Operation *op, const Request &at);
  Result emitIota(mlir::Operation *op, const Request &at);
  Result emitComputed(mlir::Operation *op, const Request &at);
  Result emitReduce(mlir::Operation *op, const Request &at);
  Result emitPool(mlir::Operation *op, const Request &at);
  Result emitPoolGradient(mlir::Operation *op, const Request &at);
  Result emitRandomBits(mlir::Operation *op, const Request &at);
  Result emitMatmul(mlir::Operation *op, const Request &at);
  Result emitConv(mlir::Operation *op, const Request &at);
  Result emitBatchNorm(mlir::Operation *op, const Request &at);
  /// The operand's value where it is broadcast to the op's result shape.
  Result emitOperand(mlir::Value operand, const Request &at);
  /// One scalar request per lane, joined.
  Result emitPerLane(mlir::Value tensor, const Request &at);
  /// A request for one element at `indices`, spread over the lanes of `at`.
  Result emitScalar(mlir::Value tensor, mlir::ValueRange indices,
                    int64_t lanes);
  mlir::Value lookUp(mlir::Value tensor, const Request &at) const;
  /// A bf16 memref as one of i16: bf16 values themselves never occur in
  /// generated code, because LLVM moves them through calls where the ISA has no
  /// bf16.
  mlir::Value asPatterns(mlir::Value memref);
  mlir::Value splat(mlir::Value value, int64_t lanes);
  /// Whether a vector request starts at a multiple of its width, so that parts
  /// of a dimension that are cut at such multiples are met as a whole.
  bool startsAtMultiple(const Request &at) const;
  /// Whether `lanes` elements at `indices` may be moved at once.
  bool isMovedAtOnce(mlir::Value memref, mlir::ValueRange indices,
                     int64_t lanes) const;
  /// Gives a value that stands for an op's result the op's place in the model.
  void name(mlir::Value value, mlir::Operation *op);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  ElementTarget target;
  llvm::DenseMap<mlir::Value, mlir::Value> memory;
  llvm::DenseMap<mlir::Value, mlir::Value> values;
  llvm::DenseMap<mlir::Value, Source> sources;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<CacheEntry, 2>> cache;
  /// Carried values known to be exact in a 16-bit type.
  llvm::DenseMap<mlir::Value, mlir::Type> rounded;
  /// What carried values of 16-bit types are in memory.
  llvm::DenseMap<mlir::Value, mlir::Value> narrow;
  llvm::DenseMap<mlir::Value, mlir::Value> patterns;
  llvm::DenseMap<int64_t, mlir::Value> indexConstants;
  mlir::Block *constantBlock = nullptr;
  llvm::DenseMap<mlir::Operation *, mlir::Value> globals;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_ELEMENTEMITTER_H
