//===- TermMagnitudes.cpp - per-element rounding error scale --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Reference/TermMagnitudes.h"

#include "mpc/Dialect/Mpc/IR/MpcCommunicationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"
#include "mpc/Reference/Interpreter.h"

#include "mlir/IR/IRMapping.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

/// Relative step of difference quotients: wide for elementwise functions, which
/// may have kinks, and small for ops that mix elements (norms), where a wide
/// move of all operands would leave the linear range.
static constexpr double kLocalStep = 0x1p-6, kMixedStep = 0x1p-16;
/// Inverse relative perturbations at which truth values are tried to flip.
static constexpr int64_t kFlipLevels[] = {1 << 6, 1 << 9, 1 << 12};
/// Number of random perturbations for ops that mix elements.
static constexpr int kDraws = 4;

static Tensor absolute(Tensor tensor) {
  for (double &value : tensor.floats())
    value = std::fabs(value);
  return tensor;
}

static Tensor squared(Tensor tensor) {
  for (double &value : tensor.floats())
    value *= value;
  return tensor;
}

/// Returns true for a sum of products of operands 0 and 1 only.
static bool isProductSum(Operation *op) {
  FusionClass family = fusionClassOf(op);
  return isa<ContractionOpInterface>(op) &&
         (family == FusionClass::Contraction ||
          family == FusionClass::Convolution);
}

/// Returns true for ops with several contractions and nonlinear functions
/// between, or with values of other ranks.
static bool isLayer(Operation *op) {
  return fusionClassOf(op) == FusionClass::Recurrent ||
         isa<CollectiveOpInterface>(op) ||
         (isa<ContractionOpInterface>(op) && !isProductSum(op));
}

static bool isTruth(const Tensor &tensor) {
  return tensor.getElementType().isInteger(1);
}

static bool hasTerms(const Tensor &tensor) {
  return tensor.isFloat() || isTruth(tensor);
}

/// Returns true if the analysis restarts at the results of `op`.
static bool startsAfresh(Operation *op) {
  return isProductSum(op) || isLayer(op);
}

/// Elements of an elementwise op per perturbed block.
static constexpr int64_t kBlock = int64_t(1) << 14;

/// Returns true if an elementwise op can be evaluated block by block: each
/// operand has the result's shape or one element.
static bool hasBlocks(Operation *op) {
  if (!isa<ElementwiseOpInterface>(op) || op->getNumResults() != 1)
    return false;
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  return elementCount(result) > kBlock &&
         llvm::all_of(op->getOperandTypes(), [&](Type type) {
           auto operand = cast<RankedTensorType>(type);
           return operand.getShape() == result.getShape() ||
                  elementCount(operand) == 1;
         });
}

/// Returns a slice of the elements as a tensor of rank 1; a single element is
/// broadcast.
static Tensor sliceOf(const Tensor &tensor, int64_t first, int64_t count) {
  if (tensor.size() == 1)
    return tensor.withType(RankedTensorType::get({1}, tensor.getElementType()));
  Tensor part(RankedTensorType::get({count}, tensor.getElementType()));
  if (tensor.isFloat())
    llvm::copy(tensor.floats().slice(first, count), part.floats().begin());
  else
    llvm::copy(tensor.ints().slice(first, count), part.ints().begin());
  return part;
}

/// Returns true if all elements are integers that every accumulator represents.
static bool holdsIntegers(const Tensor &tensor) {
  return llvm::all_of(tensor.floats(), [](double element) {
    return std::floor(element) == element && std::fabs(element) <= 0x1p24;
  });
}

