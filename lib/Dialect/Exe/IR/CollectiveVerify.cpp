//===- CollectiveVerify.cpp - verifiers of collectives --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifies the constraints of ExeBase.td (message) and ExeOps.td (op).
//
//===----------------------------------------------------------------------===//

#include "ProgramSymbols.h"

#include "mpc/Dialect/Mpc/IR/RuntimeTypes.h"
#include "mpc/Runtime/Collective.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::exe;

LogicalResult MessageAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                  MessageKind kind, int64_t ranks, Type element,
                                  Reduction reduction, Type accumulate,
                                  int64_t root) {
  bool reduces =
      kind == MessageKind::all_reduce || kind == MessageKind::reduce_scatter;
  if (ranks < 1) // C1
    return emitError() << "a collective needs at least 1 rank, found " << ranks;
  if (!runtimeElement(element)) // C1
    return emitError() << "a collective needs integers or floats, found "
                       << element;
  if (root < 0 || root >= ranks ||
      (root && kind != MessageKind::broadcast)) // C3
    return emitError() << "a collective of " << ranks << " ranks has the root "
                       << root;
  auto floats = dyn_cast<FloatType>(element);
  if (!reduces && (reduction != Reduction::sum || accumulate)) // C2
    return emitError()
           << "a collective that does not reduce cannot have a reduction";
  if (reduction == Reduction::mean && !floats) // C2
    return emitError() << "a mean needs floats, found " << element;
  if (!accumulate)
    return success();
  auto sums = dyn_cast<FloatType>(accumulate);
  if (!floats || !sums || !runtimeElement(sums) ||
      sums.getWidth() < floats.getWidth()) // C2
    return emitError()
           << "a reduction of " << element
           << " must accumulate in a float type of at least that width, found "
           << accumulate;
  return success();
}

Collective MessageAttr::getCollective() const {
  static_assert(
      getMaxEnumValForMessageKind() == unsigned(Collective::Kind::Broadcast) &&
      getMaxEnumValForReduction() == unsigned(Collective::Reduction::Max));
  Collective result;
  result.kind = Collective::Kind(getKind());
  result.reduction = Collective::Reduction(getReduction());
  result.element = *runtimeElement(getElement());
  result.accumulate =
      getAccumulate() ? *runtimeElement(getAccumulate()) : result.element;
  result.ranks = getRanks();
  result.root = getRoot();
  return result;
}

LogicalResult mpc::exe::verifyMessage(CollectiveOp op,
                                      const ProgramSymbols &names) {
  // C1, C2
  if (failed(verifyBuffers(cast<StepOpInterface>(op.getOperation()), names)))
    return failure();
  MessageAttr message = op.getMessage();
  size_t inputs = op.getInputs().size(), outputs = op.getOutputs().size();
  if (inputs == 0 || inputs != outputs) // C3
    return op.emitOpError()
           << "has " << inputs << " inputs and " << outputs
           << " outputs; it needs as many outputs as inputs, at least one";
  Collective runtime = message.getCollective();
  int64_t element = elementBytes(runtime.element);
  for (auto [input, output] :
       llvm::zip_equal(op.getInputs(), op.getOutputs())) {
    int64_t given = *names.bytesOf(input), made = *names.bytesOf(output);
    std::optional<int64_t> expected = runtime.outputElements(given / element);
    if (given % element || !expected || made != *expected * element) // C3
      return op.emitOpError()
             << "makes " << made << " bytes of " << given << ", which gives "
             << expected.value_or(0) * element << " of "
             << message.getElement();
  }
  return success();
}
