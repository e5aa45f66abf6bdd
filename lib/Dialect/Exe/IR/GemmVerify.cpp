//===- GemmVerify.cpp - verifiers of library GEMMs ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifies the constraints of ExeBase.td (problem) and ExeOps.td (op). The
// runtime repeats them in lib/Runtime/Gemm.cpp for untrusted files.
//
//===----------------------------------------------------------------------===//

#include "ProgramSymbols.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::exe;

static bool isEightBit(Type type) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(type);
}

static int64_t bytesOf(Type type) { return type.getIntOrFloatBitWidth() / 8; }

/// Row alignment of ReLU's auxiliary buffer, in bits.
static constexpr int64_t kMaskBits = 128;

//===----------------------------------------------------------------------===//
// ProblemAttr
//===----------------------------------------------------------------------===//

/// Returns true if `extents`, all positive, give less than 2^63 bytes in any
/// type.
static bool fits(ArrayRef<int64_t> extents) {
  int64_t bytes = sizeof(double);
  return llvm::none_of(extents, [&](int64_t extent) {
    return llvm::MulOverflow(bytes, extent, bytes);
  });
}

/// Verifies C2, C3 and C4: 8-bit operands and results.
static LogicalResult verify8Bits(function_ref<InFlightDiagnostic()> emitError,
                                 Type a, Type b, Type result, bool sameLayout,
                                 ArrayRef<int64_t> extents, bool forTraining,
                                 bool residual, bool scales, bool ofResult) {
  // C2
  if (isEightBit(a) != isEightBit(b) || (!isEightBit(a) && a != b))
    return emitError() << "a GEMM needs operands of the same type or two 8-bit "
                          "types, found "
                       << a << " and " << b;
  if (isa<Float8E5M2Type>(a) && isa<Float8E5M2Type>(b))
    return emitError() << "a GEMM has at most one operand of type " << a;
  // C4
  if (scales && !isEightBit(a))
    return emitError() << "scales need 8-bit operands, found " << a;
  if (ofResult && !isEightBit(result))
    return emitError() << "a result scale or amax needs an 8-bit result, found "
                       << result;
  if (isEightBit(result) &&
      (!isEightBit(a) || (isa<Float8E5M2Type>(result) && a == b)))
    return emitError() << "a GEMM of " << a << " and " << b
                       << " cannot have a result of type " << result;
  if (!isEightBit(a))
    return success();
  if (result.isF64())
    return emitError() << "a GEMM of " << a << " and " << b
                       << " cannot have a result of type " << result;
  if (residual && isEightBit(result))
    return emitError() << "an 8-bit result cannot have a residual";
  // C3
  if (!sameLayout)
    return emitError() << "8-bit operands need the layouts [m, k] and [n, k]: "
                          "transpose_b = true and no transpose_a";
  if (llvm::any_of(extents, [](int64_t extent) { return extent % 16; }))
    return emitError()
           << "8-bit operands need extents that are multiples of 16, found m "
           << extents[0] << ", n " << extents[1] << ", k " << extents[2];
  if (forTraining)
    return emitError() << "8-bit operands cannot have a gradient epilogue, an "
                          "auxiliary buffer or a bias gradient";
  return success();
}

LogicalResult
ProblemAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t m,
                    int64_t n, int64_t k, int64_t batch, Type a, Type typeOfB,
                    Type result, bool transposeA, bool transposeB, bool, bool,
                    Epilogue epilogue, bool bias, bool residual, bool auxiliary,
                    exe::BiasGradient biasGradient, exe::Compute compute,
                    bool scales, bool resultScale, bool amax) {
  // C1
  if (m < 1 || n < 1 || k < 1 || batch < 1)
    return emitError() << "a GEMM needs positive extents, found m " << m
                       << ", n " << n << ", k " << k << ", batch " << batch;
  if (!fits({batch, m, k}) || !fits({batch, k, n}) || !fits({batch, m, n}) ||
      !fits({batch, m, kMaskBits}))
    return emitError() << "a GEMM needs sizes that fit in memory, found m " << m
                       << ", n " << n << ", k " << k << ", batch " << batch;
  Type b = typeOfB ? typeOfB : a;
  if (!isa<FloatType>(a) || !isa<FloatType>(b) || !isa<FloatType>(result))
    return emitError() << "a GEMM needs float operands and results, found " << a
                       << ", " << b << " and " << result;
  bool isGradient = epilogue == Epilogue::relu_gradient ||
                    epilogue == Epilogue::gelu_tanh_gradient;
  bool hasBiasGradient = biasGradient != exe::BiasGradient::none;
  // C2, C3, C4
  if (failed(verify8Bits(emitError, a, b, result, !transposeA && transposeB,
                         {m, n, k}, isGradient || auxiliary || hasBiasGradient,
                         residual, scales, resultScale || amax)))
    return failure();
  // C5
  if (compute != exe::Compute::native && !a.isF32())
    return emitError() << stringifyCompute(compute)
                       << " needs f32 operands, found " << a;
  // C6
  if (residual && epilogue != Epilogue::none)
    return emitError() << "a GEMM cannot have both a residual and an "
                          "activation, found a residual with "
                       << stringifyEpilogue(epilogue);
  if (bias && isGradient)
    return emitError() << "a GEMM cannot have both a bias and an activation "
                          "gradient, found a bias with "
                       << stringifyEpilogue(epilogue);
  // C7
  if (auxiliary && (epilogue == Epilogue::none || isGradient))
    return emitError() << "an auxiliary buffer needs an activation, found "
                       << stringifyEpilogue(epilogue);
  bool isGelu = epilogue == Epilogue::gelu_tanh ||
                epilogue == Epilogue::gelu_tanh_gradient;
  if (isGelu && (auxiliary || isGradient) && n % 8)
    return emitError() << "the auxiliary buffer of gelu needs rows of a "
                          "multiple of 8 elements, found n "
                       << n;
  // C8
  if (!hasBiasGradient)
    return success();
  if (batch != 1)
    return emitError() << "a bias gradient needs a batch of 1, found " << batch;
  if ((biasGradient == exe::BiasGradient::result) != isGradient)
    return emitError() << "a bias gradient sums the result with an activation "
                          "gradient, else an operand, found "
                       << stringifyBiasGradient(biasGradient) << " with "
                       << stringifyEpilogue(epilogue);
  if (!isGradient && (epilogue != Epilogue::none || bias || residual))
    return emitError()
           << "the bias gradient of an operand excludes any other epilogue";
  return success();
}

