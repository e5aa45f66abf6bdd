//===- DequantizedElements.h - per-element dequantization -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_DEQUANTIZEDELEMENTS_H
#define MPC_LIB_TARGET_KERNEL_DEQUANTIZEDELEMENTS_H

#include "ElementEmitter.h"

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

namespace mpc {
class DequantizeOp;

/// Loads and dequantizes `lanes` elements of a quantized matrix along a row, as
/// f32. They start at a multiple of `lanes` and share one scale. For panels of
/// depth 1, one element.
mlir::FailureOr<mlir::Value> emitDequantized(ElementEmitter &emitter,
                                             DequantizeOp narrow,
                                             mlir::ValueRange indices,
                                             int64_t lanes);

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_DEQUANTIZEDELEMENTS_H
