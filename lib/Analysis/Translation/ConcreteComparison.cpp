//===- ConcreteComparison.cpp - evaluation of unproved kernels ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ConcreteComparison.h"

#include "IndexFunction.h"

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcTraits.h"
#include "mpc/Reference/Interpreter.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::translation;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static uint64_t mixBits(uint64_t a, uint64_t b) {
  a = (a ^ b ^ (b << 32)) * 0x9E3779B97F4A7C15ull;
  a ^= a >> 32;
  a *= 0xD6E8FEB86659FD93ull;
  return a ^ (a >> 32);
}

/// A small integer, so that products and sums are exact in every type.
static double smallInteger(uint64_t hash) { return double(hash % 7) - 3; }

/// A number of `type` on which roundings, order and masks are visible.
static double specialValue(uint64_t hash, FloatType type) {
  const llvm::fltSemantics &semantics = type.getFloatSemantics();
  double largest = llvm::APFloat::getLargest(semantics).convertToDouble();
  double least = llvm::APFloat::getSmallest(semantics).convertToDouble();
  // Half a unit in the last place of bf16 and of f16 above 1: ties.
  const double values[] = {0.0,
                           -0.0,
                           std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN(),
                           largest,
                           -largest,
                           least,
                           -3 * least,
                           1 + 0x1p-8,
                           1 + 0x3p-8,
                           -1 - 0x1p-11,
                           1 + 0x1p-8 + 0x1p-20};
  return values[hash % std::size(values)];
}

reference::Tensor ConcreteComparison::fill(const ClosedForm &form,
                                           RankedTensorType type, Round round) {
  reference::Tensor tensor(type);
  SmallVector<Expr> leaves;
  for (auto [i, extent] : llvm::enumerate(type.getShape()))
    if (extent > 1)
      leaves.push_back(tensors.dimension(i, extent));
  std::vector<IndexFunction> arguments;
  for (Expr argument : form.arguments)
    arguments.emplace_back(argument, leaves);
  bool isFactor = factors.contains(form.function);
  SmallVector<int64_t> at(leaves.size(), 0);
  auto element = dyn_cast<FloatType>(type.getElementType());
  for (int64_t position = 0; position < tensor.size(); ++position) {
    uint64_t hash = form.function->shape;
    for (const IndexFunction &argument : arguments)
      hash = mixBits(hash, uint64_t(argument.at(at)) + 1);
    hash = mixBits(hash, uint64_t(round) + 77);
    if (!element) {
      // Small indices, negative ones and masks.
      int64_t value = type.getElementType().isInteger(1)
                          ? int64_t(hash & 1)
                          : int64_t(hash % 6) - (round == Round::Special);
      tensor.ints()[size_t(position)] =
          reference::wrapTo(value, type.getElementType());
    } else {
      double value = double(int64_t(hash)) * 0x1p-62;
      if (isFactor)
        value = smallInteger(hash);
      else if (round == Round::Special && hash % 3 == 0)
        value = specialValue(hash >> 8, element);
      else if (round == Round::Small)
        value *= 0x1p-12;
      else if (round == Round::Large)
        value *= 0x1p6;
      tensor.floats()[size_t(position)] = reference::roundTo(value, element);
    }
    advance(at, leaves);
  }
  return tensor;
}

const reference::Tensor &ConcreteComparison::constant(ElementsAttr value,
                                                      bool isFactor) {
  auto [found, isNew] = constants.try_emplace(
      {value.getAsOpaquePointer(), isFactor},
      reference::Tensor(cast<RankedTensorType>(value.getType())));
  reference::Tensor &tensor = found->second;
  if (!isNew)
    return tensor;
  FailureOr<reference::Tensor> elements = reference::Tensor::fromAttr(value);
  if (failed(elements))
    return tensor;
  tensor = *elements;
  // Depends on the value only, so that packed copies agree.
  if (isFactor && tensor.isFloat())
    for (double &element : tensor.floats())
      if (element != 0)
        element = smallInteger(mixBits(llvm::bit_cast<uint64_t>(element), 1));
  return tensor;
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

void ConcreteComparison::close(std::set<size_t> &region,
                               bool fromArguments) const {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i : std::vector<size_t>(region.begin(), region.end()))
      for (const PlannedMemory::Read &input : launches[i].inputs)
        for (const Content &content : input.contents)
          if (content.launch >= 0 && size_t(content.launch) < i &&
              (fromArguments ||
               !launches[size_t(content.launch)].isKnown[content.result]))
            changed |= region.insert(size_t(content.launch)).second;
  }
}

