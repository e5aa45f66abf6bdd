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

/// Adds up what rounding does to a constant's elements.
class RoundingLosses {
public:
  void note(double value, double rounded, int64_t times = 1);
  int64_t getOverflowed() const { return overflowed; }
  int64_t getCount() const { return count; }
  NarrowingAttr toAttr(mlir::MLIRContext *context) const;

private:
  int64_t count = 0, overflowed = 0, flushed = 0, finite = 0;
  double largest = 0, errors = 0, values = 0;
};

/// What a constant's resource is called, or the op's name.
std::string resourceName(ConstantOp op);

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