TermMagnitudes::TermMagnitudes(func::FuncOp function,
                               ArrayRef<Tensor> arguments, Sink sink,
                               bool absoluteSigmoids)
    : function(function), sink(std::move(sink)),
      absoluteSigmoids(absoluteSigmoids) {
  Block &body = function.getBody().front();
  SmallVector<Value> pending(body.getTerminator()->getOperands());
  if (this->sink)
    for (Operation &op : body.without_terminator())
      pending.append(op.result_begin(), op.result_end());
  for (Value value : body.getTerminator()->getOperands())
    ++usesLeft[value];
  while (!pending.empty()) {
    Operation *op = pending.pop_back_val().getDefiningOp();
    if (!op || isa<ConstantOp>(op) || !analysed.insert(op).second)
      continue;
    for (Value operand : op->getOperands()) {
      ++usesLeft[operand];
      if (!startsAfresh(op))
        pending.push_back(operand);
    }
  }
  for (auto [argument, tensor] : llvm::zip(body.getArguments(), arguments))
    if (usesLeft.contains(argument))
      known.insert({argument, {tensor, std::nullopt}});
}

const TermMagnitudes::Known *TermMagnitudes::get(Value value) {
  auto found = known.find(value);
  if (found != known.end())
    return &found->second;
  auto constant = value.getDefiningOp<ConstantOp>();
  SmallVector<Tensor> results;
  if (!constant || failed(evaluate(constant, {}, results, Rounding::Float64)))
    return nullptr;
  return &known.insert({value, {std::move(results.front()), std::nullopt}})
              .first->second;
}

bool TermMagnitudes::isExact(const Known &known) {
  return known.magnitudes ? known.isExact : holdsIntegers(known.value);
}

bool TermMagnitudes::isExact(Operation *op, const Tensor &result) {
  if (startsAfresh(op))
    return false;
  bool readsFloats = false;
  for (Value operand : op->getOperands()) {
    const Known *from = get(operand);
    if (!from || !isExact(*from))
      return false;
    readsFloats |= from->value.isFloat();
  }
  bool keeps = !readsFloats || !result.isFloat() ||
               isa<MovementOpInterface>(op) || op->hasTrait<KeepsIntegers>();
  return keeps && holdsIntegers(result);
}

void TermMagnitudes::observe(Operation *op, ArrayRef<Tensor> results) {
  if (hasFailed)
    return;
  SmallVector<Tensor> magnitudes;
  SmallVector<bool> exact;
  bool isAnalysed = analysed.contains(op);
  if (isAnalysed) {
    if (failed(analyse(op, results, magnitudes))) {
      hasFailed = true;
      return;
    }
    for (const Tensor &result : results)
      exact.push_back(isExact(op, result));
    if (sink)
      sink(op, magnitudes);
    for (Value operand : op->getOperands())
      if (--usesLeft[operand] == 0)
        known.erase(operand);
  }
  for (auto [index, result] : llvm::enumerate(op->getResults())) {
    if (usesLeft.lookup(result) == 0)
      continue;
    Known entry = {results[index], std::nullopt};
    if (isAnalysed) {
      entry.magnitudes = std::move(magnitudes[index]);
      entry.isExact = exact[index];
    }
    known.insert({result, std::move(entry)});
  }
}

/// Raises each magnitude to at least that of the element, and replaces NaN by
/// it.
static void coverValue(Tensor &magnitudes, const Tensor &value) {
  for (auto [magnitude, element] :
       llvm::zip_equal(magnitudes.floats(), value.floats())) {
    double own = std::isfinite(element) ? std::fabs(element) : 0;
    magnitude = std::isfinite(magnitude) ? std::max(magnitude, own) : own;
  }
}

/// Returns the rms of each element's row (last dimension).
static Tensor rowMagnitudes(const Tensor &value) {
  Tensor magnitudes(value.getType());
  int64_t length = value.getRank() > 0 ? value.getShape().back() : 1;
  for (int64_t first = 0; first < int64_t(value.floats().size());
       first += length) {
    double squares = 0;
    for (double element : value.floats().slice(first, length))
      squares += std::isfinite(element) ? element * element : 0;
    for (double &target : magnitudes.floats().slice(first, length))
      target = std::sqrt(squares / double(length));
  }
  return magnitudes;
}

