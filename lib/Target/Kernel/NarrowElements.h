//===- NarrowElements.h - elements of narrow constants ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_NARROWELEMENTS_H
#define MPC_LIB_TARGET_KERNEL_NARROWELEMENTS_H

#include "ElementEmitter.h"

#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"

namespace mpc {

/// `lanes` elements of a narrow matrix along a line, as f32, unpacked where
/// they are read. They begin at a multiple of their number and have one scale.
/// One element of panels of depth 1.
mlir::FailureOr<mlir::Value> emitNarrow(ElementEmitter &emitter,
                                        DequantizeOp narrow,
                                        mlir::ValueRange indices,
                                        int64_t lanes);

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_NARROWELEMENTS_H
