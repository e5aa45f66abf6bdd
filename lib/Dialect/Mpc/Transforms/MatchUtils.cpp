//===- MatchUtils.cpp - shared matchers of the Simplify passes ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MatchUtils.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

bool mpc::isNear(double actual, double expected, Value like) {
  auto type = dyn_cast<FloatType>(getElementTypeOrSelf(like.getType()));
  if (!type)
    return false;
  double unit = std::ldexp(
      1.0, -int(APFloat::semanticsPrecision(type.getFloatSemantics())) + 1);
  return std::abs(actual - expected) <= 4 * unit * std::abs(expected);
}

Value mpc::skipBroadcast(Value value) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  return broadcast ? broadcast.getInput() : value;
}

Value mpc::skipReshape(Value value) {
  auto reshape = value.getDefiningOp<ReshapeOp>();
  return reshape ? reshape.getInput() : value;
}

std::optional<SplatOperand> mpc::matchScaled(Value value) {
  if (auto product = matchWithSplat<MulOp>(value))
    return product;
  if (auto quotient = value.getDefiningOp<DivOp>()) {
    std::optional<double> splat = splatValue(quotient.getRhs());
    if (splat && *splat != 0 && quotient.getLhs().getType() == value.getType())
      return SplatOperand{quotient.getLhs(), 1 / *splat};
  }
  return std::nullopt;
}

bool Product::remove(Value value) {
  auto it = llvm::find(factors, value);
  if (it == factors.end())
    return false;
  factors.erase(it);
  return true;
}

Product mpc::flattenProduct(Value root) {
  constexpr size_t kMostFactors = 16;
  Product product;
  SmallVector<Value> pending = {root};
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    if (std::optional<double> splat = splatValue(value)) {
      product.constant *= *splat;
      continue;
    }
    Operation *op = value.getDefiningOp();
    bool own = value == root || value.hasOneUse();
    bool room = product.factors.size() + pending.size() < kMostFactors;
    if (auto mul = dyn_cast_if_present<MulOp>(op); mul && own && room) {
      pending.append({mul.getRhs(), mul.getLhs()});
      product.ops.push_back(op);
      continue;
    }
    if (auto div = dyn_cast_if_present<DivOp>(op); div && own && room) {
      std::optional<double> divisor = splatValue(div.getRhs());
      if (divisor && *divisor != 0) {
        product.constant /= *divisor;
        pending.push_back(div.getLhs());
        product.ops.push_back(op);
        continue;
      }
    }
    if (auto pow = dyn_cast_if_present<PowOp>(op); pow && own) {
      std::optional<double> exponent = splatValue(pow.getRhs());
      if (exponent && (*exponent == 2 || *exponent == 3) &&
          pow.getLhs().getType() == pow.getType()) {
        product.factors.append(size_t(*exponent), pow.getLhs());
        product.ops.push_back(op);
        continue;
      }
    }
    product.factors.push_back(value);
  }
  return product;
}

std::optional<Mean> mpc::matchMean(Value value) {
  value = skipBroadcast(value);
  if (auto mean = matchKeptReduction<ReduceMeanOp>(value))
    return Mean{mean.getInput(), SmallVector<int64_t>(mean.getAxes())};
  // reduce_sum / count, scaled before or after the axes are restored.
  double factor = 1;
  if (auto scaled = matchScaled(value)) {
    factor = scaled->splat;
    value = scaled->other;
  }
  ReduceSumOp sum = matchKeptReduction<ReduceSumOp>(value);
  if (!sum) {
    auto reshape = value.getDefiningOp<ReshapeOp>();
    auto scaled = reshape ? matchScaled(reshape.getInput()) : std::nullopt;
    if (!scaled)
      return std::nullopt;
    factor *= scaled->splat;
    sum = scaled->other.getDefiningOp<ReduceSumOp>();
    if (!sum)
      return std::nullopt;
    SmallVector<int64_t> kept(shapeOf(sum.getInput()));
    for (int64_t axis : sum.getAxes())
      kept[axis] = 1;
    if (shapeOf(value) != ArrayRef<int64_t>(kept))
      return std::nullopt;
  }
  double count = 1;
  for (int64_t axis : sum.getAxes())
    count *= shapeOf(sum.getInput())[axis];
  if (!isNear(factor * count, 1, value))
    return std::nullopt;
  return Mean{sum.getInput(), SmallVector<int64_t>(sum.getAxes())};
}

void mpc::copyLayer(Operation *from, Operation *to) {
  if (auto layer = from->getAttrOfType<StringAttr>(MpcDialect::kLayerAttr))
    to->setDiscardableAttr(MpcDialect::kLayerAttr, layer);
}
