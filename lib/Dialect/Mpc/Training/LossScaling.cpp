//===- LossScaling.cpp - scaled losses and predicated steps ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// New ops are appended before the return; a topological sort then moves
// optimizers after the flags that they read.
//
//===----------------------------------------------------------------------===//

#include "LossScaling.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCommunicationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcOptimizerOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"
#include "mpc/Support/StepNames.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "llvm/ADT/DenseSet.h"

#include <limits>

using namespace mlir;
using namespace mpc;

LossScaling::LossScaling(func::FuncOp function, const LossScalePreset &preset,
                         const GradientOptions &options)
    : step(function), preset(preset), options(options), builder(step.atEnd()),
      loc(NameLoc::get(builder.getStringAttr("loss_scale"),
                       function.getLoc())) {
  for (Operation &op : step.body()) {
    if (auto seed = dyn_cast<GradientSeedOp>(op))
      seeds.push_back(seed);
    if (auto optimizer = dyn_cast<OptimizerOpInterface>(op);
        optimizer && optimizer.getWhenMutable().empty() &&
        optimizer.getUnscaleMutable().empty())
      optimizers.push_back(optimizer);
  }
}

bool LossScaling::applies() const {
  return !seeds.empty() || !optimizers.empty();
}

bool LossScaling::accumulatesMicroSteps() const {
  return options.accumulate > 1 &&
         preset.accumulation == LossScalePreset::Accumulation::MicroStep;
}

LogicalResult LossScaling::run() {
  collectGroups();
  if (failed(check()))
    return failure();
  findScale();
  collectMarked();
  scaleSeeds();
  if (!marked.empty()) {
    predicateMarkedStep();
    return success();
  }
  if (optimizers.empty()) {
    accumulateReturned();
    return success();
  }
  for (Group &group : groups) {
    checkGradients(group);
    if (accumulatesMicroSteps())
      accumulateMicroSteps(group);
    else
      unscaleGradients(group);
    countSteps(group);
  }
  resetAccumulators();
  if (allFinite) {
    updateScale();
    recordOverflow();
    predicateStatistics();
  }
  sortTopologically(&step.body());
  return success();
}

//===----------------------------------------------------------------------===//
// Reading the function
//===----------------------------------------------------------------------===//

void LossScaling::collectGroups() {
  for (OptimizerOpInterface optimizer : optimizers) {
    Group *group = llvm::find_if(groups, [&](const Group &candidate) {
      return candidate.step == optimizer.getStep();
    });
    if (group == groups.end()) {
      groups.emplace_back();
      group = &groups.back();
      group->step = optimizer.getStep();
    }
    group->optimizers.push_back(optimizer);
  }
  // Arguments in order, then op results in block order.
  auto comesBefore = [](Value lhs, Value rhs) {
    auto left = dyn_cast<BlockArgument>(lhs),
         right = dyn_cast<BlockArgument>(rhs);
    if (left && right)
      return left.getArgNumber() < right.getArgNumber();
    if (left || right)
      return bool(left);
    return lhs.getDefiningOp()->isBeforeInBlock(rhs.getDefiningOp());
  };
  for (Group &group : groups) {
    llvm::SmallVector<std::pair<Value, std::string>> found;
    for (OptimizerOpInterface optimizer : group.optimizers) {
      Value gradient = optimizer.getGradientMutable().get();
      if (llvm::any_of(found,
                       [&](auto &seen) { return seen.first == gradient; }))
        continue;
      auto argument = dyn_cast<BlockArgument>(optimizer.getParameter());
      StringRef name =
          argument ? step.argumentName(argument.getArgNumber()) : StringRef();
      found.push_back({gradient, name.empty() ? "parameter" : name.str()});
    }
    llvm::sort(found, [&](auto &lhs, auto &rhs) {
      return comesBefore(ownOf(lhs.first), ownOf(rhs.first));
    });
    for (auto &[gradient, name] : found) {
      group.gradients.push_back(gradient);
      group.names.push_back(name);
    }
  }
}