/// Names and file positions in a location.
static void collectNames(Location location, std::set<std::string> &names) {
  if (auto name = dyn_cast<NameLoc>(location)) {
    names.insert(name.getName().str());
    return;
  }
  if (auto fused = dyn_cast<FusedLoc>(location)) {
    for (Location part : fused.getLocations())
      collectNames(part, names);
    return;
  }
  if (isa<FileLineColRange>(location)) {
    std::string text;
    llvm::raw_string_ostream(text) << location;
    names.insert(text);
  }
}

std::set<std::string> ConcreteComparison::namesOf(size_t index) const {
  LaunchTerms launch = launches[index];
  std::set<std::string> names;
  for (Attribute op : launch.launch.getOps())
    names.insert(cast<StringAttr>(op).str());
  collectNames(launch.launch.getLoc(), names);
  return names;
}

/// Returns true if a location has one of `names`.
static bool isNamed(Location location, const std::set<std::string> &names) {
  std::set<std::string> own;
  collectNames(location, own);
  return llvm::any_of(
      own, [&](const std::string &name) { return names.contains(name); });
}

bool ConcreteComparison::computesComposite(size_t launch) {
  std::set<std::string> names = namesOf(launch);
  return llvm::any_of(graph.getBody().front(), [&](Operation &op) {
    return op.hasTrait<Composite>() && isNamed(op.getLoc(), names);
  });
}

SmallVector<Value> ConcreteComparison::candidates(size_t index,
                                                  unsigned number) {
  auto type = tensors.typeOf(launches[index].results[number]);
  if (launches[index].isKnown[number])
    return {Value()};
  SmallVector<Value> found;
  for (const ResultTerms &result : results)
    for (const Content &content : result.read.contents)
      if (content.launch == int(index) && content.result == number)
        found.push_back(result.expected);
  std::set<std::string> names = namesOf(index);
  constexpr size_t kMost = 6;
  for (Operation &op :
       llvm::reverse(graph.getBody().front().without_terminator())) {
    if (isa<ConstantOp>(op) || !isNamed(op.getLoc(), names))
      continue;
    for (Value value : op.getResults()) {
      auto other = cast<RankedTensorType>(value.getType());
      if (other.getElementType() == type.getElementType() &&
          other.getNumElements() == type.getNumElements() &&
          !llvm::is_contained(found, value))
        found.push_back(value);
    }
  }
  if (found.size() > kMost)
    found.resize(kMost);
  return found;
}

SmallVector<Expr> ConcreteComparison::frontier(const std::set<size_t> &region,
                                               ArrayRef<size_t> written) {
  SmallVector<Expr> functions;
  auto add = [&](const PlannedMemory::Read &read) {
    for (const Content &content : read.contents)
      if ((content.launch < 0 || !region.contains(size_t(content.launch))) &&
          !tensors.constantValue(content.tensor))
        functions.push_back(tensors.form(content.tensor).function);
  };
  for (size_t i : region)
    for (const PlannedMemory::Read &input : launches[i].inputs)
      add(input);
  for (size_t result : written)
    add(results[result].read);
  return functions;
}

