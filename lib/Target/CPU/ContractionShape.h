//===- ContractionShape.h - shapes and types of contractions ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Properties of a contraction that schedules and emitters need before code is
// generated: the accumulator type, the form of the panels, and the dimensions
// that are rows.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_CONTRACTIONSHAPE_H
#define MPC_LIB_TARGET_CPU_CONTRACTIONSHAPE_H

#include "../Kernel/IndexMath.h"
#include "ConvolutionGeometry.h"
#include "MicroKernel.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Analysis/GatedMatmulColumns.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc::cpu {

/// The extents of a batched GEMM: batch x [m, depth] x [depth, n].
struct GemmExtents {
  /// Indices of an operand's batch dimensions for the batch at `position`
  /// (empty: the first).
  llvm::SmallVector<mlir::Value>
  batchIndices(IndexMath &math, llvm::ArrayRef<int64_t> operandBatch,
               llvm::ArrayRef<mlir::Value> position) const;

  int64_t batch = 1, m = 0, n = 0, depth = 0;
  llvm::SmallVector<int64_t> batchShape, lhsBatch, rhsBatch;
  /// Batch dimensions of the result count as rows (the right side has none).
  bool flattened = false;
  /// Extents of the dimensions that form the row index.
  llvm::SmallVector<int64_t> rowShape;
};

/// Kind of contraction on a CPU.
enum class ContractionForm {
  Product, ///< also a convolution without window and padding
  Convolution,
  Depthwise, ///< every channel has a filter of its own
  FilterGradient,
  Attention,
  Packing, ///< writes panels for a GEMM
};

/// The contraction of a kernel.
struct Contraction {
  /// Returns the only contraction of `kernel`; null if it has none. Reports
  /// several.
  static mlir::FailureOr<mlir::Operation *> find(mlir::func::FuncOp kernel);
  /// Reports at `op` what code generation does not support.
  static mlir::FailureOr<Contraction> get(mlir::Operation *op,
                                          const CpuTarget &target);

  /// The operands: query and key of attention; the matrix, twice, of packing.
  mlir::Value lhs() const { return op->getOperand(0); }
  mlir::Value rhs() const {
    return op->getOperand(form == ContractionForm::Packing ? 0 : 1);
  }
  /// The right side as stored in memory: quantized panels, if any.
  mlir::Value stored() const {
    return narrow ? mlir::Value(narrow.getValues()) : rhs();
  }
  /// Returns true if rows are decomposed into int8 slices, which a unit
  /// multiplies with a quantized right side.
  bool splitsRows() const {
    return narrow && narrow.getDepth() > 1 && !isPaired();
  }
  /// Returns true if panels of a unit are dequantized from the right side.
  bool dequantizesPanels() const { return narrow && isPaired(); }
  /// Returns true if `operand` is stored in the type of the multiplied
  /// operands.
  bool isStored(mlir::Value operand) const;
  /// Returns true if rows can be read in place, as far as types and padding go.
  bool storesRows() const;
  /// The same for panels of `columns`: constants are packed in advance, rows of
  /// a gradient are panels if they are whole vectors.
  bool storesPanels(int64_t columns) const;
  /// The kernel's other arguments of the result's shape, if columns are
  /// contiguous in it: operands that an epilogue reads once.
  llvm::SmallVector<mlir::BlockArgument> residuals() const;
  /// Columns of the result, in each of `groups`.
  int64_t width() const;
  int64_t groups() const { return geometry.groups; }
  /// Panels of `columns` in a group.
  int64_t panelsOfGroup(int64_t columns) const {
    return llvm::divideCeil(width(), columns);
  }
  /// Number of vectors per panel to compute, if all panels are alike.
  int64_t vectors(int64_t columns) const;
  /// Positions of K per step of the micro-kernel, and steps for a number of
  /// adjacent positions.
  int64_t depthOfStep() const { return stepDepth(unit); }
  int64_t steps(int64_t positions) const {
    return llvm::divideCeil(positions, depthOfStep());
  }
  bool isPaired() const { return depthOfStep() > 1; }
  /// The loop over a number of adjacent positions of rows.
  KLoop loopOver(int64_t positions) const {
    int64_t count = steps(positions), depth = depthOfStep();
    return {count, depth, count * depth - positions};
  }
  /// Returns true if words contain f16.
  bool isF16() const {
    return unit == ArithmeticUnit::TileF16 || unit == ArithmeticUnit::PairsF16;
  }
  /// Returns true if a filter's gradient reads each channel of its input as an
  /// image of its own, with adjacent pixels.
  bool isPlanar() const {
    return form == ContractionForm::FilterGradient && isTiled(unit);
  }
  /// Maximum rows of a register block with panels of `columns`.
  int64_t mostRows(int64_t columns) const;
  /// The target's fastest unit for operands of this type.
  const MathUnit *unitOfTarget() const;
  /// Speed of the unit relative to f32.
  double speedup() const;
  /// Contiguous runs in a convolution's depth, and the steps of its panel.
  int64_t windowRuns() const {
    return geometry.run() ? geometry.depth() / geometry.run() : 0;
  }
  int64_t windowSteps() const { return windowRuns() * steps(geometry.run()); }
  /// Type in which operands are multiplied, without rounding.
  mlir::Type factorType() const;
  /// Type in which a packed operand stores a lane's operands of a step: the
  /// accumulator type, or a word of several operands.
  mlir::Type wordType() const;
  /// The same for panels in memory: pairs of bytes are widened later.
  mlir::Type panelType() const;
  /// Type of packed rows with adjacent positions: the operand type, bf16 as bit
  /// patterns.
  mlir::Type rowType() const;

  mlir::Operation *op = nullptr;
  ContractionForm form = ContractionForm::Product;
  CpuTarget target;
  /// Accumulator type: f32 for floats up to f32, f64 with an f64 operand, the
  /// result's type for integers.
  mlir::Type sumType;
  /// Arithmetic unit, for operands that both have its type.
  ArithmeticUnit unit = ArithmeticUnit::MultiplyAdd;
  /// Signs of 8-bit integers.
  OperandSigns signs;
  /// bf16 split of the operands; planes belong to the emitter.
  Bf16SplitTerms terms;
  int64_t lanes = 0;
  /// Multiply-adds that hide the latency of one; 1: sums are not distributed.
  int64_t multiplyAddsInFlight = 1;
  /// Layout of a constant right side, and how its panels are read.
  PackedAttr packed;
  PanelForm panelForm = PanelForm::Plain;
  /// The op that dequantizes it, if it is narrower than the operand type; else
  /// null.
  mutable DequantizeOp narrow;
  bool transposeLhs = false, transposeRhs = false;
  /// Set for a GEMM of two interleaved halves that an epilogue combines.
  std::optional<GatedMatmulColumns> pair;
  /// Extents of a GEMM, or `[depth, n]` of packing.
  GemmExtents product;
  /// Geometry of a convolution or of its filter's gradient.
  ConvolutionGeometry geometry;

private:
  /// Chooses the unit and the form in which it reads a packed constant. Reports
  /// a constant that was packed for another unit.
  mlir::LogicalResult chooseUnit();
};

/// Number of vectors to compute in a panel of `columns` with `used` columns.
int64_t tailVectors(PanelForm form, int64_t columns, int64_t used,
                    int64_t lanes);

} // namespace mpc::cpu

#endif // MPC_LIB_TARGET_CPU_CONTRACTIONSHAPE_H
