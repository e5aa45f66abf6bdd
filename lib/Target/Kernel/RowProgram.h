//===- RowProgram.h - rows as programs over tiles ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Softmax, norms and reductions along common axes with what surrounds them, in
// the tile dialect. An item is a row: all positions along the reduced axes.
// Every op that reduces walks the row and leaves numbers per row; what follows
// computes from those and from the row's elements, and the last walk stores.
// Where the last dimension is not reduced, an item is a vector of neighbouring
// rows instead.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_ROWPROGRAM_H
#define MPC_LIB_TARGET_KERNEL_ROWPROGRAM_H

#include "Reducers.h"
#include "RowForm.h"

namespace mpc {

/// One result of a row kernel.
struct RowResult {
  /// What the kernel returns, and the tensor of the row form that it is (made
  /// from).
  mlir::Value result, row;
  /// Its number among the kernel's results.
  unsigned number;
  /// The movement between them, from the row outwards; its last result is
  /// `computed()` or what that is elementwise in. Empty: they are the same.
  llvm::SmallVector<mlir::Operation *> movement;
  /// The movement from `computed()` to the result, through which it is stored.
  llvm::SmallVector<mlir::Operation *> storing = {};

  mlir::Value moved() const { return movement.back()->getResult(0); }
  mlir::Value computed() const {
    return storing.empty() ? result : storing.front()->getOperand(0);
  }
};

/// What a schedule says of a row program.
struct RowChoice {
  /// Neighbouring rows of an item, where the last dimension is not reduced.
  int64_t columns = 1;
  /// Lanes of every vector along a row; 0: each walk has vectors as wide as its
  /// tensors allow, and more than one kind of them where that is better.
  int64_t vector = 0;
  /// Whether all ops are reduced by one walk.
  bool takesOneWalk = false;
  /// Whether results that no reduction has part in are stored by the first
  /// walk.
  bool storesEarly = false;
  /// Whether softmax finds maximum and sum by one walk.
  bool joinsSoftmax = false;
  /// Whether softmax has a place of its own for its powers; else it keeps them
  /// where its input was, if that is kept for it alone.
  bool keepsPowers = false;
  /// The tensors that the first walk of op number `op` keeps for later ones;
  /// asked when that op begins.
  std::function<llvm::SmallVector<mlir::Value>(size_t op)> kept;
};

/// A sum over all rows of a kernel.
struct RowSum {
  /// What is summed, a full tensor of the row form, and the sums.
  mlir::Value operand, sums;
};

/// Writes the code of one item at the emitter's place.
class RowProgram {
public:
  /// A result and the memory that it is written to.
  struct Stored {
    RowResult result;
    mlir::Value memref;
    /// Where in `memref` the element at these indices of the result lies; null:
    /// at the same.
    std::function<llvm::SmallVector<mlir::Value>(mlir::ValueRange)> placed = {};
    /// Whether it is stored (i1); null: always.
    mlir::Value condition = {};
    mlir::Value row() const { return result.row; }
    llvm::SmallVector<mlir::Value> place(mlir::ValueRange indices) const {
      return placed ? placed(indices) : llvm::SmallVector<mlir::Value>(indices);
    }
  };

  RowProgram(ElementEmitter &emitter, const RowForm &form, RowChoice choice,
             llvm::ArrayRef<Stored> results);

  /// Sums that the item adds to, on its first walk or on its last.
  void addSums(llvm::ArrayRef<RowSum> of, bool onFirstWalk) {
    sums.assign(of.begin(), of.end());
    sumsOnFirstWalk = onFirstWalk;
  }
  /// The item of this number.
  mlir::LogicalResult emitItem(mlir::Value item);

private:
  using Place = ReductionLoop::Place;
  using Body = llvm::function_ref<mlir::FailureOr<Carried>(const Place &,
                                                           mlir::ValueRange)>;
  using Join = llvm::function_ref<Carried(mlir::ValueRange, mlir::ValueRange)>;

