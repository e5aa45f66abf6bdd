//===- KernelComponents.cpp - independent parts of a kernel ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelComponents.h"

#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcOptimizerOps.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mpc;

bool mpc::isShapeless(Operation *op) {
  return isa<RandomBitsOp, AllFiniteOp, GlobalNormOp>(op);
}

SmallVector<KernelComponent> mpc::partsOf(func::FuncOp kernel) {
  llvm::EquivalenceClasses<void *> classes;
  auto key = [](Value value) { return value.getAsOpaquePointer(); };
  Block &block = kernel.getBody().front();
  for (Operation &op : block.without_terminator()) {
    // Scalars may be shared by otherwise independent parts.
    Value known;
    auto join = [&](Value value) {
      if (shapeOf(value).empty())
        return;
      classes.insert(key(value));
      if (known)
        classes.unionSets(key(known), key(value));
      known = value;
    };
    for (Value operand : op.getOperands()) {
      join(operand);
      if (isShapeless(&op))
        known = {};
    }
    for (Value result : op.getResults())
      join(result);
  }

  // In the order of results; all scalars are one part.
  llvm::MapVector<void *, KernelComponent> parts;
  auto partOf = [&](Value value) -> void * {
    if (shapeOf(value).empty())
      return nullptr;
    auto leader = classes.findLeader(key(value));
    return leader == classes.member_end() ? key(value) : *leader;
  };
  for (auto [number, value] :
       llvm::enumerate(block.getTerminator()->getOperands()))
    parts[partOf(value)].results.push_back(number);
  auto add = [&](Value value) {
    if (!shapeOf(value).empty())
      parts[partOf(value)].values.insert(value);
  };
  for (BlockArgument argument : block.getArguments())
    if (!argument.use_empty()) // words of index checks have no reader
      add(argument);
  for (Operation &op : block.without_terminator())
    for (Value result : op.getResults())
      add(result);
  SmallVector<KernelComponent> list;
  for (auto &[key, part] : parts)
    list.push_back(std::move(part));
  return list;
}
