//===- RecurrencePlan.h - one kernel for all steps of a layer ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a GPU walks the steps of a recurrent layer in one launch. A block has
// some rows of the batch and some hidden units of one direction, whose weights
// it keeps for all steps. Rows never need each other; the units of a row do, at
// the end of each step, so that blocks which share rows meet at a barrier. They
// hand states over through global memory. A layer whose weights fit into one
// block has blocks that only split the rows, and no barrier.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_RECURRENCEPLAN_H
#define MPC_ANALYSIS_RECURRENCEPLAN_H

#include "mpc/Dialect/Mpc/IR/MpcRecurrenceOps.h"
#include "mpc/Target/TargetInfo.h"

#include <optional>

namespace mpc {

/// A recurrent layer behind the product of its input.
struct RecurrenceShape {
  RecurrentCell cell = RecurrentCell::lstm;
  int64_t steps = 0, batch = 0, hidden = 0, directions = 0;
  /// The types of weights and of states.
  mlir::Type narrow, wide;
  /// Whether the walk is that of the gradient.
  bool isGradient = false;

  /// Of `lstm`, `gru` and `rnn`, and of what they are split into; nothing of
  /// other ops.
  static std::optional<RecurrenceShape> of(mlir::Operation *op);

  int64_t gates() const { return gatesOf(cell); }
  /// A product of a step. Forwards it reads states and makes gates, backwards
  /// it reads cotangents of gates and makes that of a state.
  struct Product {
    /// Columns and contracted extent, in hidden units.
    int64_t columns, depth;
    /// The first gate that it makes or reads.
    int64_t firstGate;
  };
  /// Two where what the second reads depends on the first: those of a `gru`.
  llvm::SmallVector<Product, 2> products() const;
};

/// Extents of a kernel's blocks, and where their memory lies.
struct RecurrencePlan {
  /// The fastest plan for `target`; nothing where it has no such kernels or no
  /// block has room for its part.
  static std::optional<RecurrencePlan> of(const RecurrenceShape &shape,
                                          const TargetInfo &target);
  /// The plan for blocks of so many rows and units; nothing where it does not
  /// fit.
  static std::optional<RecurrencePlan> with(const RecurrenceShape &shape,
                                            const TargetInfo &target,
                                            int64_t rows, int64_t units);

  RecurrenceShape shape;
  /// Rows of the batch and hidden units of a block.
  int64_t rows = 0, units = 0;
  /// Whether warps multiply on the matrix units; else threads do, in f32.
  bool usesMatrixUnits = false;
  /// Whether warps hold their part of the weights in registers.
  bool keepsFragments = false;
  int64_t threads = 0;
  /// Parts of the contracted extent that are summed apart.
  int64_t splits = 0;
  /// How often the machine fills with blocks; 1 where they meet.
  int64_t waves = 1;

  int64_t rowSlices() const;
  int64_t unitSlices() const;
  int64_t blocks() const {
    return shape.directions * rowSlices() * unitSlices();
  }
  /// Whether blocks wait for each other.
  bool meets() const { return unitSlices() > 1; }
  /// Rows of the state's tile: whole tiles of a matrix unit.
  int64_t tileRows() const;
  /// Columns (gate by gate, a unit each) of a product, padded likewise.
  int64_t columnsOf(const RecurrenceShape::Product &product) const;
  int64_t columns() const;
  /// The contracted extent of a product, with the zeros that make the parts
  /// equal; the largest one.
  int64_t depthOf(const RecurrenceShape::Product &product) const;
  int64_t depth() const;
  /// The largest without zeros: what a block reads of a row.
  int64_t rowElements() const;
  /// Elements from one row of weights or states to the next in shared memory,
  /// and from one row of sums to the next.
  int64_t depthPitch() const;
  int64_t sumPitch() const;
  /// The type of weights and states in shared memory.
  mlir::Type tileType() const;

  /// Offsets into dynamic shared memory: weights, states, sums; its bytes.
  int64_t stateOffset() const;
  int64_t sumOffset() const;
  int64_t sharedBytes() const;
  /// Scratch memory: a counter of each group of blocks that meet, apart from
  /// each other, and two copies of what blocks hand over. A cell of one product
  /// uses them in turns, so that a block may write a state while others still
  /// read the last one; of a `gru`, whose blocks meet twice a step, one has
  /// states and one states behind the reset gate.
  static constexpr int64_t kCounterBytes = 128;
  int64_t handOverOffset() const;
  int64_t handOverElements() const {
    return shape.directions * shape.batch * rowElements();
  }
  int64_t scratchBytes() const;
  /// Whether a product and a cell per step are slower.
  bool pays(const TargetInfo &target) const {
    return stepSeconds() <= unrolledSeconds(shape, target);
  }
  /// What the model expects of one step, in seconds; and of a product and a
  /// cell of launches of their own.
  double stepSeconds() const;
  static double unrolledSeconds(const RecurrenceShape &shape,
                                const TargetInfo &target);
};

} // namespace mpc

#endif // MPC_ANALYSIS_RECURRENCEPLAN_H