LogicalResult LossScaling::check() const {
  func::FuncOp function = step.getFunction();
  if (options.accumulate < 1)
    return function.emitError()
           << "gradient accumulation needs a window of at least 1 micro step, "
              "found "
           << options.accumulate;
  if ((options.clipNorm && !(*options.clipNorm > 0)) ||
      (options.clipValue && !(*options.clipValue > 0)))
    return function.emitError() << "clipping needs a positive limit, found "
                                << (options.clipNorm && !(*options.clipNorm > 0)
                                        ? *options.clipNorm
                                        : *options.clipValue);
  if (accumulatesMicroSteps()) {
    if (optimizers.empty())
      return function.emitError()
             << "accumulation by micro step needs backward pass and optimizers "
                "in one function; compile the whole step or choose "
                "accumulation=window";
    if (groups.size() > 1)
      return function.emitError()
             << "accumulation by micro step needs one step counter, found "
             << groups.size();
  } else if (options.accumulate > 1 && !seeds.empty() && !optimizers.empty()) {
    return function.emitError()
           << "accumulation over a window of " << options.accumulate
           << " needs backward pass and optimizers in two functions; compile "
              "the parts separately or choose accumulation=micro_step";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The backward pass
//===----------------------------------------------------------------------===//

void LossScaling::findScale() {
  Type f32 = builder.getF32Type();
  if (preset.isDynamic())
    scale = field("scale", RankedTensorType::get({}, f32),
                  scalarOf(f32, preset.init));
  else if (preset.scales())
    scale = constant(f32, preset.init);
}

void LossScaling::scaleSeeds() {
  for (GradientSeedOp seed : seeds) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(seed);
    auto type = cast<RankedTensorType>(seed.getResult().getType());
    Type element = type.getElementType();
    // A constant scale was created at the end of the block.
    Value value = isa_and_nonnull<BlockArgument>(scale)
                      ? castTo(scale, element)
                      : constant(element, preset.init);
    if (options.accumulate > 1 && !accumulatesMicroSteps())
      value =
          create<DivOp>(value, constant(element, double(options.accumulate)));
    if (type.getRank() != 0)
      value = create<BroadcastOp>(type, value);
    seed.replaceAllUsesWith(value);
    seed.erase();
  }
}

void LossScaling::accumulateReturned() {
  if (options.accumulate == 1)
    return;
  for (unsigned i = step.getFunction().getNumResults(); i-- > 0;) {
    RoleAttr role = step.resultRole(i);
    std::string name = step.resultName(i).str();
    if (!role || role.getKind() != RoleKind::output ||
        !StringRef(name).ends_with(kGradientSuffix))
      continue;
    Value gradient = step.result(i);
    step.eraseResult(i);
    BlockArgument sum = step.appendArgument(gradient.getType(),
                                            RoleKind::optimizer_state, name);
    step.setUpdate(sum, create<AddOp>(sum, gradient));
  }
}

//===----------------------------------------------------------------------===//
// The updates
//===----------------------------------------------------------------------===//

void LossScaling::checkGradients(Group &group) {
  if (!preset.checks())
    return;
  bool afterUnscale = scale && preset.check == LossScalePreset::Check::Unscaled;
  bool divides = preset.unscale == LossScalePreset::Unscale::Divide;
  SmallVector<StringRef> names(group.names.begin(), group.names.end());
  auto finite = AllFiniteOp::create(
      builder, loc, RankedTensorType::get({}, builder.getI1Type()),
      RankedTensorType::get({2}, builder.getI64Type()), group.gradients,
      !afterUnscale ? Value()
      : divides     ? scale
                    : inverseScale(),
      builder.getStrArrayAttr(names),
      afterUnscale && divides ? UnscaleMode::divide : UnscaleMode::multiply);
  group.finite = finite.getFinite();
  group.record = finite.getRecord();
  group.when = group.finite;
  if (ranksOf(group) > 1)
    gatherRecords(group, finite);
}

void LossScaling::unscaleGradients(Group &group) {
  Value unscale;
  UnscaleMode mode = UnscaleMode::multiply;
  if (scale && preset.unscale == LossScalePreset::Unscale::Divide) {
    unscale = scale;
    mode = UnscaleMode::divide;
  } else if (scale) {
    unscale = inverseScale();
  }
  if (options.clipNorm) {
    Value norm = globalNorm(group, group.gradients, unscale, mode);
    Value factor = clipFactor(norm);
    unscale = scale ? create<MulOp>(inverseScale(), factor) : factor;
    mode = UnscaleMode::multiply;
    if (group.finite) {
      group.finite = create<AndOp>(group.finite, isFinite(norm));
      group.when = group.finite;
    }
  }
  if (group.finite)
    allFinite =
        allFinite ? create<AndOp>(allFinite, group.finite) : group.finite;

  for (OptimizerOpInterface optimizer : group.optimizers) {
    if (group.when)
      optimizer.getWhenMutable().assign(group.when);
    if (options.clipValue) {
      Type element = getElementTypeOrSelf(optimizer.getParameter());
      Value gradient = castTo(optimizer.getGradientMutable().get(), element);
      if (unscale && mode == UnscaleMode::divide)
        gradient = create<DivOp>(gradient, castTo(unscale, element));
      else if (unscale)
        gradient = create<MulOp>(gradient, castTo(unscale, element));
      optimizer.getGradientMutable().set(
          create<ClampOp>(gradient, constant(element, -*options.clipValue),
                          constant(element, *options.clipValue)));
      continue;
    }
    if (!unscale)
      continue;
    optimizer.getUnscaleMutable().assign(unscale);
    optimizer->setAttr("unscale_mode",
                       UnscaleModeAttr::get(builder.getContext(), mode));
  }
}

void LossScaling::accumulateMicroSteps(Group &group) {
  Type i32 = builder.getI32Type();
  BlockArgument done = counter("micro_steps", 32);
  Value next = create<AddOp>(done, constant(i32, 1));
  Value full = create<CompareOp>(ComparePredicate::ge, next,
                                 constant(i32, double(options.accumulate)));
  allFinite = group.finite;
  auto whereFinite = [&](Value then, Value otherwise) -> Value {
    return group.finite ? create<SelectOp>(group.finite, then, otherwise)
                        : then;
  };
  step.setUpdate(
      done, whereFinite(create<SelectOp>(full, constant(i32, 0), next), done));
  group.when = group.finite ? create<AndOp>(group.finite, full) : full;

  SmallVector<Value> means;
  for (OptimizerOpInterface optimizer : group.optimizers) {
    Value gradient = unscaled(optimizer);
    auto parameter = dyn_cast<BlockArgument>(optimizer.getParameter());
    std::string name = (parameter ? step.argumentName(parameter.getArgNumber())
                                  : StringRef("parameter"))
                           .str() +
                       kGradientSuffix;
    BlockArgument sum = step.appendArgument(gradient.getType(),
                                            RoleKind::optimizer_state, name);
    if (Attribute shard = parameter ? step.getFunction().getArgAttr(
                                          parameter.getArgNumber(), kShardAttr)
                                    : Attribute())
      step.getFunction().setArgAttr(sum.getArgNumber(), kShardAttr, shard);
    Value newSum = create<AddOp>(gradient, sum);
    step.setUpdate(
        sum,
        whereFinite(create<SelectOp>(
                        full, constant(getElementTypeOrSelf(sum), 0), newSum),
                    sum));
    means.push_back(
        create<DivOp>(newSum, constant(getElementTypeOrSelf(newSum),
                                       double(options.accumulate))));
  }
  Value factor;
  if (options.clipNorm) {
    Value norm = globalNorm(group, means, Value(), UnscaleMode::multiply);
    factor = clipFactor(norm);
    if (group.finite) {
      Value holds = isFinite(norm);
      group.when = create<AndOp>(group.when, holds);
      // The norm of an incomplete accumulation window is not decisive.
      allFinite = create<AndOp>(group.finite,
                                create<SelectOp>(full, holds, group.finite));
    }
  }
  for (auto [optimizer, mean] : llvm::zip_equal(group.optimizers, means)) {
    OptimizerOpInterface op = optimizer;
    Value gradient = mean;
    Type element = getElementTypeOrSelf(gradient);
    op.getWhenMutable().assign(group.when);
    if (factor && !options.clipValue)
      op.getUnscaleMutable().assign(factor);
    else if (factor)
      gradient = create<MulOp>(gradient, castTo(factor, element));
    if (options.clipValue)
      gradient =
          create<ClampOp>(gradient, constant(element, -*options.clipValue),
                          constant(element, *options.clipValue));
    op.getGradientMutable().set(gradient);
  }
}

void LossScaling::resetAccumulators() {
  if (options.accumulate == 1 || accumulatesMicroSteps())
    return;
  for (BlockArgument argument : step.arguments(RoleKind::optimizer_state))
    if (step.argumentName(argument.getArgNumber()).ends_with(kGradientSuffix))
      step.setUpdate(argument, zerosOf(argument));
}

void LossScaling::countSteps(Group &group) {
  auto argument = dyn_cast<BlockArgument>(group.step);
  if (!argument || !step.argumentRole(argument.getArgNumber()))
    return;
  std::optional<unsigned> update = step.updateOf(argument);
  Value next = update
                   ? step.result(*update)
                   : create<AddOp>(argument, constant(builder.getI64Type(), 1));
  // An incomplete window is not an attempted step.
  bool holds = preset.countOnSkip == LossScalePreset::CountOnSkip::Hold ||
               accumulatesMicroSteps();
  if (group.when && holds)
    next = create<SelectOp>(group.when, next, argument);
  step.setUpdate(argument, next);
}

//===----------------------------------------------------------------------===//
// State of a scaled step
//
// Updates of a step: the new scale, the overflow record, and statistics that a
// skipped step must preserve.
//===----------------------------------------------------------------------===//

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
  for (RoleKind kind : {RoleKind::statistics, RoleKind::scaling_state})
    for (BlockArgument argument : step.arguments(kind))
      if (std::optional<unsigned> update = step.updateOf(argument))
        step.setUpdate(
            argument,
            create<SelectOp>(allFinite, step.result(*update), argument));
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

//===----------------------------------------------------------------------===//
//
//
//-----------------===//
// Inverse scale, norm and clipping factor of each preset, and shared helpers.
//===----------------------------------------------------------------------===//

Value LossScaling::constant(Type element, double value) {
  return create<mpc::ConstantOp>(scalarOf(element, value));
}

Value LossScaling::zerosOf(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  return create<BroadcastOp>(type, constant(type.getElementType(), 0));
}

Value LossScaling::castTo(Value value, Type element) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementType() == element)
    return value;
  return create<CastOp>(type.clone(element), value, /*pinned=*/false);
}

