//===- OperandChanges.cpp - changes by quantized operands -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Follows each quantized operand of the rewritten graph back to its rounding.
// The ops between (scales of blocks, reshapes, slices) are also applied to the
// values before the rounding. The ratio of both is the relative change of the
// operand, whatever its scales are.
//
//===----------------------------------------------------------------------===//

#include "mpc/Tuning/OperandChanges.h"

#include "mpc/Analysis/FakeQuantization.h"
#include "mpc/Analysis/Float32Subgraphs.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"
#include "mpc/Dialect/Mpc/Transforms/KvCacheFormat.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/Policy/OperandFormat.h"
#include "mpc/Reference/Interpreter.h"
#include "mpc/Support/NarrowFloat.h"

#include "mlir/Pass/PassManager.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using mpc::reference::Tensor;

/// Returns the value that `op` rounds to numbers of a format; null if it is no
/// rounding.
static Value roundedBy(Operation *op) {
  if (auto decode = dyn_cast<DecodeFloatOp>(op))
    if (auto encode = decode.getInput().getDefiningOp<EncodeFloatOp>())
      return encode.getInput();
  return isa<RoundOp>(op) ? op->getOperand(0) : Value();
}

/// Returns the largest number to which a rounding rounds.
static double largestOf(Operation *rounding) {
  if (auto decode = dyn_cast<DecodeFloatOp>(rounding))
    return narrowFloatOf(decode.getFormat())->largest();
  return mpc::largestOf(OperandType::Int8);
}

void OperandChanges::collect(Operation *op, Operation *own) {
  // The model's own quantization changes nothing.
  if (own->hasAttr(kOperandsAttr))
    return;
  for (unsigned i : {0, 1}) {
    Value value = op->getOperand(i);
    if (!op->hasAttr(kOperandsAttr)) {
      auto constant = value.getDefiningOp<mpc::ConstantOp>();
      if (constant && constant->hasAttr(kWeightsAttr)) {
        operands.push_back({own, i});
        readers[value].push_back({own, i});
      }
      continue;
    }
    SmallVector<Operation *> ops;
    Operation *each = value.getDefiningOp();
    // Int8 is clamped after it is rounded.
    while (each && !roundedBy(each) &&
           isa<ReshapeOp, SliceOp, MulOp, CastOp, MaxOp, MinOp>(each)) {
      ops.push_back(each);
      each = each->getOperand(0).getDefiningOp();
    }
    if (!each || !roundedBy(each))
      continue;
    wanted.insert(roundedBy(each));
    chain.insert(each);
    for (Operation *next : ops) {
      chain.insert(next);
      if (isa<MulOp>(next))
        wanted.insert(next->getOperand(1));
    }
    operands.push_back({own, i});
    readers[value].push_back({own, i});
    usage[{own, i}].format = op->getAttrOfType<StringAttr>(kOperandsAttr).str();
  }
}

FailureOr<OperandChanges> OperandChanges::create(func::FuncOp function,
                                                 const NamedPolicy &policy,
                                                 ArrayRef<std::string> sets) {
  OperandChanges made;
  OpBuilder builder(function.getContext());
  made.copy = ModuleOp::create(function.getLoc());
  builder.setInsertionPointToEnd(made.copy->getBody());
  auto quantized = cast<func::FuncOp>(builder.clone(*function));
  PassManager passes(function.getContext());
  QuantizeWeightsPassOptions weights;
  weights.policy = policy;
  weights.sets.assign(sets.begin(), sets.end());
  passes.addNestedPass<func::FuncOp>(createQuantizeWeightsPass(weights));
  QuantizeOperandsPassOptions both;
  both.policy = policy;
  both.sets.assign(sets.begin(), sets.end());
  passes.addNestedPass<func::FuncOp>(createQuantizeOperandsPass(both));
  if (failed(passes.run(*made.copy)))
    return failure();
  CorrespondingOps pairs(function, quantized);
  for (Operation &op : function.getBody().front())
    if (Operation *other =
            isa<ContractionOpInterface>(op) ? pairs.lookup(&op) : nullptr)
      made.collect(other, &op);
  if (std::optional<ElementType> element = kvCacheElement(policy->getCache()))
    for (ConcatOp concat : findKvCaches(function))
      if (auto other = cast_if_present<ConcatOp>(pairs.lookup(concat))) {
        roundKvCache(other, *element);
        for (OpOperand &use : other->getOpOperands()) {
          made.operands.push_back({concat, use.getOperandNumber()});
          made.readers[use.get()].push_back(made.operands.back());
        }
      }
  return made;
}

/// Returns a constant's value.
static std::optional<Tensor> constantTensor(Value value) {
  if (auto constant = value.getDefiningOp<mpc::ConstantOp>())
    if (FailureOr<Tensor> read = Tensor::fromAttr(constant.getValue());
        succeeded(read))
      return std::optional<Tensor>(std::in_place, std::move(*read));
  return std::nullopt;
}

