//===- Differentiator.cpp - reverse-mode differentiation ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reverse-mode automatic differentiation: visits the ops from the losses
// backwards, each with the accumulated cotangents of its results, and appends
// the parameters' gradients.
//
//===----------------------------------------------------------------------===//

#include "../Transforms/Decompose.h"
#include "CotangentAccumulator.h"
#include "EraseArgument.h"
#include "SeedLinearization.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcRecurrentOps.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Dialect/Mpc/Training/Differentiate.h"
#include "mpc/Support/StepNames.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace mpc;

namespace {

class Differentiator {
public:
  Differentiator(func::FuncOp function, const DifferentiationOptions &options)
      : function(function), options(options), step(function),
        block(step.body()), builder(block.getTerminator()),
        cotangents(builder) {}

  FailureOr<DifferentiationCounts> run();

private:
  LogicalResult seedLosses(ArrayRef<unsigned> losses);
  FailureOr<Value> differentiatedResult(ArrayRef<unsigned> losses);
  void markActive();
  LogicalResult takeRecurrentOpsApart();
  LogicalResult writeVjp(Operation *op, ArrayRef<Value> results);
  void appendGradients();
  void appendGradient(BlockArgument parameter, Value gradient);
  FailureOr<SeedLinearization> takeCotangent();
  LogicalResult nameGradients(const SeedLinearization &powers);
  LogicalResult hasNoDerivative(Operation *op);

  /// Returns true if a value is a float that depends on a parameter.
  bool isActive(Value value) const { return active.contains(value); }

  func::FuncOp function;
  DifferentiationOptions options;
  StepFunction step;
  Block &block;
  OpBuilder builder;
  CotangentAccumulator cotangents;
  DenseSet<Value> active;
  /// For a function with its own backward pass, the result whose cotangent the
  /// gradients are computed from; else null.
  Value output;
  /// Seed of the last loss.
  Value seed;
  DifferentiationCounts counts;
};

} // namespace

void Differentiator::markActive() {
  active.clear();
  if (output)
    active.insert(output);
  else
    for (BlockArgument parameter : step.arguments(RoleKind::parameter))
      if (isFloatTensor(parameter))
        active.insert(parameter);
  for (Operation &op : block) {
    if (isa<StopGradientOp>(op) ||
        llvm::none_of(op.getOperands(), [&](Value v) { return isActive(v); }))
      continue;
    for (Value result : op.getResults())
      if (isFloatTensor(result))
        active.insert(result);
  }
}

LogicalResult Differentiator::takeRecurrentOpsApart() {
  if (output)
    return success();
  SmallVector<Operation *> recurrent;
  for (Operation &op : block)
    if (isa<LstmOp, GruOp, RnnOp, RecurrenceOp>(op) &&
        llvm::any_of(op.getResults(), [&](Value v) { return isActive(v); }))
      recurrent.push_back(&op);
  for (Operation *op : recurrent) {
    OpBuilder before(op);
    bool splits =
        options.splitRecurrent &&
        getElementTypeOrSelf(op->getResult(0)).getIntOrFloatBitWidth() >= 32;
    SmallVector<Value> values;
    if (shapeOf(op->getResult(0))[0] > 0)
      values = splits ? splitRecurrent(before, op, /*keeps=*/true)
               : isa<RecurrenceOp>(op) ? unrollRecurrence(before, op)
                                       : unrollRecurrent(before, op);
    if (values.empty())
      return op->emitOpError("has no steps to unroll");
    op->replaceAllUsesWith(values);
    op->erase();
    ++(splits ? counts.split : counts.unrolled);
  }
  if (!recurrent.empty())
    markActive();
  return success();
}

