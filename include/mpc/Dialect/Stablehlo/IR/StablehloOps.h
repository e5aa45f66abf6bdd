//===- StablehloOps.h - the stablehlo and chlo dialects ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_STABLEHLO_IR_STABLEHLOOPS_H
#define MPC_DIALECT_STABLEHLO_IR_STABLEHLOOPS_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "mpc/Dialect/Stablehlo/IR/StablehloDialect.h.inc"
#include "mpc/Dialect/Stablehlo/IR/StablehloEnums.h.inc"

#include "mpc/Dialect/Stablehlo/IR/ChloDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "mpc/Dialect/Stablehlo/IR/StablehloAttributes.h.inc"

#define GET_OP_CLASSES
#include "mpc/Dialect/Stablehlo/IR/StablehloOps.h.inc"

#define GET_OP_CLASSES
#include "mpc/Dialect/Stablehlo/IR/ChloOps.h.inc"

namespace mpc::stablehlo {

/// Returns why an op of the specification ("stablehlo.fft") is unsupported: a
/// verb phrase.
std::string unsupportedReason(llvm::StringRef op);

/// Window attributes of one dimension.
struct WindowDim {
  int64_t size = 1, stride = 1, low = 0, high = 0;
  int64_t baseDilation = 1, windowDilation = 1;

  /// Returns the number of window positions over `extent` elements.
  int64_t places(int64_t extent) const;
};

/// Returns the window attributes of each dimension, with defaults.
llvm::SmallVector<WindowDim>
windowDims(llvm::ArrayRef<int64_t> sizes,
           std::optional<llvm::ArrayRef<int64_t>> strides,
           std::optional<mlir::DenseIntElementsAttr> padding,
           std::optional<llvm::ArrayRef<int64_t>> baseDilations,
           std::optional<llvm::ArrayRef<int64_t>> windowDilations);
llvm::SmallVector<WindowDim> windowDims(ReduceWindowOp op);
llvm::SmallVector<WindowDim> windowDims(SelectAndScatterOp op);
/// For the spatial dimensions, in order.
llvm::SmallVector<WindowDim> windowDims(ConvolutionOp op);

} // namespace mpc::stablehlo

#endif // MPC_DIALECT_STABLEHLO_IR_STABLEHLOOPS_H