void OperandChanges::follow(Operation *op, ArrayRef<Tensor> results) {
  for (auto [result, tensor] : llvm::zip_equal(op->getResults(), results))
    if (wanted.contains(result))
      kept.insert_or_assign(result, tensor);
  if (!chain.contains(op))
    return;
  Value result = op->getResult(0);
  if (Value before = roundedBy(op)) {
    if (auto found = kept.find(before); found != kept.end())
      unrounded.insert_or_assign(
          result, Unrounded{found->second, found->second, ::largestOf(op)});
    return;
  }
  auto found = unrounded.find(op->getOperand(0));
  if (found == unrounded.end())
    return;
  Unrounded next = found->second;
  if (isa<ReshapeOp, SliceOp, MulOp>(op)) {
    std::optional<Tensor> factor;
    if (isa<MulOp>(op)) {
      auto known = kept.find(op->getOperand(1));
      factor = known == kept.end() ? constantTensor(op->getOperand(1))
                                   : std::optional(known->second);
      if (!factor)
        return;
    }
    auto apply = [&](Tensor &tensor) {
      SmallVector<const Tensor *> read = {&tensor};
      if (factor)
        read.push_back(&*factor);
      SmallVector<Tensor> made;
      bool isDone = succeeded(
          reference::evaluate(op, read, made, reference::Rounding::Float64));
      if (isDone)
        tensor = std::move(made.front());
      return isDone;
    };
    if (!apply(next.scaled) || (!factor && !apply(next.number)))
      return;
  }
  unrounded.insert_or_assign(result, std::move(next));
}

std::vector<float> OperandChanges::compare(const Operand &operand,
                                           const Unrounded &unrounded,
                                           const Tensor &own,
                                           const Tensor &quantized) {
  // A number in float64 may exceed the largest one by the rounding of a scale.
  double limit = unrounded.largest * (1 + 0x1p-20);
  OperandUsage &used = usage[operand];
  std::vector<float> changes(size_t(own.size()));
  for (size_t i = 0; i < changes.size(); ++i) {
    double value = own.floats()[i], scaled = unrounded.scaled.floats()[i],
           number = unrounded.number.floats()[i],
           after = quantized.isFloat() ? quantized.floats()[i]
                                       : double(quantized.ints()[i]);
    ++used.elements;
    used.flushed += value != 0 && after == 0;
    used.saturated += after != 0 && std::abs(number) > limit;
    if (value == 0)
      continue;
    // The scale of a block may underflow to zero.
    if (scaled == 0 || number == 0) {
      changes[i] = float(after == 0 ? -value : 0);
      continue;
    }
    double scale = std::abs(value / number);
    used.leastScale = std::min(used.leastScale, scale);
    used.mostScale = std::max(used.mostScale, scale);
    changes[i] = float(value * (after / scaled - 1));
  }
  return changes;
}

FailureOr<OperandChanges::Changes> OperandChanges::run(ForwardValues &forward) {
  auto quantized = *copy->getOps<func::FuncOp>().begin();
  kept.clear();
  unrounded.clear();
  Changes found;
  SmallVector<Tensor> arguments;
  // The function's own arguments are those of its first op's block.
  auto function = operands.empty()
                      ? func::FuncOp()
                      : operands.front().first->getParentOfType<func::FuncOp>();
  if (!function)
    return found;
  for (BlockArgument argument : function.getArguments())
    arguments.push_back(*forward.get(argument));
  auto add = [&](Value value, const Tensor &tensor) {
    auto reader = readers.find(value);
    if (reader == readers.end())
      return;
    for (const Operand &operand : reader->second) {
      const Tensor *own =
          forward.get(operand.first->getOperand(operand.second));
      if (!own || own->size() != tensor.size())
        continue;
      if (auto before = unrounded.find(value); before != unrounded.end()) {
        found[operand] = compare(operand, before->second, *own, tensor);
        continue;
      }
      std::vector<float> &changes = found[operand];
      for (auto [after, value] :
           llvm::zip_equal(tensor.floats(), own->floats()))
        changes.push_back(float(after - value));
    }
  };
  for (const auto &[value, reader] : readers)
    if (std::optional<Tensor> constant = constantTensor(value))
      add(value, *constant);
  reference::InterpretOptions options;
  options.observer = [&](Operation *op, MutableArrayRef<Tensor> results) {
    follow(op, results);
    for (auto [result, tensor] : llvm::zip_equal(op->getResults(), results))
      add(result, tensor);
  };
  if (failed(reference::interpret(quantized, arguments, options)))
    return failure();
  kept.clear();
  unrounded.clear();
  return found;
}
