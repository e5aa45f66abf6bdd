//===- AttachOptimizer.cpp - gradients to parameter updates ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract in: results "NAME.gradient" of role output from mpc-differentiate.
// Contract out: every state is an argument and the result that updates it; a
// forward-backward function keeps its gradients as results.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/CreateChecked.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcOptimizerOps.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Dialect/Mpc/Training/Passes.h"
#include "mpc/Support/StepNames.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_ATTACHOPTIMIZERPASS
#include "mpc/Dialect/Mpc/Training/Passes.h.inc"
} // namespace mpc

//===----------------------------------------------------------------------===//
// Optimizers by name
//===----------------------------------------------------------------------===//

namespace {

struct OptimizerKind {
  StringRef name;
  StringRef opName;
  bool decoupled = false;
  /// Default weight decay of torch's and keras's form.
  double torchDecay = 0, kerasDecay = 0;
  /// Keras defaults that differ from the op's.
  SmallVector<std::pair<StringRef, double>, 2> kerasNumbers;
  /// Initial value of optimizer states in keras's form.
  double kerasState = 0;
};

const OptimizerKind *findOptimizer(StringRef name) {
  static const OptimizerKind kinds[] = {
      {"sgd", OptimizerSgdOp::getOperationName(), false, 0, 0, {}},
      {"adam",
       OptimizerAdamOp::getOperationName(),
       false,
       0,
       0,
       {{"epsilon", 1e-7}}},
      {"adamw",
       OptimizerAdamOp::getOperationName(),
       true,
       1e-2,
       4e-3,
       {{"epsilon", 1e-7}}},
      {"rmsprop",
       OptimizerRmspropOp::getOperationName(),
       false,
       0,
       0,
       {{"alpha", 0.9}, {"epsilon", 1e-7}}},
      {"adagrad",
       OptimizerAdagradOp::getOperationName(),
       false,
       0,
       0,
       {{"epsilon", 1e-7}},
       /*kerasState=*/0.1},
  };
  for (const OptimizerKind &kind : kinds)
    if (kind.name == name)
      return &kind;
  return nullptr;
}

bool isFlag(StringRef name) {
  return llvm::is_contained({"nesterov", "amsgrad", "centered", "maximize"},
                            name);
}

constexpr StringLiteral kShare = "at least 0 and less than 1",
                        kNotNegative = "finite and not negative",
                        kFinite = "finite";

/// Describes the valid range of a hyperparameter.
StringRef rangeOf(StringRef name) {
  if (name == "beta1" || name == "beta2" || name == "alpha")
    return kShare;
  return name == "dampening" ? kFinite : kNotNegative;
}

bool isIn(double value, StringRef range) {
  return std::isfinite(value) && (range == kFinite || value >= 0) &&
         (range != kShare || value < 1);
}

/// Attributes of the op that are hyperparameters.
SmallVector<StringRef> constantFloats(OperationName op) {
  SmallVector<StringRef> names;
  for (StringAttr name : op.getAttributeNames())
    if (!llvm::is_contained({"unscale_mode", "form", "fuse", "decoupled",
                             "weight_decay", "operandSegmentSizes",
                             "resultSegmentSizes"},
                            name.getValue()))
      names.push_back(name.getValue());
  return names;
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

enum class Part { Step, ForwardBackward, Apply };

struct AttachOptimizerPass
    : mpc::impl::AttachOptimizerPassBase<AttachOptimizerPass> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    auto fail = [&] { return emitError(UnknownLoc::get(context)); };
    std::optional<Part> parsed =
        llvm::StringSwitch<std::optional<Part>>(part)
            .Case("step", Part::Step)
            .Case("forward-backward", Part::ForwardBackward)
            .Case("apply", Part::Apply)
            .Default(std::nullopt);
    if (!parsed)
      return fail() << "unknown part '" << part
                    << "'; use step, forward-backward or apply";
    kind = findOptimizer(optimizer);
    if (!kind)
      return fail() << "unknown optimizer '" << optimizer
                    << "'; use sgd, adam, adamw, rmsprop or adagrad";
    if (form != "torch" && form != "keras")
      return fail() << "unknown form '" << form << "'; use torch or keras";
    rate = symbolizeScheduleKind(schedule);
    if (!rate)
      return fail() << "unknown schedule '" << schedule
                    << "'; use constant, step, cosine or linear";
    chosen = *parsed;
    return readNumbers(context);
  }

