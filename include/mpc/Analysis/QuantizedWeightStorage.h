//===- QuantizedWeightStorage.h - storage of quantized weights --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Predicts in which format weights that the precision policy quantizes will be
// stored: as the packed panels of CPU GEMMs (mpc-compress-panels) or as
// column-major matrices (mpc-compress-matrices).
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_QUANTIZEDWEIGHTSTORAGE_H
#define MPC_ANALYSIS_QUANTIZEDWEIGHTSTORAGE_H

#include "mpc/Analysis/CastFusion.h"
#include "mpc/Policy/Policy.h"

namespace mpc {

/// Maximum number of rows that an int8 unit multiplies with quantized weights
/// in slices. 64 weights cost five or six instructions per row as int8;
/// dequantized, 12 for all rows plus four per row.
inline constexpr int64_t kMostSlicedRows = 4;

/// Least number of rows for which panels of a bf16 unit are dequantized. That
/// takes as long as multiplying 5 (128 rows: 5 % of the time) and doubles the
/// time of 16 rows, whose panels are stored in bf16 instead.
inline constexpr int64_t kFewestDequantizedRows = 64;

/// Returns true if a kernel of `target` reads the weights of `op`, a matmul or
/// a conv that multiplies `type`, in `format`; otherwise they are stored as
/// `type`. False if the format is not narrower.
bool readsQuantizedWeights(mlir::Operation *op, PolicyType type,
                           const WeightFormat &format,
                           const CastFusionTarget &target);

/// Returns true if GEMMs dequantize column-major constants: threads load
/// elements in any order, and there are no packed panels.
bool dequantizesMatrices(const TargetInfo &target);

/// Weights of a GEMM that its threads dequantize.
struct DequantizedGemmWeights {
  /// Number of rows multiplied with each weight, the compute type, and the size
  /// of the weights in that type and in the stored format.
  int64_t rows = 0;
  PolicyType type = PolicyType::Float32;
  int64_t count = 0;
  double wideBytes = 0, narrowBytes = 0;
};

/// Returns true if reading quantized weights makes the GEMM faster: with many
/// rows it is compute-bound, and small weights save nothing.
bool isDequantizedGemmFaster(const DequantizedGemmWeights &weights,
                             const TargetInfo &target);

/// Bytes of the weights of `op` in `format`, scales included.
int64_t storedBytes(mlir::Operation *op, const WeightFormat &format);

/// Returns true if `target` has no unit for 16-bit floats, so that an f32 GEMM
/// that dequantizes its weights is as fast as a 16-bit one.
bool isFloat32AsFast(const CastFusionTarget &target);

} // namespace mpc

#endif // MPC_ANALYSIS_QUANTIZEDWEIGHTSTORAGE_H
