//===- MpcRecurrent.cpp - shape rules of lstm, gru and rnn ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Three ops with one operand layout and different gates and states.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcRecurrentOps.h"

#include "MpcShapes.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::shapes;

namespace {
/// Checked extents of a recurrent op.
struct Extents {
  int64_t steps, batch, input, hidden, directions;
};
} // namespace

/// Verifies C1 and C2 for the operands common to all three ops.
static FailureOr<Extents> checkOperands(std::optional<Location> loc,
                                        StringRef name, Value input,
                                        Value weight, Value recurrence,
                                        Value bias, ArrayRef<Value> states,
                                        Value peephole, int64_t gates,
                                        RecurrentDirection direction) {
  if (failed(requireStatic(loc, name, {input, weight, recurrence})) ||
      failed(
          requireSameElementType(loc, name, {input, weight, recurrence}))) // C1
    return failure();
  RankedTensorType x = tensor(input), w = tensor(weight),
                   r = tensor(recurrence);
  if (x.getRank() != 3 || w.getRank() != 3 || r.getRank() != 3)
    return fail(loc, name, "needs operands of rank 3, found ", x, ", ", w,
                " and ", r);
  Extents e{x.getShape()[0], x.getShape()[1], x.getShape()[2], r.getShape()[2],
            direction == RecurrentDirection::bidirectional ? 2 : 1};
  int64_t rows = productOf({gates, e.hidden});
  if (w.getShape() != ArrayRef<int64_t>({e.directions, rows, e.input}) ||
      r.getShape() != ArrayRef<int64_t>({e.directions, rows, e.hidden})) // C2
    return fail(loc, name, "weights ", w, " and ", r, " do not fit input ", x,
                " in ", e.directions, " direction(s)");
  auto check = [&](Value value, ArrayRef<int64_t> shape,
                   StringRef what) -> LogicalResult {
    if (value && tensor(value).getShape() != shape)
      return fail(loc, name, what, " must have shape ", toString(shape),
                  ", found ", value.getType());
    return success();
  };
  if (failed(check(bias, {e.directions, 2 * rows}, "bias")) ||
      failed(check(peephole, {e.directions, 3 * e.hidden}, "peephole")))
    return failure();
  for (Value state : states)
    if (failed(
            check(state, {e.directions, e.batch, e.hidden}, "initial state")))
      return failure();
  return e;
}

/// Adds result [T, D, B, H], then `states` final states [D, B, H], in the
/// widest of the operand types.
static void addResults(const Extents &e, ValueRange operands, unsigned states,
                       SmallVectorImpl<Type> &types) {
  Type element = tensor(operands.front()).getElementType();
  types.push_back(RankedTensorType::get(
      {e.steps, e.directions, e.batch, e.hidden}, element));
  for (unsigned i = 0; i < states; ++i)
    types.push_back(
        RankedTensorType::get({e.directions, e.batch, e.hidden}, element));
}

LogicalResult LstmOp::inferReturnTypes(MLIRContext *,
                                       std::optional<Location> loc,
                                       Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  FailureOr<Extents> e = checkOperands(
      loc, getOperationName(), adaptor.getInput(), adaptor.getWeight(),
      adaptor.getRecurrence(), adaptor.getBias(),
      {adaptor.getInitialH(), adaptor.getInitialC()}, adaptor.getPeephole(),
      kGates, adaptor.getDirection());
  if (failed(e))
    return failure();
  addResults(*e, adaptor.getOperands(), 2, types);
  return success();
}

/// Infers types of ops with one state.
template <typename AdaptorT>
static LogicalResult inferOneState(std::optional<Location> loc, StringRef name,
                                   AdaptorT adaptor, int64_t gates,
                                   SmallVectorImpl<Type> &types) {
  FailureOr<Extents> e = checkOperands(
      loc, name, adaptor.getInput(), adaptor.getWeight(),
      adaptor.getRecurrence(), adaptor.getBias(), {adaptor.getInitialH()},
      Value(), gates, adaptor.getDirection());
  if (failed(e))
    return failure();
  addResults(*e, adaptor.getOperands(), 1, types);
  return success();
}

LogicalResult GruOp::inferReturnTypes(MLIRContext *,
                                      std::optional<Location> loc,
                                      Adaptor adaptor,
                                      SmallVectorImpl<Type> &types) {
  return inferOneState(loc, getOperationName(), adaptor, kGates, types);
}

LogicalResult RnnOp::inferReturnTypes(MLIRContext *,
                                      std::optional<Location> loc,
                                      Adaptor adaptor,
                                      SmallVectorImpl<Type> &types) {
  return inferOneState(loc, getOperationName(), adaptor, kGates, types);
}

bool LstmOp::isCompatibleReturnTypes(TypeRange a, TypeRange b) {
  return isSameOrWider(a, b);
}
bool GruOp::isCompatibleReturnTypes(TypeRange a, TypeRange b) {
  return isSameOrWider(a, b);
}
bool RnnOp::isCompatibleReturnTypes(TypeRange a, TypeRange b) {
  return isSameOrWider(a, b);
}

/// Verifies C1: bias, states and results share one type, at least as wide as
/// the input's.
static LogicalResult verifyStateTypes(Operation *op) {
  Type input = tensor(op->getOperand(0)).getElementType();
  Type state = tensor(op->getResult(0)).getElementType();
  if (input != state &&
      input.getIntOrFloatBitWidth() >= state.getIntOrFloatBitWidth())
    return op->emitOpError() << "keeps states in " << state
                             << ", narrower than its input's " << input;
  for (Value value : op->getOperands().drop_front(3))
    if (tensor(value).getElementType() != state)
      return op->emitOpError() << "needs bias and states of type " << state
                               << ", found " << value.getType();
  for (Value value : op->getResults())
    if (tensor(value).getElementType() != state)
      return op->emitOpError() << "needs results of type " << state
                               << ", found " << value.getType();
  return success();
}
LogicalResult LstmOp::verify() { return verifyStateTypes(*this); }
LogicalResult GruOp::verify() { return verifyStateTypes(*this); }
LogicalResult RnnOp::verify() { return verifyStateTypes(*this); }