  // Walks (RowProgram.cpp).
  void placeItem(mlir::Value item);
  llvm::SmallVector<LaneSegment> segments(llvm::ArrayRef<mlir::Value> tensors);
  /// Walks the item over `tensors`: `body` once per vector. Accumulators of the
  /// scalars `initial`, joined; `name` is that of the result.
  mlir::FailureOr<Carried> walk(llvm::ArrayRef<mlir::Value> tensors,
                                mlir::ValueRange initial, llvm::StringRef name,
                                tile::Joining joining, Body body, Join join);
  /// One segment of the item without joining; `initial` are vectors.
  mlir::FailureOr<Carried> walkSegment(const LaneSegment &segment,
                                       mlir::ValueRange initial, Body body);
  /// Joins what all members have; `identities` are scalars.
  Carried joinMembers(mlir::ValueRange own, mlir::ValueRange identities,
                      llvm::StringRef name, tile::Joining joining, Join join);
  /// Writes `body` into a tile.commit.
  mlir::LogicalResult commit(bool once,
                             llvm::function_ref<mlir::LogicalResult()> body);
  /// A number per row for `lanes` of the row.
  mlir::Value spread(mlir::Value value, int64_t lanes);
  mlir::Value named(mlir::Value value, llvm::StringRef name);
  /// `value`, but `otherwise` in lanes that do not count.
  mlir::Value counted(const Place &place, mlir::Value value,
                      mlir::Value otherwise);
  mlir::FailureOr<mlir::Value> inputAt(mlir::Value input, const Place &place) {
    return emitter.emitIn(input, place.indices, place.lanes, place.range);
  }

  // What is kept (RowProgram.cpp).
  mlir::Value keep(mlir::Type type, llvm::StringRef name);
  llvm::SmallVector<mlir::Value> positions(mlir::ValueRange indices) const;
  void save(mlir::Value buffer, mlir::Value value, const Place &place);
  mlir::Value saved(mlir::Value buffer, mlir::ValueRange indices,
                    int64_t lanes);
  void startOp();
  /// Runs with the first walk of each op.
  mlir::LogicalResult onFirstWalk(const Place &place);
  /// Makes later walks read what was kept.
  void afterFirstWalk();

  // Results (RowProgramStores.cpp).
  mlir::LogicalResult storeResults();
  mlir::LogicalResult addToSums(const Place &place);
  mlir::LogicalResult store(llvm::ArrayRef<Stored> stores, const Place &place);
  mlir::LogicalResult storePerRow(llvm::ArrayRef<Stored> stores);
  /// Stores `value` where the result has it, if it is stored at all.
  void storeAt(const Stored &stored, mlir::Value value,
               mlir::ValueRange indices, int64_t lanes);
  mlir::LogicalResult storeMoved(const Stored &stored, mlir::Value value,
                                 mlir::ValueRange indices, int64_t lanes);
  /// Where `movement` takes what is at `place`. `exists` becomes whether it
  /// does not leave it out; null stands for what always exists.
  llvm::SmallVector<mlir::Value>
  placeBehind(llvm::ArrayRef<mlir::Operation *> movement,
              llvm::SmallVector<mlir::Value> place, mlir::Value &exists);
  bool isEarly(mlir::Value tensor) const {
    return choice.storesEarly && !form.dependent.contains(tensor);
  }

  // Ops that reduce (RowProgram.cpp).
  mlir::LogicalResult emitReduce(mlir::Operation *op);
  mlir::LogicalResult emitOneWalk();

  // Softmax and norms (RowMath.cpp).
  mlir::LogicalResult emitOp(mlir::Operation *op);
  mlir::LogicalResult emitSoftmax(mlir::Operation *op, bool logarithm);
  mlir::LogicalResult emitNorm(mlir::Operation *op, mlir::Value scale,
                               mlir::Value bias, double epsilon, bool centred);

  ElementEmitter &emitter;
  mlir::OpBuilder &builder;
  mlir::Location loc;
  MathExpansion math;
  IndexMath index;
  const RowForm &form;
  RowChoice choice;
  llvm::SmallVector<Stored> results;
  llvm::SmallVector<RowSum> sums;
  bool sumsOnFirstWalk = false;
  /// Full-rank indices of the item; entries at the axes are set by walks.
  llvm::SmallVector<mlir::Value> at;
  /// The number of the current op and whether it has not walked yet.
  size_t number = 0;
  bool fresh = false;
  /// Where each kept tensor is, and those that the current op's walk keeps.
  llvm::DenseMap<mlir::Value, mlir::Value> buffers;
  llvm::SmallVector<mlir::Value> keptNow;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_ROWPROGRAM_H
