//===- Linearity.cpp - operands in which ops are linear -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Linearity.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;

Linearity mpc::linearityOf(Operation *op) {
  if (op->getNumResults() != 1 ||
      !isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType())))
    return {};
  if (isa<ContractionOpInterface>(op) && op->getNumOperands() == 2)
    return {{}, {0, 1}, /*adds=*/true};
  if (op->hasTrait<SumsElements>())
    return {{0}, {}, /*adds=*/true};
  if (op->hasTrait<Additive>())
    return {{0, 1}, {}};
  if (auto movement = dyn_cast<MovementOpInterface>(op)) {
    Linearity linearity;
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      if (movement.givesElements(i))
        linearity.together.push_back(i);
    return linearity;
  }
  return llvm::TypeSwitch<Operation *, Linearity>(op)
      .Case<CumsumOp, AvgPoolOp, AvgPoolGradientOp>(
          [](Operation *) { return Linearity{{0}, {}, /*adds=*/true}; })
      .Case([](MaxPoolGradientOp) { return Linearity{{1}, {}, /*adds=*/true}; })
      .Case<ScatterElementsOp, ScatterNdOp>([](auto scatter) {
        ScatterReduction how = scatter.getReduction();
        bool adds = how == ScatterReduction::add;
        return adds || how == ScatterReduction::none
                   ? Linearity{{0, 2}, {}, adds}
                   : Linearity();
      })
      .Case([](CastOp cast) {
        bool isFloat =
            isa<FloatType>(getElementTypeOrSelf(cast.getInput().getType()));
        return isFloat ? Linearity{{0}, {}} : Linearity();
      })
      .Case<NegOp>([](Operation *) { return Linearity{{0}, {}}; })
      .Case<SelectOp>([](Operation *) { return Linearity{{1, 2}, {}}; })
      .Case<MulOp>([](Operation *) { return Linearity{{}, {0, 1}}; })
      .Case<DivOp>([](Operation *) { return Linearity{{}, {0}}; })
      .Default([](Operation *) { return Linearity(); });
}
