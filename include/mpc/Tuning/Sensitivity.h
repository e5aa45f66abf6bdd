//===- Sensitivity.h - what each rounding does to the outputs ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TUNING_SENSITIVITY_H
#define MPC_TUNING_SENSITIVITY_H

#include "mpc/Analysis/RoundingErrors.h"
#include "mpc/Analysis/WeightColumns.h"
#include "mpc/Tuning/Adjoints.h"
#include "mpc/Tuning/Budget.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallVector.h"

#include <array>

namespace mpc {

/// The squared error of the outputs, to first order, that each rounding of a
/// function brings over samples: of every float value, and of every use of one,
/// in f16, bf16, tf32 and f32. Per sample one run forwards and some backwards:
/// a drawn combination of outputs gives the cotangent of every element, and
/// what rounding does to the element is known, so that
///
///     sum of (cotangent * (rounded - element))^2
///
/// over elements is its share: roundings of different elements are taken for
/// independent. Those of equal elements are not; where the squares of the sums
/// of cotangent * (rounded - element), which are right in the mean but scatter,
/// say for certain that roundings work together or against each other, they are
/// taken instead. A value that is not finite once rounded has an infinite
/// share, unless it was not finite before.
class Sensitivity : public RoundingErrors {
public:
  /// `function` stands after Simplify, in f32, and must not change while this
  /// lives.
  Sensitivity(mlir::func::FuncOp function, Budget::Measure measure,
              uint64_t seed = 0);

  /// Has samples say, too, what storing the weights of `op` so brings; before
  /// the first of them. False where they cannot be read or are not finite.
  bool consider(mlir::Operation *op, const StoredWeights &stored);

  /// Adds a sample: the outputs in float64. `observer` sees the results of each
  /// op. Fails with a diagnostic.
  mlir::FailureOr<llvm::SmallVector<reference::Tensor>>
  addSample(llvm::ArrayRef<reference::Tensor> arguments, int draws = 2,
            const ForwardValues::Observer &observer = {});
  /// The same of a sample whose values are known.
  mlir::FailureOr<llvm::SmallVector<reference::Tensor>>
  addSample(ForwardValues &forward, int draws = 2);

  /// Means over samples; 0 where nothing flows back.
  double ofValue(mlir::Value value, mlir::FloatType type) const override;
  double ofUse(mlir::OpOperand &use, mlir::FloatType type) const override;
  double ofWeights(mlir::Operation *op, const WeightFormat &format,
                   int bits) const override;

  int64_t getSamples() const { return samples; }

  /// All that samples have said, as numbers that restore() takes; some may be
  /// infinite.
  std::vector<double> save();
  /// Takes the place of the samples that were added. False where the numbers
  /// are not of this function; nothing changes then.
  bool restore(llvm::ArrayRef<double> numbers);

private:
  static constexpr size_t kTypes = 4;
  /// Sums over draws and samples.
  struct Share {
    double apart = 0, together = 0;
  };
  using Shares = std::array<Share, kTypes>;
  /// A form of weights, and what it does to each of them.
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
  void add(Shares &shares, const reference::Tensor &value,
           const reference::Tensor &cotangent, double weight) const;

  /// Calls `visit` with each share, in an order that depends on the function
  /// and on what is considered.
  template <typename Visit> void forAll(Visit visit);

  mlir::func::FuncOp function;
  Budget::Measure measure;
  std::mt19937_64 generator;
  AdjointWalk walk;
  std::array<mlir::FloatType, kTypes> types;
  int64_t samples = 0, drawn = 0;
  llvm::DenseMap<mlir::Value, Shares> values;
  llvm::DenseMap<std::pair<mlir::Operation *, unsigned>, Shares> uses;
  llvm::MapVector<mlir::Operation *, std::vector<RoundedWeights>> weights;
};

} // namespace mpc

#endif // MPC_TUNING_SENSITIVITY_H
