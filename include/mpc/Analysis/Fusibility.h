//===- Fusibility.h - casts that kernels absorb -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pure functions that say which casts the Fuse stage absorbs. The Precision
// stage prices casts by them and the Fuse stage honours them.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_FUSIBILITY_H
#define MPC_ANALYSIS_FUSIBILITY_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Target/TargetInfo.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

/// The facts of a target that decide which casts are free.
struct FusionTarget {
  /// Whose kernels the fuser forms.
  TargetInfo machine;
  /// Whether a contraction narrows its operands itself, while it loads them.
  /// The CPU's micro-kernels do not: they read 16-bit panels as they lie.
  bool narrowsContractionOperands = false;
  /// Whether a contraction that may round its f32 operands to tf32 does so. The
  /// CPU's compute f32, which the permission allows.
  bool roundsToTensorFloat32 = false;
  /// Whether contractions multiply f32 operands in two or three bf16 terms.
  bool splitsIntoBFloat16 = false;
  /// The fewest bf16 terms of f32 operands that contractions may be permitted
  /// to multiply; 0: none. Three have f32's precision: a GPU's library may do
  /// so, its kernels compute f32.
  int64_t fewestBFloat16Terms = 0;
  /// Whether a library computes products. It adds a bias in the type of its
  /// result, and sums the bias's gradient in that of the weight's.
  bool hasProductLibrary = false;
  /// Whether contractions sum in 16 bits. The CPU's sum in f32 and round once.
  bool accumulatesNarrow = false;

  FusionTarget() = default;
  explicit FusionTarget(const TargetInfo &target)
      : machine(target),
        roundsToTensorFloat32(target.kernels().roundsToTensorFloat32),
        splitsIntoBFloat16(target.kernels().splitsIntoBFloat16),
        fewestBFloat16Terms(target.kernels().fewestBFloat16Terms) {}
};

/// Whether a cast between floats that feeds operand `index` of `op` disappears
/// into the kernel of `op`: it loads the cast's input and converts in
/// registers.
bool absorbsCast(mlir::Operation *op, unsigned index,
                 const FusionTarget &target);

/// Whether a cast between floats of a result of `op` disappears into the kernel
/// of `op`: it converts in registers and stores the cast's result. False where
/// `op` makes no kernel (constants, views) or one without an epilogue.
bool absorbsResultCast(mlir::Operation *op, const FusionTarget &target);

} // namespace mpc

#endif // MPC_ANALYSIS_FUSIBILITY_H
