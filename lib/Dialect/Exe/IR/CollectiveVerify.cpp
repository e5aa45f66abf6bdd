//===- CollectiveVerify.cpp - verifiers of collectives --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifies the constraints of ExeBase.td (message) and ExeOps.td (op). The
// runtime repeats them for untrusted files.
//
//===----------------------------------------------------------------------===//

#include "ProgramSymbols.h"

#include "llvm/Support/MathExtras.h"

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
  if (!element.isIntOrFloat()) // C1
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
  if (!floats || !sums || sums.getWidth() < floats.getWidth()) // C2
    return emitError()
           << "a reduction of " << element
           << " must accumulate in a float type of at least that width, found "
           << accumulate;
  return success();
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
  int64_t element = bytesPerElement(message.getElement());
  for (auto [input, output] :
       llvm::zip_equal(op.getInputs(), op.getOutputs())) {
    int64_t given = *names.bytesOf(input), made = *names.bytesOf(output);
    int64_t expected = given;
    if (message.getKind() == MessageKind::all_gather)
      expected = given * message.getRanks();
    else if (message.getKind() == MessageKind::reduce_scatter)
      expected =
          int64_t(llvm::divideCeil(given / element, message.getRanks())) *
          element;
    if (given % element || made != expected) // C3
      return op.emitOpError()
             << "makes " << made << " bytes of " << given << ", which gives "
             << expected << " of " << message.getElement();
  }
  return success();
}
