//===- RoundConstant.h - round constants to low precision ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_ROUNDCONSTANT_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_ROUNDCONSTANT_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include <optional>

namespace mpc {
class ConstantOp;

/// Accumulates the rounding errors of a constant's elements.
class RoundingErrorStats {
public:
  void note(double value, double rounded, int64_t times = 1);
  void note(llvm::ArrayRef<float> exact, llvm::ArrayRef<float> rounded);
  /// Adds `elements` finite values without an error.
  void noteExact(int64_t elements) {
    count += elements;
    finite += elements;
  }
  int64_t getOverflowed() const { return overflowed; }
  int64_t getCount() const { return count; }
  NarrowingAttr toAttr(mlir::MLIRContext *context) const;

private:
  int64_t count = 0, overflowed = 0, flushed = 0, finite = 0;
  double largest = 0, errors = 0, values = 0;
};

/// Returns true if no element is infinite or NaN.
bool areFinite(llvm::ArrayRef<float> elements);

/// Returns true if all elements are exact in bf16.
bool areBFloats(llvm::ArrayRef<float> elements);

/// Remembers that the elements of `attr`, an f32 constant, are exact in `type`,
/// so that roundConstantValue() need not read them.
void rememberExact(mlir::ElementsAttr attr, mlir::FloatType type);

/// Upconverts the bits of bf16 or f16 elements to f32 in `target`, exactly.
void widenElements(llvm::ArrayRef<uint16_t> bits, mlir::Type element,
                   float *target);

/// Returns the name of a constant's resource, or the op's name.
std::string resourceName(ConstantOp op);

/// A rounded constant and the statistics of its rounding errors.
struct RoundedConstant {
  mlir::ElementsAttr value;
  NarrowingAttr losses;
};

/// Rounds an f32 constant to a 16-bit type, or widens it to f64. Warns if
/// finite values overflow; the lint reports other losses. Returns nullopt if
/// the data is unavailable.
std::optional<RoundedConstant> roundConstantValue(ConstantOp op,
                                                  mlir::FloatType type);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_ROUNDCONSTANT_H