Value LossScaling::inverseScale() {
  if (inverse)
    return inverse;
  Type element = preset.unscale == LossScalePreset::Unscale::Reciprocal64
                     ? Type(builder.getF64Type())
                     : Type(builder.getF32Type());
  inverse = castTo(create<DivOp>(constant(element, 1), castTo(scale, element)),
                   builder.getF32Type());
  return inverse;
}

Value LossScaling::globalNorm(const Group &group, ValueRange gradients,
                              Value unscale, UnscaleMode mode) {
  if (isSharded(group))
    return normOfPieces(group, gradients, unscale, mode);
  return create<GlobalNormOp>(
      RankedTensorType::get({}, builder.getF32Type()), gradients, unscale, mode,
      /*of_norms=*/preset.clip == LossScalePreset::Clip::Torch);
}

Value LossScaling::clipFactor(Value norm) {
  Type f32 = builder.getF32Type();
  double limit = *options.clipNorm;
  if (preset.clip == LossScalePreset::Clip::Torch) {
    norm = create<AddOp>(norm, constant(f32, 1e-6));
    return create<MinOp>(create<DivOp>(constant(f32, limit), norm),
                         constant(f32, 1));
  }
  Value smaller = create<MinOp>(create<DivOp>(constant(f32, 1), norm),
                                constant(f32, 1 / limit));
  return create<MulOp>(constant(f32, limit), smaller);
}