SmallVector<Operation *> ConcreteComparison::slice(ArrayRef<Value> expected,
                                                   ArrayRef<Expr> start) {
  DenseSet<Value> needed(expected.begin(), expected.end());
  SmallVector<Operation *> ops;
  for (Operation &op :
       llvm::reverse(graph.getBody().front().without_terminator())) {
    if (!llvm::any_of(op.getResults(), [&](Value result) {
          return needed.contains(result) &&
                 (isa<ConstantOp>(op) || llvm::is_contained(expected, result) ||
                  !llvm::is_contained(start, graphForms.at(result).function));
        }))
      continue;
    ops.push_back(&op);
    needed.insert(op.operand_begin(), op.operand_end());
  }
  std::reverse(ops.begin(), ops.end());
  return ops;
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

/// Values that an op adds up, or multiplies and adds up.
static ValueRange factorsOf(Operation *op) {
  if (isa<ContractionOpInterface>(op))
    return op->getOperands().take_front(2);
  if (op->hasTrait<SumsElements>())
    return op->getOperands().take_front(1);
  return {};
}

/// Types in which ops accumulate.
static std::set<std::string> accumulateTypes(ArrayRef<Operation *> ops) {
  std::set<std::string> types;
  for (Operation *op : ops) {
    Type type;
    if (auto contraction = dyn_cast<ContractionOpInterface>(op))
      type = contraction.getAccumulateType();
    else if (auto sum = dyn_cast<ReductionOpInterface>(op);
             sum && op->hasTrait<SumsElements>())
      type = sum.getAccumulateType();
    if (!type)
      continue;
    std::string text;
    llvm::raw_string_ostream(text) << type;
    types.insert(text);
  }
  return types;
}

/// Follows data movement to the value that is moved, into and out of fusions.
static Value movedValue(Value value) {
  for (;;) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      auto fusion = dyn_cast<FusionOp>(argument.getOwner()->getParentOp());
      if (!fusion)
        return value;
      value = fusion->getOperand(argument.getArgNumber());
      continue;
    }
    Operation *op = value.getDefiningOp();
    if (auto fusion = dyn_cast<FusionOp>(op))
      value = fusion.getBody().front().getTerminator()->getOperand(
          cast<OpResult>(value).getResultNumber());
    else if (isa<MovementOpInterface, PackOp>(op))
      value = op->getOperand(0);
    else
      return value;
  }
}

/// Returns true if an op's result depends on the order of a sum or is specified
/// within an error only, given which values are small integers.
static bool isInexact(Operation *op, function_ref<bool(Value)> isInteger) {
  return op->hasTrait<Composite>() || !llvm::all_of(factorsOf(op), isInteger);
}

static std::string textOf(ArrayRef<int64_t> shape, int64_t position) {
  std::string text = "]";
  for (int64_t extent : llvm::reverse(shape)) {
    text = std::to_string(position % extent) + (text == "]" ? "" : ", ") + text;
    position /= extent;
  }
  return "[" + text;
}

/// Returns the first difference between tensors of equal size; `tolerance` is
/// relative to the largest element. `backwards`, if given, are the expected
/// values with sums in reverse order, whose changes are tolerated too.
static std::optional<std::string>
difference(const reference::Tensor &actual, const reference::Tensor &expected,
           double tolerance, const reference::Tensor *backwards = nullptr) {
  auto describe = [&](int64_t position, double a, double b) {
    return llvm::formatv("element {0} is {1} instead of {2}",
                         textOf(actual.getShape(), position), a, b)
        .str();
  };
  if (!actual.isFloat()) {
    for (auto [i, pair] :
         llvm::enumerate(llvm::zip_equal(actual.ints(), expected.ints())))
      if (std::get<0>(pair) != std::get<1>(pair))
        return describe(int64_t(i), double(std::get<0>(pair)),
                        double(std::get<1>(pair)));
    return std::nullopt;
  }
  double largest = 0;
  for (double value : expected.floats())
    if (std::isfinite(value))
      largest = std::max(largest, std::abs(value));
  auto change = [&](size_t i) {
    double value =
        backwards ? std::abs(backwards->floats()[i] - expected.floats()[i]) : 0;
    return std::isfinite(value) ? value : 0;
  };
  double most = 0;
  for (size_t i = 0; i < size_t(expected.size()); ++i)
    most = std::max(most, change(i));
  for (auto [i, pair] :
       llvm::enumerate(llvm::zip_equal(actual.floats(), expected.floats()))) {
    auto [a, b] = pair;
    bool isEqual =
        (std::isnan(a) && std::isnan(b)) ||
        llvm::bit_cast<uint64_t>(a) == llvm::bit_cast<uint64_t>(b) ||
        (tolerance > 0 &&
         std::abs(a - b) <= tolerance * largest + 2 * most + 8 * change(i));
    if (!isEqual)
      return describe(int64_t(i), a, b);
  }
  return std::nullopt;
}

