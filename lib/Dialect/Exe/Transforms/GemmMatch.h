//===- GemmMatch.h - kernels that the library computes ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_EXE_TRANSFORMS_GEMMMATCH_H
#define MPC_LIB_DIALECT_EXE_TRANSFORMS_GEMMMATCH_H

#include "mpc/Dialect/Exe/IR/ExeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcOps.h"
#include "mpc/Target/TargetInfo.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace mpc {

/// What a kernel and the one that computes its gradient have between them.
enum class KeptForGradient {
  Nothing,
  /// The input of GELU, as the library keeps it too.
  Input,
  /// What the library keeps as something else: ReLU's mask in bytes, or GELU's
  /// slope in place of its input. The library has to write and read it both.
  OtherThanLibrary,
};

/// A kernel as one product with one epilogue of cuBLASLt (cublasLt.h,
/// cublasLtEpilogue_t): a vector or a matrix added, ReLU or GELU in its tanh
/// form, with what its gradient needs beside it; such a gradient; or the sums
/// of an operand beside the product. A bias, a residual and the sums have the
/// result's type, as the library wants them; sums stay in f32 up to the last
/// rounding, so that no rounding of the kernel is lost or added.
class GemmMatch {
public:
  /// Looks at the block of a kernel on tensors, of a function or of a fusion
  /// that becomes one, for the GPU `target`: where the library does not
  /// multiply f32 as bf16 terms such a permission is not made use of, and what
  /// our kernels do better there is none for it.
  GemmMatch(mlir::Block &kernel, const TargetInfo &target);

  /// Null where the library has no such product.
  exe::ProblemAttr problem() const { return found; }
  /// Numbers of the kernel's arguments in the order of the problem's inputs,
  /// and of its results in the order of the problem's outputs.
  llvm::ArrayRef<int64_t> arguments() const { return numbers; }
  llvm::ArrayRef<int64_t> results() const { return outputs; }
  /// What the last input of a gradient, or the second output of an activation,
  /// is.
  KeptForGradient kept() const { return between; }
  /// Where `problem` is null: why, as the end of "is no library call: ...".
  const std::string &reason() const { return why; }

private:
  mlir::LogicalResult matchProduct(MatmulOp product);
  mlir::LogicalResult matchOperandSum(MatmulOp product);
  mlir::LogicalResult matchResults(MatmulOp product);
  /// Leaves to our kernels what they were measured to do better.
  mlir::LogicalResult leaveFaster(const TargetInfo &target);
  mlir::LogicalResult matchEpilogue(mlir::Value sums);
  mlir::LogicalResult matchAdd(AddOp add, mlir::Value sums);
  mlir::LogicalResult matchActivation(mlir::Operation *op);
  mlir::LogicalResult matchGradient(mlir::Operation *op, mlir::Value sums);
  mlir::LogicalResult matchKept(mlir::Value sums);
  mlir::LogicalResult matchKeptMask(mlir::Value activated);
  mlir::LogicalResult matchKeptInput(mlir::Value input, GeluOp gelu);
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
  KeptForGradient between = KeptForGradient::Nothing;
  mlir::Type resultType;
  exe::ProblemAttr found;
  /// Results: of the product, kept for its gradient, of an operand's sums.
  int64_t product = -1, keptResult = -1, sumResult = -1;
  llvm::SmallVector<int64_t> numbers, outputs;
  std::string why;
};

inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType()).getShape();
}

/// The number of the kernel's argument that `value` is, at most reshaped; -1
/// where it is computed.
int64_t argumentOf(mlir::Value value);

/// The number of the kernel's result that `value` is, at most reshaped and
/// rounded once; -1 where anything else reads it.
int64_t resultOf(mlir::Value value);

/// Whether `op` returns the results of a kernel.
inline bool isReturn(mlir::Operation *op) {
  return op->hasTrait<mlir::OpTrait::IsTerminator>();
}

/// Whether `slope` is the derivative of GELU in its tanh form at `input`, all
/// of it computed in f32.
bool isGeluTanhSlope(mlir::Value slope, mlir::Value input);

} // namespace mpc

#endif // MPC_LIB_DIALECT_EXE_TRANSFORMS_GEMMMATCH_H
