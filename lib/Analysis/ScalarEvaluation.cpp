//===- ScalarEvaluation.cpp - scalar evaluation of elementwise ops --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScalarEvaluation.h"

#include "mpc/Reference/Interpreter.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mpc;
using reference::Tensor;

std::optional<double> mpc::evaluateAt(Operation *op, ArrayRef<double> values,
                                      Type type) {
  auto scalarOf = [&](Value value) {
    return RankedTensorType::get(
        {}, type ? type : getElementTypeOrSelf(value.getType()));
  };
  // The op on scalars, outside of the function.
  Block arguments;
  SmallVector<Tensor> operands;
  for (auto [operand, value] : llvm::zip_equal(op->getOperands(), values)) {
    arguments.addArgument(scalarOf(operand), op->getLoc());
    Tensor &tensor = operands.emplace_back(scalarOf(operand));
    if (tensor.isFloat())
      tensor.floats()[0] = reference::roundTo(value, tensor.getElementType());
    else
      tensor.ints()[0] =
          reference::wrapTo(int64_t(value), tensor.getElementType());
  }
  SmallVector<const Tensor *> pointers;
  for (const Tensor &operand : operands)
    pointers.push_back(&operand);
  Operation *scalar = op->clone();
  scalar->setOperands(ValueRange(arguments.getArguments()));
  scalar->getResult(0).setType(scalarOf(op->getResult(0)));
  SmallVector<Tensor> results;
  LogicalResult evaluated = reference::evaluate(scalar, pointers, results,
                                                reference::Rounding::Declared);
  scalar->erase();
  if (failed(evaluated))
    return std::nullopt;
  const Tensor &result = results.front();
  return result.isFloat() ? result.floats()[0] : double(result.ints()[0]);
}