/// The elements of `tensor` in the order of a channels-last or other layout
/// with shape `type`; nullopt if no exchange of the channels gives that shape.
static std::optional<reference::Tensor>
inLayout(const reference::Tensor &tensor, RankedTensorType type) {
  if (tensor.getShape() == type.getShape())
    return tensor;
  auto rank = size_t(tensor.getRank());
  SmallVector<int64_t> last(tensor.getShape());
  if (rank >= 3)
    std::rotate(last.begin() + 1, last.begin() + 2, last.end());
  if (rank < 3 || ArrayRef(last) != type.getShape())
    return tensor.withType(type);
  reference::Tensor result(type);
  int64_t batch = tensor.getShape()[0], channels = tensor.getShape()[1],
          pixels = tensor.size() / std::max<int64_t>(batch * channels, 1);
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t p = 0; p < pixels; ++p) {
        auto to = size_t((n * pixels + p) * channels + c),
             from = size_t((n * channels + c) * pixels + p);
        if (tensor.isFloat())
          result.floats()[to] = tensor.floats()[from];
        else
          result.ints()[to] = tensor.ints()[from];
      }
  return result;
}

SmallVector<size_t>
ConcreteComparison::resultsOf(const std::set<size_t> &region) const {
  SmallVector<size_t> written;
  for (auto [i, result] : llvm::enumerate(results))
    if (!result.isEqual && !result.read.contents.empty() &&
        llvm::all_of(result.read.contents, [&](const Content &content) {
          return content.launch >= 0 && region.count(size_t(content.launch));
        }))
      written.push_back(i);
  return written;
}

/// Tolerance relative to the largest element where sums may be in another
/// order, besides the changes that the reverse order makes.
constexpr double kTolerance = 0x1p-14;

/// Tolerance relative to the largest element, for ops that compute in the types
/// of `ops`: 16 units in the last place of the narrowest one, 1024 of f32.
static double toleranceOf(ArrayRef<Operation *> ops) {
  int digits = 53;
  for (Operation *op : ops)
    for (Type type : op->getResultTypes())
      if (auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type)))
        digits = std::min(digits, int(element.getFPMantissaWidth()));
  return std::ldexp(1.0, -digits + (digits < 24 ? 4 : 10));
}