  LogicalResult readNumbers(MLIRContext *context) {
    auto fail = [&] { return emitError(UnknownLoc::get(context)); };
    bool keras = form == "keras";
    Builder builder(context);
    attributes.clear();
    SmallVector<StringRef> known =
        constantFloats(OperationName(kind->opName, context));
    auto set = [&](StringRef name, double value) {
      if (!isFlag(name))
        attributes.set(name, builder.getF64FloatAttr(value));
      else if (value != 0)
        attributes.set(name, builder.getUnitAttr());
    };
    if (keras)
      for (auto [name, value] : kind->kerasNumbers)
        set(name, value);
    for (StringRef text : numbers) {
      auto [name, digits] = text.split('=');
      double value = 0;
      if (!llvm::is_contained(known, name))
        return fail() << "optimizer '" << kind->name
                      << "' has no hyperparameter '" << name << "'; it has "
                      << llvm::join(known, ", ");
      if (digits.getAsDouble(value))
        return fail() << "number '" << name << "' of optimizer '" << kind->name
                      << "' is '" << digits << "', which is not a number";
      if (StringRef range = rangeOf(name); !isIn(value, range))
        return fail() << "number '" << name << "' of optimizer '" << kind->name
                      << "' is " << digits << ", but must be " << range;
      set(name, value);
    }
    double decay = weightDecay;
    if (decay < 0)
      decay = keras ? kind->kerasDecay : kind->torchDecay;
    set("weight_decay", decay);
    if (kind->decoupled)
      attributes.set("decoupled", builder.getUnitAttr());
    attributes.set(
        "form", OptimizerFormAttr::get(context, keras ? OptimizerForm::keras
                                                      : OptimizerForm::torch));
    return success();
  }

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (func.isDeclaration() || !func.isPublic())
      return;
    // A forward-backward function returns its gradients already.
    StepFunction step(func);
    if (chosen == Part::Apply)
      keepParameters(step);
    if (chosen != Part::ForwardBackward && failed(update(step)))
      signalPassFailure();
  }

  /// Erases everything but the parameters, and adds arguments for their
  /// gradients.
  void keepParameters(const StepFunction &step) {
    func::FuncOp func = step.getFunction();
    step.terminator().getOperandsMutable().clear();
    while (func.getNumResults())
      (void)func.eraseResult(func.getNumResults() - 1);
    while (Operation *last = step.terminator()->getPrevNode())
      last->erase();
    llvm::BitVector others(func.getNumArguments());
    for (unsigned i = 0; i < func.getNumArguments(); ++i)
      if (RoleAttr role = step.argumentRole(i);
          !role || role.getKind() != RoleKind::parameter)
        others.set(i);
    (void)func.eraseArguments(others);
    StepFunction::Ports ports(step);
    for (BlockArgument parameter : step.arguments(RoleKind::parameter))
      step.appendArgument(parameter.getType(), RoleKind::optimizer_state,
                          gradientName(step, parameter));
  }

  static std::string gradientName(const StepFunction &step,
                                  BlockArgument parameter) {
    return (step.argumentName(parameter.getArgNumber()) + kGradientSuffix)
        .str();
  }

  /// Returns the gradient of a parameter, removed from the function's results
  /// or taken from its arguments.
  FailureOr<Value> takeGradient(const StepFunction &step,
                                BlockArgument parameter) {
    std::string name = gradientName(step, parameter);
    if (chosen == Part::Apply)
      return Value(step.findArgument(RoleKind::optimizer_state, name));
    std::optional<unsigned> index = step.findResult(RoleKind::output, name);
    if (!index)
      return step.getFunction().emitError()
             << "there is no result '" << name
             << "'; mpc-differentiate appends one for each parameter";
    Value gradient = step.result(*index);
    step.eraseResult(*index);
    return gradient;
  }

  //===--------------------------------------------------------------------===//
  // Updates
  //===--------------------------------------------------------------------===//

  static Location locationOf(const StepFunction &step,
                             BlockArgument parameter) {
    return NameLoc::get(StringAttr::get(
        parameter.getContext(), step.argumentName(parameter.getArgNumber())));
  }

  LogicalResult update(const StepFunction &step) {
    SmallVector<BlockArgument> parameters = step.arguments(RoleKind::parameter);
    if (parameters.empty())
      return step.getFunction().emitError()
             << "the function has no parameter to train";
    Type counter =
        RankedTensorType::get({}, Builder(&getContext()).getI64Type());
    StepFunction::Ports ports(step);
    BlockArgument count =
        step.appendArgument(counter, RoleKind::optimizer_step, "step");
    for (BlockArgument parameter : parameters) {
      FailureOr<Value> gradient = takeGradient(step, parameter);
      if (failed(gradient) ||
          failed(updateOne(step, parameter, *gradient, count)))
        return failure();
      ++numUpdates;
    }
    OpBuilder builder = step.atEnd();
    Location loc = NameLoc::get(builder.getStringAttr("step"));
    Value one =
        ConstantOp::create(builder, loc, scalarOf(builder.getI64Type(), 1));
    step.setUpdate(count, AddOp::create(builder, loc, counter, count, one));
    return success();
  }

  /// Returns the learning rate of the step as a scalar of the parameter's type,
  /// one op for all parameters.
  Value learningRateOf(const StepFunction &step, BlockArgument count,
                       Type element) {
    for (Operation *user : count.getUsers())
      if (auto op = dyn_cast<LearningRateOp>(user);
          op && getElementTypeOrSelf(op.getType()) == element)
        return op.getResult();
    OpBuilder builder = step.atEnd();
    FailureOr<Operation *> op = createChecked(
        builder, NameLoc::get(builder.getStringAttr("learning_rate")),
        LearningRateOp::getOperationName(), RankedTensorType::get({}, element),
        count,
        {builder.getNamedAttr("base", builder.getF64FloatAttr(learningRate)),
         builder.getNamedAttr("kind",
                              ScheduleKindAttr::get(&getContext(), *rate)),
         builder.getNamedAttr("warmup", builder.getI64IntegerAttr(warmup)),
         builder.getNamedAttr("steps", builder.getI64IntegerAttr(steps)),
         builder.getNamedAttr("final", builder.getF64FloatAttr(finalRate)),
         builder.getNamedAttr("period", builder.getI64IntegerAttr(period)),
         builder.getNamedAttr("gamma", builder.getF64FloatAttr(gamma))});
    return succeeded(op) ? (*op)->getResult(0) : Value();
  }

  LogicalResult updateOne(const StepFunction &step, BlockArgument parameter,
                          Value gradient, BlockArgument count) {
    Type type = parameter.getType();
    StringRef name = step.argumentName(parameter.getArgNumber());
    Location loc = locationOf(step, parameter);
    Value rate = learningRateOf(step, count, getElementTypeOrSelf(type));
    if (!rate)
      return failure();
    // The states depend on the hyperparameters.
    OpBuilder builder = step.atEnd();
    Operation *sample =
        builder.create(stateFor(loc, parameter, gradient, {}, count, rate));
    SmallVector<std::string> stateNames;
    for (StringRef state : cast<OptimizerOpInterface>(sample).getStateNames())
      stateNames.push_back((name + "." + state).str());
    sample->erase();
    SmallVector<BlockArgument> states;
    for (StringRef state : stateNames)
      states.push_back(step.appendArgument(type, RoleKind::optimizer_state,
                                           state, initialState(type)));
    OpBuilder end = step.atEnd();
    SmallVector<Value> values(states.begin(), states.end());
    Operation *op =
        end.create(stateFor(loc, parameter, gradient, values, count, rate));
    if (failed(mlir::verify(op)))
      return failure();
    auto optimizerOp = cast<OptimizerOpInterface>(op);
    step.setUpdate(parameter, optimizerOp.getNewParameter());
    for (auto [state, value] :
         llvm::zip_equal(states, optimizerOp.getNewStates()))
      step.setUpdate(state, value);
    return success();
  }

  /// Returns null if a state starts at zero, the default.
  ElementsAttr initialState(Type type) {
    if (form != "keras" || kind->kerasState == 0)
      return {};
    auto tensor = cast<RankedTensorType>(type);
    return SplatElementsAttr::get(
        tensor,
        Attribute(FloatAttr::get(tensor.getElementType(), kind->kerasState)));
  }

  OperationState stateFor(Location loc, BlockArgument parameter, Value gradient,
                          ArrayRef<Value> states, BlockArgument count,
                          Value rate) {
    OperationState state(loc, kind->opName);
    state.addOperands({parameter, gradient});
    state.addOperands(states);
    state.addOperands({count, rate});
    SmallVector<Type> types(1 + states.size(), parameter.getType());
    state.addTypes(types);
    state.addAttributes(attributes.getAttrs());
    Builder builder(&getContext());
    int32_t count32 = int32_t(states.size());
    state.addAttribute("operandSegmentSizes",
                       builder.getDenseI32ArrayAttr(
                           {1, 1, count32, 1, 1, /*when=*/0, /*unscale=*/0}));
    state.addAttribute("resultSegmentSizes",
                       builder.getDenseI32ArrayAttr({1, count32, /*copy=*/0}));
    return state;
  }

  Part chosen = Part::Step;
  const OptimizerKind *kind = nullptr;
  std::optional<ScheduleKind> rate;
  NamedAttrList attributes;
};

} // namespace
