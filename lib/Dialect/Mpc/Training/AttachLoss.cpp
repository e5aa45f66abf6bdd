//===- AttachLoss.cpp - append a label and a loss -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract in: Simplify's, where a softmax is one op. Contract out: one result
// of role loss. Runs before mpc-differentiate, which starts at that result.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/CreateChecked.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLossOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Dialect/Mpc/Training/Passes.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_ATTACHLOSSPASS
#include "mpc/Dialect/Mpc/Training/Passes.h.inc"
} // namespace mpc

namespace {

enum class LossKind {
  SoftmaxCrossEntropy,
  SigmoidCrossEntropy,
  MeanSquaredError,
  MeanAbsoluteError,
  Huber,
  /// The model's own loss output.
  Output,
};

std::optional<LossKind> parseLoss(StringRef name) {
  return llvm::StringSwitch<std::optional<LossKind>>(name)
      .Case("softmax_cross_entropy", LossKind::SoftmaxCrossEntropy)
      .Case("sigmoid_cross_entropy", LossKind::SigmoidCrossEntropy)
      .Case("mean_squared_error", LossKind::MeanSquaredError)
      .Case("mean_absolute_error", LossKind::MeanAbsoluteError)
      .Case("huber", LossKind::Huber)
      .Case("output", LossKind::Output)
      .Default(std::nullopt);
}

StringRef opNameOf(LossKind kind) {
  switch (kind) {
  case LossKind::SoftmaxCrossEntropy:
    return SoftmaxCrossEntropyOp::getOperationName();
  case LossKind::SigmoidCrossEntropy:
    return SigmoidCrossEntropyOp::getOperationName();
  case LossKind::MeanSquaredError:
    return MeanSquaredErrorOp::getOperationName();
  case LossKind::MeanAbsoluteError:
    return MeanAbsoluteErrorOp::getOperationName();
  case LossKind::Huber:
    return HuberOp::getOperationName();
  case LossKind::Output:
    break;
  }
  return {};
}

int64_t rankOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getRank();
}

/// Returns the class axis: the last one, for images [N, C, H, W] the channels.
int64_t classAxis(Value predictions) {
  int64_t rank = rankOf(predictions);
  return rank == 4 ? 1 : rank - 1;
}

/// Appends underscores to `name` until no argument or result has it.
std::string unusedName(const StepFunction &step, StringRef name) {
  func::FuncOp func = step.getFunction();
  llvm::StringSet<> used;
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    used.insert(step.argumentName(i));
  for (unsigned i = 0; i < func.getNumResults(); ++i)
    used.insert(step.resultName(i));
  std::string unused = name.str();
  while (used.contains(unused))
    unused += "_";
  return unused;
}

/// Returns the final softmax or sigmoid that the loss op includes, or null.
Operation *terminalActivation(Value value, LossKind kind) {
  while (auto cast = value.getDefiningOp<CastOp>())
    value = cast.getInput();
  Operation *op = value.getDefiningOp();
  if (kind == LossKind::SigmoidCrossEntropy)
    return isa_and_present<SigmoidOp>(op) ? op : nullptr;
  if (kind != LossKind::SoftmaxCrossEntropy)
    return nullptr;
  int64_t axis = -1;
  if (auto softmax = dyn_cast_if_present<SoftmaxOp>(op))
    axis = softmax.getAxis();
  else if (auto softmax = dyn_cast_if_present<LogSoftmaxOp>(op))
    axis = softmax.getAxis();
  return axis == classAxis(value) ? op : nullptr;
}

