//===- PersistentRnnPlan.h - persistent RNN kernels -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tiling of a persistent RNN kernel, which runs all steps of a recurrent layer
// in one launch. A block computes some batch rows and hidden units of one
// direction and keeps their weights on chip for all steps. Blocks of the same
// rows exchange states through global memory and synchronize at a barrier after
// each step. If the weights fit into one block, blocks split only the rows and
// need no barrier.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_PERSISTENTRNNPLAN_H
#define MPC_ANALYSIS_PERSISTENTRNNPLAN_H

#include "mpc/Dialect/Mpc/IR/MpcRecurrenceOps.h"
#include "mpc/Target/TargetInfo.h"

#include <optional>

namespace mpc {

/// A recurrent layer after its input GEMM.
struct RecurrenceShape {
  RecurrentCell cell = RecurrentCell::lstm;
  int64_t steps = 0, batch = 0, hidden = 0, directions = 0;
  /// Types of weights and of states.
  mlir::Type narrow, wide;
  /// Whether this is the backward pass.
  bool isGradient = false;

  /// Matches `lstm`, `gru` and `rnn`, and the ops they are split into; nullopt
  /// for other ops.
  static std::optional<RecurrenceShape> of(mlir::Operation *op);

  int64_t gates() const { return gatesOf(cell); }
  /// A GEMM of a step. The forward pass multiplies states to get gates, the
  /// backward pass multiplies gate cotangents to get a state's.
  struct Product {
    /// Columns and contracted extent, in multiples of the hidden size.
    int64_t columns, depth;
    /// First gate that it computes or reads.
    int64_t firstGate;
  };
  /// Two if the second depends on the result of the first: those of a `gru`.
  llvm::SmallVector<Product, 2> products() const;
};

/// Tile sizes of a kernel's blocks, and their memory layout.
struct PersistentRnnPlan {
  /// Returns the fastest plan for `target`; nullopt if it has no such kernels
  /// or no tile fits a block.
  static std::optional<PersistentRnnPlan> of(const RecurrenceShape &shape,
                                             const TargetInfo &target);
  /// Returns the plan for blocks of `rows` rows and `units` units; nullopt if
  /// it does not fit.
  static std::optional<PersistentRnnPlan> with(const RecurrenceShape &shape,
                                               const TargetInfo &target,
                                               int64_t rows, int64_t units);

  RecurrenceShape shape;
  /// Batch rows and hidden units per block.
  int64_t rows = 0, units = 0;
  /// Whether warps use the matrix units; otherwise threads multiply in f32.
  bool usesMatrixUnits = false;
  /// Whether warps hold their share of the weights in registers.
  bool keepsFragments = false;
  int64_t threads = 0;
  /// Number of partial sums along the contracted extent (split-K in a block).
  int64_t splits = 0;
  /// Number of waves of blocks; 1 if blocks synchronize.
  int64_t waves = 1;

  int64_t rowSlices() const;
  int64_t unitSlices() const;
  int64_t blocks() const {
    return shape.directions * rowSlices() * unitSlices();
  }
  /// Whether blocks synchronize at a barrier.
  bool meets() const { return unitSlices() > 1; }
  /// Rows of the state tile, padded to tiles of a matrix unit.
  int64_t tileRows() const;
  /// Columns of a GEMM (gate-major, one per unit), padded likewise.
  int64_t columnsOf(const RecurrenceShape::Product &product) const;
  int64_t columns() const;
  /// Contracted extent of a GEMM, zero-padded to equal splits; the largest one.
  int64_t depthOf(const RecurrenceShape::Product &product) const;
  int64_t depth() const;
  /// The largest unpadded contracted extent: elements per row of a block.
  int64_t rowElements() const;
  /// Row pitch in shared memory of weights and states, and accumulators.
  int64_t depthPitch() const;
  int64_t sumPitch() const;
  /// Type of weights and states in shared memory.
  mlir::Type tileType() const;

  /// Offsets into dynamic shared memory of states and accumulators, after the
  /// weights; total bytes.
  int64_t stateOffset() const;
  int64_t sumOffset() const;
  int64_t sharedBytes() const;
  /// Scratch memory: one counter per group of synchronizing blocks, a cache
  /// line each, and two copies of the exchanged states. A cell with one GEMM
  /// alternates between them (double buffering), so that a block may write a
  /// state while others still read the previous one; a `gru`, with two barriers
  /// per step, uses one for states and one for states after the reset gate.
  static constexpr int64_t kCounterBytes = 128;
  int64_t handOverOffset() const;
  int64_t handOverElements() const {
    return shape.directions * shape.batch * rowElements();
  }
  int64_t scratchBytes() const;
  /// Returns true unless one GEMM and one cell launch per step are faster.
  bool pays(const TargetInfo &target) const {
    return stepSeconds() <= unrolledSeconds(shape, target);
  }
  /// Predicted time of one step, in seconds; and of a GEMM and a cell in
  /// launches of their own.
  double stepSeconds() const;
  static double unrolledSeconds(const RecurrenceShape &shape,
                                const TargetInfo &target);
};

} // namespace mpc

#endif // MPC_ANALYSIS_PERSISTENTRNNPLAN_H
