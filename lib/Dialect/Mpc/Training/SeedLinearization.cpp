//===- SeedLinearization.cpp - nonlinear backward passes ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SeedLinearization.h"

#include "Linearity.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mpc;

/// Returns true if scaling does not change `value`.
static bool isInvariant(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  std::optional<double> splat =
      constant ? splatValue(constant.getValue()) : std::nullopt;
  return splat && (*splat == 0 || !std::isfinite(*splat));
}

/// Returns the operand in which an op with several results, or dropout, is
/// linear.
static std::optional<unsigned> linearOperand(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<unsigned>>(op)
      .Case<NormGradientOp, BatchNormGradientOp>([](auto) { return 2; })
      .Case([](AttentionGradientOp) { return 3; })
      .Case<DropoutOp, StopGradientOp>([](auto) { return 0; })
      .Default([](Operation *) { return std::nullopt; });
}

Value SeedLinearization::raised(OpBuilder &builder, Value value,
                                int power) const {
  int missing = power - powerOf(value);
  if (missing == 0 || isInvariant(value))
    return value;
  Location loc = value.getLoc();
  auto type = cast<RankedTensorType>(value.getType());
  Type wide = getElementTypeOrSelf(seed);
  Value factor = seed, result = value;
  if (missing < 0)
    factor = ReciprocalOp::create(builder, loc, seed.getType(), seed);
  // A scale of 65,536 overflows f16.
  if (type.getElementType() != wide)
    result = CastOp::create(builder, loc, type.clone(wide), result);
  for (int i = 0; i < std::abs(missing); ++i)
    result = MulOp::create(builder, loc, result.getType(), result, factor);
  if (result.getType() != type)
    result = CastOp::create(builder, loc, type, result);
  return result;
}

void SeedLinearization::visit(Operation *op) {
  if (llvm::none_of(op->getOperands(), [&](Value v) { return powerOf(v); }))
    return;
  // The result of a non-homogeneous op has power zero.
  SmallVector<int> wanted(op->getNumOperands(), 0);
  int power = 0;
  auto equalise = [&](ArrayRef<unsigned> operands) {
    for (unsigned i : operands)
      if (int found = powerOf(op->getOperand(i));
          std::abs(found) > std::abs(power))
        power = found;
    for (unsigned i : operands)
      wanted[i] = power;
  };
  Linearity linear = linearityOf(op);
  if (!linear.together.empty()) {
    equalise(linear.together);
  } else if (!linear.alone.empty()) {
    // One factor keeps the scale: its square overflows f16.
    for (unsigned i : linear.alone)
      power += wanted[i] =
          std::min(powerOf(op->getOperand(i)), std::max(1 - power, 0));
  } else if (std::optional<unsigned> operand = linearOperand(op)) {
    power = wanted[*operand] = powerOf(op->getOperand(*operand));
  } else if (isa<AbsOp, ReluOp, LeakyReluOp, MaxOp, MinOp, ClampOp, CompareOp,
                 ReduceMaxOp, ReduceMinOp, SignOp>(op)) {
    equalise(llvm::to_vector(llvm::seq(op->getNumOperands())));
    if (isa<CompareOp, SignOp>(op))
      power = 0;
  }
  OpBuilder builder(op);
  for (OpOperand &use : op->getOpOperands())
    if (isFloatTensor(use.get()))
      use.set(raised(builder, use.get(), wanted[use.getOperandNumber()]));
  for (Value result : op->getResults())
    if (power != 0 && isFloatTensor(result))
      powers[result] = power;
}
