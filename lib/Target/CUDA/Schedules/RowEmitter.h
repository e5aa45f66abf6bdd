//===- RowEmitter.h - the body of a row kernel ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to this folder. Walks (RowEmitter.cpp) know where a thread stands and
// how a group joins its numbers; the ops (RowEmitterOps.cpp) only say what
// happens at a place and how two numbers join.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_ROWEMITTER_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_ROWEMITTER_H

#include "RowColumnSums.h"

namespace mpc {

class RowEmitter {
public:
  RowEmitter(GpuKernel &kernel, std::unique_ptr<RowPlan> plan);
  mlir::LogicalResult run();

private:
  using Body = llvm::function_ref<mlir::FailureOr<Carried>(
      const ReductionLoop::Place &, mlir::ValueRange)>;
  using Join = llvm::function_ref<Carried(mlir::ValueRange, mlir::ValueRange)>;
  /// A result and the memory that it is written to.
  struct Stored {
    const RowResult *result;
    mlir::Value memref;
    mlir::Value row() const { return result->row; }
  };
  /// A single number that is joined in a way that GPUs have a name for.
  enum class Kind { Other, Sum, Largest, Least };
  /// A reducing op as a walk: what accumulators start from, how they take an
  /// element, how two of them join, and the op's result.
  struct Reducer {
    Carried initial;
    llvm::StringRef name;
    Kind kind = Kind::Other;
    std::function<mlir::FailureOr<Carried>(const ReductionLoop::Place &,
                                           mlir::ValueRange)>
        body;
    std::function<Carried(mlir::ValueRange, mlir::ValueRange)> join;
    std::function<mlir::Value(mlir::ValueRange)> finish;
  };

  // Walks and groups (RowEmitter.cpp).
  void bindArguments();
  /// All that happens to one item.
  mlir::LogicalResult emitItem();
  /// The items of a block, one after another, where sums go over all rows.
  mlir::LogicalResult runRounds();
  /// Where the thread stands in its block, which item it has (in a round of
  /// several), and which positions of the item.
  void placeThread();
  void placeItem(mlir::Value round = {});
  void placeMember();
  /// Walks the item: `body` once per vector. Accumulators of the scalars
  /// `initial`; the group's joint result comes back in every thread. `name` is
  /// that of the result in the printed kernel.
  mlir::FailureOr<Carried> walk(mlir::ValueRange initial, llvm::StringRef name,
                                Kind kind, Body body, Join join);
  /// The same without joining; `initial` are vectors.
  mlir::FailureOr<Carried> walkOwn(mlir::ValueRange initial, Body body);
  void setPosition(mlir::Value step);
  /// `body` where `condition` (null: always) holds, else `otherwise`.
  mlir::FailureOr<Carried>
  guarded(mlir::Value condition, mlir::ValueRange otherwise,
          llvm::function_ref<mlir::FailureOr<Carried>()> body);
  /// Joins the lanes of vectors, the threads of a group, those of (a part of) a
  /// warp, its warps, the lines of a block that stand in columns; joinAll all
  /// that there are. The result is in every thread.
  Carried joinAll(mlir::ValueRange own, llvm::StringRef name, Kind kind,
                  Join join);
  static bool isNamed(Kind kind, mlir::ValueRange values);
  Carried joinVector(mlir::ValueRange vectors, Kind kind, Join join);
  Carried joinGroup(mlir::ValueRange values, llvm::StringRef name, Kind kind,
                    Join join);
  Carried joinWarp(mlir::ValueRange values, int64_t width, Kind kind,
                   Join join);
  Carried joinWarps(mlir::ValueRange values, llvm::StringRef name, Kind kind,
                    Join join);
  Carried joinColumns(mlir::ValueRange values, llvm::StringRef name, Join join);

  // Items split over blocks (RowEmitterSplit.cpp): the last block to come joins
  // what all have left in the scratch buffer.
  mlir::LogicalResult leavePartials(llvm::ArrayRef<Reducer> reducers,
                                    llvm::ArrayRef<Carried> partials);
  mlir::LogicalResult finishSplit(llvm::ArrayRef<Reducer> reducers,
                                  llvm::ArrayRef<mlir::Value> arrays,
                                  mlir::Value place);

  // Kept tensors.
  struct Buffer {
    mlir::Value memref;
    mlir::Type element;
  };
  Buffer makeBuffer(mlir::Type element, llvm::StringRef name);
  mlir::Value bufferIndex();
  void save(const Buffer &buffer, mlir::Value value);
  mlir::Value saved(const Buffer &buffer);
  /// Runs with the first walk of each op: saves what is kept, stores results
  /// that are known by then.
  mlir::LogicalResult onFirstWalk(const ReductionLoop::Place &place);
  /// Makes later walks read what was saved.
  void afterFirstWalk();

  // Ops (RowEmitterOps.cpp).
  void startOp();
  mlir::LogicalResult emitOp(mlir::Operation *op);
  Reducer reducerOf(mlir::Operation *op);
  Reducer positionReducer(mlir::Operation *op, bool largest, bool selectLast);
  mlir::LogicalResult emitReduce(mlir::Operation *op);
  /// All ops by one walk.
  mlir::LogicalResult runOneWalk();
  mlir::LogicalResult emitSoftmax(mlir::Operation *op, bool logarithm);
  mlir::LogicalResult emitNorm(mlir::Operation *op, mlir::Value scale,
                               mlir::Value bias, double epsilon, bool centred);
  mlir::LogicalResult storeResults();
  /// Adds what lies at a place to the sums over all rows.
  mlir::LogicalResult addToSums(const ReductionLoop::Place &place);
  /// Stores results at a place of the row form.
  mlir::FailureOr<Carried> store(llvm::ArrayRef<Stored> stores,
                                 mlir::ValueRange indices, int64_t lanes);
  mlir::FailureOr<Carried> storePerRow(llvm::ArrayRef<Stored> stores);
  mlir::LogicalResult storeMoved(const Stored &stored, mlir::Value value,
                                 mlir::ValueRange indices, int64_t lanes);
  mlir::Value spread(mlir::Value value);
  mlir::FailureOr<mlir::Value> inputAt(mlir::Value input,
                                       const ReductionLoop::Place &place);

  GpuKernel &kernel;
  std::unique_ptr<RowPlan> plan;
  const RowForm &form;
  RowGeometry geometry;
  ElementEmitter emitter;
  MathExpansion math;
  IndexMath index;
  llvm::SmallVector<Stored> results;
  std::optional<ColumnSums> columnSums;
  /// This thread's number in its group; the step of the walk.
  mlir::Value member, step;
  /// The item's number in its block (null: 0), the thread's first position.
  mlir::Value column, start;
  /// Whether the thread's item exists and whether it is the item's first
  /// thread; null: always.
  mlir::Value active, first;
  /// Full-rank indices; entries at the axes are set by walks.
  llvm::SmallVector<mlir::Value> at;
  /// The position along the axes, and whether it exists (null: always).
  mlir::Value position, inside;
  /// The number of the current op and whether it has not walked yet.
  size_t number = 0;
  bool fresh = false;
  llvm::DenseMap<mlir::Value, Buffer> buffers;
  int64_t sharedOffset = 0;
  mlir::Value dynamicShared;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_ROWEMITTER_H