LogicalResult Differentiator::seedLosses(ArrayRef<unsigned> losses) {
  bool reached = false;
  for (unsigned index : losses) {
    Value loss = step.result(index);
    auto type = dyn_cast<RankedTensorType>(loss.getType());
    if (!type || type.getRank() != 0 || !isFloatTensor(loss))
      return function.emitOpError()
             << "returns a loss of type " << loss.getType()
             << ", expected a float tensor without dimensions";
    if (!isActive(loss))
      continue;
    reached = true;
    if (!seed || seed.getType() != loss.getType())
      seed = GradientSeedOp::create(builder, loss.getLoc(), loss.getType());
    cotangents.add(loss, seed);
  }
  if (!reached)
    return function.emitOpError(
        "has a loss that depends on no parameter; set trainable");
  return success();
}

LogicalResult Differentiator::hasNoDerivative(Operation *op) {
  InFlightDiagnostic diagnostic = op->emitOpError(
      "has no derivative but is between a parameter and the loss; insert "
      "mpc.stop_gradient before it or freeze the parameter");
  for (Value operand : op->getOperands())
    if (isActive(operand)) {
      diagnostic.attachNote(operand.getLoc())
          << "this value depends on a parameter";
      break;
    }
  return diagnostic;
}

LogicalResult Differentiator::writeVjp(Operation *op, ArrayRef<Value> results) {
  auto model = dyn_cast<VjpOpInterface>(op);
  if (!model)
    return hasNoDerivative(op);
  SmallVector<bool> needed = llvm::map_to_vector(
      op->getOperands(), [&](Value v) { return isActive(v); });
  SmallVector<Value> given(op->getNumOperands());
  Operation *before = block.getTerminator()->getPrevNode();
  if (failed(model.buildVjp(builder, results, needed, given)))
    return failure();
  // Derivatives inherit only the layer attribute of the forward op.
  Attribute layer = op->getDiscardableAttr(MpcDialect::kLayerAttr);
  for (Operation *made = before->getNextNode(); made != block.getTerminator();
       made = made->getNextNode()) {
    made->setDiscardableAttrs(ArrayRef<NamedAttribute>());
    if (layer && !isa<ConstantOp>(made))
      made->setDiscardableAttr(MpcDialect::kLayerAttr, layer);
  }
  for (auto [operand, value] : llvm::zip_equal(op->getOperands(), given))
    if (value)
      cotangents.add(operand, value);
  ++counts.vjps;
  return success();
}

void Differentiator::appendGradients() {
  StepFunction::Ports ports(step);
  for (BlockArgument parameter : step.arguments(RoleKind::parameter))
    if (isFloatTensor(parameter))
      appendGradient(parameter, cotangents.take(parameter));
}

/// Appends the gradient of a parameter as a result; null means zero.
void Differentiator::appendGradient(BlockArgument parameter, Value gradient) {
  StringRef name = step.argumentName(parameter.getArgNumber());
  auto type = cast<RankedTensorType>(parameter.getType());
  if (!gradient) {
    emitRemark(function.getLoc()) << "the loss does not depend on parameter '"
                                  << name << "': its gradient is zero";
    gradient = mpc::ConstantOp::create(builder, parameter.getLoc(),
                                       makeSplat(type, 0.0));
  } else if (gradient.getType() != type) {
    gradient = CastOp::create(builder, gradient.getLoc(), type, gradient);
  }
  step.appendResult(gradient, RoleKind::output, (name + kGradientSuffix).str());
  ++counts.parameters;
}

//===----------------------------------------------------------------------===//
// Functions with their own backward pass
//===----------------------------------------------------------------------===//

FailureOr<Value>
Differentiator::differentiatedResult(ArrayRef<unsigned> losses) {
  if (options.output.empty())
    return step.result(losses.front());
  for (RoleKind kind : {RoleKind::loss, RoleKind::output})
    if (std::optional<unsigned> found = step.findResult(kind, options.output))
      return step.result(*found);
  return function.emitError()
         << "has no result '" << options.output
         << "', from whose cotangent its gradients are computed";
}

