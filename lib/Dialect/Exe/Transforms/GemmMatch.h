//===- GemmMatch.h - match kernels to cuBLASLt GEMMs ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_EXE_TRANSFORMS_GEMMMATCH_H
#define MPC_LIB_DIALECT_EXE_TRANSFORMS_GEMMMATCH_H

#include "mpc/Dialect/Exe/IR/ExeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"
#include "mpc/Target/TargetInfo.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace mpc {
class AddOp;
class GeluOp;
class MatmulOp;

/// Value saved by a forward kernel for the kernel of its gradient.
enum class SavedForGradient {
  Nothing,
  /// The input of GELU, as in the library.
  Input,
  /// Stored differently by the library: ReLU's mask in bytes, or GELU's slope
  /// instead of its input. The library must then both write and read it.
  OtherThanLibrary,
};

/// Matches a kernel as one GEMM with one cuBLASLt epilogue (cublasLt.h,
/// cublasLtEpilogue_t): an added vector or matrix, ReLU or tanh GELU,
/// optionally with the value saved for its gradient; such a gradient; or the
/// sums of an operand. Bias, residual and sums have the result's type, as the
/// library requires; accumulators stay f32 until the last rounding, so that no
/// rounding is lost or added.
class GemmMatch {
public:
  /// Matches the block of a kernel (a function on tensors, or a fusion that
  /// becomes one) for the GPU `target`. Ignores bf16-split permissions that the
  /// library lacks, and rejects kernels for which our own code is faster.
  GemmMatch(mlir::Block &kernel, const TargetInfo &target);

  /// Null if the library has no such GEMM.
  exe::ProblemAttr problem() const { return found; }
  /// Indices of kernel arguments in the order of the problem's inputs, and of
  /// kernel results in the order of its outputs.
  llvm::ArrayRef<int64_t> arguments() const { return numbers; }
  llvm::ArrayRef<int64_t> results() const { return outputs; }
  /// Kind of the last input of a gradient, or of the second output of an
  /// activation.
  SavedForGradient kept() const { return between; }
  /// If `problem` is null: the reason, as the end of "is no library call: ...".
  const std::string &reason() const { return why; }

private:
  mlir::LogicalResult matchProduct(MatmulOp product);
  mlir::LogicalResult matchOperandSum(MatmulOp product);
  mlir::LogicalResult matchResults(MatmulOp product);
  /// Rejects GEMMs that our own kernels were measured to compute faster.
  mlir::LogicalResult rejectIfSlower(const TargetInfo &target);
  mlir::LogicalResult matchEpilogue(mlir::Value sums);
  mlir::LogicalResult matchAdd(AddOp add, mlir::Value sums);
  mlir::LogicalResult matchActivation(mlir::Operation *op);
  mlir::LogicalResult matchGradient(mlir::Operation *op, mlir::Value sums);
  mlir::LogicalResult matchSavedActivation(mlir::Value sums);
  mlir::LogicalResult matchSavedMask(mlir::Value activated);
  mlir::LogicalResult matchSavedInput(mlir::Value input, GeluOp gelu);
  mlir::LogicalResult refuse(std::string reason) {
    why = std::move(reason);
    return mlir::failure();
  }
  bool hasEpilogue() const {
    return bias >= 0 || residual >= 0 || epilogue != exe::Epilogue::none;
  }

  mlir::Block &kernel;
  /// Types of the kernel's results.
  llvm::SmallVector<mlir::Type> resultTypes;
  int64_t m = 0, n = 0, k = 0, batch = 1;
  bool sharedA = false, sharedB = false;
  int64_t a = -1, b = -1, bias = -1, residual = -1, auxiliary = -1;
  exe::Epilogue epilogue = exe::Epilogue::none;
  exe::BiasGradient biasGradient = exe::BiasGradient::none;
  SavedForGradient between = SavedForGradient::Nothing;
  mlir::Type resultType;
  exe::ProblemAttr found;
  /// Result indices: of the GEMM, of the value saved for its gradient, of
  /// operand sums.
  int64_t product = -1, keptResult = -1, sumResult = -1;
  llvm::SmallVector<int64_t> numbers, outputs;
  std::string why;
};

/// Returns the index of the kernel argument that `value` is a reshape of; -1 if
/// it is computed.
int64_t argumentOf(mlir::Value value);

/// Returns the index of the kernel result that is `value`, at most reshaped and
/// rounded once; -1 if it has other readers.
int64_t resultOf(mlir::Value value);

/// Returns true if `op` returns the results of a kernel.
inline bool isReturn(mlir::Operation *op) {
  return op->hasTrait<mlir::OpTrait::IsTerminator>();
}

/// Returns true if `slope` is the derivative of tanh GELU at `input`, computed
/// in f32.
bool isGeluTanhSlope(mlir::Value slope, mlir::Value input);

} // namespace mpc

#endif // MPC_LIB_DIALECT_EXE_TRANSFORMS_GEMMMATCH_H
