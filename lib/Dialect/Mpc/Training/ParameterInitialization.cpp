//===- ParameterInitialization.cpp - random initialization of parameters --===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ParameterInitialization.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcRecurrentOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"
#include "mpc/Reference/Tensor.h"

#include "llvm/Support/xxhash.h"

#include <cmath>
#include <numbers>
#include <random>

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Distributions
//===----------------------------------------------------------------------===//

/// Returns the fan-in of a contraction: products per result element; nullopt if
/// `op` is none.
static std::optional<int64_t> fanInOf(Operation *op) {
  if (auto contraction = dyn_cast_if_present<ContractionOpInterface>(op))
    return contraction.getContractionSize();
  return std::nullopt;
}

Operation *mpc::producerOf(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && (isa<CastOp>(op) || isUnaryMovement(op)))
    op = op->getOperand(0).getDefiningOp();
  return op;
}

static InitialDistribution uniform(int64_t fanIn) {
  return {InitialDistribution::Kind::Uniform,
          1.0 / std::sqrt(double(std::max<int64_t>(fanIn, 1)))};
}

InitialDistribution mpc::initialDistribution(Value weight) {
  using Kind = InitialDistribution::Kind;
  for (OpOperand &use : weight.getUses()) {
    Operation *user = use.getOwner();
    unsigned index = use.getOperandNumber();
    if (std::optional<int64_t> fanIn = fanInOf(user))
      return uniform(*fanIn);
    // LSTM weights of all gates use the hidden size.
    if (fusionClassOf(user) == FusionClass::Recurrent && index > 0)
      return uniform(
          shapeOf(user->getOperand(isa<RecurrenceOp>(user) ? 1 : 2)).back());
    if (isa<GatherOp>(user) && index == 0)
      return {Kind::Normal, 1.0};
    if (user->hasTrait<Normalizes>())
      return {Kind::Constant, index == 1 ? 1.0 : 0.0};
    // Slices and concats of weights, transposed or not, are weights.
    auto movement = dyn_cast<MovementOpInterface>(user);
    if (isa<CastOp>(user) || (movement && movement.givesElements(index)))
      return initialDistribution(user->getResult(0));
    if (isa<AddOp>(user))
      if (std::optional<int64_t> fanIn =
              fanInOf(producerOf(user->getOperand(1 - index))))
        return uniform(*fanIn);
  }
  return {elementCount(weight) == 1 ? Kind::Kept : Kind::Constant, 0.0};
}

//===----------------------------------------------------------------------===//
// Sampling
//===----------------------------------------------------------------------===//

/// Uniform in [0, 1) with 53 bits. std distributions are not portable.
static double unit(std::mt19937_64 &engine) {
  return double(engine() >> 11) * 0x1p-53;
}

ElementsAttr mpc::drawInitial(RankedTensorType type,
                              InitialDistribution distribution, uint64_t seed,
                              StringRef name) {
  using Kind = InitialDistribution::Kind;
  reference::Tensor tensor(type);
  std::mt19937_64 engine(seed ^ llvm::xxh3_64bits(name));
  for (double &element : tensor.floats()) {
    switch (distribution.kind) {
    case Kind::Kept:
    case Kind::Constant:
      element = distribution.size;
      break;
    case Kind::Uniform:
      element = (2 * unit(engine) - 1) * distribution.size;
      break;
    case Kind::Normal: { // Box and Muller, 1958
      double radius = std::sqrt(-2 * std::log(1 - unit(engine)));
      element = radius * std::cos(2 * std::numbers::pi * unit(engine)) *
                distribution.size;
      break;
    }
    }
  }
  return tensor.toAttr(name);
}
