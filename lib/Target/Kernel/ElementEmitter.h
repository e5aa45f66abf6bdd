//===- ElementEmitter.h - code for elements of tensors ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits scalar or vector code for one element (or a run of elements along the
// last dimension) of a tensor value by recursion through the mpc ops that
// define it (producer inlining). All elementwise code of kernels, including
// contraction epilogues, comes from here.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_ELEMENTEMITTER_H
#define MPC_LIB_TARGET_KERNEL_ELEMENTEMITTER_H

#include "ElementMemory.h"
#include "IndexMath.h"
#include "MathExpansion.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <functional>

namespace mpc {

/// Scalar type that represents an element in generated code: f32 for f16, bf16
/// and f32, f64, i1, and signless integers.
mlir::Type carriedType(mlir::Type elementType);

/// Vector of `lanes` elements of a scalar type; the scalar itself for 1.
mlir::Type lanesOf(mlir::Type scalar, int64_t lanes);

/// A half-open range of positions along a last dimension.
struct LaneRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

/// Emits tensor elements at the builder's insertion point. Results are reused
/// while they dominate the insertion point, so code must be appended in order.
/// The first op that cannot be emitted is reported and makes `status` a
/// failure; its elements are zeros in the code that follows.
class ElementEmitter {
public:
  /// Produces a bound tensor's value; same arguments as `value`.
  using Source = std::function<mlir::Value(mlir::ValueRange, int64_t lanes,
                                           mlir::Value mask)>;

  /// Position of an element or of a vector; see `value` and `valueIn`.
  struct Request {
    mlir::ValueRange indices;
    int64_t lanes;
    mlir::Value mask;
    LaneRange range;
  };

  ElementEmitter(mlir::OpBuilder &builder, mlir::Location loc,
                 const ElementTarget &target);

  /// Binds `tensor` (a kernel argument or a stored value) to `memref`.
  void bindMemory(mlir::Value tensor, mlir::Value memref);
  /// Binds `tensor` to `memref`, a view of the memory of its operand.
  void bindView(mlir::Value tensor, mlir::Value memref) {
    memory[tensor] = memref;
  }
  /// Binds `tensor` to `ssa` (a carried value), whatever the next index. A
  /// scalar is broadcast to vectors.
  void bindValue(mlir::Value tensor, mlir::Value ssa);
  /// Binds `tensor` to `source`, which computes it.
  void bindSource(mlir::Value tensor, Source source);
  /// Removes the binding of `tensor`.
  void unbind(mlir::Value tensor);
  /// The memref that `tensor` is bound to, or null.
  mlir::Value memoryOf(mlir::Value tensor) const {
    return memory.lookup(tensor);
  }

  /// Returns `tensor` at `indices` (one index Value per dimension), `lanes`
  /// consecutive positions along the last dimension (lanes == 1: scalar).
  /// `mask` (vector<lanes x i1>, null = all) guards loads. f16, bf16 and f32
  /// values are carried as f32, already rounded to the tensor's type.
  mlir::Value value(mlir::Value tensor, mlir::ValueRange indices, int64_t lanes,
                    mlir::Value mask = {});
  /// The same if all requested positions along the last dimension are in
  /// `range`, which resolves concats and paddings at compile time.
  mlir::Value valueIn(mlir::Value tensor, mlir::ValueRange indices,
                      int64_t lanes, LaneRange range, mlir::Value mask = {}) {
    return value(tensor, Request{indices, lanes, mask, range});
  }
  mlir::Value value(mlir::Value tensor, const Request &at);
  /// An operand that is broadcast to the shape of the indices.
  mlir::Value operandValue(mlir::Value operand, const Request &at);
  /// One scalar request per lane, combined.
  mlir::Value valuePerLane(mlir::Value tensor, const Request &at);
  /// One element at `indices`, broadcast to `lanes`.
  mlir::Value scalarValue(mlir::Value tensor, mlir::ValueRange indices,
                          int64_t lanes);
  /// Reports at the op of `tensor` why its elements cannot be emitted; returns
  /// zeros.
  mlir::Value fail(mlir::Value tensor, const llvm::Twine &message,
                   int64_t lanes);
  mlir::LogicalResult status() const { return outcome; }

  /// `value` and `operandValue`, for callers that stop at the first failure.
  mlir::FailureOr<mlir::Value> emit(mlir::Value tensor,
                                    mlir::ValueRange indices, int64_t lanes,
                                    mlir::Value mask = {}) {
    return checked(value(tensor, indices, lanes, mask));
  }
  mlir::FailureOr<mlir::Value> emitBroadcast(mlir::Value operand,
                                             mlir::ValueRange indices,
                                             int64_t lanes, LaneRange range) {
    return checked(operandValue(operand, Request{indices, lanes, {}, range}));
  }

  /// Returns true if a vector request starts at a multiple of its width, so
  /// that parts of a dimension that are split at such multiples are read as a
  /// whole.
  bool startsAtMultiple(const Request &at) const;
  /// Broadcasts a scalar to `lanes`.
  mlir::Value splat(mlir::Value value, int64_t lanes);

