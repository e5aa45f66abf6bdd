//===- RegionAnalysis.cpp - recognition of comparator regions -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RegionAnalysis.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Stablehlo/IR/StablehloOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinAttributes.h"

#include "llvm/ADT/DenseMap.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::hlo;

static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Maps a number to its position in IEEE 754's total order, precise enough for
/// the samples.
static double totalPlace(double number) {
  double huge = std::numeric_limits<double>::max();
  if (std::isnan(number))
    return std::signbit(number) ? -kInfinity : kInfinity;
  if (std::isinf(number))
    return std::signbit(number) ? -huge : huge;
  if (number == 0)
    return std::signbit(number) ? -1e-300 : 0;
  return number;
}

static bool compare(stablehlo::ComparisonDirection direction, double a,
                    double b) {
  switch (direction) {
  case stablehlo::ComparisonDirection::EQ:
    return a == b;
  case stablehlo::ComparisonDirection::NE:
    return a != b;
  case stablehlo::ComparisonDirection::GE:
    return a >= b;
  case stablehlo::ComparisonDirection::GT:
    return a > b;
  case stablehlo::ComparisonDirection::LE:
    return a <= b;
  case stablehlo::ComparisonDirection::LT:
    return a < b;
  }
  llvm_unreachable("unknown direction");
}

namespace {
/// Interprets regions that only compare, select and combine booleans.
class ComparatorAnalysis {
public:
  explicit ComparatorAnalysis(ModuleOp module) : module(module) {}

  /// Evaluates the region on these numbers; nullopt if it contains other ops.
  std::optional<SmallVector<double>> run(Region &region,
                                         ArrayRef<double> arguments);

private:
  std::optional<SmallVector<double>> runOp(Operation &op);
  std::optional<double> runBinary(Operation &op, double a, double b);

  ModuleOp module;
  llvm::DenseMap<Value, double> numbers;
  unsigned depth = 0;
};
} // namespace

std::optional<double> ComparatorAnalysis::runBinary(Operation &op, double a,
                                                    double b) {
  bool isBool = getElementTypeOrSelf(op.getResult(0).getType()).isInteger(1);
  if (auto comparison = dyn_cast<stablehlo::CompareOp>(op)) {
    if (comparison.getCompareType() == stablehlo::ComparisonType::TOTALORDER) {
      a = totalPlace(a);
      b = totalPlace(b);
    }
    return compare(comparison.getComparisonDirection(), a, b);
  }
  if (isBool && isa<stablehlo::AndOp>(op))
    return a != 0 && b != 0;
  if (isBool && isa<stablehlo::OrOp>(op))
    return a != 0 || b != 0;
  if (isBool && isa<stablehlo::XorOp>(op))
    return (a != 0) != (b != 0);
  if (isa<stablehlo::MaxOp>(op))
    return std::isnan(a) || std::isnan(b) ? kNan : std::max(a, b);
  if (isa<stablehlo::MinOp>(op))
    return std::isnan(a) || std::isnan(b) ? kNan : std::min(a, b);
  return std::nullopt;
}

std::optional<SmallVector<double>> ComparatorAnalysis::runOp(Operation &op) {
  SmallVector<double> in;
  for (Value operand : op.getOperands()) {
    auto found = numbers.find(operand);
    if (found == numbers.end())
      return std::nullopt;
    in.push_back(found->second);
  }
  if (auto constant = dyn_cast<stablehlo::ConstantOp>(op)) {
    // Other constants could be thresholds that the samples miss.
    std::optional<double> value = splatValue(constant.getValue());
    bool isTruth = getElementTypeOrSelf(constant.getType()).isInteger(1);
    if (value && (*value == 0 || std::isnan(*value) || isTruth))
      return SmallVector<double>{*value};
    return std::nullopt;
  }
  if (isa<stablehlo::SelectOp>(op))
    return SmallVector<double>{in[0] != 0 ? in[1] : in[2]};
  if (isa<stablehlo::NotOp>(op) &&
      getElementTypeOrSelf(op.getResult(0).getType()).isInteger(1))
    return SmallVector<double>{double(in[0] == 0)};
  if (auto call = dyn_cast<func::CallOp>(op)) {
    auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
    constexpr unsigned kMostCalls = 8;
    if (!callee || callee.isExternal() || depth == kMostCalls)
      return std::nullopt;
    ++depth;
    std::optional<SmallVector<double>> results = run(callee.getBody(), in);
    --depth;
    return results;
  }
  if (in.size() != 2 || op.getNumResults() != 1)
    return std::nullopt;
  std::optional<double> result = runBinary(op, in[0], in[1]);
  return result ? std::optional(SmallVector<double>{*result}) : std::nullopt;
}

