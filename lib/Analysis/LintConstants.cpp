//===- LintConstants.cpp - lint of constants in 16 bits -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Masks, clip bounds, epsilons, divisors and weights among the constants that
// were narrowed at compile time. The readers determine the kind of a constant.
//
//===----------------------------------------------------------------------===//

#include "LintContext.h"

#include "mpc/Analysis/FakeQuantization.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "llvm/ADT/MapVector.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

/// Minimum share of nonzero weights that underflow for a warning. A few tiny
/// weights among large ones are noise.
static constexpr double kFlushedShare = 0.01;
/// Relative root-mean-square rounding error of weights that indicates
/// subnormals: thirty times f16's own, nine times bf16's.
static constexpr double kLostPrecision = 0.01;
/// Bounds of at least this magnitude mean "no bound".
static constexpr double kNoBound = 3.4e38;

namespace {

/// Effect of rounding on the elements of a constant.
struct Losses {
  int64_t count = 0, nonZero = 0, overflowed = 0, flushed = 0;
  /// The value of largest magnitude that became infinite, and the one of
  /// smallest magnitude that became zero.
  double largest = 0, smallest = 0;
  bool onlyNegative = true;

  void note(double value, double rounded) {
    ++count;
    nonZero += value != 0;
    if (std::isinf(rounded) && std::isfinite(value)) {
      ++overflowed;
      onlyNegative &= value < 0;
      if (std::abs(value) > std::abs(largest))
        largest = value;
    }
    if (rounded == 0 && value != 0) {
      ++flushed;
      if (smallest == 0 || std::abs(value) < std::abs(smallest))
        smallest = value;
    }
  }
};

/// Readers of a narrowed constant, by its use in them.
using Readers = SmallVector<Operation *>;

class ConstantLint {
public:
  ConstantLint(LintContext &context, ConstantOp op, StringRef name,
               ArrayRef<OpOperand *> readers, const Losses &losses,
               bool isSplat)
      : context(context), op(op), name(name), readers(readers), losses(losses),
        isSplat(isSplat), type(narrowTypeOf(op.getResult())) {}

  void run() {
    if (losses.overflowed) {
      context.overflowed.insert(op.getResult());
      lintOverflow();
    }
    if (losses.flushed) {
      context.flushed.insert(op.getResult());
      lintFlush();
    }
    if (!losses.overflowed && !isSplat && !tellsWeights())
      lintPrecision();
  }

private:
  void lintOverflow();
  void lintFlush();
  void lintPrecision();

  bool tellsWeights() const {
    return losses.flushed >= kFlushedShare * double(losses.nonZero) &&
           losses.flushed > 0;
  }
  void report(StringRef code, const Readers &ops, double value,
              const Twine &text) {
    if (!ops.empty())
      context.report(code, ops.front(), value, text, overrideOf(ops));
  }
  static std::string placeOf(const Readers &ops) {
    return ops.empty() ? "" : describe(ops.front());
  }
  /// "3 of 8 values of constant 'name'", or the constant alone.
  std::string part(int64_t lost) const {
    if (losses.count == 1 || lost == losses.count)
      return name.str();
    return std::to_string(lost) + " of " + std::to_string(losses.count) +
           " values of " + name.str();
  }

  LintContext &context;
  ConstantOp op;
  /// Name for messages.
  StringRef name;
  ArrayRef<OpOperand *> readers;
  const Losses &losses;
  bool isSplat;
  FloatType type;
};

} // namespace

/// Returns true if `use` reads a bound: the upper end of a range if `positive`,
/// else the lower.
static bool isBound(OpOperand &use, bool positive) {
  Operation *user = use.getOwner();
  if (isa<ClampOp>(user))
    return use.getOperandNumber() == (positive ? 2 : 1);
  return positive ? isa<MinOp>(user) : isa<MaxOp>(user);
}

/// Returns true if `use` reads a large negative number to exclude positions
/// from a softmax or maximum.
static bool isMaskUse(OpOperand &use) {
  Operation *user = use.getOwner();
  if (isa<AttentionOp>(user))
    return use.getOperandNumber() == 3;
  return isa<AddOp, SubOp, SelectOp, MulOp, ConcatOp, PadOp, OneHotOp,
             ScatterNdOp, ScatterElementsOp>(user);
}

void ConstantLint::lintOverflow() {
  Readers bounds, masks, others;
  for (OpOperand *use : readers) {
    Operation *user = use->getOwner();
    if (isBound(*use, losses.largest > 0)) {
      if (std::abs(losses.largest) < kNoBound)
        bounds.push_back(user);
    } else if (losses.onlyNegative && isMaskUse(*use)) {
      masks.push_back(user);
    } else {
      others.push_back(user);
    }
  }
  std::string becomes = nameOf(type) + " cannot represent " +
                        numberText(losses.largest) + ": " +
                        part(losses.overflowed) +
                        (losses.largest > 0 ? " becomes inf" : " becomes -inf");
  report("clip_bound_overflow", bounds, losses.largest,
         becomes + ", so infinities are not clipped at " + placeOf(bounds));
  report("mask_overflow", masks, losses.largest,
         becomes + " in the mask at " + placeOf(masks) +
             "; a fully masked row has no finite value left");
  report("constant_overflow", others, losses.largest, becomes);
}

