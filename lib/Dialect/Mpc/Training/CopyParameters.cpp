//===- CopyParameters.cpp - 16-bit copies of parameters -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract in: Precision's, where a parameter that is read in 16 bits is cast.
// Contract out: such a cast of an updated parameter becomes an argument that
// the optimizer op updates.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Dialect/Mpc/Training/Passes.h"
#include "mpc/Support/StepNames.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_COPYPARAMETERSPASS
#include "mpc/Dialect/Mpc/Training/Passes.h.inc"
} // namespace mpc

namespace {

/// Returns the casts of `parameter` to its most frequent 16-bit type.
SmallVector<CastOp> castsToNarrow(BlockArgument parameter) {
  llvm::MapVector<Type, SmallVector<CastOp>> byType;
  for (Operation *user : parameter.getUsers())
    if (auto cast = dyn_cast<CastOp>(user);
        cast && isa<FloatType>(getElementTypeOrSelf(cast.getType())) &&
        getElementTypeOrSelf(cast.getType()).getIntOrFloatBitWidth() == 16)
      byType[cast.getType()].push_back(cast);
  SmallVector<CastOp> most;
  for (auto &[type, casts] : byType)
    if (casts.size() > most.size())
      most = casts;
  return most;
}

/// Hoists casts above concats of parameters, so that each has its own copy.
void narrowBeforeConcat(Block &block) {
  for (auto cast : llvm::make_early_inc_range(block.getOps<CastOp>())) {
    auto concat = cast.getInput().getDefiningOp<ConcatOp>();
    if (!concat || !llvm::all_of(concat.getInputs(), [](Value input) {
          return isa<BlockArgument>(input);
        }))
      continue;
    OpBuilder builder(concat);
    Operation *narrow = builder.clone(*concat);
    for (OpOperand &input : narrow->getOpOperands()) {
      Operation *part = builder.clone(*cast);
      part->setOperand(0, input.get());
      part->getResult(0).setType(
          mlir::cast<RankedTensorType>(input.get().getType())
              .clone(getElementTypeOrSelf(cast.getType())));
      part->moveBefore(narrow);
      input.set(part->getResult(0));
    }
    narrow->getResult(0).setType(cast.getType());
    cast.getResult().replaceAllUsesWith(narrow->getResult(0));
    cast.erase();
    if (concat.use_empty())
      concat.erase();
  }
}

/// Returns the optimizer op that updates `parameter`, or null.
OptimizerOpInterface updateOf(const StepFunction &step,
                              BlockArgument parameter) {
  std::optional<unsigned> index = step.updateOf(parameter);
  if (!index)
    return {};
  auto op = step.result(*index).getDefiningOp<OptimizerOpInterface>();
  return op && op.getNewParameter() == step.result(*index) &&
                 op.getParameter() == parameter
             ? op
             : OptimizerOpInterface();
}

/// Adds a result of `type` to the op: a low-precision copy of the new
/// parameter.
Value addCopy(OptimizerOpInterface update, Type type) {
  Operation *op = update;
  OpBuilder builder(op);
  SmallVector<Type> types(op->getResultTypes());
  types.push_back(type);
  OperationState state(op->getLoc(), op->getName().getStringRef(),
                       op->getOperands(), types);
  NamedAttrList attributes(op->getAttrDictionary());
  attributes.set("resultSegmentSizes",
                 builder.getDenseI32ArrayAttr(
                     {1, int32_t(update.getNewStates().size()), 1}));
  state.addAttributes(attributes.getAttrs());
  Operation *extended = builder.create(state);
  op->replaceAllUsesWith(extended->getResults().drop_back());
  op->erase();
  return extended->getResults().back();
}

struct CopyParametersPass
    : mpc::impl::CopyParametersPassBase<CopyParametersPass> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (func.isDeclaration() || !func.isPublic())
      return;
    StepFunction step(func);
    narrowBeforeConcat(step.body());
    StepFunction::Ports ports(step);
    for (BlockArgument parameter : step.arguments(RoleKind::parameter)) {
      OptimizerOpInterface update = updateOf(step, parameter);
      if (!update ||
          update->getNumResults() != 1 + update.getNewStates().size())
        continue;
      SmallVector<CastOp> casts = castsToNarrow(parameter);
      if (casts.empty())
        continue;
      Type type = casts.front().getType();
      StringRef name = step.argumentName(parameter.getArgNumber());
      BlockArgument copy = step.appendArgument(type, RoleKind::parameter_copy,
                                               (name + kCopySuffix).str());
      for (CastOp cast : casts) {
        cast.getResult().replaceAllUsesWith(copy);
        cast.erase();
      }
      step.setUpdate(copy, addCopy(update, type));
      ++numCopies;
    }
  }
};

} // namespace
