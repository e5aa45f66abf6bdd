//===- RowKernelEmitter.h - row kernels as tile ops -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Softmax, norms and reductions along common axes with fused ops. An item is a
// row: all positions along the reduced axes. Every reducing op loops over the
// row and yields numbers per row; the following ops use those and the row's
// elements, and the last loop stores. If the last dimension is not reduced, an
// item is a vector of adjacent rows instead.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_ROWKERNELEMITTER_H
#define MPC_LIB_TARGET_KERNEL_ROWKERNELEMITTER_H

#include "RowPattern.h"

namespace mpc {

/// One result of a row kernel.
struct RowResult {
  /// The returned value, and the tensor of the row form from which it is
  /// computed.
  mlir::Value result, row;
  /// Index among the kernel's results.
  unsigned number;
  /// Movement ops between them, from the row outwards; the last result is
  /// `computed()` or what that is elementwise in. Empty: they are the same.
  llvm::SmallVector<mlir::Operation *> movement;
  /// Movement from `computed()` to the result, folded into the store.
  llvm::SmallVector<mlir::Operation *> storing = {};

  mlir::Value moved() const { return movement.back()->getResult(0); }
  mlir::Value computed() const {
    return storing.empty() ? result : storing.front()->getOperand(0);
  }
};

/// Schedule of a row program.
struct RowKernelSchedule {
  /// Adjacent rows per item, if the last dimension is not reduced.
  int64_t columns = 1;
  /// Lanes of every vector along a row; 0: each loop uses the widest vectors
  /// for its tensors, and several widths if that is better.
  int64_t vector = 0;
  /// Whether one loop reduces for all ops.
  bool takesOneWalk = false;
  /// Whether results that do not depend on a reduction are stored by the first
  /// loop.
  bool storesEarly = false;
  /// Whether softmax computes maximum and sum in one pass (online softmax).
  bool joinsSoftmax = false;
  /// Whether softmax has its own buffer for exponentials; otherwise it reuses
  /// its input's buffer, if that has no other use.
  bool keepsPowers = false;
  /// Returns the tensors that the first loop of op `op` buffers for later ones;
  /// called when that op starts.
  std::function<llvm::SmallVector<mlir::Value>(size_t op)> kept;
};

/// A sum over all rows of a kernel.
struct RowSum {
  /// The summed tensor, a full tensor of the row form, and the sums.
  mlir::Value operand, sums;
};

/// Emits the code of one item at the insertion point.
class RowKernelEmitter {
public:
  /// A result and its memory.
  struct Stored {
    RowResult result;
    mlir::Value memref;
    /// Maps the result's indices to those in `memref`; null: identity.
    std::function<llvm::SmallVector<mlir::Value>(mlir::ValueRange)> placed = {};
    /// Store condition (i1); null: always.
    mlir::Value condition = {};
    mlir::Value row() const { return result.row; }
    llvm::SmallVector<mlir::Value> place(mlir::ValueRange indices) const {
      return placed ? placed(indices) : llvm::SmallVector<mlir::Value>(indices);
    }
  };

  RowKernelEmitter(ElementEmitter &emitter, const RowPattern &form,
                   RowKernelSchedule choice, llvm::ArrayRef<Stored> results);

  /// Sums that the item adds to, in its first or its last loop.
  void addSums(llvm::ArrayRef<RowSum> of, bool onFirstWalk) {
    sums.assign(of.begin(), of.end());
    sumsOnFirstWalk = onFirstWalk;
  }
  /// Emits item `item`.
  mlir::LogicalResult emitItem(mlir::Value item);

private:
  using Place = Reducer::Place;
  using Body = llvm::function_ref<Carried(const Place &, mlir::ValueRange)>;

