//===- Interpreter.cpp - the reference interpreter ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dispatch of one op to its family, and the walk over a function's block.
//
//===----------------------------------------------------------------------===//

#include "mpc/Reference/Interpreter.h"

#include "Evaluation.h"

#include "llvm/ADT/DenseMap.h"

#include <memory>

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

using Observer = std::function<void(Operation *, MutableArrayRef<Tensor>)>;

namespace {

/// The values that are alive in a block.
class Values {
public:
  void bind(Value value, std::shared_ptr<const Tensor> tensor) {
    tensors[value] = std::move(tensor);
  }
  void bind(Value value, Tensor tensor) {
    bind(value, std::make_shared<const Tensor>(std::move(tensor)));
  }
  void drop(Value value) { tensors.erase(value); }

  /// The tensor of `value`; a constant is read at its first use. Null after a
  /// diagnostic.
  std::shared_ptr<const Tensor> get(Value value) {
    std::shared_ptr<const Tensor> &tensor = tensors[value];
    if (tensor)
      return tensor;
    auto constant = value.getDefiningOp<ConstantOp>();
    SmallVector<Tensor> results;
    if (!constant || failed(evaluate(constant, {}, results, Rounding::Float64)))
      return nullptr;
    tensor = std::make_shared<const Tensor>(std::move(results.front()));
    return tensor;
  }

private:
  DenseMap<Value, std::shared_ptr<const Tensor>> tensors;
};

} // namespace

/// An alias without ownership.
static std::shared_ptr<const Tensor> borrow(const Tensor &tensor) {
  return std::shared_ptr<const Tensor>(std::shared_ptr<const Tensor>(),
                                       &tensor);
}

static LogicalResult evaluateOp(Operation *op,
                                ArrayRef<const Tensor *> operands,
                                SmallVectorImpl<Tensor> &results,
                                Rounding rounding, const Observer &observer);

/// Executes the ops of a block and gives the operands of its terminator.
static FailureOr<SmallVector<std::shared_ptr<const Tensor>>>
runBlock(Block &block, ArrayRef<const Tensor *> arguments, Rounding rounding,
         const Observer &observer) {
  Values values;
  for (auto [argument, tensor] :
       llvm::zip_equal(block.getArguments(), arguments))
    values.bind(argument, borrow(*tensor));
  DenseMap<Value, int64_t> usesLeft;
  for (Operation &op : block)
    for (Value operand : op.getOperands())
      ++usesLeft[operand];

  SmallVector<std::shared_ptr<const Tensor>> operands;
  for (Operation &op : block) {
    if (isa<ConstantOp>(op))
      continue;
    operands.clear();
    SmallVector<const Tensor *> pointers;
    for (Value operand : op.getOperands()) {
      operands.push_back(values.get(operand));
      if (!operands.back())
        return failure();
      pointers.push_back(operands.back().get());
    }
    if (op.hasTrait<OpTrait::IsTerminator>())
      return operands;
    SmallVector<Tensor> results;
    if (failed(evaluateOp(&op, pointers, results, rounding, observer)))
      return failure();
    if (observer)
      observer(&op, results);
    for (auto [result, tensor] : llvm::zip_equal(op.getResults(), results))
      if (!result.use_empty())
        values.bind(result, std::move(tensor));
    for (Value operand : op.getOperands())
      if (--usesLeft[operand] == 0)
        values.drop(operand);
  }
  return operands;
}

static LogicalResult evaluateFusion(FusionOp fusion,
                                    ArrayRef<const Tensor *> operands,
                                    SmallVectorImpl<Tensor> &results,
                                    Rounding rounding,
                                    const Observer &observer) {
  auto yielded =
      runBlock(fusion.getBody().front(), operands, rounding, observer);
  if (failed(yielded))
    return failure();
  for (const std::shared_ptr<const Tensor> &tensor : *yielded)
    results.push_back(*tensor);
  return success();
}

/// Every operand and result must be a static tensor, and the given tensors must
/// have the operands' types.
static LogicalResult checkOperands(Operation *op,
                                   ArrayRef<const Tensor *> operands) {
  if (operands.size() != op->getNumOperands())
    return op->emitOpError() << "is given " << operands.size()
                             << " operands, it takes " << op->getNumOperands();
  for (auto [index, value] : llvm::enumerate(op->getOperands()))
    if (operands[index]->getType() != value.getType())
      return op->emitOpError()
             << "is given operand " << index << " of type "
             << operands[index]->getType() << ", expected " << value.getType();
  for (Type type : op->getResultTypes()) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      return op->emitOpError() << "cannot be evaluated: result type " << type
                               << " is no static tensor";
  }
  return success();
}

static LogicalResult evaluateOp(Operation *op,
                                ArrayRef<const Tensor *> operands,
                                SmallVectorImpl<Tensor> &results,
                                Rounding rounding, const Observer &observer) {
  if (failed(checkOperands(op, operands)))
    return failure();
  if (auto fusion = dyn_cast<FusionOp>(op))
    return evaluateFusion(fusion, operands, results, rounding, observer);
  results.clear();
  Evaluation evaluation{op, operands, results, rounding};
  for (auto *family :
       {evaluateTensorOp, evaluateUnary, evaluateBinary, evaluateMatmul,
        evaluateConvolution, evaluatePool, evaluateAttention, evaluateReduction,
        evaluateNormalization, evaluateGatherScatter, evaluateRecurrent,
        evaluateOptimizer, evaluateTrainingState, evaluateLoss,
        evaluateTrainingForm, evaluateWindowGradient}) {
    FailureOr<bool> done = family(evaluation);
    if (failed(done))
      return failure();
    if (*done)
      return success();
  }
  return op->emitOpError(
      "has no meaning in the reference interpreter, which executes mpc ops");
}

LogicalResult mpc::reference::evaluate(Operation *op,
                                       ArrayRef<const Tensor *> operands,
                                       SmallVectorImpl<Tensor> &results,
                                       Rounding rounding) {
  results.clear();
  return evaluateOp(op, operands, results, rounding, /*observer=*/nullptr);
}

FailureOr<SmallVector<Tensor>>
mpc::reference::interpret(func::FuncOp function, ArrayRef<Tensor> arguments,
                          const InterpretOptions &options) {
  if (!function.getBody().hasOneBlock())
    return function.emitOpError()
           << "has " << function.getBody().getBlocks().size()
           << " blocks; the reference interpreter executes one";
  if (arguments.size() != function.getNumArguments())
    return function.emitOpError()
           << "takes " << function.getNumArguments() << " arguments, "
           << arguments.size() << " were given";
  SmallVector<const Tensor *> pointers;
  for (auto [index, argument] : llvm::enumerate(arguments)) {
    Type expected = function.getArgumentTypes()[index];
    if (argument.getType() != expected)
      return function.emitOpError()
             << "takes argument " << index << " of type " << expected << ", "
             << argument.getType() << " was given";
    pointers.push_back(&argument);
  }
  auto returned = runBlock(function.getBody().front(), pointers,
                           options.rounding, options.observer);
  if (failed(returned))
    return failure();
  SmallVector<Tensor> results;
  for (const std::shared_ptr<const Tensor> &tensor : *returned)
    results.push_back(*tensor);
  return results;
}