Type ProblemAttr::biasType() const {
  Type result = getResultType();
  return isEightBit(getOperandType()) && (result.isF32() || isEightBit(result))
             ? BFloat16Type::get(getContext())
             : result;
}

/// Size of the buffer that an activation saves for its gradient, in bytes.
static int64_t auxiliaryBytes(ProblemAttr problem) {
  int64_t lines = problem.getBatch() * problem.getM();
  if (problem.isRelu())
    return lines * (llvm::alignTo(problem.getN(), kMaskBits) / 8);
  return lines * problem.getN() * bytesOf(problem.getResultType());
}

static int64_t resultBytes(ProblemAttr problem) {
  return problem.getBatch() * problem.getM() * problem.getN() *
         bytesOf(problem.getResultType());
}

SmallVector<int64_t> ProblemAttr::inputBytes() const {
  SmallVector<int64_t> bytes = {(getSharedA() ? 1 : getBatch()) * getM() *
                                    getK() * bytesOf(getOperandType()),
                                (getSharedB() ? 1 : getBatch()) * getK() *
                                    getN() * bytesOf(typeOfB())};
  if (getScales())
    bytes.append(2, sizeof(float));
  if (getBias())
    bytes.push_back(getN() * bytesOf(biasType()));
  if (getResidual())
    bytes.push_back(resultBytes(*this));
  if (isGradient())
    bytes.push_back(auxiliaryBytes(*this));
  if (getResultScale())
    bytes.push_back(sizeof(float));
  return bytes;
}

SmallVector<int64_t> ProblemAttr::outputBytes() const {
  SmallVector<int64_t> bytes = {resultBytes(*this)};
  if (getAuxiliary())
    bytes.push_back(auxiliaryBytes(*this));
  if (getBiasGradient() != exe::BiasGradient::none)
    bytes.push_back(
        (getBiasGradient() == exe::BiasGradient::a ? getM() : getN()) *
        bytesOf(getResultType()));
  if (getAmax())
    bytes.push_back(sizeof(float));
  return bytes;
}

//===----------------------------------------------------------------------===//
// GemmOp
//===----------------------------------------------------------------------===//

LogicalResult mpc::exe::verifyGemm(GemmOp gemm, const ProgramSymbols &names) {
  // C2
  if (failed(verifyBuffers(cast<StepOpInterface>(gemm.getOperation()), names)))
    return failure();
  ProblemAttr problem = gemm.getProblem();
  // C3
  const TargetInfo &target = names.getProgram().getTarget().getInfo();
  if (isEightBit(problem.getOperandType()) && !target.unit(MathType::Float8))
    return gemm.emitOpError()
           << "multiplies " << problem.getOperandType()
           << ", which needs sm_89 or later, but the program is for "
           << target.name();
  // C1
  SmallVector<int64_t> read = problem.inputBytes(),
                       written = problem.outputBytes();
  if (gemm.getInputs().size() != read.size() ||
      gemm.getOutputs().size() != written.size())
    return gemm.emitOpError()
           << "has " << gemm.getInputs().size() << " inputs and "
           << gemm.getOutputs().size() << " outputs, its problem has "
           << read.size() << " and " << written.size();
  auto check = [&](ArrayAttr buffers,
                   ArrayRef<int64_t> sizes) -> LogicalResult {
    for (auto [buffer, size] : llvm::zip_equal(buffers, sizes))
      if (*names.bytesOf(buffer) != size)
        return gemm.emitOpError()
               << "buffer " << buffer << " has " << *names.bytesOf(buffer)
               << " bytes, its problem needs " << size;
    return success();
  };
  if (failed(check(gemm.getInputs(), read)))
    return failure();
  return check(gemm.getOutputs(), written);
}
