//===- KnownValues.cpp - values computed from given inputs ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KnownValues.h"

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Reference/Interpreter.h"

using namespace mlir;
using namespace mpc;
using mpc::reference::Tensor;

std::string mpc::argumentName(func::FuncOp function, unsigned number) {
  auto name =
      function.getArgAttrOfType<StringAttr>(number, MpcDialect::kNameAttr);
  return name ? name.str() : "arg" + std::to_string(number);
}

const Tensor *KnownValues::find(Value value) {
  if (auto found = known.find(value); found != known.end())
    return found->second.get();
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    std::string name = argumentName(function, argument.getArgNumber());
    auto given = inputs.find(name);
    if (given == inputs.end()) {
      unknown = name;
      return nullptr;
    }
    auto tensor =
        std::make_unique<Tensor>(cast<RankedTensorType>(value.getType()));
    assert(int64_t(given->second.size()) == tensor->size());
    if (tensor->isFloat())
      llvm::copy(given->second, tensor->floats().begin());
    else
      llvm::copy(given->second, tensor->ints().begin());
    return (known[value] = std::move(tensor)).get();
  }
  Operation *op = value.getDefiningOp();
  SmallVector<const Tensor *> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(find(operand));
    if (!operands.back())
      return nullptr;
  }
  SmallVector<Tensor> results;
  if (failed(reference::evaluate(op, operands, results,
                                 reference::Rounding::Float64)))
    return nullptr;
  for (auto [result, tensor] : llvm::zip_equal(op->getResults(), results))
    known[result] = std::make_unique<Tensor>(std::move(tensor));
  return known[value].get();
}