std::optional<SmallVector<double>>
ComparatorAnalysis::run(Region &region, ArrayRef<double> arguments) {
  if (region.getNumArguments() != arguments.size())
    return std::nullopt;
  for (auto [argument, number] : llvm::zip(region.getArguments(), arguments))
    numbers[argument] = number;
  for (Operation &op : region.front()) {
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      SmallVector<double> results;
      for (Value value : op.getOperands()) {
        auto found = numbers.find(value);
        if (found == numbers.end())
          return std::nullopt;
        results.push_back(found->second);
      }
      return results;
    }
    std::optional<SmallVector<double>> made = runOp(op);
    if (!made || made->size() != op.getNumResults())
      return std::nullopt;
    for (auto [result, number] : llvm::zip(op.getResults(), *made))
      numbers[result] = number;
  }
  return std::nullopt;
}

/// Sample numbers in every relative order and around 0.
static SmallVector<double> samples(Type type) {
  if (isa<FloatType>(getElementTypeOrSelf(type)))
    return {-kInfinity, -2, -1, -0.0, 0, 1, 2, kInfinity, kNan};
  return {-2, -1, 0, 1, 2};
}

static bool isSame(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

std::optional<bool> hlo::findsExtremum(Region &region, ModuleOp module) {
  if (region.getNumArguments() != 4)
    return std::nullopt;
  ComparatorAnalysis decider(module);
  for (bool largest : {true, false}) {
    bool fits = true;
    for (double a : samples(region.getArgument(0).getType())) {
      for (double b : samples(region.getArgument(2).getType())) {
        for (double other : {-1, 1}) {
          // Positions 0 and `other`; of equal values the smaller position wins.
          std::optional<SmallVector<double>> pair =
              decider.run(region, {a, 0, b, other});
          if (!pair || pair->size() != 2)
            return std::nullopt;
          bool takesFirst =
              std::isnan(a) || std::isnan(b)
                  ? std::isnan(a) && (!std::isnan(b) || other > 0)
                  : (largest ? a > b : a < b) || (a == b && other > 0);
          // Of two NaNs the first operand may win: the reduction order, which
          // is unspecified, decides.
          if (std::isnan(a) && std::isnan(b))
            continue;
          fits &= isSame((*pair)[0], takesFirst ? a : b) &&
                  (*pair)[1] == (takesFirst ? 0 : other);
        }
      }
    }
    if (fits)
      return largest;
  }
  return std::nullopt;
}

std::optional<SortOrder> hlo::sortOrder(Region &region, ModuleOp module) {
  unsigned operands = region.getNumArguments() / 2;
  ComparatorAnalysis decider(module);
  for (unsigned key = 0; key < operands; ++key) {
    for (bool descending : {false, true}) {
      bool fits = true;
      for (double a : samples(region.getArgument(2 * key).getType())) {
        for (double b : samples(region.getArgument(2 * key).getType())) {
          // Other operands must not matter.
          for (double others : {-1, 1}) {
            SmallVector<double> arguments(region.getNumArguments(), 0);
            for (unsigned i = 0; i < operands; ++i)
              arguments[2 * i] = others;
            arguments[2 * key] = a;
            arguments[2 * key + 1] = b;
            std::optional<SmallVector<double>> first =
                decider.run(region, arguments);
            if (!first || first->size() != 1)
              return std::nullopt;
            double low = descending ? b : a, high = descending ? a : b;
            // Zeros of both signs are equal.
            if (a == 0 && b == 0)
              continue;
            bool due = low < high || (std::isnan(high) && !std::isnan(low));
            // IEEE comparisons do not order NaN.
            bool unordered = std::isnan(a) || std::isnan(b);
            fits &= ((*first)[0] != 0) == due || (unordered && !(*first)[0]);
          }
        }
      }
      if (fits)
        return SortOrder{key, descending};
    }
  }
  return std::nullopt;
}
