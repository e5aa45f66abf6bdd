//===- PastPositions.cpp - positions from the length of the past ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A decoder without a position input may derive positions from the number of
// its cache rows (Shape, Range), which import turns into constants. The caches
// of a Decoder have a fixed number of rows with the unused ones hidden, so
// these constants are wrong unless only their differences matter. They are
// recognized by importing the model a second time with one more row: a value
// that depends only on distances from the newest row keeps its last elements,
// an absolute position grows by 1.
//
//===----------------------------------------------------------------------===//

#include "PastPositions.h"

#include "mpc/Dialect/Mpc/IR/IndexChecks.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"
#include "mpc/Reference/Interpreter.h"

using namespace mlir;
using namespace mpc;
using mpc::reference::Tensor;

namespace {

/// Compares two imports of one model op by op.
class PastPositions {
public:
  PastPositions(func::FuncOp function, func::FuncOp longer,
                const CountedPositions &positions)
      : function(function), longer(longer), positions(positions) {}

  LogicalResult run();

private:
  using TensorPtr = std::shared_ptr<const Tensor>;

  /// Compares an op of the first import with its counterpart.
  LogicalResult visit(Operation *op, Operation *other);
  /// Handles an integer constant operand that differs in the other import.
  LogicalResult visitConstant(OpOperand &operand, Operation *other);
  LogicalResult refuse(Operation *op, Value value);

  /// Evaluates a value computed from constants; null if it cannot be evaluated.
  TensorPtr evaluate(Value value);
  bool isKnown(Value value) const { return known.contains(value); }

  /// Returns the additional argument, creating it at the first call.
  FailureOr<Value> argument(Operation *reader);
  /// Returns `value` for the true number of rows; it grows by `step` per row.
  FailureOr<Value> shifted(Value value, const Tensor &tensor, int64_t step,
                           Operation *reader);

  func::FuncOp function, longer;
  const CountedPositions &positions;
  Value added;
  /// Values computed from constants only, and those among them that depend on
  /// the number of rows.
  DenseSet<Value> known, dependent;
  DenseMap<Value, TensorPtr> evaluated;
  DenseMap<Value, Value> replaced;
};

} // namespace

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

/// Returns the difference between the elements of `longer` and `tensor` if it
/// is the same for all. A dimension with one more element in `longer` is
/// aligned at its end.
static std::optional<double> differenceOf(const Tensor &tensor,
                                          const Tensor &longer) {
  int64_t rank = tensor.getRank();
  if (longer.getRank() != rank || longer.isFloat() != tensor.isFloat())
    return std::nullopt;
  int64_t first = 0, stride = 1;
  SmallVector<int64_t> strides(rank);
  for (int64_t d = rank - 1; d >= 0; --d) {
    int64_t more = longer.getShape()[d] - tensor.getShape()[d];
    if (more != 0 && more != 1)
      return std::nullopt;
    first += more * stride;
    strides[d] = stride;
    stride *= longer.getShape()[d];
  }
  std::optional<double> difference;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    int64_t other = first, rest = i;
    for (int64_t d = rank - 1; d >= 0; --d) {
      other += rest % tensor.getShape()[d] * strides[d];
      rest /= tensor.getShape()[d];
    }
    double own = 0;
    if (!tensor.isFloat())
      own = double(longer.ints()[other] - tensor.ints()[i]);
    else if (tensor.floats()[i] != longer.floats()[other])
      own = longer.floats()[other] - tensor.floats()[i];
    if (difference && *difference != own)
      return std::nullopt;
    difference = own;
  }
  return difference.value_or(0);
}

/// Returns true if attributes or result shapes differ; the ops may belong to
/// two contexts.
static bool isDifferent(Operation *op, Operation *other) {
  for (auto [result, same] :
       llvm::zip_equal(op->getResults(), other->getResults()))
    if (shapeOf(result) != shapeOf(same))
      return true;
  auto textOf = [](Operation *printed) {
    std::string text;
    llvm::raw_string_ostream(text) << printed->getAttrDictionary();
    return text;
  };
  return textOf(op) != textOf(other);
}

/// Returns true if both constants have the same shape and elements.
static bool isSame(ConstantOp op, ConstantOp other) {
  auto type = cast<RankedTensorType>(op.getType());
  if (type.getShape() != shapeOf(other.getResult()))
    return false;
  // Large float constants are weights of the file, which are equal.
  constexpr int64_t kMostFloats = 4096;
  if (isa<FloatType>(type.getElementType()) &&
      type.getNumElements() > kMostFloats)
    return true;
  FailureOr<Tensor> own = Tensor::fromAttr(op.getValue()),
                    same = Tensor::fromAttr(other.getValue());
  return succeeded(own) && succeeded(same) &&
         (own->isFloat() ? own->floats() == same->floats()
                         : own->ints() == same->ints());
}

