//===- RecurrenceKernel.h - kernels that walk all steps of a layer -*- C++
//-*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to this folder. A block (Analysis/RecurrencePlan.h) loads its part of
// the weights once. In each step its product multiplies the state of its rows,
// in shared memory, with them; then every thread makes the states of its own
// rows and units, which it keeps in f32, and hands them over: in shared memory
// where the block has all units, else through global memory and a meeting of
// the blocks that share rows.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_RECURRENCEKERNEL_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_RECURRENCEKERNEL_H

#include "Mma.h"
#include "Schedule.h"

#include "Target/Kernel/MathExpansion.h"
#include "Target/Kernel/StoredResults.h"

#include "mpc/Analysis/RecurrencePlan.h"

namespace mpc {

/// The recurrence op of a kernel; null where it has none or more than one, or
/// stores what no form can.
RecurrenceOp recurrenceOf(mlir::func::FuncOp kernel);

/// One kernel while its body is written.
class RecurrenceKernel {
public:
  RecurrenceKernel(GpuKernel &kernel, RecurrenceOp op,
                   const RecurrencePlan &plan);
  mlir::LogicalResult emit();

private:
  /// A hidden unit of a row of the batch that one thread makes the state of.
  struct Item {
    /// Its place in the thread's arrays; in the block; in the layer.
    mlir::Value slot, blockRow, blockUnit, row, unit;
  };

  // RecurrenceKernel.cpp: the steps.
  void placeBlock();
  void makeMemory();
  mlir::LogicalResult loadWeights();
  void loadInitialStates();
  void loadGates(mlir::Value time);
  mlir::LogicalResult emitStep(mlir::Value step);
  mlir::LogicalResult storeFinalStates();
  /// Leaves a state where the products of all blocks find it.
  void handOver(mlir::Value state, const Item &item, mlir::Value copy);
  /// Waits until all have handed over, and brings the rows' states into the
  /// tile.
  void takeOver(mlir::Value copy);
  void eachItem(llvm::function_ref<void(const Item &)> body);
  /// `body(i)` for i < count, spread over the threads.
  void spread(int64_t count, llvm::StringRef name,
              llvm::function_ref<void(mlir::Value)> body);
  /// `body()` where `inside` holds (null: always), else zeros of `type`.
  mlir::Value orZero(mlir::Value inside, mlir::Type type,
                     llvm::function_ref<mlir::Value()> body);
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

  // RecurrenceCell.cpp: what a thread computes.
  mlir::LogicalResult emitCell(size_t product, mlir::Value time,
                               const Item &item);
  mlir::Value lstm(const Item &item);
  mlir::Value linearGru(const Item &item);
  mlir::Value rnn(const Item &item);
  void resetGru(const Item &item);
  mlir::Value finishGru(const Item &item);
  mlir::Value mixed(mlir::Value update, mlir::Value fresh, mlir::Value state);
  /// The product's sum of a gate, its number among those of the product.
  mlir::Value sumOf(int64_t gate, const Item &item);
  mlir::Value gateInput(int64_t gate, const Item &item);

  // RecurrenceProducts.cpp: sums of all columns of a product.
  void holdFragments();
  void multiply(size_t product);
  void multiplyByThreads(size_t product);
  void multiplyByUnits(size_t product);
  /// The first of a product's columns.
  int64_t firstColumn(size_t product) const;
  WarpOperand weightsOfWarp(size_t product, mlir::Value columnWarp,
                            int64_t tiles);
  cuda::FragmentType fragmentType() const;

  GpuKernel &kernel;
  RecurrenceOp op;
  RecurrencePlan plan;
  llvm::SmallVector<int64_t, 2> products;
  std::vector<StoredResults> results;
  mlir::OpBuilder &b;
  IndexMath math;
  MathExpansion values;
  mlir::Type f32;
  mlir::Value thread;
  /// Whether all operands could be read.
  bool isRead = true;
  /// The block's place: its direction, first row, first unit, and the number of
  /// the blocks that it meets.
  mlir::Value direction, firstRow, firstUnit, group, isFirst;
  /// Shared memory: [columns][depth] or [depth][columns]; [rows][depth];
  /// [splits][rows][columns].
  mlir::Value weights, states, sums;
  /// Scratch memory.
  mlir::Value counters, handed;
  /// Of the thread, by item: states, gates of the input, the update gate; and
  /// fragments of weights by product.
  mlir::Value hidden, cell, gates, update;
  llvm::SmallVector<mlir::Value, 2> fragments;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_RECURRENCEKERNEL_H