std::optional<std::string>
ConcreteComparison::compare(const std::set<size_t> &region,
                            ArrayRef<Value> expected, ArrayRef<size_t> written,
                            bool isBitwise) {
  SmallVector<Expr> start = frontier(region, written);
  SmallVector<Value> targets;
  llvm::copy_if(expected, std::back_inserter(targets),
                [](Value value) { return bool(value); });
  for (size_t result : written)
    targets.push_back(results[result].expected);
  SmallVector<Operation *> ops = slice(targets, start);
  bool isDecomposed = llvm::any_of(
      ops, [](Operation *op) { return op->hasTrait<Composite>(); });
  // Values that are multiplied in sums are small integers on both sides, unless
  // a composite op hides which ones are.
  factors.clear();
  DenseSet<Value> integers;
  auto isStart = [&](Value value) {
    return isa<BlockArgument>(value) ||
           llvm::is_contained(start, graphForms.at(value).function);
  };
  for (Operation *op : ops)
    for (Value factor : isDecomposed ? ValueRange() : factorsOf(op)) {
      Value value = movedValue(factor);
      if (isa_and_nonnull<ConstantOp>(value.getDefiningOp()) ||
          (isStart(value) && !llvm::is_contained(ops, value.getDefiningOp()))) {
        integers.insert(value);
        if (auto form = graphForms.find(value); form != graphForms.end())
          factors.insert(form->second.function);
      }
    }
  auto isInteger = [&](Value value) {
    return integers.contains(movedValue(value));
  };
  bool isApproximate = llvm::any_of(
      ops, [&](Operation *op) { return isInexact(op, isInteger); });
  SmallVector<Operation *> kernelOps;
  for (size_t i : region)
    LaunchTerms(launches[i]).kernel.walk([&](Operation *op) {
      kernelOps.push_back(op);
    });
  std::set<std::string> allowed = accumulateTypes(ops),
                        used = accumulateTypes(kernelOps);
  isExact = !isApproximate;
  if (!isDecomposed && !llvm::includes(allowed, used))
    return "sums accumulate in other types";
  double tolerance = 0;
  if (isApproximate && !isBitwise)
    tolerance = isDecomposed ? toleranceOf(ops) : kTolerance;
  SmallVector<Round> rounds = {Round::Ordinary};
  if (!isDecomposed)
    rounds.append({Round::Small, Round::Large});
  if (!isApproximate)
    rounds.push_back(Round::Special);
  for (Round round : rounds) {
    // The graph, and with sums in reverse order.
    DenseMap<Value, reference::Tensor> computed, backwards;
    auto valueIn = [&](DenseMap<Value, reference::Tensor> &computed,
                       Value value) -> const reference::Tensor & {
      auto found = computed.find(value);
      if (found == computed.end())
        found =
            computed
                .try_emplace(
                    value, fill(graphForms.at(value),
                                cast<RankedTensorType>(value.getType()), round))
                .first;
      return found->second;
    };
    auto evaluate = [&](DenseMap<Value, reference::Tensor> &computed,
                        reference::Rounding rounding) {
      for (Operation *op : ops) {
        if (auto value = dyn_cast<ConstantOp>(op)) {
          computed.try_emplace(
              value, constant(value.getValue(), integers.contains(value)));
          continue;
        }
        for (Value operand : op->getOperands())
          valueIn(computed, operand);
        SmallVector<const reference::Tensor *> operands;
        for (Value operand : op->getOperands())
          operands.push_back(&computed.find(operand)->second);
        SmallVector<reference::Tensor> values;
        if (failed(reference::evaluate(op, operands, values, rounding)))
          return failure();
        for (auto [result, value] : llvm::zip_equal(op->getResults(), values))
          computed.try_emplace(result, value);
      }
      return success();
    };
    bool mayReorder = tolerance > 0;
    if (failed(evaluate(computed, reference::Rounding::Declared)) ||
        (mayReorder &&
         failed(evaluate(backwards, reference::Rounding::DeclaredBackwards))))
      return "the interpreter failed";
    // The launches.
    std::map<std::pair<int, unsigned>, reference::Tensor> stored;
    auto load = [&](const PlannedMemory::Read &read, RankedTensorType type,
                    bool isFactor) {
      auto partOf = [&](const Content &content) -> reference::Tensor {
        if (auto found = stored.find({content.launch, content.result});
            found != stored.end())
          return found->second;
        if (ElementsAttr value = tensors.constantValue(content.tensor))
          return constant(value, isFactor);
        return fill(tensors.form(content.tensor),
                    tensors.typeOf(content.tensor), round);
      };
      if (read.contents.size() == 1 && read.tensor == read.contents[0].tensor)
        return partOf(read.contents[0]);
      reference::Tensor whole(type);
      // What is undefined.
      if (whole.isFloat())
        llvm::fill(whole.floats(), std::numeric_limits<double>::quiet_NaN());
      int64_t at = 0;
      for (const Content &content : read.contents) {
        reference::Tensor part = partOf(content);
        int64_t size = content.bytes / elementBytes(type);
        for (int64_t k = 0; k < size; ++k) {
          auto from = size_t(content.skipped + k), to = size_t(at + k);
          if (whole.isFloat())
            whole.floats()[to] = part.floats()[from];
          else
            whole.ints()[to] = part.ints()[from];
        }
        at += size;
      }
      return whole;
    };
    for (size_t i : region) {
      LaunchTerms launch = launches[i];
      SmallVector<reference::Tensor> arguments;
      for (auto [input, argument] :
           llvm::zip_equal(launch.inputs, launch.kernel.getArguments())) {
        auto type = cast<RankedTensorType>(argument.getType());
        bool isFactor = false;
        launch.kernel.walk([&](Operation *op) {
          for (Value factor : factorsOf(op))
            isFactor |= !isDecomposed && movedValue(factor) == argument;
        });
        arguments.push_back(load(input, type, isFactor));
      }
      auto values = reference::interpret(
          launch.kernel, arguments,
          {.rounding = reference::Rounding::Declared, .observer = {}});
      if (failed(values))
        return "the interpreter failed";
      for (auto [number, value] : llvm::enumerate(*values))
        stored.insert_or_assign({int(i), unsigned(number)}, value);
    }
    for (auto [number, value] : llvm::enumerate(expected)) {
      if (!value)
        continue;
      const reference::Tensor &actual =
          stored.at({int(*region.rbegin()), unsigned(number)});
      std::optional<reference::Tensor> wanted =
          inLayout(valueIn(computed, value), actual.getType());
      std::optional<reference::Tensor> other;
      if (mayReorder)
        other = inLayout(valueIn(backwards, value), actual.getType());
      if (std::optional<std::string> text =
              difference(actual, *wanted, tolerance, other ? &*other : nullptr))
        return text;
    }
    for (size_t result : written) {
      Value value = results[result].expected;
      if (std::optional<std::string> text =
              difference(load(results[result].read,
                              cast<RankedTensorType>(value.getType()), false),
                         valueIn(computed, value), tolerance,
                         mayReorder ? &valueIn(backwards, value) : nullptr))
        return text;
    }
  }
  return std::nullopt;
}

