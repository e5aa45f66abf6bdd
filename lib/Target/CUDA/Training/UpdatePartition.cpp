//===- UpdatePartition.cpp - partition of an update kernel ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "UpdatePartition.h"

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/EquivalenceClasses.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

static bool isScalar(Value value) {
  return cast<RankedTensorType>(value.getType()).getRank() == 0;
}

static bool hasOneElement(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements() == 1;
}

static bool isScalarOp(Operation *op) {
  return llvm::all_of(op->getResults(), isScalar) &&
         llvm::all_of(op->getOperands(), isScalar);
}

/// Returns the key of a tensor in the equivalence classes of dependent ops.
static const void *keyOf(Value value) {
  Operation *definition = value.getDefiningOp();
  return definition ? static_cast<const void *>(definition)
                    : value.getAsOpaquePointer();
}

/// Outlines `ops` (in block order) as a function that computes `outputs` from
/// values defined outside of them. Clones constants.
static UpdatePart cutOut(func::FuncOp kernel, ArrayRef<Operation *> ops,
                         ArrayRef<Value> outputs) {
  UpdatePart part;
  llvm::SmallPtrSet<Operation *, 16> inside(ops.begin(), ops.end());
  llvm::SetVector<Value> inputs;
  llvm::SetVector<Operation *> constants;
  for (Operation *op : ops)
    for (Value operand : op->getOperands()) {
      Operation *definition = operand.getDefiningOp();
      if (definition && isa<mpc::ConstantOp>(definition))
        constants.insert(definition);
      else if (!definition || !inside.contains(definition))
        inputs.insert(operand);
    }
  for (Value output : outputs)
    if (isa<BlockArgument>(output))
      inputs.insert(output);
  part.inputs.assign(inputs.begin(), inputs.end());
  part.outputs.assign(outputs.begin(), outputs.end());

  OpBuilder builder(kernel.getContext());
  part.function = func::FuncOp::create(
      builder, kernel.getLoc(), kernel.getName(),
      builder.getFunctionType(TypeRange(ValueRange(part.inputs)),
                              TypeRange(ValueRange(part.outputs))));
  Block *body = part.function->addEntryBlock();
  builder.setInsertionPointToEnd(body);
  IRMapping mapping;
  mapping.map(part.inputs, body->getArguments());
  for (Operation *op : constants)
    builder.clone(*op, mapping);
  for (Operation *op : ops)
    builder.clone(*op, mapping);
  SmallVector<Value> results;
  for (Value value : outputs)
    results.push_back(mapping.lookup(value));
  func::ReturnOp::create(builder, kernel.getLoc(), results);
  return part;
}

std::optional<UpdatePartition> UpdatePartition::of(func::FuncOp kernel) {
  Block &body = kernel.getBody().front();
  Operation *terminator = body.getTerminator();
  SmallVector<Operation *> scalarOps, tensorOps;
  // Values that depend on tensors, including scalars.
  llvm::SmallPtrSet<Value, 32> ofTensors;
  auto isOfTensor = [&](Value value) {
    return !isScalar(value) || ofTensors.contains(value);
  };
  for (Operation &op : body.without_terminator()) {
    if (isa<mpc::ConstantOp>(op))
      continue;
    if (llvm::none_of(op.getOperands(), isOfTensor) && isScalarOp(&op)) {
      scalarOps.push_back(&op);
      continue;
    }
    tensorOps.push_back(&op);
    ofTensors.insert(op.result_begin(), op.result_end());
  }

  // One-element arguments are treated as scalars, unless a result of a part may
  // alias them.
  bool sharesElements =
      llvm::none_of(terminator->getOperands(), [&](Value value) {
        return isOfTensor(value) && hasOneElement(value);
      });
  auto isShared = [&](Value value) {
    return !isOfTensor(value) || (sharesElements && isa<BlockArgument>(value) &&
                                  hasOneElement(value));
  };
  llvm::EquivalenceClasses<const void *> joined;
  for (Operation *op : tensorOps) {
    joined.insert(op);
    for (Value operand : op->getOperands())
      if (!isShared(operand) && !operand.getDefiningOp<mpc::ConstantOp>())
        joined.unionSets(op, keyOf(operand));
  }

  UpdatePartition parts;
  SmallVector<Value> scalars;
  auto addScalar = [&](Value value) {
    if (llvm::any_of(value.getUsers(), [&](Operation *user) {
          return user == terminator || !isScalarOp(user) ||
                 ofTensors.contains(user->getResult(0));
        }))
      scalars.push_back(value);
  };
  for (BlockArgument argument : body.getArguments())
    if (isShared(argument))
      addScalar(argument);
  for (Operation *op : scalarOps)
    for (Value result : op->getResults())
      addScalar(result);
  if (!scalars.empty())
    parts.scalars = cutOut(kernel, scalarOps, scalars);

  // Results by defining part.
  llvm::MapVector<const void *, SmallVector<Value>> outputs;
  for (Value value : terminator->getOperands()) {
    Operation *definition = value.getDefiningOp();
    if (!definition || isa<mpc::ConstantOp>(definition))
      return std::nullopt;
    if (ofTensors.contains(value)) {
      SmallVector<Value> &list = outputs[joined.getLeaderValue(definition)];
      if (!llvm::is_contained(list, value))
        list.push_back(value);
    }
  }
  for (auto &[leader, values] : outputs) {
    SmallVector<Operation *> ops;
    for (Operation *op : tensorOps)
      if (joined.getLeaderValue(op) == leader)
        ops.push_back(op);
    parts.tensors.push_back(cutOut(kernel, ops, values));
  }
  return parts;
}
