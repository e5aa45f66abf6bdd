//===- LossScalingState.cpp - state of a scaled step ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Updates of a step: the new scale, the overflow record, and statistics that a
// skipped step must preserve.
//
//===----------------------------------------------------------------------===//

#include "LossScaling.h"

#include "mlir/Analysis/TopologicalSortUtils.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace mpc;

void LossScaling::updateScale() {
  if (!preset.isDynamic())
    return;
  auto scaleArgument = cast<BlockArgument>(scale);
  BlockArgument goodSteps = counter("good_steps", 32);
  BlockArgument left;
  if (preset.hysteresis > 1)
    left = counter("hysteresis_left", 32, preset.hysteresis);
  auto limit = [&](std::optional<double> value) {
    return value ? builder.getF64FloatAttr(*value) : FloatAttr();
  };
  auto update = LossScaleUpdateOp::create(
      builder, loc, scale.getType(), goodSteps.getType(),
      left ? left.getType() : Type(), scale, goodSteps, left, allFinite,
      llvm::APFloat(preset.growth), llvm::APFloat(preset.backoff),
      uint64_t(preset.interval), limit(preset.min), limit(preset.max),
      preset.keepFinite, uint64_t(preset.hysteresis), preset.refillHysteresis);
  step.setUpdate(scaleArgument, update.getNewScale());
  step.setUpdate(goodSteps, update.getNewGoodSteps());
  if (left)
    step.setUpdate(left, update.getNewHysteresisLeft());
}

/// Label of a gradient in an overflow record: "fc1.weight (op fc1/MatMul, layer
/// fc1)".
static std::string labelOf(StringRef name, Value gradient) {
  while (auto cast = gradient.getDefiningOp<CastOp>())
    gradient = cast.getInput();
  Operation *producer = gradient.getDefiningOp();
  if (!producer)
    return name.str();
  StringRef op = producer->getName().getStringRef();
  producer->getLoc()->walk([&](Location location) {
    auto named = dyn_cast<NameLoc>(location);
    if (!named)
      return WalkResult::advance();
    op = named.getName().getValue();
    return WalkResult::interrupt();
  });
  std::string label = (name + " (op " + op).str();
  if (auto layer = producer->getAttrOfType<StringAttr>(MpcDialect::kLayerAttr))
    label += ", layer " + layer.getValue().str();
  return label + ")";
}

Value LossScaling::attemptedSteps(BlockArgument skipped) {
  // One counter counts applied steps and, by preset, skipped ones. Two counters
  // need not agree, since one group may overflow alone; with accumulation the
  // counter counts windows.
  if (groups.size() == 1 && groups.front().step && !accumulatesMicroSteps()) {
    Value applied = groups.front().step;
    return preset.countOnSkip == LossScalePreset::CountOnSkip::Hold
               ? create<AddOp>(applied, skipped)
               : applied;
  }
  BlockArgument attempts = counter("attempted_steps", 64);
  step.setUpdate(attempts,
                 create<AddOp>(attempts, constant(builder.getI64Type(), 1)));
  return attempts;
}

