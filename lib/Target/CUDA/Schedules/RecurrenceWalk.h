//===- RecurrenceWalk.h - kernels that walk over steps ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the kernels of a recurrent layer and of its gradient share. Both hold a
// tile of what a product reads and weights for all steps; a step multiplies
// them, makes something of the sums, and hands over what the next one reads.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_RECURRENCEWALK_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_RECURRENCEWALK_H

#include "Mma.h"
#include "Schedule.h"

#include "Target/Kernel/MathExpansion.h"
#include "Target/Kernel/StoredResults.h"

#include "mpc/Analysis/RecurrencePlan.h"

namespace mpc {

/// One kernel while its body is written.
class RecurrenceWalk {
protected:
  RecurrenceWalk(GpuKernel &kernel, mlir::Operation *op, mlir::Value recurrence,
                 RecurrentDirection order, const RecurrencePlan &plan);

  /// A hidden unit of a row of the batch that one thread makes the state of.
  struct Item {
    /// Its place in the thread's arrays; in the block; in the layer.
    mlir::Value slot, blockRow, blockUnit, row, unit;
  };

  // RecurrenceWalk.cpp
  void placeBlock();
  void makeMemory();
  mlir::LogicalResult loadWeights();
  /// Fills the tile with zeros.
  void clearTile();
  /// Brings initial states [D, B, H] into the tile.
  void takeStates(mlir::Value initial);
  /// The place in time of step `step` of the layer's own order.
  mlir::Value timeOf(mlir::Value step);
  /// Leaves a value where the products of all blocks find it: `part` counts
  /// hidden layers' worth of elements of a row.
  void handOver(mlir::Value value, const Item &item, int64_t part,
                mlir::Value copy);
  /// Waits until all have handed over, and brings what `product` reads of the
  /// rows into the tile.
  void takeOver(size_t product, mlir::Value copy);
  /// Of one product, copies in turns; else one for each.
  mlir::Value copyOf(size_t product, mlir::Value step);
  void eachItem(llvm::function_ref<void(const Item &)> body);
  /// Per item, a number or `width` of them.
  mlir::Value perItem(llvm::StringRef name, int64_t width = 0);
  /// `body(i)` for i < count, spread over the threads.
  void spread(int64_t count, llvm::StringRef name,
              llvm::function_ref<void(mlir::Value)> body);
  /// `body()` where `inside` holds (null: always), else `other()`, or zeros of
  /// `type`.
  mlir::Value orElse(mlir::Value inside, mlir::Type type,
                     llvm::function_ref<mlir::Value()> body,
                     llvm::function_ref<mlir::Value()> other = nullptr);
  mlir::Value both(mlir::Value x, mlir::Value y);
  mlir::Value shown(mlir::Value value, llvm::StringRef name) {
    return named(math, value, name);
  }
  mlir::Value load(mlir::Value memory, mlir::ValueRange at) {
    return mlir::memref::LoadOp::create(b, kernel.loc, memory, at);
  }
  void store(mlir::Value value, mlir::Value memory, mlir::ValueRange at) {
    mlir::memref::StoreOp::create(b, kernel.loc, value, memory, at);
  }
  ElementEmitter makeEmitter();
  /// The element of an operand, as an f32; zero where there is no such operand.
  mlir::Value element(mlir::Value operand, mlir::ValueRange at);
  /// The same of gate `gate` of an operand [D, gates * H].
  mlir::Value ofGate(mlir::Value operand, int64_t gate, const Item &item);
  /// The same at a step, of an operand [T, B, D * each * H].
  mlir::Value ofStep(mlir::Value operand, mlir::Value time, int64_t each,
                     int64_t gate, const Item &item);
  /// Stores an element of a result of the op where outputs come from it.
  void storeResult(mlir::Value result, mlir::Value value, mlir::ValueRange at);
  /// The same of a result [T, B, D * each * H].
  void storeStep(mlir::Value result, mlir::Value value, mlir::Value time,
                 int64_t each, int64_t gate, const Item &item);
  bool isStored(mlir::Value result) const;

  // RecurrenceProducts.cpp: sums of all columns of a product.
  void holdFragments();
  void multiply(size_t product);
  /// The product's sum of a column of units, its number among those of the
  /// product.
  mlir::Value sumOf(int64_t column, const Item &item);

  GpuKernel &kernel;
  mlir::Value recurrence;
  RecurrentDirection order;
  RecurrencePlan plan;
  llvm::SmallVector<RecurrenceShape::Product, 2> products;
  std::vector<StoredResults> results;
  mlir::OpBuilder &b;
  IndexMath math;
  MathExpansion values;
  mlir::Type f32;
  mlir::Value thread;
  /// Whether all operands could be read, and all results stored.
  bool isRead = true, areStored = true;
  /// The block's place: its direction, first row, first unit, and the number of
  /// the blocks that it meets.
  mlir::Value direction, firstRow, firstUnit, group, isFirst;

private:
  void multiplyByThreads(size_t product);
  void multiplyByUnits(size_t product);
  /// The first of a product's columns.
  int64_t firstColumn(size_t product) const;
  WarpOperand weightsOfWarp(size_t product, mlir::Value columnWarp,
                            int64_t tiles);
  cuda::FragmentType fragmentType() const;
  mlir::LogicalResult loadWeightsOf(const RecurrenceShape::Product &product,
                                    int64_t firstColumn);
  mlir::LogicalResult
  loadTransposedWeightsOf(const RecurrenceShape::Product &product,
                          int64_t firstColumn);
  void storeWeight(mlir::Value value, mlir::Value column, mlir::Value k,
                   int64_t lanes);

  /// Shared memory: [columns][depth] or [depth][columns]; [rows][depth];
  /// [splits][rows][columns].
  mlir::Value weights, states, sums;
  /// Scratch memory.
  mlir::Value counters, handed;
  /// Fragments of weights by product.
  llvm::SmallVector<mlir::Value, 2> fragments;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_RECURRENCEWALK_H