SmallVector<size_t> ConcreteComparison::ends(size_t first) const {
  std::set<std::string> names = namesOf(first);
  SmallVector<size_t> next;
  std::optional<size_t> furthest;
  constexpr size_t kMost = 2;
  // Others would be compared within the tolerance of an op that they do not
  // depend on.
  std::set<size_t> dependent = {first};
  for (size_t i = first + 1; i < launches.size(); ++i) {
    if (llvm::any_of(launches[i].inputs, [&](const PlannedMemory::Read &input) {
          return llvm::any_of(input.contents, [&](const Content &content) {
            return content.launch >= 0 &&
                   dependent.contains(size_t(content.launch));
          });
        }))
      dependent.insert(i);
    if (launches[i].isProved)
      continue;
    if (next.size() < kMost && dependent.contains(i))
      next.push_back(i);
    if (llvm::any_of(namesOf(i), [&](const std::string &name) {
          return names.contains(name);
        }))
      furthest = i;
  }
  // The reader of a composite op's whole result, before its last part.
  for (size_t i = furthest.value_or(launches.size()) + 1; i < launches.size();
       ++i)
    if (!launches[i].isProved && dependent.contains(i)) {
      next.push_back(i);
      break;
    }
  if (furthest)
    next.push_back(*furthest);
  next.insert(next.begin(), first);
  return next;
}

