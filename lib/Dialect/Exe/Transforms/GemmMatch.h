//===- GemmMatch.h - kernels that the library computes ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_EXE_TRANSFORMS_GEMMMATCH_H
#define MPC_LIB_DIALECT_EXE_TRANSFORMS_GEMMMATCH_H

#include "mpc/Dialect/Exe/IR/ExeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace mpc {

/// A kernel as one product with one epilogue of cuBLASLt (cublasLt.h,
/// cublasLtEpilogue_t): a vector or a matrix added, ReLU or GELU in its tanh
/// form. A bias and a residual have the result's type, as the library wants
/// them; sums stay in f32 up to the last rounding, so that no rounding of the
/// kernel is lost or added.
class GemmMatch {
public:
  /// Looks at a kernel on tensors.
  explicit GemmMatch(mlir::func::FuncOp kernel);

  /// Null where the library has no such product.
  exe::ProblemAttr problem() const { return found; }
  /// Numbers of the kernel's arguments in the order of the problem's inputs.
  llvm::ArrayRef<int64_t> arguments() const { return numbers; }
  /// Where `problem` is null: why, as the end of "is no library call: ...".
  const std::string &reason() const { return why; }

private:
  mlir::LogicalResult matchProduct(MatmulOp product);
  mlir::LogicalResult matchEpilogue(mlir::Value sums);
  mlir::LogicalResult matchAdd(AddOp add, mlir::Value sums);
  mlir::LogicalResult refuse(std::string reason) {
    why = std::move(reason);
    return mlir::failure();
  }

  int64_t m = 0, n = 0, k = 0, batch = 1;
  bool sharedA = false, sharedB = false;
  int64_t a = -1, b = -1, bias = -1, residual = -1;
  exe::Epilogue epilogue = exe::Epilogue::none;
  mlir::Type resultType;
  exe::ProblemAttr found;
  llvm::SmallVector<int64_t> numbers;
  std::string why;
};

} // namespace mpc

#endif // MPC_LIB_DIALECT_EXE_TRANSFORMS_GEMMMATCH_H