  // Loops (RowKernelEmitter.cpp).
  void placeItem(mlir::Value item);
  /// Segments of a row for a loop over `tensors`, which reduces if `sums`.
  llvm::SmallVector<LaneSegment> segments(llvm::ArrayRef<mlir::Value> tensors,
                                          bool sums);
  /// Loops over the item's `tensors`, once per vector, and reduces.
  Carried walk(llvm::ArrayRef<mlir::Value> tensors, const Reducer &reducer);
  /// The sum over the item's `input`: `add` adds a vector to an accumulator.
  mlir::Value
  total(mlir::Value input, llvm::StringRef name,
        llvm::function_ref<mlir::Value(const Place &, mlir::Value)> add);
  /// Loops over one segment of the item without a reduction; `initial` are
  /// vectors.
  Carried walkSegment(const LaneSegment &segment, mlir::ValueRange initial,
                      Body body);
  /// Reduces the values of all threads.
  Carried joinMembers(mlir::ValueRange own, const Reducer &reducer);
  /// Emits `body` into a tile.store.
  void commit(bool once, llvm::function_ref<void()> body);
  /// Broadcasts a number per row to `lanes` of the row.
  mlir::Value spread(mlir::Value value, int64_t lanes);
  mlir::Value named(mlir::Value value, llvm::StringRef name);
  /// Returns `value`, or `otherwise` in inactive lanes.
  mlir::Value counted(const Place &place, mlir::Value value,
                      mlir::Value otherwise);
  mlir::Value inputAt(mlir::Value input, const Place &place) {
    return emitter.valueIn(input, place.indices, place.lanes, place.range);
  }

  // Buffers (RowKernelEmitter.cpp).
  mlir::Value keep(mlir::Type type, llvm::StringRef name);
  llvm::SmallVector<mlir::Value> positions(mlir::ValueRange indices) const;
  void save(mlir::Value buffer, mlir::Value value, const Place &place);
  mlir::Value saved(mlir::Value buffer, mlir::ValueRange indices,
                    int64_t lanes);
  void startOp();
  /// Runs in the first loop of each op.
  void onFirstWalk(const Place &place);
  /// Makes later loops read the buffers.
  void afterFirstWalk();

  // Results.
  void storeResults();
  void addToSums(const Place &place);
  void store(llvm::ArrayRef<Stored> stores, const Place &place);
  void storePerRow(llvm::ArrayRef<Stored> stores);
  /// Stores `value` at the result's location, after its movement.
  void storeResult(const Stored &stored, mlir::Value value,
                   mlir::ValueRange indices, int64_t lanes) {
    stored.result.movement.empty() ? storeAt(stored, value, indices, lanes)
                                   : storeMoved(stored, value, indices, lanes);
  }
  /// Stores `value` if the result's condition holds.
  void storeAt(const Stored &stored, mlir::Value value,
               mlir::ValueRange indices, int64_t lanes);
  void storeMoved(const Stored &stored, mlir::Value value,
                  mlir::ValueRange indices, int64_t lanes);
  /// Maps `place` through `movement`. Sets `exists` to whether the movement
  /// selects it; null if it always does.
  llvm::SmallVector<mlir::Value>
  placeBehind(llvm::ArrayRef<mlir::Operation *> movement,
              llvm::SmallVector<mlir::Value> place, mlir::Value &exists);
  bool isEarly(mlir::Value tensor) const {
    return choice.storesEarly && !form.dependent.contains(tensor);
  }

  // Reductions (RowKernelEmitter.cpp).
  void emitReduce(mlir::Operation *op);
  void emitOneWalk();

  // Softmax and norms (RowMath.cpp).
  void emitOp(mlir::Operation *op);
  void emitSoftmax(mlir::Operation *op, bool logarithm);
  void emitNorm(mlir::Operation *op, mlir::Value scale, mlir::Value bias,
                double epsilon, bool centred);

  ElementEmitter &emitter;
  mlir::OpBuilder &builder;
  mlir::Location loc;
  MathExpansion math;
  IndexMath index;
  const RowPattern &form;
  RowKernelSchedule choice;
  llvm::SmallVector<Stored> results;
  llvm::SmallVector<RowSum> sums;
  bool sumsOnFirstWalk = false;
  /// Full-rank indices of the item; loops set the entries at the axes.
  llvm::SmallVector<mlir::Value> at;
  /// Index of the current op, and whether its first loop is still to come.
  size_t number = 0;
  bool fresh = false;
  /// Buffer of each buffered tensor, and those of the current op's loop.
  llvm::DenseMap<mlir::Value, mlir::Value> buffers;
  llvm::SmallVector<mlir::Value> keptNow;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_ROWKERNELEMITTER_H