Value LossScaling::isFinite(Value value) {
  // Norms are never negative.
  return create<CompareOp>(
      ComparePredicate::le, value,
      constant(builder.getF32Type(), std::numeric_limits<float>::max()));
}

Value LossScaling::unscaled(OptimizerOpInterface optimizer) {
  Type element = getElementTypeOrSelf(optimizer.getParameter());
  Value gradient = castTo(optimizer.getGradientMutable().get(), element);
  if (!scale)
    return gradient;
  if (preset.unscale == LossScalePreset::Unscale::Divide)
    return create<DivOp>(gradient, castTo(scale, element));
  return create<MulOp>(gradient, castTo(inverseScale(), element));
}

BlockArgument LossScaling::field(StringRef name, Type type,
                                 ElementsAttr initial) {
  if (BlockArgument argument = step.findField(name))
    return argument;
  return step.appendArgument(type, RoleKind::loss_scale_state,
                             ("loss_scale." + name).str(), initial, name);
}

BlockArgument LossScaling::counter(StringRef name, unsigned width,
                                   int64_t initial) {
  Type element = builder.getIntegerType(width);
  return field(name, RankedTensorType::get({}, element),
               scalarOf(element, double(initial)));
}

//===----------------------------------------------------------------------===//
// Overflow checks over ranks
//
// Data-parallel ranks check the reduced gradients, which are not finite if any
// rank's are not: all ranks decide alike without a message. To record the
// overflowing rank too, ranks exchange the records of their own gradients. With
// sharded gradients the same message carries the records of all shards and
// their partial norms.
//===----------------------------------------------------------------------===//

