//===- WeightEvidence.cpp - evidence for parameters and buffers -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of evidence, strongest first, and the decision by it.
//
//===----------------------------------------------------------------------===//

#include "WeightClassifier.h"
#include "WeightNames.h"
#include "WeightValues.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/ConstantOrigin.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Facts
//===----------------------------------------------------------------------===//

/// The facts about one constant.
struct WeightClassifier::Facts {
  using Kind = Use::Kind;
  using Origin = ConstantOrigin::Kind;

  Facts(const WeightClassifier &model, ConstantOp op)
      : model(model), op(op), name(mpc::opName(op)),
        type(cast<RankedTensorType>(op.getType())),
        element(dyn_cast<FloatType>(type.getElementType())),
        origin(ConstantOrigin::get(op)), isOne(elementCount(type) == 1),
        isNode(origin && origin->kind == Origin::Node),
        isStored(origin && !isNode), statistics(statisticsUse(op.getResult())) {
    model.collectUses(op.getResult(), uses);
    isWeight =
        llvm::any_of(uses, [](const Use &use) { return use.isWeight(); });
  }

  bool isKind(Origin kind) const { return origin && origin->kind == kind; }
  /// Returns the description of the first use of this kind, else an empty text.
  std::string useAs(Kind kind) const {
    for (const Use &use : uses)
      if (use.kind == kind)
        return use.text;
    return {};
  }
  bool isUsed(ArrayRef<Kind> kinds) const {
    return llvm::any_of(uses, [&](const Use &use) {
      return llvm::is_contained(kinds, use.kind);
    });
  }
  std::string norm() const {
    return "the batch norm '" + mpc::opName(statistics->getOwner()).str() + "'";
  }
  /// Returns "parameter fc.weight" for a tensor that was computed from it.
  std::string recorded(StringRef what) const {
    return (origin->of.empty()
                ? "the exporter recorded a " + what
                : "the exporter computed it from " + what + " " + origin->of)
        .str();
  }
  const reference::Tensor &values() {
    if (!tensor)
      tensor = *reference::Tensor::fromAttr(op.getValue());
    return *tensor;
  }
  bool isFinite() {
    std::optional<double> splat = splatValue(op.getValue());
    return splat ? std::isfinite(*splat) : holdsFiniteNumbers(values());
  }
  /// Returns true if the values differ and satisfy `test`.
  template <typename... Options>
  bool holds(bool (*test)(const reference::Tensor &, Options...),
             Options... options) {
    return !splatValue(op.getValue()) && test(values(), options...);
  }

  const WeightClassifier &model;
  ConstantOp op;
  StringRef name;
  RankedTensorType type;
  FloatType element;
  std::optional<ConstantOrigin> origin;
  bool isOne, isNode, isStored;
  /// As in statisticsUse.
  OpOperand *statistics;
  SmallVector<Use> uses;
  bool isWeight = false;

private:
  std::optional<reference::Tensor> tensor;
};

//===----------------------------------------------------------------------===//
// Evidence
//===----------------------------------------------------------------------===//

/// A kind of evidence: the use that follows from it and a function that returns
/// the reason, or an empty text if there is no such evidence.
struct WeightClassifier::Evidence {
  WeightChoice::Use use;
  std::string (*reason)(Facts &);
  /// As in Verdict.
  bool isFixed = false, onlyNormalizes = false;
};

static std::string textIf(bool applies, const char *text) {
  return applies ? text : "";
}

