//===- Float32Subgraphs.cpp - subgraphs that stay in f32 ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds losses, softmaxes written as several ops, angles and coordinates by
// traversing the graph; the planners decide about the types of these ops.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Float32Subgraphs.h"

#include "PlanBuilder.h"

#include "mpc/Analysis/CastFusion.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Losses
//===----------------------------------------------------------------------===//

/// Returns true if a loss may be computed through `op`.
static bool carriesLoss(Operation *op) {
  return isa<ElementwiseOpInterface, SoftmaxOp, LogSoftmaxOp>(op) ||
         op->hasTrait<Loss>() || movesElements(op) ||
         fusionClassOf(op) == FusionClass::Reduction ||
         fusionClassOf(op) == FusionClass::Scan;
}

OpSet mpc::findLossOps(func::FuncOp func) {
  Block &body = func.getBody().front();
  StepFunction step(func);
  SmallVector<Value> open;
  for (unsigned index : step.results(RoleKind::loss))
    open.push_back(step.result(index));
  if (open.empty())
    return {};

  llvm::DenseSet<Value> outputs;
  // An output may have been widened since.
  for (unsigned index : step.results(RoleKind::output)) {
    Value value = step.result(index);
    if (llvm::is_contained(open, value))
      continue;
    outputs.insert(value);
    while (auto cast = value.getDefiningOp<CastOp>()) {
      value = cast.getInput();
      outputs.insert(value);
    }
  }
  llvm::DenseSet<Operation *> gradients, feeds;
  for (Operation &op : body)
    if (isa<GradientSeedOp>(op) ||
        llvm::any_of(op.getOperands(), [&](Value operand) {
          return gradients.contains(operand.getDefiningOp());
        }))
      gradients.insert(&op);
  // The inputs of a later contraction of the model belong to the model.
  for (Operation &op : llvm::reverse(body))
    if (llvm::any_of(op.getUsers(), [&](Operation *user) {
          return !gradients.contains(user) &&
                 (isContraction(user) || feeds.contains(user));
        }))
      feeds.insert(&op);

  llvm::DenseSet<Operation *> found;
  while (!open.empty()) {
    Value value = open.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || found.contains(op) || gradients.contains(op) ||
        feeds.contains(op) || isContraction(op) || !carriesLoss(op) ||
        outputs.contains(value))
      continue;
    found.insert(op);
    llvm::append_range(open, op->getOperands());
  }
  OpSet ordered;
  for (Operation &op : body)
    if (found.contains(&op))
      ordered.insert(&op);
  return ordered;
}

//===----------------------------------------------------------------------===//
// Statistics
//===----------------------------------------------------------------------===//

OpSet mpc::findStatisticsOps(func::FuncOp func) {
  Block &body = func.getBody().front();
  StepFunction step(func);
  SmallVector<Value> open;
  for (unsigned index : step.results(RoleKind::statistics))
    open.push_back(step.result(index));
  llvm::DenseSet<Operation *> found;
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!op || isContraction(op) || op->hasTrait<Normalizes>() ||
        !carriesLoss(op) || !found.insert(op).second)
      continue;
    if (fusionClassOf(op) != FusionClass::Reduction)
      llvm::append_range(open, op->getOperands());
  }
  OpSet ordered;
  if (!found.empty())
    for (Operation &op : body)
      if (found.contains(&op))
        ordered.insert(&op);
  return ordered;
}

//===----------------------------------------------------------------------===//
// Sums of exponentials
//===----------------------------------------------------------------------===//

/// Maximum ops between an exponential and its sum, and between the sum and its
/// division: a scale, a mask, an epsilon, a broadcast.
static constexpr unsigned kMostBetween = 8;

/// Adds the ops on paths from an exponential to `value`; false if none.
static bool collectExponentials(Value value, llvm::DenseSet<Operation *> &found,
                                unsigned left) {
  Operation *op = value.getDefiningOp();
  if (!op || left == 0)
    return false;
  if (isa<ExpOp>(op)) {
    found.insert(op);
    // The distance to the maximum is as exact as its operands.
    if (auto sub = op->getOperand(0).getDefiningOp<SubOp>())
      found.insert(sub);
    return true;
  }
  if (!isa<AddOp, MulOp, DivOp, SelectOp, CastOp>(op) && !movesElements(op))
    return false;
  bool any = false;
  for (Value operand : op->getOperands())
    any |= collectExponentials(operand, found, left - 1);
  if (any)
    found.insert(op);
  return any;
}

