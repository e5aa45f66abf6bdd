//===- ReferenceGemm.h - GEMM of all contractions ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_REFERENCE_REFERENCEGEMM_H
#define MPC_LIB_REFERENCE_REFERENCEGEMM_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Reference/Interpreter.h"

#include <optional>
#include <vector>

namespace mpc {
class MatmulOp;
} // namespace mpc

namespace mpc::reference {

/// GEMM on tensor cores: instructions in ascending order of k.
struct TensorCoreGemm {
  TensorCoreArithmetic arithmetic;
  TensorCoreType lhs, rhs;
  /// Whether sums of `kPromotion` products are added in f32, to sums that the
  /// tensor cores would keep with fewer bits.
  bool promotes = false;
  static constexpr int64_t kPromotion = 128;

  /// Returns how `cores` compute `matmul`, or nullopt if they have no
  /// instruction with f32 accumulators for its types.
  static std::optional<TensorCoreGemm> of(MatmulOp matmul,
                                          const TensorCores &cores);
};

/// Rounding rules of a GEMM.
struct GemmRounding {
  Rounding rounding;
  /// Accumulator type; in storage-rounding mode every product and addition is
  /// rounded to it.
  mlir::Type accumulate;
  /// `tf32` rounds the operands. `bf16x2` (`bf16x3`) splits each operand into 2
  /// (3) bf16 terms and sums the 3 (6) products of the largest terms: the
  /// product of the first terms, plus, if it is finite, the sum of the others.
  ComputeMode mode = ComputeMode::native;
  /// Tensor cores that multiply the operands; null: none.
  const TensorCoreGemm *tensorCores = nullptr;
};

/// A strided view of a matrix.
struct Matrix {
  const double *data;
  int64_t rowStride;
  int64_t columnStride;
};

/// Returns the elements of `tensor`; integers are converted into `storage`.
llvm::ArrayRef<double> constantFloats(const Tensor &tensor,
                                      std::vector<double> &storage);

/// `result[m][n] = sum over k of lhs[m][k] * rhs[k][n]`, k ascending; the
/// result is contiguous and rounded to the accumulate type.
void referenceGemm(int64_t rows, int64_t depth, int64_t columns, Matrix lhs,
                   Matrix rhs, double *result, const GemmRounding &rules);

} // namespace mpc::reference

#endif // MPC_LIB_REFERENCE_REFERENCEGEMM_H
