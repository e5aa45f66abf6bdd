//===- ReverseMode.cpp - reverse-mode differentiation ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A derivative is built after a copy of its op, in a separate module whose
// function takes the operands; parts of the copy that the derivative does not
// use are removed. A recurrent op is unrolled there and differentiated as a
// graph.
//
//===----------------------------------------------------------------------===//

#include "mpc/Tuning/ReverseMode.h"

#include "../Dialect/Mpc/Transforms/Decompose.h"

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.h"
#include "mpc/Reference/Interpreter.h"

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mpc;
using mpc::reference::Tensor;

//===----------------------------------------------------------------------===//
// ForwardValues
//===----------------------------------------------------------------------===//

FailureOr<ForwardValues> ForwardValues::run(func::FuncOp function,
                                            ArrayRef<Tensor> arguments,
                                            const Observer &observer) {
  ForwardValues forward;
  for (auto [argument, tensor] :
       llvm::zip_equal(function.getArguments(), arguments))
    forward.values[argument] = std::make_shared<const Tensor>(tensor);
  reference::InterpretOptions options;
  options.observer = [&](Operation *op, MutableArrayRef<Tensor> results) {
    if (observer)
      observer(op, results);
    for (auto [result, tensor] : llvm::zip_equal(op->getResults(), results))
      forward.values[result] = std::make_shared<const Tensor>(tensor);
  };
  if (failed(reference::interpret(function, arguments, options)))
    return failure();
  return forward;
}

const Tensor *ForwardValues::get(Value value) {
  std::shared_ptr<const Tensor> &tensor = values[value];
  if (!tensor)
    if (auto constant = value.getDefiningOp<mpc::ConstantOp>())
      if (FailureOr<Tensor> read = Tensor::fromAttr(constant.getValue());
          succeeded(read))
        tensor = std::make_shared<const Tensor>(std::move(*read));
  return tensor.get();
}

FailureOr<SmallVector<Tensor>> ForwardValues::results(func::FuncOp function) {
  SmallVector<Tensor> results;
  for (Value result :
       function.getBody().front().getTerminator()->getOperands()) {
    const Tensor *tensor = get(result);
    if (!tensor)
      return function.emitOpError("returns a constant that cannot be read");
    results.push_back(*tensor);
  }
  return results;
}

int64_t ForwardValues::bytes() const {
  int64_t bytes = 0;
  for (const auto &[value, tensor] : values)
    if (tensor)
      bytes += tensor->size() * int64_t(sizeof(double));
  return bytes;
}

//===----------------------------------------------------------------------===//
// Derivatives of single ops
//===----------------------------------------------------------------------===//

struct ReverseModePass::Derivative {
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  /// Operands that the function takes, before the cotangents.
  SmallVector<unsigned> taken;
  /// Operands whose cotangents it returns.
  SmallVector<unsigned> given;
  /// For a recurrent op: its unrolled function, differentiated in turn.
  std::unique_ptr<ReverseModePass> steps;
};

ReverseModePass::ReverseModePass(func::FuncOp function) : function(function) {}
ReverseModePass::~ReverseModePass() = default;

/// Returns true if an operand's cotangent is needed: constants are only rounded
/// as GEMM operands.
static bool isWanted(OpOperand &operand) {
  if (!isFloatTensor(operand.get()))
    return false;
  Operation *op = operand.getOwner();
  if (!operand.get().getDefiningOp<mpc::ConstantOp>())
    return true;
  FusionClass family = fusionClassOf(op);
  return family == FusionClass::Contraction ||
         family == FusionClass::Convolution ||
         family == FusionClass::Attention || family == FusionClass::Recurrent;
}

