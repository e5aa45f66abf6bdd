//===- LossScaling.cpp - scaled losses and predicated steps ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// New ops are appended before the return; a topological sort then moves
// optimizers after the flags that they read. Arithmetic of the presets:
// LossScalingArithmetic.cpp; state updates: LossScalingState.cpp.
//
//===----------------------------------------------------------------------===//

#include "LossScaling.h"

#include "mpc/Support/StepNames.h"

#include "mlir/Analysis/TopologicalSortUtils.h"

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
    return function.emitError() << "accumulation takes a window of 1 micro "
                                << "step or more, found " << options.accumulate;
  if ((options.clipNorm && !(*options.clipNorm > 0)) ||
      (options.clipValue && !(*options.clipValue > 0)))
    return function.emitError() << "clipping takes a positive limit, found "
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
             << "accumulation by micro step takes one step counter, found "
             << groups.size();
  } else if (options.accumulate > 1 && !seeds.empty() && !optimizers.empty()) {
    return function.emitError()
           << "accumulation over a window of " << options.accumulate
           << " needs backward pass and optimizers in two functions; compile "
              "the parts apart or choose accumulation=micro_step";
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
