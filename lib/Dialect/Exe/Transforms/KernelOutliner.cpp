//===- KernelOutliner.cpp - fusions to functions --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelOutliner.h"

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mpc;

KernelOutliner::KernelOutliner(ModuleOp module) : module(module) {
  for (Operation &op : module.getBody()->getOperations())
    if (auto symbol = dyn_cast<SymbolOpInterface>(op))
      names.reserve(symbol.getName());
}

func::FuncOp KernelOutliner::create(StringRef name, Location loc,
                                    FunctionType type, FusionKind kind) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto kernel = func::FuncOp::create(builder, loc, name, type);
  kernel.setPrivate();
  kernel->setAttr(MpcDialect::kKernelKindAttr,
                  FusionKindAttr::get(module.getContext(), kind));
  kernel.addEntryBlock();
  return kernel;
}

func::FuncOp KernelOutliner::unify(func::FuncOp kernel, StringRef name) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  kernel->print(stream, OpPrintingFlags().printGenericOpForm().useLocalScope());
  auto [entry, inserted] = byText.try_emplace(text, kernel);
  if (!inserted) {
    kernel.erase();
    ++numReused;
    return entry->second;
  }
  kernel.setName(names.make(("k_" + name).str()));
  ++numMade;
  return kernel;
}

func::FuncOp KernelOutliner::outline(FusionOp fusion) {
  auto type = FunctionType::get(module.getContext(), fusion->getOperandTypes(),
                                fusion->getResultTypes());
  func::FuncOp kernel = create("", fusion.getLoc(), type, fusion.getKind());
  OpBuilder builder = OpBuilder::atBlockEnd(&kernel.getBody().front());
  IRMapping mapping;
  Block &body = fusion.getBody().front();
  mapping.map(body.getArguments(), kernel.getArguments());
  for (auto [argument, operand] :
       llvm::zip_equal(kernel.getArguments(), fusion->getOperands()))
    argument.setLoc(operand.getLoc());
  for (Operation &op : body.without_terminator()) {
    Operation *copy = builder.clone(op, mapping);
    // Names and decisions do not distinguish kernels.
    copy->removeDiscardableAttr(MpcDialect::kDecisionAttr);
    copy->removeDiscardableAttr(MpcDialect::kLayerAttr);
    copy->removeDiscardableAttr(MpcDialect::kSourceAttr);
    copy->removeDiscardableAttr(MpcDialect::kPaddingAttr);
  }
  SmallVector<Value> results;
  for (Value value : body.getTerminator()->getOperands())
    results.push_back(mapping.lookup(value));
  func::ReturnOp::create(builder, fusion.getLoc(), results);
  return unify(kernel, fusion.getName());
}

func::FuncOp KernelOutliner::copyOf(RankedTensorType type, Location loc) {
  func::FuncOp kernel =
      create("", loc, FunctionType::get(module.getContext(), type, type),
             FusionKind::elementwise);
  OpBuilder builder = OpBuilder::atBlockEnd(&kernel.getBody().front());
  func::ReturnOp::create(builder, loc, kernel.getArgument(0));
  return unify(kernel, "copy");
}

/// Appends the outermost names in `loc` that are not in `names` yet.
static void addNames(Location loc, SmallVectorImpl<StringRef> &names) {
  if (auto named = dyn_cast<NameLoc>(loc)) {
    StringRef name = named.getName();
    if (!name.empty() && !llvm::is_contained(names, name))
      names.push_back(name);
  } else if (auto fused = dyn_cast<FusedLoc>(loc)) {
    for (Location part : fused.getLocations())
      addNames(part, names);
  }
}

SmallVector<StringRef> mpc::opNamesOf(FusionOp fusion) {
  SmallVector<StringRef> names;
  fusion.getBody().walk([&](Operation *op) {
    if (!isa<mpc::ConstantOp, FusionOp, YieldOp>(op))
      addNames(op->getLoc(), names);
  });
  return names;
}

/// Bytes that a fusion reads of the operand of its block argument.
static int64_t bytesRead(BlockArgument argument) {
  int64_t whole = byteCount(argument.getType()), part = 0;
  for (OpOperand &use : argument.getUses()) {
    // Data movement reads no more than it produces.
    auto movement = dyn_cast<MovementOpInterface>(use.getOwner());
    bool isPart = movement && movement.givesElements(use.getOperandNumber());
    auto inner = dyn_cast<FusionOp>(use.getOwner());
    part += inner
                ? bytesRead(inner.getBody().getArgument(use.getOperandNumber()))
            : isPart ? byteCount(movement->getResult(0).getType())
                     : whole;
  }
  return std::min(whole, part);
}

int64_t mpc::bytesMovedBy(FusionOp fusion) {
  int64_t total = 0;
  for (BlockArgument argument : fusion.getBody().getArguments())
    total += bytesRead(argument);
  for (Type type : fusion->getResultTypes())
    total += byteCount(type);
  return total;
}