/// Removes dead ops.
static void dropDead(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

ReverseModePass::Derivative *ReverseModePass::derivativeOf(Operation *op) {
  auto [entry, isNew] = derivatives.try_emplace(op);
  if (!isNew)
    return entry->second.get();
  auto made = std::make_unique<Derivative>();
  bool isRecurrent = fusionClassOf(op) == FusionClass::Recurrent;
  auto model = dyn_cast<VjpOpInterface>(op);
  if (!model && !isRecurrent)
    return nullptr;

  OpBuilder builder(op->getContext());
  made->module = ModuleOp::create(op->getLoc());
  builder.setInsertionPointToEnd(made->module->getBody());
  SmallVector<Type> types;
  for (OpOperand &operand : op->getOpOperands()) {
    // VJP rules inspect the values of small constants.
    if (operand.get().getDefiningOp<mpc::ConstantOp>() && !isWanted(operand))
      continue;
    made->taken.push_back(operand.getOperandNumber());
    types.push_back(operand.get().getType());
  }
  if (!isRecurrent)
    for (Value result : op->getResults())
      if (isFloatTensor(result))
        types.push_back(result.getType());
  made->function = func::FuncOp::create(builder, op->getLoc(), "derivative",
                                        builder.getFunctionType(types, {}));
  Block *block = made->function.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  IRMapping mapping;
  for (auto [number, index] : llvm::enumerate(made->taken))
    if (!mapping.contains(op->getOperand(index)))
      mapping.map(op->getOperand(index), block->getArgument(number));
  for (Value operand : op->getOperands())
    if (auto constant = operand.getDefiningOp<mpc::ConstantOp>();
        constant && !mapping.contains(operand))
      builder.clone(*constant, mapping);
  Operation *copy = builder.clone(*op, mapping);
  // Two operands with one value are two arguments.
  for (auto [number, index] : llvm::enumerate(made->taken))
    copy->setOperand(index, block->getArgument(number));

  SmallVector<Value> results(copy->getResults());
  if (isRecurrent) {
    SmallVector<Value> unrolled = unrollRecurrent(builder, copy);
    if (unrolled.empty())
      return nullptr;
    results.assign(unrolled.begin(), unrolled.end());
    copy->erase();
    made->given = made->taken;
  } else {
    SmallVector<Value> cotangents(copy->getNumResults());
    unsigned next = made->taken.size();
    for (auto [result, cotangent] :
         llvm::zip_equal(copy->getResults(), cotangents))
      if (isFloatTensor(result))
        cotangent = block->getArgument(next++);
    SmallVector<bool> needed;
    for (OpOperand &operand : op->getOpOperands())
      needed.push_back(isWanted(operand));
    SmallVector<Value> given(op->getNumOperands());
    // An op without a derivative for some operand passes no cotangent on.
    ScopedDiagnosticHandler silence(op->getContext(),
                                    [](Diagnostic &) { return success(); });
    if (failed(cast<VjpOpInterface>(copy).buildVjp(builder, cotangents, needed,
                                                   given)))
      return nullptr;
    results.clear();
    for (auto [index, value] : llvm::enumerate(given))
      if (value && needed[index]) {
        made->given.push_back(index);
        results.push_back(value);
      }
  }
  func::ReturnOp::create(builder, op->getLoc(), results);
  made->function.setType(
      builder.getFunctionType(types, ValueRange(results).getTypes()));
  dropDead(*block);
  if (isRecurrent)
    made->steps = std::make_unique<ReverseModePass>(made->function);
  // Recursion may have rehashed the map.
  std::unique_ptr<Derivative> &place = derivatives[op];
  place = std::move(made);
  return place.get();
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

static void addTo(std::optional<Tensor> &sum, const Tensor &more) {
  if (!sum) {
    sum = more;
    return;
  }
  for (auto [a, b] : llvm::zip_equal(sum->floats(), more.floats()))
    a += b;
}

LogicalResult ReverseModePass::run(ForwardValues &forward,
                                   ArrayRef<std::optional<Tensor>> seeds,
                                   const UseVisitor &onUse,
                                   const ValueVisitor &onValue) {
  Block &block = function.getBody().front();
  llvm::DenseMap<Value, std::optional<Tensor>> pending;
  Operation *terminator = block.getTerminator();
  for (auto [operand, seed] :
       llvm::zip_equal(terminator->getOpOperands(), seeds)) {
    if (!seed)
      continue;
    onUse(operand, *seed);
    addTo(pending[operand.get()], *seed);
  }
  auto give = [&](OpOperand &operand, const Tensor &cotangent) {
    onUse(operand, cotangent);
    if (!operand.get().getDefiningOp<mpc::ConstantOp>())
      addTo(pending[operand.get()], cotangent);
  };

  for (Operation &op : llvm::reverse(block.without_terminator())) {
    std::vector<std::optional<Tensor>> cotangents;
    bool anything = false;
    for (Value result : op.getResults()) {
      std::optional<Tensor> &cotangent =
          cotangents.emplace_back(std::move(pending[result]));
      pending.erase(result);
      if (cotangent)
        onValue(result, *cotangent);
      anything |= cotangent.has_value();
    }
    Derivative *derivative = anything ? derivativeOf(&op) : nullptr;
    if (!derivative || derivative->given.empty())
      continue;
    std::vector<Tensor> arguments;
    for (unsigned index : derivative->taken) {
      const Tensor *operand = forward.get(op.getOperand(index));
      if (!operand)
        return op.emitOpError("reads a constant that cannot be read");
      arguments.push_back(*operand);
    }
    if (derivative->steps) {
      FailureOr<ForwardValues> steps =
          ForwardValues::run(derivative->function, arguments);
      if (failed(steps) ||
          failed(derivative->steps->run(
              *steps, cotangents, [](OpOperand &, const Tensor &) {},
              [&](Value value, const Tensor &cotangent) {
                if (auto argument = dyn_cast<BlockArgument>(value))
                  give(op.getOpOperand(
                           derivative->taken[argument.getArgNumber()]),
                       cotangent);
              })))
        return failure();
      continue;
    }
    for (auto [result, cotangent] :
         llvm::zip_equal(op.getResults(), cotangents))
      if (isFloatTensor(result))
        arguments.push_back(
            cotangent ? std::move(*cotangent)
                      : Tensor(cast<RankedTensorType>(result.getType())));
    FailureOr<SmallVector<Tensor>> given =
        reference::interpret(derivative->function, arguments);
    if (failed(given))
      return failure();
    for (auto [index, cotangent] : llvm::zip_equal(derivative->given, *given))
      give(op.getOpOperand(index), cotangent);
  }
  for (BlockArgument argument : block.getArguments())
    if (auto found = pending.find(argument);
        found != pending.end() && found->second)
      onValue(argument, *found->second);
  return success();
}