LogicalResult TermMagnitudes::analyse(Operation *op, ArrayRef<Tensor> results,
                                      SmallVectorImpl<Tensor> &magnitudes) {
  bool isCondition = results.size() == 1 && isTruth(results.front());
  if (isLayer(op) ||
      (!isCondition && llvm::none_of(results, [](const Tensor &tensor) {
        return tensor.isFloat();
      }))) {
    for (const Tensor &result : results)
      magnitudes.push_back(rowMagnitudes(result));
  } else {
    // Constants first read here may invalidate pointers to the others.
    for (Value operand : op->getOperands())
      if (!get(operand))
        return failure();
    SmallVector<const Known *> operands;
    for (Value operand : op->getOperands())
      operands.push_back(get(operand));
    if (isProductSum(op)) {
      SmallVector<Tensor> squares;
      SmallVector<const Tensor *> pointers;
      for (const Known *operand : operands)
        squares.push_back(squared(operand->value));
      for (const Tensor &tensor : squares)
        pointers.push_back(&tensor);
      if (failed(evaluate(op, pointers, magnitudes, Rounding::Float64)))
        return failure();
      for (double &sum : magnitudes.front().floats())
        sum = std::sqrt(sum);
    } else if (isa<MovementOpInterface>(op)) {
      if (failed(move(op, operands, magnitudes)))
        return failure();
    } else if (isCondition) {
      magnitudes.emplace_back(results.front().getType());
      if (failed(flip(op, operands, results, magnitudes)))
        return failure();
    } else if (failed(hasBlocks(op)
                          ? perturbBlocks(op, operands, results, magnitudes)
                          : perturb(op, operands, results, magnitudes)) ||
               failed(flip(op, operands, results, magnitudes))) {
      return failure();
    }
  }
  for (auto [magnitude, result] : llvm::zip_equal(magnitudes, results))
    coverValue(magnitude, result);
  if (absoluteSigmoids && isa<SigmoidOp>(op))
    for (double &magnitude : magnitudes.front().floats())
      magnitude = std::max(magnitude, 0.5);
  return success();
}

/// Returns `value` perturbed by `step` times its magnitudes (by default its
/// own) with the given signs.
static Tensor moved(const Tensor &value,
                    const std::optional<Tensor> &magnitudes, double step,
                    ArrayRef<int8_t> signs) {
  Tensor result = value;
  for (size_t i = 0; i < result.floats().size(); ++i) {
    double magnitude =
        magnitudes ? magnitudes->floats()[i] : std::fabs(value.floats()[i]);
    double distance = step * magnitude * (signs.empty() ? 1 : signs[i]);
    if (std::isfinite(result.floats()[i]) && std::isfinite(distance))
      result.floats()[i] += distance;
  }
  return result;
}

Tensor TermMagnitudes::termsOf(const Known &known) {
  if (known.magnitudes)
    return *known.magnitudes;
  return known.value.isFloat() ? absolute(known.value)
                               : Tensor(known.value.getType());
}

LogicalResult TermMagnitudes::move(Operation *op,
                                   ArrayRef<const Known *> operands,
                                   SmallVectorImpl<Tensor> &magnitudes) {
  // Other integers are indices.
  SmallVector<Tensor> own;
  for (const Known *operand : operands)
    own.push_back(hasTerms(operand->value) ? termsOf(*operand)
                                           : operand->value);
  SmallVector<const Tensor *> pointers;
  for (const Tensor &tensor : own)
    pointers.push_back(&tensor);
  return evaluate(op, pointers, magnitudes, Rounding::Float64);
}

LogicalResult
TermMagnitudes::perturbBlocks(Operation *op, ArrayRef<const Known *> operands,
                              ArrayRef<Tensor> results,
                              SmallVectorImpl<Tensor> &magnitudes) {
  const Tensor &result = results.front();
  MutableArrayRef<double> all =
      magnitudes.emplace_back(result.getType()).floats();
  for (int64_t first = 0; first < result.size(); first += kBlock) {
    int64_t count = std::min(kBlock, result.size() - first);
    SmallVector<Known> own;
    SmallVector<const Known *> pointers;
    for (const Known *operand : operands) {
      Known &part = own.emplace_back(
          Known{sliceOf(operand->value, first, count), std::nullopt});
      if (operand->magnitudes)
        part.magnitudes = sliceOf(*operand->magnitudes, first, count);
    }
    // A copy of the op on operands of the block's types.
    Block block;
    IRMapping mapping;
    for (auto [value, part] : llvm::zip_equal(op->getOperands(), own)) {
      pointers.push_back(&part);
      mapping.map(value,
                  block.addArgument(part.value.getType(), value.getLoc()));
    }
    Operation *copy = op->clone(mapping);
    block.push_back(copy);
    Tensor wanted = sliceOf(result, first, count);
    copy->getResult(0).setType(wanted.getType());
    SmallVector<Tensor> part;
    if (failed(perturb(copy, pointers, wanted, part)))
      return failure();
    llvm::copy(part.front().floats(), all.begin() + first);
  }
  return success();
}

