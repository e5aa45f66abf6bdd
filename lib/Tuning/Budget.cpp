//===- Budget.cpp - error budgets -----------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Tuning/Budget.h"

#include "mpc/Reference/Compare.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>

using namespace mpc;
using mpc::reference::Tensor;
using Measure = Budget::Measure;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

llvm::StringRef mpc::stringify(Measure measure) {
  switch (measure) {
  case Measure::Rms:
    return "rms";
  case Measure::Max:
    return "max";
  case Measure::Kl:
    return "kl";
  case Measure::Top1:
    return "top1";
  case Measure::Cosine:
    return "cosine";
  case Measure::Perplexity:
    return "perplexity";
  }
  llvm_unreachable("a measure without a name");
}

llvm::Expected<Budget> Budget::parse(llvm::StringRef text) {
  auto fail = [&](const llvm::Twine &why) {
    return llvm::createStringError(
        llvm::inconvertibleErrorCode(),
        "'" + text + "' " + why +
            "; use \"rms 1e-3\", \"max 0.01\", \"kl 1e-4\", \"top1 0.1%\" or "
            "\"cosine 1e-4\", or a cost: \"time 0.6x\", \"bytes 0.6x\" or "
            "\"memory 0.6x\"; for a text also \"perplexity 1%\" or \"bits "
            "4.5\"");
  };
  auto [name, number] = text.trim().split(' ');
  std::optional<Measure> measure =
      llvm::StringSwitch<std::optional<Measure>>(name)
          .Case("rms", Measure::Rms)
          .Case("max", Measure::Max)
          .Case("kl", Measure::Kl)
          .Case("top1", Measure::Top1)
          .Case("cosine", Measure::Cosine)
          .Case("perplexity", Measure::Perplexity)
          .Default(std::nullopt);
  if (!measure)
    return fail("does not name a measure");
  number = number.trim();
  bool isPercent = number.consume_back("%");
  Budget budget{*measure, 0};
  if (number.trim().getAsDouble(budget.limit) || !std::isfinite(budget.limit) ||
      budget.limit < 0)
    return fail("needs a limit of at least 0");
  if (isPercent)
    budget.limit /= 100;
  return budget;
}

