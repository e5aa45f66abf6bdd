//===- GemmVerify.cpp - verifiers of library GEMMs ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The runtime's GemmProblem verifies the constraints of ExeBase.td (problem).
//
//===----------------------------------------------------------------------===//

#include "ProgramSymbols.h"

#include "mpc/Dialect/Mpc/IR/RuntimeTypes.h"
#include "mpc/Runtime/Gemm.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::exe;

//===----------------------------------------------------------------------===//
// ProblemAttr
//===----------------------------------------------------------------------===//

static_assert(getMaxEnumValForEpilogue() ==
                  unsigned(GemmProblem::Activation::GeluTanhGradient) &&
              getMaxEnumValForCompute() ==
                  unsigned(GemmProblem::Compute::Bf16x9) &&
              getMaxEnumValForBiasGradient() ==
                  unsigned(GemmProblem::BiasGradient::Result));

/// Returns the problem for the runtime, nullopt if it has no such type. The
/// parameters are those of ProblemAttr.
static std::optional<GemmProblem>
runtimeProblem(int64_t m, int64_t n, int64_t k, int64_t batch, Type a, Type b,
               Type result, bool transposeA, bool transposeB, bool sharedA,
               bool sharedB, Epilogue epilogue, bool bias, bool residual,
               bool auxiliary, exe::BiasGradient biasGradient,
               exe::Compute compute, bool scales, bool resultScale, bool amax) {
  std::optional<ElementType> elementA = runtimeElement(a),
                             elementB = runtimeElement(b ? b : a),
                             elementD = runtimeElement(result);
  if (!elementA || !elementB || !elementD)
    return std::nullopt;
  return GemmProblem{m,
                     n,
                     k,
                     batch,
                     *elementA,
                     *elementB,
                     *elementD,
                     transposeA,
                     transposeB,
                     sharedA,
                     sharedB,
                     GemmProblem::Activation(epilogue),
                     bias,
                     residual,
                     auxiliary,
                     GemmProblem::BiasGradient(biasGradient),
                     GemmProblem::Compute(compute),
                     scales,
                     resultScale,
                     amax};
}

GemmProblem ProblemAttr::getGemm() const {
  return *runtimeProblem(getM(), getN(), getK(), getBatch(), getOperandType(),
                         getOperandBType(), getResultType(), getTransposeA(),
                         getTransposeB(), getSharedA(), getSharedB(),
                         getEpilogue(), getBias(), getResidual(),
                         getAuxiliary(), getBiasGradient(), getCompute(),
                         getScales(), getResultScale(), getAmax());
}

LogicalResult ProblemAttr::verify(
    function_ref<InFlightDiagnostic()> emitError, int64_t m, int64_t n,
    int64_t k, int64_t batch, Type a, Type b, Type result, bool transposeA,
    bool transposeB, bool sharedA, bool sharedB, Epilogue epilogue, bool bias,
    bool residual, bool auxiliary, exe::BiasGradient biasGradient,
    exe::Compute compute, bool scales, bool resultScale, bool amax) {
  std::optional<GemmProblem> problem =
      runtimeProblem(m, n, k, batch, a, b, result, transposeA, transposeB,
                     sharedA, sharedB, epilogue, bias, residual, auxiliary,
                     biasGradient, compute, scales, resultScale, amax);
  if (!problem)
    return emitError() << "a product is of floats, found " << a << ", "
                       << (b ? b : a) << " and " << result;
  if (std::string text = problem->obstacle(); !text.empty())
    return emitError() << "GEMM " << problem->toString() << ' ' << text;
  return success();
}

//===----------------------------------------------------------------------===//
// GemmOp
//===----------------------------------------------------------------------===//

LogicalResult mpc::exe::verifyGemm(GemmOp gemm, const ProgramSymbols &names) {
  // C2
  if (failed(verifyBuffers(cast<StepOpInterface>(gemm.getOperation()), names)))
    return failure();
  GemmProblem problem = gemm.getProblem().getGemm();
  // C3
  const TargetInfo &target = names.getProgram().getTarget().getInfo();
  if (isFloat8(problem.operandA) && !target.unit(MathType::Float8))
    return gemm.emitOpError()
           << "multiplies " << gemm.getProblem().getOperandType()
           << ", which needs sm_89 or later, but the program is for "
           << target.name();
  // C1
  std::vector<GemmProblem::Slot> slots = *problem.slots();
  size_t written =
      llvm::count_if(slots, [](const auto &s) { return s.written; });
  size_t read = slots.size() - written;
  if (gemm.getInputs().size() != read || gemm.getOutputs().size() != written)
    return gemm.emitOpError()
           << "has " << gemm.getInputs().size() << " inputs and "
           << gemm.getOutputs().size() << " outputs, its problem has " << read
           << " and " << written;
  for (auto [buffer, slot] : llvm::zip_equal(
           llvm::concat<const Attribute>(gemm.getInputs(), gemm.getOutputs()),
           slots))
    if (*names.bytesOf(buffer) != slot.bytes)
      return gemm.emitOpError()
             << "buffer " << buffer << " has " << *names.bytesOf(buffer)
             << " bytes, its problem needs " << slot.bytes;
  return success();
}
