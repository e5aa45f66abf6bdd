//===- MpcCommunication.cpp - collective ops ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcCommunicationOps.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

#include "mpc/Dialect/Mpc/IR/MpcCommunicationEnums.cpp.inc"
#include "mpc/Dialect/Mpc/IR/MpcCommunicationInterfaces.cpp.inc"

/// Verifies C1, and C2 with the output type computed by `typeOf`.
static LogicalResult
verifyTensors(Operation *op,
              llvm::function_ref<Type(RankedTensorType)> typeOf) {
  if (op->getNumOperands() == 0 ||
      op->getNumOperands() != op->getNumResults()) // C1
    return op->emitOpError()
           << "has " << op->getNumOperands() << " inputs and "
           << op->getNumResults()
           << " outputs; it needs as many outputs as inputs, at least one";
  constexpr uint64_t kMostRanks = 1 << 16;
  if (uint64_t ranks = cast<CollectiveOpInterface>(op).getRanks();
      ranks > kMostRanks) // C1
    return op->emitOpError() << "is of " << ranks << " ranks, but at most "
                             << kMostRanks << " are supported";
  Type element = getElementTypeOrSelf(op->getOperand(0).getType());
  for (auto [input, output] :
       llvm::zip_equal(op->getOperandTypes(), op->getResultTypes())) {
    auto tensor = cast<RankedTensorType>(input);
    if (tensor.getElementType() != element) // C1
      return op->emitOpError()
             << "has inputs of " << element << " and "
             << tensor.getElementType() << "; one message has one type";
    if (!tensor.hasStaticShape())
      return op->emitOpError()
             << "has the input " << input << " of no static shape";
    if (Type expected = typeOf(tensor); output != expected) // C2
      return op->emitOpError() << "makes " << output << " of " << input
                               << ", which gives " << expected;
  }
  return success();
}

/// Verifies C3 of reducing collectives.
template <typename OpTy> static LogicalResult verifyReduction(OpTy op) {
  Type element = getElementTypeOrSelf(op.getInputs().front().getType());
  auto floats = dyn_cast<FloatType>(element);
  if (op.getReduction() == RankReduction::mean && !floats)
    return op.emitOpError()
           << "takes the mean of " << element << ", which only floats have";
  std::optional<Type> accumulate = op.getAccumulate();
  if (!accumulate)
    return success();
  auto sums = dyn_cast<FloatType>(*accumulate);
  if (!floats || !sums || sums.getWidth() < floats.getWidth() ||
      (sums.getWidth() == floats.getWidth() && sums != floats))
    return op.emitOpError()
           << "accumulates " << element << " in " << *accumulate
           << ", which must be a float type of at least that width";
  return success();
}

static Type same(RankedTensorType type) { return type; }

LogicalResult AllReduceOp::verify() {
  if (failed(verifyTensors(*this, same)))
    return failure();
  return verifyReduction(*this);
}

LogicalResult ReduceScatterOp::verify() {
  int64_t ranks = getRanks();
  if (failed(verifyTensors(*this, [&](RankedTensorType type) {
        return RankedTensorType::get(
            {int64_t(llvm::divideCeil(type.getNumElements(), ranks))},
            type.getElementType());
      })))
    return failure();
  return verifyReduction(*this);
}

LogicalResult AllGatherOp::verify() {
  return verifyTensors(*this, [&](RankedTensorType type) {
    SmallVector<int64_t> shape = {int64_t(getRanks())};
    llvm::append_range(shape, type.getShape());
    return RankedTensorType::get(shape, type.getElementType());
  });
}

LogicalResult CollectiveBroadcastOp::verify() {
  int64_t root = getRoot(), ranks = getRanks();
  if (root < 0 || root >= ranks) // C3
    return emitOpError() << "takes the values of rank " << root << " of "
                         << ranks;
  return verifyTensors(*this, same);
}
