//===- CastFusion.h - casts that are fused into kernels ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pure functions that decide which casts the Fuse stage fuses into kernels. The
// Precision stage prices casts by them and the Fuse stage follows them.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_CASTFUSION_H
#define MPC_ANALYSIS_CASTFUSION_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Target/TargetInfo.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

/// Target properties that decide which casts are free.
struct CastFusionTarget {
  /// Target whose kernels the fuser forms.
  TargetInfo machine;
  /// Whether a contraction narrows its operands while it loads them. The CPU's
  /// micro-kernels do not: they read packed 16-bit panels.
  bool narrowsContractionOperands = false;
  /// Whether a contraction permitted to round its f32 operands to tf32 does so.
  /// CPU kernels compute in f32, which the permission allows.
  bool roundsToTensorFloat32 = false;
  /// Whether contractions split f32 operands into bf16 (bf16x2, bf16x3).
  bool splitsIntoBFloat16 = false;
  /// Smallest number of bf16 terms per f32 operand that may be permitted; 0:
  /// none. Three terms have f32's precision: a GPU's library may use them, its
  /// own kernels compute in f32.
  int64_t minBFloat16SplitValues = 0;
  /// Whether a library (cuBLASLt) computes GEMMs. It adds a bias in the type of
  /// its result, and sums the bias's gradient in the type of the weight's.
  bool hasProductLibrary = false;
  /// Whether contractions accumulate in 16 bits. CPU kernels accumulate in f32
  /// and round once.
  bool accumulatesNarrow = false;

  CastFusionTarget() = default;
  explicit CastFusionTarget(const TargetInfo &target)
      : machine(target),
        roundsToTensorFloat32(target.kernels().roundsToTensorFloat32),
        splitsIntoBFloat16(target.kernels().splitsIntoBFloat16),
        minBFloat16SplitValues(target.kernels().minBFloat16SplitValues) {}
};

/// Returns true if a cast between floats that feeds operand `index` of `op` is
/// fused into the kernel of `op`, which loads the cast's input and converts it
/// in registers.
bool fusesOperandCast(mlir::Operation *op, unsigned index,
                      const CastFusionTarget &target);

/// Returns true if a cast between floats of a result of `op` is fused into the
/// kernel of `op`, which converts in registers and stores the cast's result.
/// False if `op` has no kernel (constants, views) or one without an epilogue.
bool fusesResultCast(mlir::Operation *op, const CastFusionTarget &target);

} // namespace mpc

#endif // MPC_ANALYSIS_CASTFUSION_H