void LossScaling::recordOverflow() {
  Type i64 = builder.getI64Type();
  auto recordType = RankedTensorType::get({2}, i64);
  auto pair = [&](int64_t first, int64_t second) {
    return create<mpc::ConstantOp>(cast<ElementsAttr>(
        DenseElementsAttr::get(recordType, ArrayRef<int64_t>{first, second})));
  };
  BlockArgument skipped = counter("skipped_steps", 64);
  BlockArgument overflow =
      field("overflow", recordType,
            DenseElementsAttr::get(recordType, ArrayRef<int64_t>{-1, 0}));
  BlockArgument overflowStep = counter("overflow_step", 64, -1);

  // Indices continue from group to group; the first group with an overflow
  // gives the index, and counts are added.
  Value record;
  SmallVector<Attribute> labels;
  for (Group &group : groups) {
    Value numbered = group.record;
    if (!labels.empty()) {
      // A record without a tensor stays -1.
      Value offset = create<SelectOp>(
          create<CompareOp>(ComparePredicate::ge, numbered, pair(0, 0)),
          pair(int64_t(labels.size()), 0), pair(0, 0));
      numbered = create<AddOp>(numbered, offset);
      Value isFirst =
          create<CompareOp>(ComparePredicate::ge, record, pair(0, 1));
      Value either = create<SelectOp>(isFirst, record, numbered);
      // (index, count): the index of either, the sum of counts.
      Value sum = create<AddOp>(create<MaxOp>(record, pair(0, 0)),
                                create<MaxOp>(numbered, pair(0, 0)));
      Value isCount = create<mpc::ConstantOp>(cast<ElementsAttr>(
          DenseElementsAttr::get(recordType.clone(builder.getI1Type()),
                                 ArrayRef<bool>{false, true})));
      numbered = create<SelectOp>(isCount, sum, either);
    }
    record = numbered;
    int64_t ranks = ranksOf(group);
    for (auto [name, gradient] :
         llvm::zip_equal(group.names, group.gradients)) {
      std::string label = labelOf(name, ownOf(gradient));
      if (ranks == 1)
        labels.push_back(builder.getStringAttr(label));
      else { // in the order in which gatherRecords() counts
        for (int64_t rank = 0; rank < ranks; ++rank)
          labels.push_back(
              builder.getStringAttr("rank " + Twine(rank) + ": " + label));
        labels.push_back(
            builder.getStringAttr("sum of all ranks: " + Twine(label)));
      }
    }
  }
  step.getFunction().setArgAttr(overflow.getArgNumber(), "mpc.labels",
                                builder.getArrayAttr(labels));
  step.setUpdate(overflow, create<SelectOp>(allFinite, overflow, record));

  Value attempted = attemptedSteps(skipped);
  step.setUpdate(overflowStep,
                 create<SelectOp>(allFinite, overflowStep, attempted));
  step.setUpdate(skipped,
                 create<SelectOp>(allFinite, skipped,
                                  create<AddOp>(skipped, constant(i64, 1))));
}

void LossScaling::predicateStatistics() {
  for (BlockArgument argument : step.arguments(RoleKind::statistics))
    if (std::optional<unsigned> update = step.updateOf(argument))
      step.setUpdate(argument, create<SelectOp>(allFinite, step.result(*update),
                                                argument));
}

//===----------------------------------------------------------------------===//
// Imported training steps
//===----------------------------------------------------------------------===//

void LossScaling::collectMarked() {
  for (Operation &op : step.body()) {
    auto division = dyn_cast<DivOp>(op);
    Value divisor = division ? division.getRhs() : Value();
    while (divisor && divisor.getDefiningOp<CastOp>())
      divisor = divisor.getDefiningOp<CastOp>().getInput();
    if (divisor && divisor.getDefiningOp<GradientSeedOp>() &&
        !llvm::is_contained(marked, division.getLhs()))
      marked.push_back(division.getLhs());
  }
}

std::string LossScaling::dependentOf(Value gradient) const {
  llvm::DenseSet<Value> reached = {gradient};
  for (Operation &op : step.body())
    if (llvm::any_of(op.getOperands(),
                     [&](Value v) { return reached.contains(v); }))
      reached.insert_range(op.getResults());
  for (BlockArgument argument : step.body().getArguments())
    if (std::optional<unsigned> update = step.updateOf(argument);
        update && reached.contains(step.result(*update)))
      return step.argumentName(argument.getArgNumber()).str();
  return "gradient";
}

void LossScaling::predicateMarkedStep() {
  Group &group = groups.emplace_back();
  for (Value gradient : marked) {
    group.gradients.push_back(gradient);
    group.names.push_back(dependentOf(gradient));
  }
  checkGradients(group);
  allFinite = group.finite;
  if (allFinite) {
    // Before the state of the scale is appended, which preserves itself.
    for (BlockArgument argument : step.body().getArguments())
      if (std::optional<unsigned> update = step.updateOf(argument))
        step.setUpdate(
            argument,
            create<SelectOp>(allFinite, step.result(*update), argument));
    updateScale();
    recordOverflow();
  }
  sortTopologically(&step.body());
}