/// Returns the collective that produced `gradient`, or null.
static CollectiveOpInterface messageOf(Value gradient) {
  Operation *op = gradient.getDefiningOp();
  return isa_and_nonnull<AllReduceOp, ReduceScatterOp>(op)
             ? cast<CollectiveOpInterface>(op)
             : CollectiveOpInterface();
}

Value LossScaling::ownOf(Value gradient) {
  CollectiveOpInterface message = messageOf(gradient);
  return message
             ? message->getOperand(cast<OpResult>(gradient).getResultNumber())
             : gradient;
}

int64_t LossScaling::ranksOf(const Group &group) {
  for (Value gradient : group.gradients)
    if (CollectiveOpInterface message = messageOf(gradient))
      return int64_t(message.getRanks());
  return 1;
}

bool LossScaling::isSharded(const Group &group) {
  return llvm::any_of(group.gradients, [](Value gradient) {
    return gradient.getDefiningOp<ReduceScatterOp>();
  });
}

void LossScaling::gatherRecords(Group &group, AllFiniteOp finite) {
  int64_t ranks = ranksOf(group);
  bool sharded = isSharded(group);
  Type i64 = builder.getI64Type();
  auto record = cast<RankedTensorType>(group.record.getType());
  auto tableOf = [&](int64_t rows) {
    return RankedTensorType::get({rows, 2}, i64);
  };
  auto constantOf = [&](RankedTensorType type, ArrayRef<int64_t> values) {
    return create<mpc::ConstantOp>(
        cast<ElementsAttr>(DenseElementsAttr::get(type, values)));
  };
  auto reduce = [&]<typename OpTy>(OpTy, Value values) -> Value {
    return OpTy::create(builder, loc, record, values,
                        builder.getDenseI64ArrayAttr({0}),
                        /*keep_dims=*/UnitAttr(), /*accumulate=*/TypeAttr());
  };
  SmallVector<Value> own = llvm::map_to_vector(group.gradients, ownOf);
  auto check = AllFiniteOp::create(builder, loc, finite.getFinite().getType(),
                                   record, own, finite.getUnscale(),
                                   finite.getNames(), finite.getUnscaleMode());
  SmallVector<Value> told = {check.getRecord()};
  if (sharded)
    told.push_back(group.record);
  SmallVector<Type> tables(told.size(), tableOf(ranks));
  auto gather = AllGatherOp::create(builder, loc, TypeRange(tables),
                                    ValueRange(told), uint64_t(ranks));
  Value ownRecords = gather.getOutputs()[0];
  Value sumRecords = sharded ? Value(gather.getOutputs()[1])
                             : create<ReshapeOp>(tableOf(1), group.record);

  // Numbers each tensor per rank, plus one for the sum: the minimum is the
  // first tensor that overflowed, on the first such rank.
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  Value zero = constantOf(record, {0, 0});
  auto numbered = [&](Value records, llvm::function_ref<int64_t(int64_t)> at) {
    auto type = cast<RankedTensorType>(records.getType());
    SmallVector<int64_t> offsets, none(2 * type.getDimSize(0), kNone);
    for (int64_t row = 0; row < type.getDimSize(0); ++row)
      offsets.append({at(row), 0});
    Value numbers = create<AddOp>(
        create<MulOp>(records, constantOf(record, {ranks + 1, 1})),
        constantOf(type, offsets));
    return reduce(
        ReduceMinOp(),
        create<SelectOp>(create<CompareOp>(ComparePredicate::ge, records, zero),
                         numbers, constantOf(type, none)));
  };
  Value first =
      create<MinOp>(numbered(ownRecords, [](int64_t row) { return row; }),
                    numbered(sumRecords, [&](int64_t) { return ranks; }));
  first =
      create<SelectOp>(create<CompareOp>(ComparePredicate::eq, first,
                                         constantOf(record, {kNone, kNone})),
                       constantOf(record, {-1, -1}), first);
  auto countsOf = [&](Value records) {
    return reduce(ReduceSumOp(), create<MaxOp>(records, zero));
  };
  Value ownCounts = countsOf(ownRecords), sumCounts = countsOf(sumRecords);
  // A sum of finite gradients may overflow without an overflow on any rank.
  Value counts =
      create<SelectOp>(create<CompareOp>(ComparePredicate::gt, ownCounts, zero),
                       ownCounts, sumCounts);
  Value isCount =
      create<mpc::ConstantOp>(cast<ElementsAttr>(DenseElementsAttr::get(
          record.clone(builder.getI1Type()), ArrayRef<bool>{false, true})));
  group.record = create<SelectOp>(isCount, counts, first);
  if (!sharded)
    return;
  auto one = RankedTensorType::get({1}, i64);
  Value bad =
      create<SliceOp>(one, sumCounts, builder.getDenseI64ArrayAttr({1}),
                      builder.getDenseI64ArrayAttr({1}), DenseI64ArrayAttr());
  bad = create<ReshapeOp>(RankedTensorType::get({}, i64), bad);
  group.finite = create<CompareOp>(ComparePredicate::eq, bad, constant(i64, 0));
  group.when = group.finite;
}