/// Returns true if both slices of run-time values select the same elements,
/// counted from the newest row.
static bool isAligned(SliceOp op, SliceOp other) {
  for (int64_t d = 0, rank = shapeOf(op.getInput()).size(); d < rank; ++d) {
    int64_t grown = shapeOf(other.getInput())[d] - shapeOf(op.getInput())[d];
    int64_t moved = other.getOffsets()[d] - op.getOffsets()[d],
            wider = other.getSizes()[d] - op.getSizes()[d];
    if (moved + wider != grown || moved < 0 || wider < 0)
      return false;
  }
  return true;
}

PastPositions::TensorPtr PastPositions::evaluate(Value value) {
  if (auto found = evaluated.find(value); found != evaluated.end())
    return found->second;
  Operation *op = value.getDefiningOp();
  SmallVector<TensorPtr> held;
  SmallVector<const Tensor *> operands;
  for (Value operand : op->getOperands()) {
    held.push_back(evaluate(operand));
    if (!held.back())
      return nullptr;
    operands.push_back(held.back().get());
  }
  SmallVector<Tensor> results;
  if (failed(reference::evaluate(op, operands, results,
                                 reference::Rounding::Float64)))
    return nullptr;
  for (auto [result, tensor] : llvm::zip_equal(op->getResults(), results))
    evaluated[result] = std::make_shared<const Tensor>(std::move(tensor));
  return evaluated[value];
}

//===----------------------------------------------------------------------===//
// Rewriting
//===----------------------------------------------------------------------===//

FailureOr<Value> PastPositions::argument(Operation *reader) {
  if (added)
    return added;
  if (positions.batch != 1)
    return reader->emitError()
           << "computes positions from the number of rows of the KV caches, "
              "which is the same for all "
           << positions.batch
           << " slots; open one slot, or export the model with input '"
           << positions.argument << "'";
  Builder builder(function.getContext());
  unsigned index = function.getNumArguments();
  NamedAttrList attributes;
  attributes.append(
      MpcDialect::kRoleAttr,
      RoleAttr::get(builder.getContext(), RoleKind::input, StringAttr()));
  attributes.append(MpcDialect::kNameAttr,
                    builder.getStringAttr(positions.argument));
  if (failed(function.insertArgument(
          index,
          RankedTensorType::get({positions.batch, positions.tokens},
                                builder.getI64Type()),
          attributes.getDictionary(builder.getContext()), function.getLoc())))
    return failure();
  return added = function.getArgument(index);
}

FailureOr<Value> PastPositions::shifted(Value value, const Tensor &tensor,
                                        int64_t step, Operation *reader) {
  if (Value found = replaced.lookup(value))
    return found;
  FailureOr<Value> given = argument(reader);
  if (failed(given))
    return failure();
  Location loc = value.getLoc();
  OpBuilder builder = OpBuilder::atBlockBegin(&function.getBody().front());
  auto type = cast<RankedTensorType>(value.getType());
  Value from = *given;
  Tensor offset = tensor;
  // Either the positions of the tokens, or values at a fixed distance from the
  // position of the first token.
  bool counts = step == 1 && type.getNumElements() == positions.tokens;
  for (auto [i, element] : llvm::enumerate(offset.ints())) {
    counts &= element - tensor.ints()[0] == int64_t(i);
    element -= step * positions.past;
  }
  if (counts) {
    for (auto [i, element] : llvm::enumerate(offset.ints()))
      element -= int64_t(i);
    from = ReshapeOp::create(
        builder, loc,
        RankedTensorType::get(type.getShape(), builder.getI64Type()), from);
  } else {
    SmallVector<int64_t> zeros = {0, 0}, ones = {1, 1};
    auto single = RankedTensorType::get(ones, builder.getI64Type());
    from = SliceOp::create(
        builder, loc, single, from, builder.getDenseI64ArrayAttr(zeros),
        builder.getDenseI64ArrayAttr(ones), DenseI64ArrayAttr());
    from = ReshapeOp::create(
        builder, loc, RankedTensorType::get({}, builder.getI64Type()), from);
  }
  auto fromType = cast<RankedTensorType>(from.getType());
  if (fromType.getElementType() != type.getElementType())
    from = CastOp::create(builder, loc, fromType.clone(type.getElementType()),
                          from);
  if (step != 1) {
    auto scalar = RankedTensorType::get({}, type.getElementType());
    from = MulOp::create(
        builder, loc, from,
        mpc::ConstantOp::create(
            builder, loc,
            DenseElementsAttr::get(
                scalar, builder.getIntegerAttr(type.getElementType(), step))));
  }
  if (!counts || llvm::any_of(offset.ints(), [](int64_t i) { return i != 0; }))
    from = AddOp::create(
        builder, loc, from,
        mpc::ConstantOp::create(builder, loc, offset.toAttr("positions")));
  return replaced[value] = from;
}