WeightClassifier::Verdict WeightClassifier::judge(ConstantOp op) const {
  using F = Facts &;
  using Kind = Use::Kind;
  using Origin = ConstantOrigin::Kind;
  constexpr auto kTrained = WeightChoice::Use::Trained,
                 kFrozen = WeightChoice::Use::Frozen;
  // Strongest evidence first; the last row always applies.
  static const Evidence rows[] = {
      // The type of the tensor, and of the values that it scales.
      {kFrozen,
       [](F f) {
         return textIf(!f.element || f.element.getWidth() < 16,
                       "parameters are floats of 16 bits or more");
       },
       /*isFixed=*/true},
      {kFrozen,
       [](F f) {
         return textIf(elementCount(f.type) == 0, "it has no elements");
       },
       /*isFixed=*/true},
      {kFrozen,
       [](F f) {
         return textIf(!f.isFinite(), "it contains infinities or NaN");
       },
       /*isFixed=*/true},
      {kFrozen,
       [](F f) {
         return f.statistics && f.model.hasTrainingNorms &&
                        isa<BatchNormOp>(f.statistics->getOwner())
                    ? "it is a statistic of " + f.norm() +
                          ", which the file has in evaluation mode"
                    : "";
       },
       /*isFixed=*/true},
      {WeightChoice::Use::Statistics,
       [](F f) { return f.statistics ? "of " + f.norm() : ""; }},
      {kFrozen, [](F f) { return f.useAs(Kind::Quantization); }},

      // The exporter's record.
      {kTrained,
       [](F f) {
         return f.isKind(Origin::Parameter) ? f.recorded("parameter") : "";
       }},
      {kFrozen,
       [](F f) {
         return f.isKind(Origin::Buffer) ? f.recorded("buffer") : "";
       }},
      {kFrozen,
       [](F f) {
         return textIf(f.origin && f.origin->isUnrecorded,
                       "the exporter recorded all parameters, and it is none");
       }},
      {kFrozen,
       [](F f) {
         return textIf(f.model.hasOrigins &&
                           (!f.origin || (f.isNode && f.type.getRank() == 0)),
                       "it is a literal of the model's graph");
       }},
      {kFrozen,
       [](F f) { return textIf(f.uses.empty(), "no gradient reaches it"); }},

      // Values that training would not leave, under any name.
      {kFrozen,
       [](F f) {
         return textIf(f.isUsed({Kind::Filter}) &&
                           holdsFixedFilter(f.values(), /*boxes=*/false),
                       "it is a fixed filter");
       }},
      {kFrozen,
       [](F f) {
         return textIf(f.holds(holdsWaves, /*ramps=*/false),
                       "it contains samples of sines");
       }},
      {kFrozen,
       [](F f) {
         return textIf(!f.isWeight && f.holds(holdsSeparableGrid),
                       "it contains the coordinates of a grid, or sines");
       }},
      {kFrozen,
       [](F f) {
         return textIf(f.isUsed({Kind::Matrix, Kind::Filter}) &&
                           f.holds(holdsProgression, /*geometric=*/false),
                       "it contains a ramp");
       }},

      // Values and uses of buffers that have names of parameters.
      {kFrozen,
       [](F f) {
         return textIf(!f.isWeight && f.holds(holdsMask),
                       "it contains the values of a mask");
       }},
      {kFrozen,
       [](F f) {
         return textIf(f.model.normalizesWeight(f.op.getResult()) &&
                           holdsUnitVector(f.values()),
                       "it is a unit vector that is multiplied by a weight");
       }},
      {kFrozen,
       [](F f) {
         return textIf(!f.isWeight && f.model.meetsDeviation(f.op.getResult()),
                       "it is folded with the statistics of a frozen norm");
       }},

      // Names.
      {kTrained,
       [](F f) {
         return textIf(isParameterName(f.name) && (f.isStored || !f.isOne),
                       "its name is that of a parameter");
       }},
      {kFrozen,
       [](F f) {
         return textIf(isBufferName(f.name), "its name is that of a buffer");
       }},

      // Uses. Exporters write literals as nodes where they write weights as
      // initializers.
      {kFrozen, [](F f) { return f.isWeight ? "" : f.useAs(Kind::Formula); }},
      {kFrozen,
       [](F f) {
         return !f.isStored || isNumberName(f.name) ? f.useAs(Kind::State) : "";
       }},
      {kFrozen,
       [](F f) {
         return !f.isStored || isNumberName(f.name) ||
                        f.holds(holdsProgression, /*geometric=*/!f.isWeight)
                    ? f.useAs(Kind::Angle)
                    : "";
       }},
      {kFrozen,
       [](F f) {
         return textIf(f.isNode && f.model.hasInitializers && !f.isWeight,
                       "it is a literal of the model's graph, which has its "
                       "weights in initializers");
       }},
      {kFrozen,
       [](F f) {
         bool isLiteral = f.isNode ? f.model.hasInitializers
                                   : f.isStored && f.model.hasRecord;
         return isLiteral && llvm::all_of(
                                 f.uses,
                                 [](const Use &use) { return use.isNeutral; })
                    ? "it has no effect: " + f.uses.front().text
                    : "";
       }},
      // The nearest rows, which the table itself selects, have no gradient.
      {kFrozen,
       [](F f) { return f.uses.size() > 1 ? f.useAs(Kind::Codebook) : ""; }},
      {kTrained,
       [](F f) { return textIf(isBiasName(f.name), "it is named a bias"); }},
      {kFrozen,
       [](F f) { return f.isWeight ? "" : f.useAs(Kind::Normalization); },
       /*isFixed=*/false, /*onlyNormalizes=*/true},

      // Values, first of weights.
      {kFrozen,
       [](F f) {
         return textIf(f.isUsed({Kind::Filter, Kind::Upsampling}) &&
                           holdsFixedFilter(f.values(), /*boxes=*/true),
                       "it is a fixed filter");
       }},
      {kFrozen,
       [](F f) {
         return textIf(f.isUsed({Kind::Matrix, Kind::Filter, Kind::Upsampling,
                                 Kind::Table}) &&
                           f.holds(holdsZerosAndOnes),
                       "it contains zeros and ones alone");
       }},
      {kFrozen,
       [](F f) {
         // A weight that a tool transposed and named may be pruned.
         return textIf(
             f.isUsed({Kind::Matrix}) && !isNumberName(f.name) &&
                 (f.holds(holdsSymmetricMatrix) || f.holds(holdsSparseMatrix)),
             "it is a symmetric or sparse matrix");
       }},
      {kFrozen,
       [](F f) {
         return textIf(f.isUsed({Kind::Table}) && f.holds(holdsSchedule),
                       "it is a table of rising or falling numbers");
       }},
      {kTrained,
       [](F f) {
         for (const Use &use : f.uses)
           if (use.isWeight())
             return use.text;
         return std::string();
       }},
      {kFrozen,
       [](F f) {
         return textIf(f.holds(holdsWaves, /*ramps=*/true) ||
                           f.holds(holdsProgression, /*geometric=*/false),
                       "it contains a ramp");
       }},
      {kFrozen,
       [](F f) {
         return textIf(f.holds(holdsGrid), "it contains the points of a grid");
       }},
      {kFrozen,
       [](F f) {
         return textIf(f.isOne && (!f.isStored || isNumberName(f.name)),
                       "it is a constant of a formula");
       }},
      {kTrained, [](F f) { return f.uses.front().text; }},
  };
  Facts facts(*this, op);
  Verdict verdict;
  verdict.isNamed =
      facts.isStored ||
      (!facts.isOne && (hasOrigins ? facts.isNode && facts.element : true));
  for (const Evidence &row : rows) {
    verdict.reason = row.reason(facts);
    if (verdict.reason.empty())
      continue;
    verdict.use = row.use;
    verdict.isFixed = row.isFixed;
    verdict.onlyNormalizes = row.onlyNormalizes;
    break;
  }
  return verdict;
}