Value LossScaling::normOfPieces(const Group &group, ValueRange pieces,
                                Value unscale, UnscaleMode mode) {
  Type f32 = builder.getF32Type();
  auto rowOf = [&](int64_t count) {
    return RankedTensorType::get({count}, f32);
  };
  auto sum = [&](RankedTensorType type, Value values, bool keeps) -> Value {
    return ReduceSumOp::create(builder, loc, type, values,
                               builder.getDenseI64ArrayAttr({0}),
                               keeps ? builder.getUnitAttr() : UnitAttr(),
                               /*accumulate=*/TypeAttr());
  };
  SmallVector<Value> sums;
  for (Value piece : pieces) {
    Value value = castTo(piece, f32);
    if (unscale && mode == UnscaleMode::divide)
      value = create<DivOp>(value, castTo(unscale, f32));
    else if (unscale)
      value = create<MulOp>(value, castTo(unscale, f32));
    sums.push_back(sum(rowOf(1), create<MulOp>(value, value), /*keeps=*/true));
  }
  int64_t tensors = sums.size(), ranks = ranksOf(group);
  Value own = tensors == 1 ? sums.front()
                           : create<ConcatOp>(rowOf(tensors), sums, /*axis=*/0);
  auto table = RankedTensorType::get({ranks, tensors}, f32);
  Value all = AllGatherOp::create(builder, loc, TypeRange(Type(table)),
                                  ValueRange(own), uint64_t(ranks))
                  .getOutputs()
                  .front();
  Value squares = sum(rowOf(tensors), all, /*keeps=*/false);
  if (preset.clip == LossScalePreset::Clip::Torch)
    return create<GlobalNormOp>(RankedTensorType::get({}, f32),
                                create<SqrtOp>(squares), Value(),
                                UnscaleMode::multiply, /*of_norms=*/false);
  return create<SqrtOp>(
      sum(RankedTensorType::get({}, f32), squares, /*keeps=*/false));
}
