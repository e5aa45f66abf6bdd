//===- ConstantFolding.cpp - constant evaluation during import
//----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shapes in ONNX are data: a chain of Shape, Gather, Concat and others feeds a
// Reshape. Integer results of constants are folded immediately; float chains
// are evaluated only if a shape needs them and stay in the IR, so that later
// passes compute them in full precision.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Reference/Interpreter.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Maximum size of cached values, in elements.
static constexpr int64_t kKeepElements = 4096;
/// Limit of all evaluations of an import, in multiples of `maxFoldBytes`.
static constexpr int64_t kFoldBudget = 32;

/// Returns the node's name, as the key of a large constant.
static StringRef nameOf(Location location) {
  auto name = dyn_cast<NameLoc>(location);
  return name ? name.getName().getValue() : StringRef("constant");
}

std::shared_ptr<const reference::Tensor> Importer::known(Value value) {
  if (!isKnown(value))
    return nullptr;
  llvm::DenseMap<Value, std::shared_ptr<const reference::Tensor>> local;
  auto find = [&](Value wanted) -> std::shared_ptr<const reference::Tensor> {
    if (auto kept = evaluated.find(wanted); kept != evaluated.end())
      return kept->second;
    return local.lookup(wanted);
  };
  int64_t bytesLive = 0;
  SmallVector<Operation *> open = {value.getDefiningOp()};
  while (!open.empty()) {
    Operation *op = open.back();
    if (find(op->getResult(0))) {
      open.pop_back();
      continue;
    }
    bool ready = true;
    for (Value operand : op->getOperands()) {
      if (!find(operand)) {
        open.push_back(operand.getDefiningOp());
        ready = false;
      }
    }
    if (!ready)
      continue;
    open.pop_back();
    for (Type type : op->getResultTypes())
      bytesLive += byteCount(type);
    if (bytesLive > options.maxFoldBytes ||
        bytesEvaluated > kFoldBudget * options.maxFoldBytes)
      return nullptr;
    for (Type type : op->getResultTypes())
      bytesEvaluated += byteCount(type);
    SmallVector<std::shared_ptr<const reference::Tensor>> held;
    SmallVector<const reference::Tensor *> operands;
    for (Value operand : op->getOperands()) {
      held.push_back(find(operand));
      operands.push_back(held.back().get());
    }
    SmallVector<reference::Tensor> results;
    if (failed(reference::evaluate(op, operands, results,
                                   reference::Rounding::Declared)))
      return nullptr;
    for (auto [result, tensor] : llvm::zip_equal(op->getResults(), results)) {
      auto shared =
          std::make_shared<const reference::Tensor>(std::move(tensor));
      if (shared->size() <= kKeepElements)
        evaluated[result] = shared;
      local[result] = std::move(shared);
    }
  }
  return find(value);
}

Operation *Importer::adopt(Operation *op) {
  bool allKnown = llvm::all_of(op->getOperands(),
                               [&](Value operand) { return isKnown(operand); });
  if (!allKnown)
    return op;
  for (Value result : op->getResults())
    knownValues.insert(result);
  if (op->getNumOperands() == 0 || op->getNumResults() != 1)
    return op;
  Value result = op->getResult(0);
  auto type = cast<RankedTensorType>(result.getType());
  if (!isa<IntegerType>(type.getElementType()))
    return op;
  std::shared_ptr<const reference::Tensor> tensor = known(result);
  if (!tensor)
    return op;
  FailureOr<Operation *> constant = createChecked(
      builder, op->getLoc(), ConstantOp::getOperationName(), type, {},
      builder.getNamedAttr("value", tensor->toAttr(nameOf(op->getLoc()))));
  if (failed(constant))
    return op;
  if (mlir::Attribute layer = op->getAttr(MpcDialect::kLayerAttr))
    (*constant)->setAttr(MpcDialect::kLayerAttr, layer);
  evaluated.erase(result);
  knownValues.erase(result);
  op->erase();
  Value folded = (*constant)->getResult(0);
  knownValues.insert(folded);
  if (tensor->size() <= kKeepElements)
    evaluated[folded] = tensor;
  return *constant;
}

SmallVector<std::string> Importer::inputsOf(Value value) {
  llvm::DenseSet<Value> seen;
  SmallVector<bool> depends(argumentNames.size(), false);
  SmallVector<Value> open = {value};
  while (!open.empty()) {
    Value next = open.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    if (auto argument = dyn_cast<BlockArgument>(next))
      depends[argument.getArgNumber()] = true;
    else
      llvm::append_range(open, next.getDefiningOp()->getOperands());
  }
  SmallVector<std::string> names;
  for (auto [name, used] : llvm::zip_equal(argumentNames, depends))
    if (used)
      names.push_back(name);
  return names;
}