/// Adds the ops from `value`, a sum, to those that divide by it or take its
/// logarithm; returns true if there is one. Visits each value of `seen` once.
static bool collectNormalisers(Value value, llvm::DenseSet<Operation *> &found,
                               llvm::SmallPtrSetImpl<Value> &seen,
                               unsigned left) {
  bool any = false;
  if (!seen.insert(value).second)
    return false;
  for (OpOperand &use : value.getUses()) {
    Operation *op = use.getOwner();
    bool normalises = isa<ReciprocalOp, LogOp>(op) ||
                      (isa<DivOp>(op) && use.getOperandNumber() == 1);
    bool passes =
        isa<AddOp, MulOp, MaxOp, ClampOp, CastOp>(op) || movesElements(op);
    if (normalises) {
      // A quotient is the end; an inverse or a logarithm is followed by one.
      if (!isa<DivOp>(op))
        for (Operation *reader : op->getResult(0).getUsers())
          if (isa<MulOp, SubOp>(reader))
            found.insert(reader);
    } else if (!passes || left == 0 ||
               !collectNormalisers(op->getResult(0), found, seen, left - 1)) {
      continue;
    }
    found.insert(op);
    any = true;
  }
  return any;
}

OpSet mpc::findExponentialSumOps(func::FuncOp func) {
  llvm::DenseSet<Operation *> found;
  Block &body = func.getBody().front();
  for (Operation &op : body) {
    if (!isa<ReduceSumOp, ReduceMeanOp>(op))
      continue;
    llvm::DenseSet<Operation *> before, after;
    llvm::SmallPtrSet<Value, 8> seen;
    if (!collectExponentials(op.getOperand(0), before, kMostBetween) ||
        !collectNormalisers(op.getResult(0), after, seen, kMostBetween))
      continue;
    found.insert(&op);
    found.insert(before.begin(), before.end());
    found.insert(after.begin(), after.end());
  }
  OpSet ordered;
  if (!found.empty())
    for (Operation &op : body)
      if (found.contains(&op))
        ordered.insert(&op);
  return ordered;
}

//===----------------------------------------------------------------------===//
// Angles and coordinates
//===----------------------------------------------------------------------===//

bool mpc::hasShortDotProducts(Operation *op) {
  constexpr int64_t kFewTerms = 4;
  FusionClass family = fusionClassOf(op);
  auto product = dyn_cast<ContractionOpInterface>(op);
  return product && product.getContractionSize() <= kFewTerms &&
         (family == FusionClass::Contraction ||
          family == FusionClass::Convolution);
}

/// Returns true if `op` may transform coordinates, also to an angle.
static bool passesCoordinates(Operation *op) {
  return isa<ElementwiseOpInterface>(op) || movesElements(op) ||
         hasShortDotProducts(op);
}

OpSet mpc::findAngleOps(func::FuncOp func) {
  Block &body = func.getBody().front();
  // In program order, so that operands are known before readers: values
  // computed only from arguments, constants and integers, and results of short
  // dot products of anything.
  llvm::DenseSet<Operation *> given, behindProduct, found;
  auto isGiven = [&](Value value) {
    Operation *op = value.getDefiningOp();
    return !op || isa<ConstantOp>(op) || given.contains(op) ||
           !isa<FloatType>(getElementTypeOrSelf(value.getType()));
  };
  for (Operation &op : body) {
    if (!passesCoordinates(&op))
      continue;
    if (llvm::all_of(op.getOperands(), isGiven))
      given.insert(&op);
    else if (hasShortDotProducts(&op) ||
             llvm::any_of(op.getOperands(), [&](Value value) {
               return behindProduct.contains(value.getDefiningOp());
             }))
      behindProduct.insert(&op);
  }
  auto isCoordinate = [&](Operation *op) {
    return given.contains(op) || behindProduct.contains(op);
  };
  for (Operation &op : llvm::reverse(body)) {
    // Include the function itself, which would otherwise round its argument.
    if (isa<SinOp, CosOp, TanOp>(op) && isCoordinate(&op))
      found.insert(&op);
    if (!found.contains(&op))
      continue;
    for (Value operand : op.getOperands())
      if (isCoordinate(operand.getDefiningOp()))
        found.insert(operand.getDefiningOp());
  }
  OpSet ordered;
  for (Operation &op : body)
    if (found.contains(&op))
      ordered.insert(&op);
  return ordered;
}

bool mpc::isIndexArithmetic(Operation *op,
                            llvm::function_ref<bool(Value)> feedsIntegers) {
  return llvm::any_of(op->getResults(), feedsIntegers) &&
         llvm::all_of(op->getOperands(), [&](Value value) {
           return !isa<FloatType>(getElementTypeOrSelf(value.getType())) ||
                  feedsIntegers(value);
         });
}