void ConstantLint::lintFlush() {
  Readers divisors, epsilons, others;
  for (OpOperand *use : readers) {
    Operation *user = use->getOwner();
    unsigned index = use->getOperandNumber();
    bool guards =
        user->hasTrait<Additive>() || isBound(*use, /*positive=*/false);
    if (isSingularAtZero(user, index))
      divisors.push_back(user);
    else if (isSplat && guards && guardsDivision(user->getResult(0)))
      epsilons.push_back(user);
    else
      others.push_back(user);
  }
  std::string becomes = nameOf(type) + " cannot represent " +
                        numberText(losses.smallest) + ": " +
                        part(losses.flushed) + " becomes 0";
  report("divisor_flush", divisors, losses.smallest,
         becomes + ", and " + placeOf(divisors) + " divides by it");
  report("epsilon_flush", epsilons, losses.smallest,
         becomes + ", and " + placeOf(epsilons) +
             " no longer protects a divisor from zero");
  if (isSplat) {
    report("constant_flush", others, losses.smallest, becomes);
    return;
  }
  if (!tellsWeights() || others.empty())
    return;
  char share[32];
  std::snprintf(share, sizeof(share), "%.3g%%",
                100.0 * double(losses.flushed) / double(losses.nonZero));
  report("weight_flush", others, losses.smallest,
         Twine(share) + " of the values of " + name +
             " that are not zero become 0 in " + nameOf(type) + ", down to " +
             numberText(losses.smallest));
}

void ConstantLint::lintPrecision() {
  auto narrowing = op->getAttrOfType<NarrowingAttr>(MpcDialect::kNarrowingAttr);
  if (!narrowing)
    return;
  double error = narrowing.getRmsError().getValueAsDouble();
  if (error <= kLostPrecision)
    return;
  Readers ops;
  for (OpOperand *use : readers)
    ops.push_back(use->getOwner());
  report("weight_precision", ops, error,
         name + " is in the subnormal range of " + nameOf(type) +
             ": its root mean square rounding error is " +
             numberText(100 * error) + "% of the values'");
}

/// Returns the losses of rounding `original` to `type`; nullopt if unreadable.
static std::optional<Losses> lossesOf(ElementsAttr original, FloatType type) {
  Losses losses;
  if (std::optional<double> splat = splatValue(original)) {
    losses.note(*splat, roundedTo(*splat, type));
    return losses;
  }
  FailureOr<ConstantBytes> bytes = ConstantBytes::get(original);
  if (failed(bytes))
    return std::nullopt;
  // Only tiny and huge magnitudes can be lost; rounding the others is slow.
  for (float value : bytes->as<float>()) {
    double size = std::abs(value);
    bool safe = size >= 1e-7 && size < 65000;
    losses.note(value, safe ? value : roundedTo(value, type));
  }
  return losses;
}

/// Relative root-mean-square error of quantized weights from which to warn.
static constexpr double kCoarseWeights = 0.12;

/// Warns about weights with a large error in their quantized format.
static void lintWeights(LintContext &context, mpc::ConstantOp op) {
  auto form = op->getAttrOfType<StringAttr>(kWeightsAttr);
  auto narrowing = op->getAttrOfType<NarrowingAttr>(MpcDialect::kNarrowingAttr);
  if (!form || !narrowing || op->use_empty())
    return;
  double error = narrowing.getRmsError().getValueAsDouble();
  if (error < kCoarseWeights)
    return;
  Operation *reader = *op->user_begin();
  context.report("weight_rounding", reader, error,
                 "the weights of " + describe(reader) + " lose " +
                     numberText(100 * error) +
                     "% of their root mean square when stored as " +
                     form.getValue(),
                 overrideOf({reader}));
}

void mpc::lintConstants(LintContext &context) {
  for (auto op : context.body().getOps<ConstantOp>())
    lintWeights(context, op);
  for (auto op : context.body().getOps<ConstantOp>()) {
    FloatType type = narrowTypeOf(op.getResult());
    if (!type || !op->hasAttr(MpcDialect::kNarrowingAttr))
      continue;
    // Constants with equal rounded values may have been merged.
    llvm::MapVector<Attribute, SmallVector<OpOperand *>> readers;
    llvm::DenseMap<Attribute, StringRef> names;
    for (OpOperand &use : op->getUses()) {
      auto it =
          context.originals.find({use.getOwner(), use.getOperandNumber()});
      if (it == context.originals.end())
        continue;
      ElementsAttr original = it->second.value;
      if (original.getShapedType().getShape() !=
          cast<ShapedType>(op.getType()).getShape())
        continue; // another op replaced one that was removed
      names[original] = it->second.text;
      if (isTransparent(use.getOwner()))
        llvm::append_range(readers[original],
                           readersOf(use.getOwner()->getResult(0)));
      else
        readers[original].push_back(&use);
    }
    for (auto &[original, uses] : readers) {
      sortByPlace(uses);
      if (std::optional<Losses> losses =
              lossesOf(cast<ElementsAttr>(original), type))
        ConstantLint(context, op, names[original], uses, *losses,
                     splatValue(original).has_value())
            .run();
    }
  }
}
