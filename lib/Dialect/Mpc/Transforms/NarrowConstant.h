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

/// A constant's value in a narrower type, with what the rounding lost.
struct NarrowedConstant {
  mlir::ElementsAttr value;
  NarrowingAttr losses;
};

/// The f32 constant's value rounded to `type`. Warns at the op where finite
/// values become infinite; what else is lost is the lint's to tell. Nullopt
/// where the data cannot be read.
std::optional<NarrowedConstant> narrowConstantValue(ConstantOp op,
                                                    mlir::FloatType type);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_NARROWCONSTANT_H
