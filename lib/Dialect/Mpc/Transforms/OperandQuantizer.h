//===- OperandQuantizer.h - scaled quantization of operands -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_OPERANDQUANTIZER_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_OPERANDQUANTIZER_H

#include "ScalarEmitter.h"

#include "mpc/Policy/OperandFormat.h"

namespace mpc {

/// What a contraction does with an operand.
enum class OperandPart { Activation, Weight, Gradient };

/// One use of a value as an operand.
struct OperandUse {
  OperandPart part = OperandPart::Activation;
  /// Dimension of the operand that is contracted.
  int64_t axis = 0;
  /// Whether the contraction computes the gradient of a weight.
  bool isWeightGradient = false;
  /// Scale of the tensor, rank 0; null unless it is known before the tensor.
  mlir::Value scale;
  /// Random state of stochastic rounding; null to round to nearest.
  mlir::Value randomState;
  int64_t stream = 0;
};

/// An operand in numbers of its format.
struct QuantizedOperand {
  /// Has the shape of the operand; f32, or i8 for int8. Includes the scales of
  /// blocks, with which its numbers are exact in bf16.
  mlir::Value value;
  /// Factor of the contraction's result, f32, of rank 0 or with extents of 1
  /// except for the operand's rows; null for 1.
  mlir::Value descale;
};

/// Emits the quantization of operands in one format (fake quantization: encoded
/// and decoded again). Formulas follow the published recipes bit for bit; see
/// OperandFormat.
class OperandQuantizer {
public:
  /// `ranks` share the examples of a step: scales of tensors that span all of
  /// them follow from the largest magnitude over all ranks.
  OperandQuantizer(ScalarEmitter &emit, const OperandFormat &format,
                   int64_t ranks)
      : emit(emit), format(format), ranks(ranks) {}

  /// Quantizes `value`, an f32 tensor.
  QuantizedOperand quantize(mlir::Value value, const OperandUse &use);

  /// Returns the largest magnitude of a tensor, rank 0.
  mlir::Value largestMagnitude(mlir::Value value);

private:
  /// Largest magnitudes along `axes`, which become extents of 1.
  mlir::Value largestAlong(mlir::Value value, llvm::ArrayRef<int64_t> axes);
  /// Returns the elementwise maximum over ranks of the largest magnitudes of an
  /// operand, which is `amax` itself for a weight.
  mlir::Value overRanks(mlir::Value amax, const OperandUse &use);
  /// Returns the largest number of a type over `amax`, elementwise; 1 where
  /// `amax` is infinite or not positive.
  mlir::Value scaleFor(mlir::Value amax, OperandType type);
  /// Quantizes with the scale of `use`, or with one from `amax`.
  QuantizedOperand quantizeScaled(mlir::Value value, mlir::Value amax,
                                  const OperandUse &use);
  QuantizedOperand quantizeBlocks(mlir::Value value, const OperandUse &use);
  /// Returns the power of two that blocks with these largest magnitudes are
  /// divided by.
  mlir::Value scaleOfBlocks(mlir::Value amax, OperandType type);
  /// Quantizes blocks along `axes`.
  QuantizedOperand quantizeNvFp4(mlir::Value blocks,
                                 llvm::ArrayRef<int64_t> axes,
                                 const OperandUse &use);
  /// Rounds to the numbers of a type; saturates.
  mlir::Value toNumbers(mlir::Value value, OperandType type,
                        const OperandUse &use);
  /// Power of two at most, or with `up` at least, `value`, within the range of
  /// f8E8M0FNU.
  mlir::Value powerOfTwo(mlir::Value value, bool up);
  /// Random Hadamard transform of runs of 16 along an axis, rounded to bf16.
  mlir::Value hadamard(mlir::Value value, int64_t axis);
  OperandType typeFor(const OperandUse &use) const {
    return use.part == OperandPart::Gradient ? format.backward : format.forward;
  }
  mlir::Value reciprocal(mlir::Value value) {
    return emit.div(emit.number(1, value), value);
  }

  ScalarEmitter &emit;
  const OperandFormat &format;
  int64_t ranks;
};

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_OPERANDQUANTIZER_H
