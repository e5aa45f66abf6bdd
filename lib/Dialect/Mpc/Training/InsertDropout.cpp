//===- InsertDropout.cpp - restore dropout lost in export -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contract in: a forward function. Contract out: dropout after the named ops,
// each with its own random stream, and a counter-based random state. Runs
// before Simplify, which merges ops.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Dialect/Mpc/Training/Passes.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_INSERTDROPOUTPASS
#include "mpc/Dialect/Mpc/Training/Passes.h.inc"
} // namespace mpc

namespace {

struct Place {
  std::string name;
  double probability = 0;
};

/// Returns the last op with node name or layer path `name`, or null.
Operation *lastNamed(Block &body, StringRef name) {
  for (Operation &op : llvm::reverse(body.without_terminator()))
    if (!isa<ConstantOp>(op) && op.getNumResults() == 1 &&
        (llvm::is_contained(opNames(&op), name) || layerPath(&op) == name))
      return &op;
  return nullptr;
}

struct InsertDropoutPass : mpc::impl::InsertDropoutPassBase<InsertDropoutPass> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    places.clear();
    for (StringRef text : at) {
      auto [name, digits] = text.rsplit('=');
      Place place{name.str()};
      if (name.empty() || digits.getAsDouble(place.probability) ||
          !(place.probability >= 0 && place.probability < 1))
        return emitError(UnknownLoc::get(context))
               << "dropout '" << text
               << "' is not NAME=PROBABILITY with a probability in [0, 1)";
      places.push_back(std::move(place));
    }
    return success();
  }

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (func.isDeclaration() || !func.isPublic() || places.empty())
      return;
    StepFunction step(func);
    int64_t stream = llvm::range_size(step.body().getOps<DropoutOp>());
    for (const Place &place : places) {
      Operation *op = lastNamed(step.body(), place.name);
      if (!op ||
          !isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType()))) {
        func.emitError() << "dropout after '" << place.name
                         << "': there is no such op or layer with a float "
                            "result; mpc explain lists the names";
        return signalPassFailure();
      }
      BlockArgument state = step.randomState();
      OpBuilder builder(op->getContext());
      builder.setInsertionPointAfter(op);
      Value input = op->getResult(0);
      auto dropout = DropoutOp::create(
          builder, NameLoc::get(builder.getStringAttr(place.name + "/dropout")),
          input.getType(), input, state,
          builder.getF64FloatAttr(place.probability),
          builder.getI64IntegerAttr(stream++));
      if (Attribute layer = op->getAttr(MpcDialect::kLayerAttr))
        dropout->setAttr(MpcDialect::kLayerAttr, layer);
      input.replaceAllUsesExcept(dropout.getResult(), dropout);
      ++numInserted;
    }
  }

  SmallVector<Place> places;
};

} // namespace