LogicalResult TermMagnitudes::perturb(Operation *op,
                                      ArrayRef<const Known *> operands,
                                      ArrayRef<Tensor> results,
                                      SmallVectorImpl<Tensor> &magnitudes) {
  for (const Tensor &result : results)
    magnitudes.emplace_back(result.getType());
  SmallVector<unsigned> floats;
  for (auto [index, operand] : llvm::enumerate(operands))
    if (operand->value.isFloat())
      floats.push_back(index);
  std::mt19937 generator(1);
  /// Adds the squared responses to a perturbation of operands `which`.
  auto add = [&](ArrayRef<unsigned> which, bool isRandom,
                 double weight) -> LogicalResult {
    SmallVector<std::vector<int8_t>> signs(operands.size());
    if (isRandom)
      for (unsigned index : which) {
        signs[index].resize(operands[index]->value.size());
        for (int8_t &sign : signs[index])
          sign = generator() & 1 ? 1 : -1;
      }
    SmallVector<SmallVector<Tensor>, 2> responses(2);
    const double size = isRandom ? kMixedStep : kLocalStep;
    const double steps[] = {size, -size};
    for (auto [response, step] : llvm::zip_equal(responses, steps)) {
      SmallVector<Tensor> changed;
      changed.reserve(which.size());
      SmallVector<const Tensor *> pointers;
      for (const Known *operand : operands)
        pointers.push_back(&operand->value);
      for (unsigned index : which) {
        changed.push_back(moved(operands[index]->value,
                                operands[index]->magnitudes, step,
                                signs[index]));
        pointers[index] = &changed.back();
      }
      if (failed(evaluate(op, pointers, response, Rounding::Float64)))
        return failure();
    }
    for (size_t k = 0; k < results.size(); ++k)
      for (size_t i = 0; i < results[k].floats().size(); ++i) {
        double largest = 0;
        for (const SmallVector<Tensor> &response : responses)
          if (double change =
                  std::fabs(response[k].floats()[i] - results[k].floats()[i]) /
                  size;
              std::isfinite(change))
            largest = std::max(largest, change);
        magnitudes[k].floats()[i] += weight * largest * largest;
      }
    return success();
  };
  // Each element depends on one element of each operand.
  if (isa<ElementwiseOpInterface, OptimizerOpInterface>(op)) {
    for (unsigned index : floats)
      if (failed(add(index, /*isRandom=*/false, 1)))
        return failure();
  } else {
    for (int draw = 0; draw < kDraws; ++draw)
      if (failed(add(floats, /*isRandom=*/true, 1.0 / kDraws)))
        return failure();
  }
  for (Tensor &magnitude : magnitudes)
    for (double &squares : magnitude.floats())
      squares = std::sqrt(squares);
  return success();
}

/// Returns `value` with the elements negated that a perturbation of 1 / `level`
/// flips, or nullopt if there are none.
static std::optional<Tensor> flipped(const Tensor &value,
                                     const Tensor &magnitudes, int64_t level) {
  if (llvm::all_of(magnitudes.ints(),
                   [&](int64_t magnitude) { return magnitude < level; }))
    return std::nullopt;
  Tensor result = value;
  for (auto [element, magnitude] :
       llvm::zip_equal(result.ints(), magnitudes.ints()))
    if (magnitude >= level)
      element = !element;
  return result;
}

