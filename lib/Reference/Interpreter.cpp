//===- Interpreter.cpp - the reference interpreter ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dispatches one op to its family, and executes a function's block.
//
//===----------------------------------------------------------------------===//

#include "mpc/Reference/Interpreter.h"

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"

#include "EvaluateCollectives.h"
#include "Evaluation.h"

#include "llvm/ADT/DenseMap.h"

#include <memory>

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

namespace {

/// Live values of a block.
class Values {
public:
  void bind(Value value, std::shared_ptr<const Tensor> tensor) {
    tensors[value] = std::move(tensor);
  }
  void bind(Value value, Tensor tensor) {
    bind(value, std::make_shared<const Tensor>(std::move(tensor)));
  }
  void drop(Value value) { tensors.erase(value); }

  /// Returns the tensor of `value`; loads a constant at its first use. Null
  /// after an error.
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

/// Non-owning pointer.
static std::shared_ptr<const Tensor> borrow(const Tensor &tensor) {
  return std::shared_ptr<const Tensor>(std::shared_ptr<const Tensor>(),
                                       &tensor);
}

static LogicalResult checkOperands(Operation *op,
                                   ArrayRef<const Tensor *> operands);
static LogicalResult evaluateOp(Operation *op,
                                ArrayRef<const Tensor *> operands,
                                SmallVectorImpl<Tensor> &results,
                                const InterpretOptions &options);

/// Operands and results per rank.
using RankOperands = SmallVector<SmallVector<const Tensor *>, 1>;
using RankResults = SmallVector<SmallVector<Tensor>, 1>;
using Returned = SmallVector<SmallVector<std::shared_ptr<const Tensor>>, 1>;

static FailureOr<Returned> runBlock(Block &block, const RankOperands &arguments,
                                    const InterpretOptions &options);

/// Executes one op on all ranks.
static LogicalResult evaluateOnRanks(Operation *op,
                                     const RankOperands &operands,
                                     RankResults &results,
                                     const InterpretOptions &options) {
  for (const SmallVector<const Tensor *> &own : operands)
    if (failed(checkOperands(op, own)))
      return failure();
  if (auto fusion = dyn_cast<FusionOp>(op)) {
    auto yielded = runBlock(fusion.getBody().front(), operands, options);
    if (failed(yielded))
      return failure();
    for (auto [own, values] : llvm::zip_equal(results, *yielded))
      for (const std::shared_ptr<const Tensor> &tensor : values)
        own.push_back(*tensor);
    return success();
  }
  if (auto collective = dyn_cast<CollectiveOpInterface>(op))
    return evaluateCollective(collective, operands, results, options.rounding);
  for (auto [own, values] : llvm::zip_equal(operands, results))
    if (failed(evaluateOp(op, own, values, options)))
      return failure();
  return success();
}

/// Executes the ops of a block and returns the operands of its terminator.
static FailureOr<Returned> runBlock(Block &block, const RankOperands &arguments,
                                    const InterpretOptions &options) {
  size_t ranks = arguments.size();
  SmallVector<Values, 1> values(ranks);
  for (auto [own, tensors] : llvm::zip_equal(values, arguments))
    for (auto [argument, tensor] :
         llvm::zip_equal(block.getArguments(), tensors))
      own.bind(argument, borrow(*tensor));
  DenseMap<Value, int64_t> usesLeft;
  for (Operation &op : block)
    for (Value operand : op.getOperands())
      ++usesLeft[operand];

  Returned operands(ranks);
  for (Operation &op : block) {
    if (isa<ConstantOp>(op))
      continue;
    RankOperands pointers(ranks);
    for (size_t rank = 0; rank < ranks; ++rank) {
      operands[rank].clear();
      for (Value operand : op.getOperands()) {
        operands[rank].push_back(values[rank].get(operand));
        if (!operands[rank].back())
          return failure();
        pointers[rank].push_back(operands[rank].back().get());
      }
    }
    if (op.hasTrait<OpTrait::IsTerminator>())
      return operands;
    RankResults results(ranks);
    if (failed(evaluateOnRanks(&op, pointers, results, options)))
      return failure();
    for (auto [own, tensors] : llvm::zip_equal(values, results)) {
      if (options.observer)
        options.observer(&op, tensors);
      for (auto [result, tensor] : llvm::zip_equal(op.getResults(), tensors))
        if (!result.use_empty())
          own.bind(result, std::move(tensor));
    }
    for (Value operand : op.getOperands())
      if (--usesLeft[operand] == 0)
        for (Values &own : values)
          own.drop(operand);
  }
  return operands;
}

/// Checks that operands and results are static tensors, and that the given
/// tensors have the operands' types.
static LogicalResult checkOperands(Operation *op,
                                   ArrayRef<const Tensor *> operands) {
  if (operands.size() != op->getNumOperands())
    return op->emitOpError() << "is given " << operands.size()
                             << " operands, expected " << op->getNumOperands();
  for (auto [index, value] : llvm::enumerate(op->getOperands()))
    if (operands[index]->getType() != value.getType())
      return op->emitOpError()
             << "is given operand " << index << " of type "
             << operands[index]->getType() << ", expected " << value.getType();
  for (Type type : op->getResultTypes()) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      return op->emitOpError() << "cannot be evaluated: result type " << type
                               << " is not a static tensor";
  }
  return success();
}

static LogicalResult evaluateOp(Operation *op,
                                ArrayRef<const Tensor *> operands,
                                SmallVectorImpl<Tensor> &results,
                                const InterpretOptions &options) {
  results.clear();
  Evaluation evaluation{op, operands, results, options.rounding,
                        options.tensorCores};
  for (auto *family :
       {evaluateTensorOp, evaluateUnary, evaluateBinary, evaluateMatmul,
        evaluateConvolution, evaluatePool, evaluateAttention, evaluateReduction,
        evaluateNormalization, evaluateGatherScatter, evaluateRecurrent,
        evaluateRecurrenceGradient, evaluateOptimizer, evaluateTrainingState,
        evaluateLoss, evaluateTrainingForm, evaluateWindowGradient}) {
    FailureOr<bool> done = family(evaluation);
    if (failed(done))
      return failure();
    if (*done)
      return success();
  }
  return op->emitOpError(
      "is not supported by the reference interpreter, which executes mpc ops");
}

LogicalResult mpc::reference::evaluate(Operation *op,
                                       ArrayRef<const Tensor *> operands,
                                       SmallVectorImpl<Tensor> &results,
                                       Rounding rounding) {
  RankOperands own = {SmallVector<const Tensor *>(operands)};
  RankResults made(1);
  if (failed(evaluateOnRanks(op, own, made, {.rounding = rounding})))
    return failure();
  results.assign(std::make_move_iterator(made[0].begin()),
                 std::make_move_iterator(made[0].end()));
  return success();
}

std::optional<TensorCores> TensorCores::of(StringRef target) {
  TensorCores result;
  if (!target.consume_front("cuda:sm_") ||
      target.consumeInteger(10, result.capability) || result.capability < 75)
    return std::nullopt;
  if (result.capability == 90 && target == "a")
    result.instruction = TensorCoreInstruction::Wgmma;
  return result;
}

/// Executes a function on several ranks; arguments belong to the caller.
static FailureOr<Returned> runFunction(func::FuncOp function,
                                       ArrayRef<ArrayRef<Tensor>> arguments,
                                       const InterpretOptions &options) {
  if (!function.getBody().hasOneBlock())
    return function.emitOpError()
           << "has " << function.getBody().getBlocks().size()
           << " blocks; the reference interpreter executes one";
  RankOperands pointers;
  for (ArrayRef<Tensor> own : arguments) {
    SmallVector<const Tensor *> &tensors = pointers.emplace_back();
    if (own.size() != function.getNumArguments())
      return function.emitOpError()
             << "takes " << function.getNumArguments() << " arguments, "
             << own.size() << " were given";
    for (auto [index, argument] : llvm::enumerate(own)) {
      Type expected = function.getArgumentTypes()[index];
      if (argument.getType() != expected)
        return function.emitOpError()
               << "takes argument " << index << " of type " << expected << ", "
               << argument.getType() << " was given";
      tensors.push_back(&argument);
    }
  }
  return runBlock(function.getBody().front(), pointers, options);
}

static SmallVector<Tensor>
tensorsOf(ArrayRef<std::shared_ptr<const Tensor>> values) {
  return llvm::map_to_vector(
      values,
      [](const std::shared_ptr<const Tensor> &value) { return *value; });
}

FailureOr<SmallVector<SmallVector<Tensor>>>
mpc::reference::interpretRanks(func::FuncOp function,
                               ArrayRef<SmallVector<Tensor>> arguments,
                               const InterpretOptions &options) {
  auto returned =
      runFunction(function, SmallVector<ArrayRef<Tensor>>(arguments), options);
  if (failed(returned))
    return failure();
  SmallVector<SmallVector<Tensor>> results;
  for (const auto &own : *returned)
    results.push_back(tensorsOf(own));
  return results;
}

FailureOr<SmallVector<Tensor>>
mpc::reference::interpret(func::FuncOp function, ArrayRef<Tensor> arguments,
                          const InterpretOptions &options) {
  auto returned = runFunction(function, {arguments}, options);
  if (failed(returned))
    return failure();
  return tensorsOf(returned->front());
}
