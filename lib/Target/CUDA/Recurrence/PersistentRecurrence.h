//===- PersistentRecurrence.h - persistent recurrent kernels ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Common code of the kernels of a recurrent layer and its gradient: one launch
// for all time steps with stationary weights (persistent RNN). A step
// multiplies a tile of states by the weights, applies the cell, and exchanges
// the next step's operands between blocks.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_RECURRENCE_PERSISTENTRECURRENCE_H
#define MPC_LIB_TARGET_CUDA_RECURRENCE_PERSISTENTRECURRENCE_H

#include "../Gemm/Mma.h"
#include "../Plan/Schedule.h"

#include "Target/Kernel/ContractionEpilogue.h"
#include "Target/Kernel/MathExpansion.h"

#include "mpc/Analysis/PersistentRnnPlan.h"

namespace mpc::cuda {

/// Generates the body of one kernel.
class PersistentRecurrence {
protected:
  PersistentRecurrence(GpuKernel &kernel, mlir::Operation *op,
                       mlir::Value recurrence, RecurrentDirection order,
                       const PersistentRnnPlan &plan);

  /// A hidden unit of a batch row, whose state one thread computes.
  struct Item {
    /// Index in the thread's arrays; in the block; in the layer.
    mlir::Value slot, blockRow, blockUnit, row, unit;
  };

  // PersistentRecurrence.cpp
  void placeBlock();
  void makeMemory();
  mlir::LogicalResult loadWeights();
  /// Clears the tile.
  void clearTile();
  /// Loads initial states [D, B, H] into the tile.
  void takeStates(mlir::Value initial);
  /// Returns the time index of step `step` in the layer's direction.
  mlir::Value timeOf(mlir::Value step);
  /// Publishes a value for the GEMMs of all blocks; `part` is a multiple of the
  /// hidden size within a row.
  void handOver(mlir::Value value, const Item &item, int64_t part,
                mlir::Value copy);
  /// Waits until all blocks have published (grid barrier), and loads the
  /// operand of `product` into the tile.
  void receiveStates(size_t product, mlir::Value copy);
  /// Returns the exchange buffer: with one GEMM per step double-buffered, else
  /// one per GEMM.
  mlir::Value copyOf(size_t product, mlir::Value step);
  void eachItem(llvm::function_ref<void(const Item &)> body);
  /// Allocates a value per item, or `width` values.
  mlir::Value perItem(llvm::StringRef name, int64_t width = 0);
  /// Distributes `body(i)` for i < count over the threads.
  void spread(int64_t count, llvm::StringRef name,
              llvm::function_ref<void(mlir::Value)> body);
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
  /// Returns an element of an operand as f32; zero if there is no operand.
  mlir::Value element(mlir::Value operand, mlir::ValueRange at);
  /// The same for gate `gate` of an operand [D, gates * H].
  mlir::Value ofGate(mlir::Value operand, int64_t gate, const Item &item);
  /// The same for a step of an operand [T, B, D * each * H].
  mlir::Value ofStep(mlir::Value operand, mlir::Value time, int64_t each,
                     int64_t gate, const Item &item);
  /// Stores an element of the op's result, with its epilogue, if it is used.
  void storeResult(mlir::Value result, mlir::Value value, mlir::ValueRange at);
  /// The same for a result [T, B, D * each * H].
  void storeStep(mlir::Value result, mlir::Value value, mlir::Value time,
                 int64_t each, int64_t gate, const Item &item);
  bool isStored(mlir::Value result) const;

  // GEMM of all columns.
  void holdFragments();
  void multiply(size_t product);
  /// Returns the GEMM's result for a column of units, by its index in the GEMM.
  mlir::Value sumOf(int64_t column, const Item &item);

  GpuKernel &kernel;
  mlir::Value recurrence;
  RecurrentDirection order;
  PersistentRnnPlan plan;
  llvm::SmallVector<RecurrenceShape::Product, 2> products;
  std::vector<ContractionEpilogue> results;
  mlir::OpBuilder &b;
  IndexMath math;
  MathExpansion values;
  mlir::Type f32;
  mlir::Value thread;
  /// Whether all operands are readable and all results storable.
  bool isRead = true, areStored = true;
  /// Block indices: direction, first row, first unit, and its group for the
  /// grid barrier.
  mlir::Value direction, firstRow, firstUnit, group, isFirst;

private:
  void multiplyByThreads(size_t product);
  void multiplyByUnits(size_t product);
  /// First column of a GEMM.
  int64_t firstColumn(size_t product) const;
  WarpOperand weightsOfWarp(size_t product, mlir::Value columnWarp,
                            int64_t tiles);
  WarpMma warpMma() const;
  mlir::LogicalResult loadWeightsOf(const RecurrenceShape::Product &product,
                                    int64_t firstColumn);
  void storeWeight(mlir::Value value, mlir::Value column, mlir::Value k,
                   int64_t lanes);

  /// Shared memory: [columns][depth] or [depth][columns]; [rows][depth];
  /// [splits][rows][columns].
  mlir::Value weights, states, sums;
  /// Scratch memory: barrier counters, exchange buffers.
  mlir::Value counters, handed;
  /// Weight fragments by GEMM.
  llvm::SmallVector<mlir::Value, 2> fragments;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_RECURRENCE_PERSISTENTRECURRENCE_H