LogicalResult TermMagnitudes::flip(Operation *op,
                                   ArrayRef<const Known *> operands,
                                   ArrayRef<Tensor> results,
                                   SmallVectorImpl<Tensor> &magnitudes) {
  if (op->getNumResults() != 1)
    return success();
  SmallVector<const Tensor *> pointers;
  for (const Known *operand : operands)
    pointers.push_back(&operand->value);
  ArrayRef<double> floats = results.front().floats();
  ArrayRef<int64_t> truths = results.front().ints();
  MutableArrayRef<double> floatTerms = magnitudes.front().floats();
  MutableArrayRef<int64_t> truthTerms = magnitudes.front().ints();
  for (auto [index, operand] : llvm::enumerate(operands)) {
    bool isCondition = isTruth(operand->value) && operand->magnitudes;
    bool isCompared = operand->value.isFloat() && isTruth(results.front());
    if ((!isCondition && !isCompared) || isExact(*operand))
      continue;
    for (int64_t level : kFlipLevels) {
      SmallVector<Tensor> changes;
      if (isCompared) {
        for (double step : {1.0, -1.0})
          changes.push_back(moved(operand->value, operand->magnitudes,
                                  step / double(level), {}));
      } else if (std::optional<Tensor> change =
                     flipped(operand->value, *operand->magnitudes, level)) {
        changes.push_back(std::move(*change));
      }
      bool flips = false;
      for (const Tensor &change : changes) {
        SmallVector<Tensor> response;
        SmallVector<const Tensor *> changed = pointers;
        changed[index] = &change;
        if (failed(evaluate(op, changed, response, Rounding::Float64)))
          return failure();
        for (auto [term, now, before] : llvm::zip_equal(
                 truthTerms, std::as_const(response[0]).ints(), truths))
          if (now != before) {
            term = std::max(term, level);
            flips = true;
          }
        for (auto [term, now, before] : llvm::zip_equal(
                 floatTerms, std::as_const(response[0]).floats(), floats))
          if (double jump = double(level) * std::fabs(now - before);
              jump > 0 && std::isfinite(jump)) {
            term = std::hypot(term, jump);
            flips = true;
          }
        if (!isa<SelectOp>(op) || floats.empty() || level != kFlipLevels[0])
          continue;
        // The terms of the other branch, where it may be selected.
        Tensor onTrue = termsOf(*operands[1]), onFalse = termsOf(*operands[2]);
        SmallVector<Tensor> others;
        if (failed(evaluate(op, {&change, &onTrue, &onFalse}, others,
                            Rounding::Float64)))
          return failure();
        for (auto [term, other] :
             llvm::zip_equal(floatTerms, std::as_const(others[0]).floats()))
          term = std::max(term, other);
      }
      if (!flips)
        break;
    }
  }
  return success();
}

FailureOr<SmallVector<Tensor>> TermMagnitudes::results(double least) {
  SmallVector<Tensor> results;
  for (Value value :
       function.getBody().front().getTerminator()->getOperands()) {
    const Known *found = hasFailed ? nullptr : get(value);
    if (!found)
      return failure();
    results.push_back(found->magnitudes ? *found->magnitudes
                                        : absolute(found->value));
  }
  // Drop other references so that copy-on-write modifies in place.
  known.clear();
  for (Tensor &result : results)
    for (double &magnitude : result.floats())
      if (magnitude > 0)
        magnitude = std::max(magnitude, least);
  return results;
}

/// Returns the largest `of` among f32 and the float types of at least 16 bits
/// in `function`.
static double largestOfTypes(func::FuncOp function,
                             llvm::function_ref<double(FloatType)> of) {
  double largest = of(Float32Type::get(function.getContext()));
  function.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
          element && element.getWidth() >= 16)
        largest = std::max(largest, of(element));
  });
  return largest;
}

double mpc::reference::smallestNormal(func::FuncOp function) {
  return largestOfTypes(function, [](FloatType type) {
    return llvm::APFloat::getSmallestNormalized(type.getFloatSemantics())
        .convertToDouble();
  });
}

double mpc::reference::unitRoundoff(func::FuncOp function) {
  return largestOfTypes(function, [](FloatType type) {
    return std::ldexp(1.0, -int(type.getFPMantissaWidth()));
  });
}