bool ConcreteComparison::hasOpsOf(const std::set<size_t> &region,
                                  ArrayRef<Value> expected) {
  std::map<std::string, int> count;
  auto add = [&](Operation *op, int number) {
    if (!isa<MovementOpInterface, PackOp, ConstantOp, CastOp>(op))
      count[op->getName().getStringRef().str()] += number;
  };
  for (Operation *op : slice(expected, frontier(region, {})))
    add(op, 1);
  for (size_t i : region)
    for (Operation &op :
         LaunchTerms(launches[i]).kernel.getBody().front().without_terminator())
      if (auto fusion = dyn_cast<FusionOp>(op))
        for (Operation &inner : fusion.getBody().front().without_terminator())
          add(&inner, -1);
      else
        add(&op, -1);
  return llvm::all_of(count, [](auto &entry) { return entry.second == 0; });
}

ConcreteComparison::Outcome ConcreteComparison::compareFrom(size_t first) {
  Outcome outcome;
  outcome.region = {first};
  std::set<size_t> region;
  for (size_t last : ends(first)) {
    // With the launches between them.
    for (size_t i = first; i <= last; ++i)
      if (!launches[i].isProved)
        region.insert(i);
    close(region);
    SmallVector<SmallVector<Value>> choices;
    size_t most = 0;
    for (unsigned i = 0; i < launches[last].results.size(); ++i) {
      choices.push_back(candidates(last, i));
      most = std::max(most, choices.back().size());
    }
    if (llvm::any_of(choices,
                     [](const auto &choice) { return choice.empty(); }))
      most = 0;
    bool hasResults = most == 0 && !resultsOf(region).empty();
    for (size_t k = 0; k < std::max<size_t>(most, hasResults); ++k) {
      SmallVector<Value> expected;
      for (const auto &choice : choices)
        if (most)
          expected.push_back(choice[std::min(k, choice.size() - 1)]);
      std::optional<std::string> text =
          compare(region, expected, resultsOf(region), /*isBitwise=*/false);
      if (!text) {
        outcome.isEqual = true;
        outcome.region.assign(region.begin(), region.end());
        outcome.expected = expected;
        outcome.results = resultsOf(region);
        return outcome;
      }
      if (outcome.expected.empty()) {
        outcome.text = *text;
        if (last == first)
          outcome.expected = expected;
        outcome.isCertain = last == first && expected.size() == 1 &&
                            expected[0] && hasOpsOf(region, expected);
      }
    }
    // A later value may hide the difference. Only parts of a composite op have
    // no value of their own.
    if (!outcome.expected.empty() && !computesComposite(first))
      break;
  }
  return outcome;
}

ConcreteComparison::Outcome
ConcreteComparison::compareResults(std::optional<size_t> first) {
  Outcome outcome;
  std::set<size_t> region;
  if (first)
    region.insert(*first);
  auto isRead = [&](const PlannedMemory::Read &read) {
    return llvm::any_of(read.contents, [&](const Content &content) {
      return content.launch >= 0 && region.contains(size_t(content.launch)) &&
             !launches[size_t(content.launch)].isKnown[content.result];
    });
  };
  // What depends on the launch, and what that reads.
  for (size_t size = SIZE_MAX; size != region.size();) {
    size = region.size();
    for (auto [i, launch] : llvm::enumerate(launches))
      if (!launch.isProved && llvm::any_of(launch.inputs, isRead))
        region.insert(i);
    close(region);
  }
  for (auto [i, result] : llvm::enumerate(results))
    if (!result.isEqual && (!first || isRead(result.read)))
      outcome.results.push_back(i);
  // Values of the graph that the program recomputes are independent only if
  // both sides start from the arguments.
  for (bool fromArguments : {false, true}) {
    if (fromArguments) {
      for (size_t result : outcome.results)
        for (const Content &content : results[result].read.contents)
          if (content.launch >= 0)
            region.insert(size_t(content.launch));
      close(region, fromArguments);
    }
    std::optional<std::string> text =
        compare(region, {}, outcome.results,
                /*isBitwise=*/fromArguments && isExact);
    outcome.isEqual = !text;
    if (outcome.isEqual)
      break;
    outcome.text = *text;
  }
  outcome.region.assign(region.begin(), region.end());
  return outcome;
}