struct AttachLossPass : mpc::impl::AttachLossPassBase<AttachLossPass> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    auto fail = [&] { return emitError(UnknownLoc::get(context)); };
    std::optional<LossKind> parsed = parseLoss(loss);
    if (!parsed)
      return fail() << "unknown loss '" << loss
                    << "'; use softmax_cross_entropy, sigmoid_cross_entropy, "
                       "mean_squared_error, mean_absolute_error, huber or "
                       "output";
    kind = *parsed;
    if (kind == LossKind::Output)
      return success();
    if (!llvm::is_contained({"", "classes", "dense"}, StringRef(labels)))
      return fail() << "unknown labels '" << labels
                    << "'; use classes or dense";
    bool isSoftmax = kind == LossKind::SoftmaxCrossEntropy;
    hasClasses = labels.empty() ? isSoftmax : labels == "classes";
    if (hasClasses && !isSoftmax)
      return fail() << "loss '" << loss << "' takes dense labels, not classes";
    if (!ignoreIndex.empty()) {
      int64_t number = 0;
      if (StringRef(ignoreIndex).getAsInteger(10, number))
        return fail() << "the ignored class is '" << ignoreIndex
                      << "', which is not an integer";
      // Labels are i32.
      if (!llvm::isInt<32>(number))
        return fail() << "the ignored class is " << number
                      << ", which does not fit in the 32 bits of a label; use "
                         "a value such as -100";
      if (!hasClasses)
        return fail() << "an ignored class needs labels that are classes";
      ignored = number;
    }
    return success();
  }

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (func.isDeclaration() || !func.isPublic())
      return;
    if (failed(attach(StepFunction(func))))
      signalPassFailure();
  }

  LogicalResult attach(const StepFunction &step) {
    func::FuncOp func = step.getFunction();
    if (!step.results(RoleKind::loss).empty())
      return func.emitError() << "the function already has a loss";
    FailureOr<unsigned> index = lossOutput(step);
    if (failed(index))
      return failure();
    if (kind == LossKind::Output)
      return takeOutput(step, *index);
    Value predictions = step.result(*index);
    auto element =
        dyn_cast<FloatType>(getElementTypeOrSelf(predictions.getType()));
    if (!element)
      return func.emitError() << "output '" << step.resultName(*index)
                              << "' of type " << predictions.getType()
                              << " cannot have a loss; it must be float";
    OpBuilder builder = step.atEnd();
    Location loc =
        NameLoc::get(builder.getStringAttr("loss"), predictions.getLoc());
    Operation *activation =
        bypass ? terminalActivation(predictions, kind) : nullptr;
    if (activation) {
      activation->emitRemark()
          << "loss '" << loss << "' replaces '" << mpc::opName(activation)
          << "' and reads its input: the loss computes the "
          << activation->getName().stripDialect() << " itself";
      predictions = activation->getOperand(0);
    }
    predictions = prepare(builder, loc, predictions);
    if (kind == LossKind::SoftmaxCrossEntropy && rankOf(predictions) == 0)
      return func.emitError() << "output '" << step.resultName(*index)
                              << "' is a scalar, which has no classes";
    auto type = cast<RankedTensorType>(predictions.getType());
    if (hasClasses)
      type = RankedTensorType::get(type.getShape().drop_back(),
                                   builder.getI32Type());
    BlockArgument label =
        step.appendArgument(type, RoleKind::label, unusedName(step, "label"));
    FailureOr<Operation *> op = createChecked(
        builder, loc, opNameOf(kind),
        RankedTensorType::get({}, getElementTypeOrSelf(predictions.getType())),
        {predictions, label}, attributes(builder));
    if (failed(op))
      return failure();
    return returnLoss(step, (*op)->getResult(0), unusedName(step, "loss"));
  }

  /// Makes `loss` the first result.
  LogicalResult returnLoss(const StepFunction &step, Value loss,
                           StringRef name) {
    Builder names(&getContext());
    LogicalResult inserted = step.getFunction().insertResult(
        0, loss.getType(),
        names.getDictionaryAttr(
            {names.getNamedAttr(
                 MpcDialect::kRoleAttr,
                 RoleAttr::get(&getContext(), RoleKind::loss, StringAttr())),
             names.getNamedAttr(MpcDialect::kNameAttr,
                                names.getStringAttr(name))}));
    step.terminator()->insertOperands(0, loss);
    return inserted;
  }

  /// Makes result `index` the loss and an input the labels.
  LogicalResult takeOutput(const StepFunction &step, unsigned index) {
    func::FuncOp func = step.getFunction();
    Value value = step.result(index);
    auto type = cast<RankedTensorType>(value.getType());
    std::string name = step.resultName(index).str();
    if (type.getRank() != 0 || !isa<FloatType>(type.getElementType()))
      return func.emitError()
             << "output '" << name << "' of type " << type
             << " is not a loss, which must be a scalar float; choose another "
                "output or another kind of loss";
    BlockArgument label;
    SmallVector<StringRef> inputs;
    for (BlockArgument argument : step.arguments(RoleKind::input)) {
      inputs.push_back(step.argumentName(argument.getArgNumber()));
      if (labels.empty() || inputs.back() == labels)
        label = argument;
    }
    if (!label)
      return func.emitError()
             << "the labels are to be input '" << labels
             << "', but the model's inputs are " << llvm::join(inputs, ", ");
    func.setArgAttr(
        label.getArgNumber(), MpcDialect::kRoleAttr,
        RoleAttr::get(&getContext(), RoleKind::label, StringAttr()));
    if (type.getElementTypeBitWidth() < 32) {
      OpBuilder builder = step.atEnd();
      value = CastOp::create(builder, value.getLoc(),
                             type.clone(builder.getF32Type()), value);
    }
    step.eraseResult(index);
    return returnLoss(step, value, name);
  }

  /// Returns the index of the result that the loss reads.
  FailureOr<unsigned> lossOutput(const StepFunction &step) {
    SmallVector<unsigned> outputs = step.results(RoleKind::output);
    SmallVector<StringRef> known;
    for (unsigned index : outputs) {
      if (!output.empty() && step.resultName(index) == output)
        return index;
      known.push_back(step.resultName(index));
    }
    if (output.empty() && outputs.size() == 1)
      return outputs.front();
    InFlightDiagnostic diag = step.getFunction().emitError();
    if (output.empty())
      diag << "there are " << outputs.size()
           << " outputs; set output to the one that the loss reads: ";
    else
      diag << "the loss is to read output '" << output
           << "', but the outputs are ";
    diag << llvm::join(known, ", ");
    return failure();
  }

  /// Returns the predictions in the loss's type with classes last.
  Value prepare(OpBuilder &builder, Location loc, Value predictions) {
    auto type = cast<RankedTensorType>(predictions.getType());
    if (type.getElementTypeBitWidth() < 32)
      predictions = CastOp::create(
          builder, loc, type.clone(builder.getF32Type()), predictions);
    int64_t rank = type.getRank(), axis = rank ? classAxis(predictions) : 0;
    if (kind != LossKind::SoftmaxCrossEntropy || axis + 1 >= rank)
      return predictions;
    SmallVector<int64_t> order, shape;
    for (int64_t i = 0; i < rank; ++i)
      if (i != axis)
        order.push_back(i);
    order.push_back(axis);
    for (int64_t i : order)
      shape.push_back(type.getDimSize(i));
    return TransposeOp::create(
        builder, loc,
        RankedTensorType::get(shape,
                              getElementTypeOrSelf(predictions.getType())),
        predictions, order);
  }

  SmallVector<NamedAttribute> attributes(Builder &builder) {
    SmallVector<NamedAttribute> list;
    if (kind == LossKind::SoftmaxCrossEntropy) {
      list.push_back(builder.getNamedAttr(
          "label_smoothing", builder.getF64FloatAttr(labelSmoothing)));
      if (ignored)
        list.push_back(builder.getNamedAttr(
            "ignore_index", builder.getI64IntegerAttr(*ignored)));
    }
    if (kind == LossKind::Huber)
      list.push_back(
          builder.getNamedAttr("delta", builder.getF64FloatAttr(delta)));
    return list;
  }

  LossKind kind = LossKind::SoftmaxCrossEntropy;
  bool hasClasses = true;
  std::optional<int64_t> ignored;
};

} // namespace
