//===- ContractionShape.h - what is known before code -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What schedules and emitters of contractions ask of an op before any code is
// written: the type of its sums, the form of its panels, and which of its
// dimensions are rows.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_CONTRACTIONSHAPE_H
#define MPC_LIB_TARGET_CPU_CONTRACTIONSHAPE_H

#include "../Kernel/IndexMath.h"
#include "ConvolutionGeometry.h"
#include "MicroKernel.h"

#include "mpc/Analysis/PairedColumns.h"
#include "mpc/Dialect/Mpc/IR/MpcOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

/// A matrix product's extents: batch x [m, depth] x [depth, n].
struct ProductShape {
  /// Indices of an operand's batch dimensions for the batch at `position`
  /// (empty: the first).
  llvm::SmallVector<mlir::Value>
  batchIndices(IndexMath &math, llvm::ArrayRef<int64_t> operandBatch,
               llvm::ArrayRef<mlir::Value> position) const;

  int64_t batch = 1, m = 0, n = 0, depth = 0;
  llvm::SmallVector<int64_t> batchShape, lhsBatch, rhsBatch;
  /// Batch dimensions of the result count as rows (the right side has none).
  bool flattened = false;
  /// Extents that a row number runs over.
  llvm::SmallVector<int64_t> rowShape;
};

/// What a contraction is to the CPU.
enum class ContractionForm {
  Product, ///< also a convolution without window and padding
  Convolution,
  Depthwise, ///< every channel has a filter of its own
  FilterGradient,
  Attention,
  Packing, ///< no product: panels for one, written
};

/// The contraction that a kernel is around.
struct Contraction {
  /// The one contraction of `kernel`; null where it has none. A diagnostic
  /// where it has several.
  static mlir::FailureOr<mlir::Operation *> find(mlir::func::FuncOp kernel);
  /// A diagnostic at `op` where code generation does not take it.
  static mlir::FailureOr<Contraction> get(mlir::Operation *op,
                                          const CpuTarget &target);

  /// The operands; of attention query and key, of packing twice the matrix.
  mlir::Value lhs() const { return op->getOperand(0); }
  mlir::Value rhs() const {
    return op->getOperand(form == ContractionForm::Packing ? 0 : 1);
  }
  /// The right side as it lies in memory: narrow panels where there are some.
  mlir::Value stored() const {
    return narrow ? mlir::Value(narrow.getValues()) : rhs();
  }
  /// Whether rows are split into bytes, which a unit multiplies with those of a
  /// narrow right side.
  bool splitsRows() const { return narrow && narrow.getDepth() > 1; }
  /// Whether `operand` lies in memory in the type of the factors.
  bool isStored(mlir::Value operand) const;
  /// Whether rows are read where they lie, as far as types and padding go.
  bool storesRows() const;
  /// The same of panels of `columns`: constants are packed before, lines of a
  /// gradient are panels where they are whole vectors.
  bool storesPanels(int64_t columns) const;
  /// The kernel's other arguments that are shaped like the result, where
  /// columns are neighbours in it: what an epilogue reads once.
  llvm::SmallVector<mlir::BlockArgument> residuals() const;
  /// Columns of the result, in each of `groups`.
  int64_t width() const;
  int64_t groups() const { return geometry.groups; }
  /// Panels of `columns` in a group.
  int64_t panelsOfGroup(int64_t columns) const {
    return llvm::divideCeil(width(), columns);
  }
  /// Vectors of a panel that count where all panels are alike.
  int64_t vectors(int64_t columns) const;
  /// Positions of K that a step multiplies, and steps of so many positions that
  /// are neighbours.
  int64_t depthOfStep() const { return stepDepth(unit); }
  int64_t steps(int64_t positions) const {
    return llvm::divideCeil(positions, depthOfStep());
  }
  bool isPaired() const { return depthOfStep() > 1; }
  /// Whether words are of f16.
  bool isF16() const {
    return unit == DotUnit::TileF16 || unit == DotUnit::PairsF16;
  }
  /// Whether a filter's gradient reads each channel of its input as an image of
  /// its own, of which pixels are neighbours.
  bool isPlanar() const {
    return form == ContractionForm::FilterGradient && isTiled(unit);
  }
  /// Most rows of a block of sums with panels of `columns`.
  int64_t mostRows(int64_t columns) const;
  /// The target's fastest unit for factors of this type.
  const MathUnit *unitOfTarget() const;
  /// How much faster than f32 the unit is.
  double speedup() const;
  /// Runs of neighbours in a convolution's depth, and the steps of its panel.
  int64_t windowRuns() const {
    return geometry.run() ? geometry.depth() / geometry.run() : 0;
  }
  int64_t windowSteps() const { return windowRuns() * steps(geometry.run()); }
  /// Type in which factors are multiplied, without rounding.
  mlir::Type factorType() const;
  /// Type in which a packed operand keeps what a lane multiplies in a step:
  /// that of the sums, or a word of several factors.
  mlir::Type wordType() const;
  /// The same of panels that lie in memory: pairs of bytes are widened later.
  mlir::Type panelType() const;
  /// Type of packed rows whose positions are neighbours: of the factors, bf16
  /// as bit patterns.
  mlir::Type rowType() const;

  mlir::Operation *op = nullptr;
  ContractionForm form = ContractionForm::Product;
  CpuTarget target;
  /// f32 for floats up to f32, f64 where f64 takes part, the result's type for
  /// integers.
  mlir::Type sumType;
  /// What multiplies: a unit where both operands are of its type.
  DotUnit unit = DotUnit::MultiplyAdd;
  /// Of 8-bit integers.
  OperandSigns signs;
  /// What an operand is split into; planes are the emitter's.
  OperandTerms terms;
  int64_t lanes = 0;
  int64_t multiplyAddsInFlight = 1;
  /// Of a constant right side, and how its panels are read.
  PackedAttr packed;
  PanelForm panelForm = PanelForm::Plain;
  /// What widens it, where it is narrower than the factors; else null.
  mutable DequantizeOp narrow;
  bool transposeLhs = false, transposeRhs = false;
  /// Of a product of two halves of columns that an epilogue meets.
  std::optional<PairedColumns> pair;
  /// Of a product, or the `[depth, n]` that are packed.
  ProductShape product;
  /// Of convolutions and their filters' gradients.
  ConvolutionGeometry geometry;

private:
  /// What multiplies, and how it reads a packed constant. A diagnostic where
  /// the constant was packed for another unit.
  mlir::LogicalResult chooseUnit();
};

/// `tensor` before the reshapes that gave it its shape.
mlir::Value stripReshapes(mlir::Value tensor);

/// Vectors to compute in a panel of `columns` of which `used` count.
int64_t tailVectors(PanelForm form, int64_t columns, int64_t used,
                    int64_t lanes);

} // namespace mpc

#endif // MPC_LIB_TARGET_CPU_CONTRACTIONSHAPE_H