std::string Budget::text() const {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << stringify(measure) << ' ';
  if (measure == Measure::Top1 || measure == Measure::Perplexity)
    out << llvm::format("%g%%", 100 * limit);
  else
    out << llvm::format("%g", limit);
  return text;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Extent of the last dimension; 0 for a scalar.
static int64_t rowLength(const Tensor &tensor) {
  return tensor.getRank() ? tensor.getShape().back() : 0;
}

/// Calls `visit(row of wanted, row of actual)` for each row.
template <typename Visit>
static void forRows(const Tensor &wanted, const Tensor &actual, Visit visit) {
  int64_t length = rowLength(wanted);
  for (int64_t at = 0; length > 0 && at < wanted.size(); at += length)
    visit(wanted.floats().slice(at, length), actual.floats().slice(at, length));
}

static bool areFinite(llvm::ArrayRef<double> row) {
  return llvm::all_of(row, [](double x) { return std::isfinite(x); });
}

/// Returns true if a row is a probability distribution.
static bool isDistribution(llvm::ArrayRef<double> row) {
  double sum = 0;
  for (double p : row) {
    if (!(p >= 0))
      return false;
    sum += p;
  }
  return std::fabs(sum - 1) < 1e-3;
}

/// Returns the distribution of a row: normalized, or the softmax of logits.
static std::vector<double> distributionOf(llvm::ArrayRef<double> row,
                                          bool isOne) {
  std::vector<double> p(row.begin(), row.end());
  double sum = 0;
  double most = *std::max_element(row.begin(), row.end());
  for (double &x : p) {
    if (!isOne)
      x = std::exp(x - most);
    sum += x;
  }
  for (double &x : p)
    x /= sum;
  return p;
}

/// Keeps logarithms of probabilities that rounding flushed to 0 finite.
static constexpr double kLeastProbability = 1e-30;

static double divergence(llvm::ArrayRef<double> wanted,
                         llvm::ArrayRef<double> actual) {
  bool isOne = isDistribution(wanted);
  std::vector<double> p = distributionOf(wanted, isOne),
                      q = distributionOf(actual, isOne);
  double sum = 0;
  for (auto [a, b] : llvm::zip_equal(p, q))
    if (a > 0)
      sum += a * std::log(a / std::max(b, kLeastProbability));
  return std::max(sum, 0.0);
}

static size_t largestOf(llvm::ArrayRef<double> row) {
  return std::max_element(row.begin(), row.end()) - row.begin();
}

//===----------------------------------------------------------------------===//
// ErrorMeter
//===----------------------------------------------------------------------===//

/// Returns true if both are finite, the same infinity, or NaN.
static bool agree(double wanted, double actual) {
  if (std::isfinite(wanted) || std::isfinite(actual))
    return std::isfinite(wanted) == std::isfinite(actual);
  return wanted == actual || (std::isnan(wanted) && std::isnan(actual));
}

double mpc::cosineOf(const Tensor &wanted, const Tensor &actual) {
  double product = 0, left = 0, right = 0;
  for (auto [a, b] : llvm::zip_equal(wanted.floats(), actual.floats())) {
    if (!agree(a, b))
      return -1;
    if (!std::isfinite(a))
      continue;
    product += a * b;
    left += a * a;
    right += b * b;
  }
  if (left == 0 || right == 0)
    return left == right ? 1 : 0;
  return std::clamp(product / std::sqrt(left * right), -1.0, 1.0);
}

/// Returns true if `agree` holds for all elements.
static bool agreeOnFinite(const Tensor &wanted, const Tensor &actual) {
  return llvm::all_of(
      llvm::zip_equal(wanted.floats(), actual.floats()),
      [](auto pair) { return agree(std::get<0>(pair), std::get<1>(pair)); });
}

void ErrorMeter::add(llvm::ArrayRef<Tensor> wanted,
                     llvm::ArrayRef<Tensor> actual) {
  for (const auto &[reference, value] : llvm::zip_equal(wanted, actual)) {
    if (!reference.isFloat())
      continue;
    if (!agreeOnFinite(reference, value)) {
      worst = INFINITY;
      continue;
    }
    double sum = 0;
    int64_t counted = 0;
    switch (measure) {
    case Measure::Rms:
      worst = std::max(
          worst, reference::measureError(
                     value, reference, reference::clusterMagnitudes(reference))
                     .componentwise);
      break;
    case Measure::Max:
      for (auto [a, b] : llvm::zip_equal(reference.floats(), value.floats()))
        if (std::isfinite(a))
          worst = std::max(worst, std::fabs(a - b));
      break;
    case Measure::Cosine:
      worst = std::max(worst, 1 - cosineOf(reference, value));
      break;
    case Measure::Kl:
      forRows(reference, value, [&](auto p, auto q) {
        if (!areFinite(p))
          return;
        sum += divergence(p, q);
        ++counted;
      });
      if (counted)
        worst = std::max(worst, sum / double(counted));
      break;
    case Measure::Top1:
      forRows(reference, value, [&](auto p, auto q) {
        if (p.size() < 2 || !areFinite(p))
          return;
        ++rows;
        flips += largestOf(p) != largestOf(q);
      });
      break;
    case Measure::Perplexity:
      llvm_unreachable("perplexity is measured by NextTokenMeter");
    }
  }
}

double ErrorMeter::value() const {
  if (measure != Measure::Top1 || std::isinf(worst))
    return worst;
  return rows ? double(flips) / double(rows) : 0;
}

//===----------------------------------------------------------------------===//
// NextTokenMeter
//===----------------------------------------------------------------------===//

/// Returns log(sum(exp(row))).
static double logSumExp(llvm::ArrayRef<double> row) {
  double most = *std::max_element(row.begin(), row.end()), sum = 0;
  for (double logit : row)
    sum += std::exp(logit - most);
  return most + std::log(sum);
}

void NextTokenMeter::add(const Tensor &wanted, const Tensor &actual,
                         llvm::ArrayRef<int64_t> tokens) {
  if (!agreeOnFinite(wanted, actual)) {
    isFinite = false;
    return;
  }
  size_t at = 0;
  forRows(wanted, actual, [&](auto p, auto q) {
    double logP = logSumExp(p), logQ = logSumExp(q), change = 0;
    // No distribution: a NaN, or an infinity.
    isFinite &= std::isfinite(logP) && std::isfinite(logQ);
    for (auto [a, b] : llvm::zip_equal(p, q))
      if (double share = std::exp(a - logP); share > 0)
        change += share * ((a - logP) - (b - logQ));
    sum += std::max(change, 0.0);
    ++rows;
    flipped += largestOf(p) != largestOf(q);
    if (++at >= tokens.size())
      return;
    loss += logQ - q[tokens[at]];
    referenceLoss += logP - p[tokens[at]];
    ++scored;
  });
}

double NextTokenMeter::divergence() const {
  return !isFinite ? INFINITY : rows ? sum / double(rows) : 0;
}

double NextTokenMeter::flips() const {
  return !isFinite ? INFINITY : rows ? double(flipped) / double(rows) : 0;
}

double NextTokenMeter::perplexity() const {
  return !isFinite ? INFINITY : scored ? std::exp(loss / double(scored)) : 1;
}

double NextTokenMeter::referencePerplexity() const {
  return scored ? std::exp(referenceLoss / double(scored)) : 1;
}

double NextTokenMeter::error(Measure measure) const {
  switch (measure) {
  case Measure::Kl:
    return divergence();
  case Measure::Top1:
    return flips();
  case Measure::Perplexity:
    // The perplexities themselves may be infinite.
    return !isFinite ? INFINITY
           : scored
               ? std::max(std::expm1((loss - referenceLoss) / double(scored)),
                          0.0)
               : 0;
  case Measure::Rms:
  case Measure::Max:
  case Measure::Cosine:
    break;
  }
  llvm_unreachable("not a measure of distributions");
}

//===----------------------------------------------------------------------===//
// Seeds
//===----------------------------------------------------------------------===//

double mpc::errorOf(Measure measure, double squared) {
  // The cosine of a small angle is 1 minus half of its square.
  if (measure == Measure::Cosine)
    return squared / 2;
  if (measure == Measure::Perplexity)
    return std::expm1(squared);
  return measure == Measure::Rms || measure == Measure::Max ? std::sqrt(squared)
                                                            : squared;
}

double mpc::squareOf(Measure measure, double error) {
  if (measure == Measure::Cosine)
    return 2 * error;
  if (measure == Measure::Perplexity)
    return std::log1p(error);
  return measure == Measure::Rms || measure == Measure::Max ? error * error
                                                            : error;
}

/// The signs of elements are independent, so that products of different
/// elements vanish in the mean.
static double drawSign(std::mt19937_64 &generator) {
  return generator() & 1 ? 1.0 : -1.0;
}

/// Half of the variance of changes of logits under p, or half of the sum of
/// squared changes of p divided by p.
static void seedDivergence(llvm::ArrayRef<double> row,
                           llvm::MutableArrayRef<double> seed, int64_t rows,
                           std::mt19937_64 &generator) {
  bool isOne = isDistribution(row);
  std::vector<double> p = distributionOf(row, isOne);
  double scale = std::sqrt(0.5 / double(rows)), mixed = 0;
  for (auto [target, share] : llvm::zip_equal(seed, p)) {
    double sign = drawSign(generator), root = std::sqrt(share);
    target = isOne ? scale * sign / std::max(root, 1e-15) : scale * sign * root;
    mixed += sign * root;
  }
  if (!isOne)
    for (auto [target, share] : llvm::zip_equal(seed, p))
      target -= scale * share * mixed;
}

/// By Chebyshev's inequality, rows flip at most as often as the variance of
/// their margin relative to its square.
static void seedMargin(llvm::ArrayRef<double> row,
                       llvm::MutableArrayRef<double> seed, int64_t rows,
                       std::mt19937_64 &generator) {
  size_t first = largestOf(row), second = first == 0 ? 1 : 0;
  for (size_t i = 0; i < row.size(); ++i)
    if (i != first && row[i] > row[second])
      second = i;
  double margin = row[first] - row[second];
  if (margin <= 0)
    return;
  double scale = drawSign(generator) / (margin * std::sqrt(double(rows)));
  seed[first] = scale;
  seed[second] = -scale;
}

/// An error relative to the magnitude class of each element; absolute for
/// zeros.
static void seedRms(const Tensor &output, Tensor &seed,
                    std::mt19937_64 &generator) {
  Tensor classes = reference::clusterMagnitudes(output);
  int64_t count = llvm::count_if(
      output.floats(), [](double value) { return std::isfinite(value); });
  double root = std::sqrt(double(count));
  for (auto [target, magnitude] :
       llvm::zip_equal(seed.floats(), classes.floats()))
    // Non-finite elements have no class and are cleared later.
    target = drawSign(generator) / (magnitude > 0 ? magnitude * root : 1);
}

/// The maximum of n normal numbers is about sqrt(2 ln n) standard deviations.
static void seedMax(const Tensor &output, Tensor &seed,
                    std::mt19937_64 &generator) {
  double count = double(output.size());
  double scale = std::sqrt((1 + 2 * std::log(count)) / count);
  for (double &target : seed.floats())
    target = drawSign(generator) * scale;
}

std::vector<std::optional<Tensor>>
mpc::generateSeeds(Measure measure, llvm::ArrayRef<Tensor> outputs,
                   std::mt19937_64 &generator) {
  std::vector<std::optional<Tensor>> seeds(outputs.size());
  for (const auto &[output, seed] : llvm::zip_equal(outputs, seeds)) {
    int64_t length = rowLength(output);
    bool isDivergence =
        measure == Measure::Kl || measure == Measure::Perplexity;
    bool needsRows = isDivergence || measure == Measure::Top1;
    if (!output.isFloat() || output.size() == 0 || (needsRows && length < 2))
      continue;
    seed.emplace(output.getType());
    if (measure == Measure::Rms || measure == Measure::Cosine)
      seedRms(output, *seed, generator);
    if (measure == Measure::Max)
      seedMax(output, *seed, generator);
    int64_t rows = needsRows ? output.size() / length : 0;
    for (int64_t row = 0; row < rows; ++row) {
      llvm::ArrayRef<double> values =
          output.floats().slice(row * length, length);
      if (!areFinite(values))
        continue;
      auto target = seed->floats().slice(row * length, length);
      if (isDivergence)
        seedDivergence(values, target, rows, generator);
      else
        seedMargin(values, target, rows, generator);
    }
    for (auto [value, target] :
         llvm::zip_equal(output.floats(), seed->floats()))
      if (!std::isfinite(value))
        target = 0;
  }
  return seeds;
}