  /// Stores a carried value, narrowed to the memory's element type.
  void store(mlir::Value value, mlir::Value memref, mlir::ValueRange indices,
             int64_t lanes, mlir::Value mask = {});
  /// Loads and widens elements of a tensor element type.
  mlir::Value load(mlir::Value memref, mlir::Type elementType,
                   mlir::ValueRange indices, int64_t lanes,
                   mlir::Value mask = {});
  /// Returns the stored bits of a carried value that was loaded unchanged, or
  /// rounded to them by an instruction; null for others and for types that are
  /// carried as stored.
  mlir::Value storedBits(mlir::Value value) const {
    return narrow.lookup(value);
  }
  /// The same if the bits have type `elementType`: a cast to a wider type
  /// carries the same value.
  mlir::Value storedBits(mlir::Value value, mlir::Type elementType) const {
    return rounded.lookup(value) == elementType ? storedBits(value)
                                                : mlir::Value();
  }
  /// Records that `value` is exact in `elementType`, a 16-bit float type.
  void markRounded(mlir::Value value, mlir::Type elementType) {
    rounded[value] = elementType;
  }
  /// Records that `value` consists of lanes of `from` only, and is as exact.
  void keepRounding(mlir::Value value, mlir::Value from) {
    if (mlir::Type type = rounded.lookup(from))
      rounded[value] = type;
  }
  /// Returns the carried value of stored bits of `elementType`.
  mlir::Value widen(mlir::Value raw, mlir::Type elementType);
  /// Rounds a carried value to `elementType`; no-op for f32, f64, integers.
  mlir::Value round(mlir::Value value, mlir::Type elementType);
  /// Returns a contiguous memref with another shape of as many elements.
  mlir::Value viewAs(mlir::Value memref, llvm::ArrayRef<int64_t> shape);
  /// Normalizes an index read from a tensor: negative ones count from the end;
  /// clamps to the extent on request.
  mlir::Value normalizeIndex(mlir::Value raw, int64_t extent, bool clamp);
  /// Index constant, created once per function.
  mlir::Value index(int64_t value);

  /// Returns true if `tensor` is bound (memory, value or source).
  bool isBound(mlir::Value tensor) const;

  mlir::OpBuilder &getBuilder() { return builder; }
  mlir::Location getLoc() const { return loc; }
  IndexMath indexMath() { return {builder, loc}; }
  MathExpansion math() { return {builder, loc, target}; }
  const ElementTarget &getTarget() const { return target; }

private:
  struct CacheEntry {
    llvm::SmallVector<mlir::Value, 4> indices;
    int64_t lanes;
    mlir::Value mask, value;
  };

  mlir::FailureOr<mlir::Value> checked(mlir::Value value) const {
    return failed(outcome) ? mlir::FailureOr<mlir::Value>() : value;
  }
  mlir::Value definition(mlir::Value tensor, const Request &at);
  mlir::Value constantValue(mlir::Operation *op, const Request &at);
  mlir::Value lookUp(mlir::Value tensor, const Request &at) const;
  /// Returns a bf16 memref as i16: bf16 values never occur in generated code,
  /// because LLVM lowers moves of them to calls on ISAs without bf16.
  mlir::Value asPatterns(mlir::Value memref);
  /// Returns true if `lanes` elements at `indices` may be moved at once.
  bool isMovedAtOnce(mlir::Value memref, mlir::ValueRange indices,
                     int64_t lanes) const;
  /// Gives a value that represents an op's result the op's location.
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
  /// Stored bits of carried values of 16-bit types.
  llvm::DenseMap<mlir::Value, mlir::Value> narrow;
  llvm::DenseMap<mlir::Value, mlir::Value> patterns;
  llvm::DenseMap<int64_t, mlir::Value> indexConstants;
  mlir::Block *constantBlock = nullptr;
  llvm::DenseMap<mlir::Operation *, mlir::Value> globals;
  mlir::LogicalResult outcome = mlir::success();
};

/// Returns the positions along the last dimension of `tensor` that a contiguous
/// vector must not straddle (concats, paddings), ascending.
llvm::SmallVector<int64_t> breaksOf(const ElementEmitter &emitter,
                                    mlir::Value tensor);
/// Returns true if vectors inside `range` need no per-lane code.
bool isContiguous(const ElementEmitter &emitter, mlir::Value tensor,
                  LaneRange range);
/// Approximate number of instructions per element of `tensor`, from bound
/// values.
int64_t costOf(const ElementEmitter &emitter, mlir::Value tensor);

/// Emit an element, or a vector of them, of an op's result.
using OpElements = mlir::Value(ElementEmitter &e, mlir::Operation *op,
                               const ElementEmitter::Request &at);
OpElements emitElementwise, emitPool, emitPoolGradient, emitRandomBits,
    emitDequantized;
/// Views, index maps and gathers; passes other ops to emitComputed.
OpElements emitIndexing;
/// Reductions, pools, contractions, batch norms and random bits.
OpElements emitComputed;

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_ELEMENTEMITTER_H
