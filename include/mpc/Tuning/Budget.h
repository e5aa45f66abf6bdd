//===- Budget.h - how much error is allowed ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An error of outputs against float64: how it is measured, and in which
// directions outputs feel it.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TUNING_BUDGET_H
#define MPC_TUNING_BUDGET_H

#include "mpc/Reference/Tensor.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <random>
#include <string>
#include <vector>

namespace mpc {

/// A measure and what it may reach.
struct Budget {
  enum class Measure {
    Rms,    ///< root mean square error, of elements relative to the rms of the
            ///< output, or of their class (reference::magnitudeClasses) where a
            ///< gap parts large elements, as masks, from small ones
    Max,    ///< largest absolute error
    Kl,     ///< mean Kullback-Leibler divergence of rows, as softmax or as they
            ///< are where they are distributions
    Top1,   ///< share of rows whose largest element is another one
    Cosine, ///< 1 - cosine of the angle between an output and the exact one
  };
  Measure measure = Measure::Rms;
  double limit = 0;

  /// "rms 1e-3", "max 0.01", "kl 1e-4", "top1 0.1%", "cosine 1e-4".
  static llvm::Expected<Budget> parse(llvm::StringRef text);
  std::string text() const;
};

/// "rms", "max", "kl", "top1", "cosine".
llvm::StringRef stringify(Budget::Measure measure);

/// Adds up what a budget limits over samples. Integer outputs do not count; of
/// several float outputs and samples the worst one does, but that rows that
/// change their largest element are counted over all samples.
class ErrorMeter {
public:
  explicit ErrorMeter(Budget::Measure measure) : measure(measure) {}
  /// Both have the same types. What is not finite where the reference is, or
  /// another infinity than it has, makes the error infinite.
  void add(llvm::ArrayRef<reference::Tensor> wanted,
           llvm::ArrayRef<reference::Tensor> actual);
  /// In the unit of Budget::limit; shares are parts of 1.
  double value() const;

private:
  Budget::Measure measure;
  double worst = 0;
  int64_t rows = 0, flips = 0;
};

/// The cosine of the angle between two tensors of one type, elements aside in
/// which both have the same infinity or no number; 1 where both are zero, 0
/// where one is, and -1 where they disagree about what is not finite.
double cosineOf(const reference::Tensor &wanted,
                const reference::Tensor &actual);

/// Cotangents of outputs, drawn so that the mean of the square of what they
/// give a change of the outputs is its squared error: of Rms and Max the square
/// of the error, of Kl and Top1 about the error itself, of Cosine twice the
/// error. None for outputs that
/// feel no error.
std::vector<std::optional<reference::Tensor>>
drawSeeds(Budget::Measure measure, llvm::ArrayRef<reference::Tensor> outputs,
          std::mt19937_64 &generator);

/// The error that a squared error of drawSeeds() stands for.
double errorOf(Budget::Measure measure, double squared);
/// The squared error that stands for an error.
double squareOf(Budget::Measure measure, double error);

} // namespace mpc

#endif // MPC_TUNING_BUDGET_H