LogicalResult PastPositions::refuse(Operation *op, Value value) {
  return op->emitError()
         << "reads " << value.getType()
         << " that depends on the number of rows of the KV caches other than "
            "as positions or distances of tokens; export the model with input '"
         << positions.argument << "'";
}

//===----------------------------------------------------------------------===//
// Traversal
//===----------------------------------------------------------------------===//

LogicalResult PastPositions::visitConstant(OpOperand &operand,
                                           Operation *other) {
  Operation *op = operand.getOwner();
  Value value = operand.get();
  TensorPtr own = evaluate(value),
            same = evaluate(other->getOperand(operand.getOperandNumber()));
  if (!own || !same)
    return refuse(op, value);
  std::optional<double> step = differenceOf(*own, *same);
  if (step == 0)
    return success();
  // Indices into cache rows stay unchanged.
  bool isIndex = operand.getOperandNumber() == 1 &&
                 isa<GatherOp, GatherElementsOp, GatherNdOp>(op);
  if (isIndex && shapeOf(op->getOperand(0)) != shapeOf(other->getOperand(0)))
    return success();
  bool isInteger = !getElementTypeOrSelf(value).isInteger(1);
  if (!step || !isInteger) {
    // A value computed from constants only is compared where it is used.
    if (llvm::all_of(op->getOperands(), [&](Value v) { return isKnown(v); }))
      return success();
    return refuse(op, value);
  }
  FailureOr<Value> position = shifted(value, *own, int64_t(*step), op);
  if (failed(position))
    return failure();
  operand.set(*position);
  if (isIndex)
    op->setDiscardableAttr(kCheckedIndicesAttr,
                           UnitAttr::get(op->getContext()));
  return success();
}

LogicalResult PastPositions::visit(Operation *op, Operation *other) {
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    known.insert(constant.getResult());
    if (!isSame(constant, cast<ConstantOp>(other)))
      dependent.insert(constant.getResult());
    return success();
  }
  for (OpOperand &operand : op->getOpOperands())
    if (dependent.contains(operand.get()) &&
        operand.get().getDefiningOp<ConstantOp>() &&
        isa<IntegerType>(getElementTypeOrSelf(operand.get())) &&
        failed(visitConstant(operand, other)))
      return failure();
  bool allKnown = !op->hasTrait<OpTrait::IsTerminator>() &&
                  llvm::all_of(op->getOperands(),
                               [&](Value operand) { return isKnown(operand); });
  if (allKnown) {
    bool depends = isDifferent(op, other) ||
                   llvm::any_of(op->getOperands(), [&](Value operand) {
                     return dependent.contains(operand);
                   });
    for (Value result : op->getResults()) {
      known.insert(result);
      if (depends)
        dependent.insert(result);
    }
    return success();
  }
  for (auto [operand, same] :
       llvm::zip_equal(op->getOperands(), other->getOperands())) {
    if (!isKnown(operand) || !dependent.contains(operand) ||
        isa<IntegerType>(getElementTypeOrSelf(operand)))
      continue;
    TensorPtr own = evaluate(operand), more = evaluate(same);
    if (!own || !more || differenceOf(*own, *more) != 0)
      return refuse(op, operand);
  }
  if (auto slice = dyn_cast<SliceOp>(op);
      slice && !isAligned(slice, cast<SliceOp>(other)))
    return refuse(op, slice.getInput());
  return success();
}

LogicalResult PastPositions::run() {
  SmallVector<std::pair<Operation *, Operation *>> pairs;
  Block &body = function.getBody().front(), &others = longer.getBody().front();
  auto differs = [](Operation &op, Operation &other) {
    return op.getName().getStringRef() != other.getName().getStringRef() ||
           op.getNumOperands() != other.getNumOperands() ||
           op.getNumResults() != other.getNumResults();
  };
  auto other = others.begin();
  for (Operation &op : body) {
    if (other == others.end() || differs(op, *other))
      return op.emitError()
             << "exists only for some numbers of rows of the KV caches, so the "
                "positions of tokens are unknown; export the model with input '"
             << positions.argument << "'";
    pairs.push_back({&op, &*other++});
  }
  for (auto [op, same] : pairs)
    if (failed(visit(op, same)))
      return failure();
  if (added)
    function.setType(FunctionType::get(
        function.getContext(), function.getBody().getArgumentTypes(),
        body.getTerminator()->getOperandTypes()));
  return success();
}

LogicalResult mpc::placePositions(func::FuncOp function, func::FuncOp longer,
                                  const CountedPositions &positions) {
  return PastPositions(function, longer, positions).run();
}
