//===- NarrowConstant.h - constants in a narrower type ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_NARROWCONSTANT_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_NARROWCONSTANT_H

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include <optional>

namespace mpc {

/// The f32 constant's value rounded to `type`. Warns at the op where finite
/// values become infinite or non-zero values become zero. Nullopt where the
/// data cannot be read.
std::optional<mlir::ElementsAttr> narrowConstantValue(ConstantOp op,
                                                      mlir::FloatType type);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_NARROWCONSTANT_H
