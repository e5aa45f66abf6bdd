//===- ControlFlow.cpp - calls, branches and loops ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Importer.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::hlo;

SmallVector<Value> hlo::convertScalars(OpImport &import, Region &region,
                                       ArrayRef<Value> arguments) {
  Scope scope;
  scope.outer = &import.scope;
  scope.isSpread = true;
  for (auto [argument, value] : llvm::zip(region.getArguments(), arguments))
    scope.values[argument] = value;
  SmallVector<Value> results;
  if (failed(import.importer.importBlock(region.front(), scope, results)))
    return {};
  return results;
}

Operation *hlo::onlyOp(Region &region, ModuleOp module) {
  Block &block = region.front();
  if (block.getNumArguments() != 2 || block.getOperations().size() != 2)
    return nullptr;
  Operation *op = &block.front();
  if (block.back().getNumOperands() != 1 ||
      block.back().getOperands() != op->getResults() ||
      op->getNumOperands() != 2)
    return nullptr;
  Value lhs = block.getArgument(0), rhs = block.getArgument(1);
  bool inOrder = op->getOperand(0) == lhs && op->getOperand(1) == rhs;
  bool swapped = op->getOperand(0) == rhs && op->getOperand(1) == lhs;
  if (auto call = dyn_cast<func::CallOp>(op)) {
    auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
    return inOrder && callee && !callee.isExternal()
               ? onlyOp(callee.getBody(), module)
               : nullptr;
  }
  bool commutes = isa<stablehlo::AddOp, stablehlo::MulOp, stablehlo::MaxOp,
                      stablehlo::MinOp, stablehlo::AndOp, stablehlo::OrOp,
                      stablehlo::XorOp>(op);
  return commutes && (inOrder || swapped) ? op : nullptr;
}

static LogicalResult convertCall(OpImport &op) {
  auto call = cast<func::CallOp>(op.op);
  SmallVector<Value> results;
  if (failed(op.importer.call(call, call.getCallee(), op.of(call.getOperands()),
                              op.scope.isSpread, results)))
    return failure();
  for (auto [i, value] : llvm::enumerate(results))
    op.set(i, value);
  return op.status();
}

/// Inlines a region that takes `arguments`.
static LogicalResult inlineRegionOps(OpImport &op, Region &region,
                                     ArrayRef<Value> arguments,
                                     SmallVectorImpl<Value> &results) {
  Scope scope;
  scope.outer = &op.scope;
  scope.isSpread = op.scope.isSpread;
  for (auto [argument, value] : llvm::zip(region.getArguments(), arguments))
    scope.values[argument] = value;
  return op.importer.importBlock(region.front(), scope, results);
}

/// Converts a branch on `index`: the selected one if it is known, else all of
/// them and a select.
static LogicalResult convertBranches(OpImport &op, Value index,
                                     ArrayRef<Region *> branches) {
  auto count = int64_t(branches.size());
  std::optional<int64_t> known = OpImport::constantScalar(index);
  SmallVector<Value> chosen;
  if (known || count == 1) {
    int64_t which = known && *known >= 0 && *known < count ? *known : count - 1;
    if (failed(inlineRegionOps(op, *branches[which], {}, chosen)))
      return failure();
  } else {
    if (failed(inlineRegionOps(op, *branches.back(), {}, chosen)))
      return failure();
    for (int64_t i = count - 2; i >= 0; --i) {
      SmallVector<Value> branch;
      if (failed(inlineRegionOps(op, *branches[i], {}, branch)))
        return failure();
      Value isThis =
          OpImport::isBool(index)
              ? op.map<mpc::NotOp>(index)
              : op.compare(ComparePredicate::eq, index,
                           op.scalar(double(i), OpImport::element(index)));
      for (auto [value, other] : llvm::zip(chosen, branch))
        if (value != other)
          value = op.select(isThis, other, value);
    }
  }
  for (auto [i, value] : llvm::enumerate(chosen))
    op.set(i, value);
  return op.status();
}

static LogicalResult convertCase(OpImport &op) {
  SmallVector<Region *> branches;
  for (Region &region : op.op->getRegions())
    branches.push_back(&region);
  return convertBranches(op, op.in(0), branches);
}

static LogicalResult convertIf(OpImport &op) {
  auto choice = cast<stablehlo::IfOp>(op.op);
  // False is 0 and true 1.
  return convertBranches(op, op.in(0),
                         {&choice.getFalseBranch(), &choice.getTrueBranch()});
}

static LogicalResult convertWhile(OpImport &op) {
  auto loop = cast<stablehlo::WhileOp>(op.op);
  SmallVector<Value> carried = op.of(loop.getOperand());
  while (true) {
    SmallVector<Value> holds, next;
    if (failed(inlineRegionOps(op, loop.getCond(), carried, holds)))
      return failure();
    std::optional<int64_t> known = OpImport::constantScalar(holds.front());
    if (!known) {
      op.error()
          << "has a trip count that is known only at run time; use a loop of "
             "fixed length (lax.scan, or lax.fori_loop with constant bounds)";
      return failure();
    }
    if (!*known)
      break;
    if (failed(inlineRegionOps(op, loop.getBody(), carried, next)))
      return failure();
    carried = std::move(next);
  }
  for (auto [i, value] : llvm::enumerate(carried))
    op.set(i, value);
  return op.status();
}

static LogicalResult convertIdentity(OpImport &op) {
  for (unsigned i = 0; i < op.op->getNumOperands(); ++i)
    op.set(i, op.in(i));
  return op.status();
}

static LogicalResult convertMap(OpImport &op) {
  auto map = cast<stablehlo::MapOp>(op.op);
  SmallVector<Value> results =
      convertScalars(op, map.getComputation(), op.of(map.getInputs()));
  if (results.empty())
    return failure();
  return op.result(
      op.broadcast(results.front(), OpImport::shape(map.getResult())));
}

static LogicalResult convertCustomCall(OpImport &op) {
  auto call = cast<stablehlo::CustomCallOp>(op.op);
  StringRef target = call.getCallTargetName();
  // Sharding annotations do not matter on one device.
  bool isIdentity = target == "Sharding" || target == "SPMDFullToShardShape" ||
                    target == "SPMDShardToFullShape" ||
                    target == "annotate_device_placement";
  if (isIdentity && call.getOperandTypes() == call.getResultTypes())
    return convertIdentity(op);
  op.error() << "calls '" << target
             << "', a backend-specific function; trace the model without it";
  return failure();
}

OpFamily hlo::controlOps() {
  static const OpEntry entries[] = {
      {"func.call", convertCall},
      {"stablehlo.case", convertCase},
      {"stablehlo.custom_call", convertCustomCall},
      {"stablehlo.if", convertIf},
      {"stablehlo.map", convertMap},
      {"stablehlo.optimization_barrier", convertIdentity},
      {"stablehlo.while", convertWhile},
  };
  return entries;
}
