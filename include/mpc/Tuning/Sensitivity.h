//===- Sensitivity.h - first-order sensitivity to rounding ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TUNING_SENSITIVITY_H
#define MPC_TUNING_SENSITIVITY_H

#include "mpc/Analysis/RoundingErrorModel.h"
#include "mpc/Analysis/WeightColumns.h"
#include "mpc/Tuning/Budget.h"
#include "mpc/Tuning/OperandChanges.h"
#include "mpc/Tuning/ReverseMode.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallVector.h"

#include <array>

namespace mpc {

/// First-order squared error of the outputs caused by each rounding of a
/// function, averaged over samples: of every float value, and of every use of
/// one, in f16, bf16, tf32 and f32. Each sample takes one forward and several
/// backward passes: random output cotangents give the cotangent of every
/// element, and with the known change by rounding
///
///     sum of (cotangent * (rounded - element))^2
///
/// over elements is the share of a rounding, assuming independent elements.
/// Equal elements are not independent; if the squared sums of cotangent *
/// (rounded - element), which are unbiased but noisy, deviate significantly,
/// they are used instead. A value that becomes non-finite by rounding has an
/// infinite share, unless it was non-finite before.
class Sensitivity : public RoundingErrorModel {
public:
  /// `function` is in f32 after Simplify, and must outlive this unchanged.
  Sensitivity(mlir::func::FuncOp function, Budget::Measure measure,
              uint64_t seed = 0);

  /// Ignores all outputs but one; call before the first sample.
  void setOutput(size_t index) { output = index; }

  /// Also estimates the error of storing the weights of `op` in a format; call
  /// before the first sample. Returns false if they cannot be read or are not
  /// finite.
  bool consider(mlir::Operation *op, const StoredWeights &stored);
  /// Also estimates the error of the operands that `changes` quantizes; call
  /// once, before the first sample. `changes` belongs to this function and must
  /// outlive this.
  void considerOperands(OperandChanges &changes);

  /// Adds a sample; returns the outputs in float64. `observer` receives the
  /// results of each op. Reports failures.
  mlir::FailureOr<llvm::SmallVector<reference::Tensor>>
  addSample(llvm::ArrayRef<reference::Tensor> arguments, int draws = 2,
            const ForwardValues::Observer &observer = {});
  /// The same for a sample whose values are known.
  mlir::FailureOr<llvm::SmallVector<reference::Tensor>>
  addSample(ForwardValues &forward, int draws = 2);

  /// Means over samples; 0 without a cotangent.
  double ofValue(mlir::Value value, mlir::FloatType type) const override;
  double ofUse(mlir::OpOperand &use, mlir::FloatType type) const override;
  double ofWeights(mlir::Operation *op, const WeightFormat &format,
                   int bits) const override;
  double ofOperands(mlir::Operation *op) const override;

  int64_t getSamples() const { return samples; }

  /// Returns the accumulated state for restore(); some may be infinite.
  std::vector<double> save();
  /// Replaces the accumulated state. Returns false and changes nothing if the
  /// numbers do not belong to this function.
  bool restore(llvm::ArrayRef<double> numbers);

private:
  static constexpr size_t kTypes = 4;
  /// Sums over random cotangents and samples.
  struct Share {
    double apart = 0, together = 0;
  };
  using Shares = std::array<Share, kTypes>;
  /// A weight format, and the change of each weight.
  struct RoundedWeights {
    WeightFormat format;
    int bits = kFloat32Bits;
    std::vector<float> changes;
    Share share;
  };
  double mean(const Share &share) const;
  double mean(const Shares &shares, mlir::FloatType type) const;
  void addWeights(mlir::OpOperand &use, const reference::Tensor &cotangent,
                  double weight);
  void addOperands(mlir::OpOperand &use, const reference::Tensor &cotangent,
                   double weight);
  void add(Shares &shares, const reference::Tensor &value,
           const reference::Tensor &cotangent, double weight) const;

  /// Calls `visit` with each share, in an order that depends on the function
  /// and the considered weights.
  template <typename Visit> void forAll(Visit visit);

  mlir::func::FuncOp function;
  Budget::Measure measure;
  std::optional<size_t> output;
  std::mt19937_64 generator;
  ReverseModePass walk;
  std::array<mlir::FloatType, kTypes> types;
  int64_t samples = 0, drawn = 0;
  llvm::DenseMap<mlir::Value, Shares> values;
  llvm::DenseMap<std::pair<mlir::Operation *, unsigned>, Shares> uses;
  llvm::MapVector<mlir::Operation *, std::vector<RoundedWeights>> weights;
  /// Null if no operands are quantized.
  OperandChanges *operands = nullptr;
  llvm::MapVector<OperandChanges::Operand, Share> operandShares;
  /// Changes of the operands in the current sample.
  OperandChanges::Changes operandChanges;
};

} // namespace mpc

#endif // MPC_TUNING_SENSITIVITY_H
