//===- MpcOptimizer.cpp - updates and loss scales -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cn refer to the constraints in the op descriptions.
//
//===----------------------------------------------------------------------===//

#include "MpcAssembly.h"
#include "MpcShapes.h"

#include "mpc/Dialect/Mpc/IR/MpcOptimizerOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::shapes;

//===----------------------------------------------------------------------===//
// Optimizers
//===----------------------------------------------------------------------===//

ParseResult mpc::parseUpdateTypes(
    OpAsmParser &parser, ArrayRef<OpAsmParser::UnresolvedOperand> states,
    Type &parameter, SmallVectorImpl<Type> &newStates, Type &copy) {
  SmallVector<Type> types;
  SMLoc loc = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalLParen())) {
    if (parser.parseTypeList(types) || parser.parseRParen())
      return failure();
  } else if (parser.parseType(types.emplace_back())) {
    return failure();
  }
  size_t least = 1 + states.size();
  if (types.size() != least && types.size() != least + 1)
    return parser.emitError(loc)
           << "needs " << least << " result types for " << states.size()
           << " states, and one more for a copy; found " << types.size();
  parameter = types.front();
  newStates.assign(types.begin() + 1, types.begin() + least);
  if (types.size() > least)
    copy = types.back();
  return success();
}

void mpc::printUpdateTypes(OpAsmPrinter &printer, Operation *op, OperandRange,
                           Type, TypeRange, Type) {
  if (op->getNumResults() == 1)
    printer << op->getResult(0).getType();
  else
    printer << '(' << op->getResultTypes() << ')';
}

template <typename OpTy> static LogicalResult verifyOptimizer(OpTy op) {
  RankedTensorType parameter = tensor(op.getParameter()),
                   gradient = tensor(op.getGradient());
  if (gradient.getShape() != parameter.getShape() ||
      gradient.getElementType().getIntOrFloatBitWidth() >
          parameter.getElementType().getIntOrFloatBitWidth()) // C1
    return op.emitOpError()
           << "needs a gradient of the parameter's shape and "
           << "no wider type than " << parameter << ", found " << gradient;
  for (Value state : op.getStates())
    if (state.getType() != parameter) // C1
      return op.emitOpError() << "needs states of the parameter's type "
                              << parameter << ", found " << state.getType();
  SmallVector<StringRef> names = op.getStateNames();
  if (op.getStates().size() != names.size()) // C2
    return op.emitOpError()
           << "needs " << names.size() << " states (" << llvm::join(names, ", ")
           << "), found " << op.getStates().size();
  if (TypeRange(op.getNewStates()) != TypeRange(op.getStates())) // C3
    return op.emitOpError() << "needs new states of the states' types";
  if (Value copy = op.getCopy();
      copy && tensor(copy).getShape() != parameter.getShape()) // C3
    return op.emitOpError() << "needs a copy of the parameter's shape "
                            << parameter << ", found " << copy.getType();
  return success();
}

template <typename OpTy> static LogicalResult verifyFuse(OpTy op) {
  if (std::optional<StringRef> fuse = op.getFuse();
      fuse && !llvm::is_contained({"none", "first", "last"}, *fuse))
    return op.emitOpError()
           << "fuse must be none, first or last, found '" << *fuse << "'";
  return success();
}

LogicalResult OptimizerSgdOp::verify() {
  if (getNesterov() && !getDampening().isZero()) // C4
    return emitOpError() << "nesterov needs dampening 0, found "
                         << getDampening().convertToDouble();
  return success(succeeded(verifyOptimizer(*this)) &&
                 succeeded(verifyFuse(*this))); // C5
}
LogicalResult OptimizerAdamOp::verify() {
  return success(succeeded(verifyOptimizer(*this)) &&
                 succeeded(verifyFuse(*this))); // C4
}
LogicalResult OptimizerRmspropOp::verify() { return verifyOptimizer(*this); }
LogicalResult OptimizerAdagradOp::verify() { return verifyOptimizer(*this); }

SmallVector<StringRef> OptimizerSgdOp::getStateNames() {
  if (getMomentum().isZero())
    return {};
  return {"momentum"};
}
SmallVector<StringRef> OptimizerAdamOp::getStateNames() {
  if (getAmsgrad())
    return {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  return {"exp_avg", "exp_avg_sq"};
}
SmallVector<StringRef> OptimizerRmspropOp::getStateNames() {
  SmallVector<StringRef> names = {"square_avg"};
  if (getCentered())
    names.push_back("grad_avg");
  if (!getMomentum().isZero())
    names.push_back("momentum_buffer");
  return names;
}
SmallVector<StringRef> OptimizerAdagradOp::getStateNames() { return {"sum"}; }

//===----------------------------------------------------------------------===//
// Learning rate and loss scale
//===----------------------------------------------------------------------===//

LogicalResult LearningRateOp::verify() {
  bool decays =
      getKind() == ScheduleKind::cosine || getKind() == ScheduleKind::linear;
  int64_t steps = getSteps(), warmup = getWarmup(), period = getPeriod();
  if (decays && steps <= warmup) // C1
    return emitOpError() << stringifyEnum(getKind())
                         << " needs more steps than "
                         << "the warm-up's " << warmup << ", found " << steps;
  if (getKind() == ScheduleKind::step && period <= 0) // C1
    return emitOpError() << "step needs a positive period, found " << period;
  if (warmup < 0) // C2
    return emitOpError() << "warmup must not be negative, found " << warmup;
  return success();
}

LogicalResult AllFiniteOp::verify() {
  if (getGradients().empty() || getNames().size() != getGradients().size())
    return emitOpError() << "needs a name for each of its tensors, found "
                         << getNames().size() << " for "
                         << getGradients().size();              // C1
  if (tensor(getRecord()).getShape() != ArrayRef<int64_t>({2})) // C2
    return emitOpError() << "needs a record tensor<2xi64>, found "
                         << getRecord().getType();
  return success();
}

LogicalResult GlobalNormOp::verify() {
  if (getGradients().empty()) // C1
    return emitOpError() << "needs at least one tensor";
  return success();
}

LogicalResult LossScaleUpdateOp::verify() {
  double growth = getGrowth().convertToDouble(),
         backoff = getBackoff().convertToDouble();
  auto counts = [](int64_t steps) {
    return steps >= 1 && steps <= std::numeric_limits<int32_t>::max();
  };
  if (!(growth >= 1) || !(backoff > 0 && backoff <= 1) ||
      !counts(getInterval()) || !counts(getHysteresis())) // C1
    return emitOpError()
           << "needs growth >= 1, backoff in (0, 1], interval and "
           << "hysteresis from 1 to 2^31 - 1, found " << growth << ", "
           << backoff << ", " << static_cast<int64_t>(getInterval()) << " and "
           << static_cast<int64_t>(getHysteresis());
  if (getHysteresis() > 1 && !getHysteresisLeft()) // C2
    return emitOpError() << "needs 'hysteresis_left' for a hysteresis of "
                         << getHysteresis();
  if (bool(getHysteresisLeft()) != bool(getNewHysteresisLeft())) // C3
    return emitOpError() << "gives 'new_hysteresis_left' exactly where "
                         << "'hysteresis_left' is an operand";
  return success();
}
