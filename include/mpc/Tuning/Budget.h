//===- Budget.h - error budgets ---------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An error metric of outputs against float64 with a limit, and the directions
// in which outputs are sensitive to it.
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

/// A metric and its limit.
struct Budget {
  enum class Measure {
    Rms,    ///< root mean square error, relative to the rms of the output, or
            ///< of an element's class (reference::clusterMagnitudes) if a gap
            ///< separates large elements, such as masks, from small ones
    Max,    ///< largest absolute error
    Kl,     ///< mean Kullback-Leibler divergence of rows: as they are if they
            ///< are distributions, else of their softmax
    Top1,   ///< share of rows with a different argmax
    Cosine, ///< 1 - cosine of the angle to the exact output
    Perplexity, ///< relative rise of the perplexity of a text, at least 0
  };
  Measure measure = Measure::Rms;
  double limit = 0;

  /// "rms 1e-3", "max 0.01", "kl 1e-4", "top1 0.1%", "cosine 1e-4",
  /// "perplexity 1%".
  static llvm::Expected<Budget> parse(llvm::StringRef text);
  std::string text() const;
};

/// "rms", "max", "kl", "top1", "cosine", "perplexity".
llvm::StringRef stringify(Budget::Measure measure);

/// Accumulates the metric over samples. Ignores integer outputs. Takes the
/// worst of several float outputs and samples, except that rows with a
/// different argmax are counted over all samples. Not for Perplexity, which
/// needs a text (NextTokenMeter).
class ErrorMeter {
public:
  explicit ErrorMeter(Budget::Measure measure) : measure(measure) {}
  /// Both have the same types. A non-finite element where the reference is
  /// finite, or a different infinity, makes the error infinite.
  void add(llvm::ArrayRef<reference::Tensor> wanted,
           llvm::ArrayRef<reference::Tensor> actual);
  /// In the unit of Budget::limit; shares are fractions of 1.
  double value() const;

private:
  Budget::Measure measure;
  double worst = 0;
  int64_t rows = 0, flips = 0;
};

/// Agreement of next-token distributions with those of a reference, over all
/// tokens of a text.
class NextTokenMeter {
public:
  /// Adds a window of the text: the logits [1, tokens, vocabulary] after each
  /// of its `tokens`. Logits that are not finite where the reference's are, or
  /// that are no distribution, make every error infinite.
  void add(const reference::Tensor &wanted, const reference::Tensor &actual,
           llvm::ArrayRef<int64_t> tokens);

  /// Mean Kullback-Leibler divergence per token, in nats.
  double divergence() const;
  /// Share of tokens after which the most likely token differs.
  double flips() const;
  /// Perplexity of the text, without the first token of each window.
  double perplexity() const;
  double referencePerplexity() const;
  /// Kl, Top1 or Perplexity, in the unit of Budget::limit.
  double error(Budget::Measure measure) const;

private:
  double sum = 0, loss = 0, referenceLoss = 0;
  int64_t rows = 0, scored = 0, flipped = 0;
  bool isFinite = true;
};

/// Returns the cosine similarity of two tensors of one type, without elements
/// that are the same infinity or NaN in both; 1 if both are zero, 0 if one is,
/// and -1 if they disagree about finiteness.
double cosineOf(const reference::Tensor &wanted,
                const reference::Tensor &actual);

/// Generates random cotangents of outputs such that the expected square of
/// their product with a change of the outputs is its squared error: for Rms and
/// Max the square of the error, for Kl and Top1 about the error itself, for
/// Cosine twice the error. For Perplexity they are those of Kl, the expected
/// rise of the log perplexity of a text that the model itself samples. nullopt
/// for outputs without an effect.
std::vector<std::optional<reference::Tensor>>
generateSeeds(Budget::Measure measure,
              llvm::ArrayRef<reference::Tensor> outputs,
              std::mt19937_64 &generator);

/// Converts a squared error of generateSeeds() to an error.
double errorOf(Budget::Measure measure, double squared);
/// Converts an error to a squared error.
double squareOf(Budget::Measure measure, double error);

} // namespace mpc

#endif // MPC_TUNING_BUDGET_H