FailureOr<SeedLinearization> Differentiator::takeCotangent() {
  BlockArgument taken = step.findArgument(RoleKind::input, options.cotangent);
  if (!taken)
    return function.emitError() << "has no input '" << options.cotangent
                                << "' that takes the cotangent of a result";
  if (taken.getType() != output.getType())
    return function.emitError()
           << "takes the cotangent of a result of type " << output.getType()
           << " as input '" << options.cotangent << "' of type "
           << taken.getType();
  Value cotangent = cotangents.take(output);
  taken.replaceAllUsesWith(cotangent);
  eraseArgument(function, taken.getArgNumber());
  // The loss comes after the backward pass, which now starts at the loss.
  sortTopologically(&block);
  builder = step.atEnd();
  SeedLinearization powers(seed, cotangent);
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
    powers.visit(&op);
  return powers;
}

LogicalResult Differentiator::nameGradients(const SeedLinearization &powers) {
  StepFunction::Ports ports(step);
  for (StringRef text : options.gradients) {
    auto [name, result] = text.rsplit('=');
    std::optional<unsigned> found = step.findResult(RoleKind::output, result);
    if (!found)
      return function.emitError() << "has no result '" << result
                                  << "', the gradient of '" << name << "'";
    Value gradient = step.result(*found);
    step.eraseResult(*found);
    BlockArgument parameter = step.findArgument(RoleKind::parameter, name);
    if (!parameter)
      continue;
    if (shapeOf(parameter) != shapeOf(gradient))
      return function.emitError()
             << "has a gradient '" << result << "' of type "
             << gradient.getType() << " for parameter '" << name << "' of type "
             << parameter.getType();
    appendGradient(parameter, powers.gradient(builder, gradient));
  }
  for (BlockArgument parameter : step.arguments(RoleKind::parameter)) {
    StringRef name = step.argumentName(parameter.getArgNumber());
    if (!step.findResult(RoleKind::output, (name + kGradientSuffix).str()))
      return function.emitError()
             << "computes no gradient of parameter '" << name << "'";
  }
  return success();
}

FailureOr<DifferentiationCounts> Differentiator::run() {
  SmallVector<unsigned> losses = step.results(RoleKind::loss);
  if (losses.empty())
    return counts;
  if (!options.gradients.empty()) {
    FailureOr<Value> found = differentiatedResult(losses);
    if (failed(found))
      return failure();
    output = *found;
  }
  markActive();
  if (failed(takeRecurrentOpsApart()) || failed(seedLosses(losses)))
    return failure();

  // Snapshot: ops appended meanwhile are not differentiated.
  SmallVector<Operation *> forward;
  for (Operation &op : block.without_terminator())
    forward.push_back(&op);
  for (Operation *op : llvm::reverse(forward)) {
    if (output && op == output.getDefiningOp())
      break;
    SmallVector<Value> results = llvm::map_to_vector(
        op->getResults(), [&](Value v) { return cotangents.take(v); });
    if (llvm::none_of(results, [](Value v) { return bool(v); }) ||
        llvm::none_of(op->getOperands(), [&](Value v) { return isActive(v); }))
      continue;
    if (cotangents.addSlice(op, results))
      ++counts.vjps;
    else if (failed(writeVjp(op, results)))
      return failure();
  }
  if (output) {
    FailureOr<SeedLinearization> powers = takeCotangent();
    if (failed(powers) || failed(nameGradients(*powers)))
      return failure();
    return counts;
  }
  appendGradients();
  // Erases dead ops: merged terms and unused scalars.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (&op == forward.back())
      break;
    if (isOpTriviallyDead(&op))
      op.erase();
  }
  return counts;
}

FailureOr<DifferentiationCounts>
mpc::differentiate(func::FuncOp function,
                   const DifferentiationOptions &options) {
  if (!function.getBody().hasOneBlock())
    return DifferentiationCounts();
  return Differentiator(function, options).run();
}
