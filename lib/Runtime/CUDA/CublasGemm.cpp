//===- CublasGemm.cpp - GEMM by cuBLASLt ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CublasGemm.h"

#include "mpc/Runtime/Buffer.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::detail;

Result<std::shared_ptr<BlasContext>>
BlasContext::create(const Blas &blas, std::shared_ptr<CudaContext> device) {
  BlasHandle handle = nullptr;
  if (BlasResult error = blas.create(&handle))
    return Status(StatusCode::Unavailable, "cublasLt",
                  "cublasLtCreate failed with " +
                      describeBlasError(blas, error));
  return std::shared_ptr<BlasContext>(
      new BlasContext(blas, std::move(device), handle));
}

BlasContext::~BlasContext() {
  // Destroying the handle frees device memory of the library.
  std::optional<CudaScope> scope;
  if (device)
    scope.emplace(*device);
  blas.destroy(raw);
}

//===----------------------------------------------------------------------===//
// Description
//===----------------------------------------------------------------------===//

static int blasType(ElementType type) {
  switch (type) {
  case ElementType::F64:
    return kBlasF64;
  case ElementType::F16:
    return kBlasF16;
  case ElementType::BF16:
    return kBlasBf16;
  case ElementType::F8E4M3FN:
    return kBlasF8E4M3;
  case ElementType::F8E5M2:
    return kBlasF8E5M2;
  default:
    return kBlasF32;
  }
}

static int computeType(const GemmProblem &problem) {
  if (problem.operandA == ElementType::F64)
    return kBlasCompute64F;
  switch (problem.compute) {
  case GemmProblem::Compute::Tf32:
    return kBlasCompute32FFastTf32;
  case GemmProblem::Compute::Bf16x9:
    return kBlasCompute32FEmulated16BFX9;
  case GemmProblem::Compute::Native:
    break;
  }
  return kBlasCompute32F;
}

static uint32_t epilogueOf(const GemmProblem &problem) {
  uint32_t epilogue = problem.bias ? kBlasEpilogueBias : 0;
  switch (problem.activation) {
  case GemmProblem::Activation::None:
    break;
  case GemmProblem::Activation::Relu:
    epilogue |= kBlasEpilogueRelu;
    break;
  case GemmProblem::Activation::GeluTanh:
    epilogue |= kBlasEpilogueGelu;
    break;
  case GemmProblem::Activation::ReluGradient:
    epilogue |= kBlasEpilogueReluGradient | kBlasEpilogueAux;
    break;
  case GemmProblem::Activation::GeluTanhGradient:
    epilogue |= kBlasEpilogueGeluGradient | kBlasEpilogueAux;
    break;
  }
  if (problem.auxiliary)
    epilogue |= kBlasEpilogueAux;
  switch (problem.biasGradient) {
  case GemmProblem::BiasGradient::None:
    break;
  // cuBLASLt's a is our b.
  case GemmProblem::BiasGradient::A:
    epilogue |= kBlasEpilogueBiasGradientB;
    break;
  case GemmProblem::BiasGradient::B:
    epilogue |= kBlasEpilogueBiasGradientA;
    break;
  case GemmProblem::BiasGradient::Result:
    epilogue |= kBlasEpilogueBiasGradient;
    break;
  }
  return epilogue ? epilogue : uint32_t(kBlasEpilogueDefault);
}

/// Returns the attribute for the address of a buffer; nullopt for the matrices,
/// which are call arguments.
static std::optional<int> pointerAttribute(GemmProblem::Role role) {
  switch (role) {
  case GemmProblem::Role::A:
  case GemmProblem::Role::B:
  case GemmProblem::Role::Residual:
  case GemmProblem::Role::Result:
    return std::nullopt;
  case GemmProblem::Role::ScaleA:
    return kBlasDescScaleBPointer;
  case GemmProblem::Role::ScaleB:
    return kBlasDescScaleAPointer;
  case GemmProblem::Role::Bias:
  case GemmProblem::Role::BiasGradient:
    return kBlasDescBiasPointer;
  case GemmProblem::Role::Auxiliary:
    return kBlasDescAuxPointer;
  case GemmProblem::Role::ResultScale:
    return kBlasDescScaleDPointer;
  case GemmProblem::Role::Amax:
    return kBlasDescAmaxDPointer;
  }
  return std::nullopt;
}

Status CublasGemm::check(BlasResult result, const char *call) const {
  if (result == 0)
    return {};
  return Status(StatusCode::Internal, gemm.toString(),
                std::string(call) + " failed with " +
                    describeBlasError(context->library(), result) +
                    "; compile with --gemm=own to avoid the library");
}

Status CublasGemm::set(int attribute, const void *value, size_t bytes) const {
  return check(context->library().descSet(desc, attribute, value, bytes),
               "cublasLtMatmulDescSetAttribute");
}

Status CublasGemm::layout(BlasHandle &handle, ElementType type, int64_t rows,
                          int64_t columns, bool shared) {
  const Blas &blas = context->library();
  // Rows of a row-major matrix are columns in cuBLASLt.
  if (Status status =
          check(blas.layoutCreate(&handle, blasType(type), uint64_t(columns),
                                  uint64_t(rows), columns),
                "cublasLtMatrixLayoutCreate");
      !status.ok() || gemm.batch == 1)
    return status;
  int32_t count = int32_t(gemm.batch);
  int64_t stride = shared ? 0 : rows * columns;
  if (Status status = check(
          blas.layoutSet(handle, kBlasLayoutBatchCount, &count, sizeof(count)),
          "cublasLtMatrixLayoutSetAttribute");
      !status.ok())
    return status;
  return check(
      blas.layoutSet(handle, kBlasLayoutBatchStride, &stride, sizeof(stride)),
      "cublasLtMatrixLayoutSetAttribute");
}

Status CublasGemm::describe() {
  int scale = gemm.operandA == ElementType::F64 ? kBlasF64 : kBlasF32;
  if (Status status =
          check(context->library().descCreate(&desc, computeType(gemm), scale),
                "cublasLtMatmulDescCreate");
      !status.ok())
    return status;
  // cuBLASLt's a is our b.
  int32_t transposeA = gemm.transposeB ? kBlasTransposed : kBlasPlain;
  int32_t transposeB = gemm.transposeA ? kBlasTransposed : kBlasPlain;
  if (Status status = set(kBlasDescTransA, &transposeA, sizeof(transposeA));
      !status.ok())
    return status;
  if (Status status = set(kBlasDescTransB, &transposeB, sizeof(transposeB));
      !status.ok())
    return status;
  if (Status status = describeEpilogue(); !status.ok())
    return status;
  return describeLayouts();
}

Status CublasGemm::describeEpilogue() {
  uint32_t epilogue = epilogueOf(gemm);
  if (Status status = set(kBlasDescEpilogue, &epilogue, sizeof(epilogue));
      !status.ok())
    return status;
  if (gemm.auxiliary || gemm.isGradient()) {
    int64_t pitch = gemm.auxiliaryPitch(), stride = gemm.m * pitch;
    if (Status status = set(kBlasDescAuxLeading, &pitch, sizeof(pitch));
        !status.ok())
      return status;
    if (gemm.batch > 1)
      if (Status status = set(kBlasDescAuxBatchStride, &stride, sizeof(stride));
          !status.ok())
        return status;
  }
  if (gemm.bias && gemm.biasType() != gemm.result) {
    int32_t type = blasType(gemm.biasType());
    if (Status status = set(kBlasDescBiasType, &type, sizeof(type));
        !status.ok())
      return status;
  }
  // Heuristics depend on which buffers exist and on their alignment. The actual
  // addresses are set by each call.
  for (size_t i = 0; i < slots.size(); ++i)
    if (std::optional<int> attribute = pointerAttribute(slots[i].role)) {
      void *aligned = reinterpret_cast<void *>(alignments[i]);
      if (Status status = set(*attribute, &aligned, sizeof(aligned));
          !status.ok())
        return status;
    }
  return {};
}

Status CublasGemm::describeLayouts() {
  int64_t rowsA = gemm.transposeA ? gemm.k : gemm.m,
          columnsA = gemm.transposeA ? gemm.m : gemm.k,
          rowsB = gemm.transposeB ? gemm.n : gemm.k,
          columnsB = gemm.transposeB ? gemm.k : gemm.n;
  if (Status status =
          layout(layoutA, gemm.operandA, rowsA, columnsA, gemm.sharedA);
      !status.ok())
    return status;
  if (Status status =
          layout(layoutB, gemm.operandB, rowsB, columnsB, gemm.sharedB);
      !status.ok())
    return status;
  // 8-bit residuals do not exist, but the layout still needs a type.
  ElementType typeC = isFloat8(gemm.result) ? ElementType::BF16 : gemm.result;
  if (Status status = layout(layoutC, typeC, gemm.m, gemm.n, /*shared=*/false);
      !status.ok())
    return status;
  return layout(layoutD, gemm.result, gemm.m, gemm.n, /*shared=*/false);
}

Result<std::shared_ptr<CublasGemm>>
CublasGemm::create(std::shared_ptr<BlasContext> context,
                   const GemmProblem &problem,
                   std::span<const size_t> alignments) {
  std::string where = problem.toString();
  if (std::string text = problem.obstacle(); !text.empty())
    return Status(StatusCode::InvalidArgument, where, text);
  std::optional<std::vector<GemmProblem::Slot>> slots = problem.slots();
  if (!slots)
    return Status(StatusCode::InvalidArgument, where,
                  "has no size that fits in memory");
  if (problem.compute == GemmProblem::Compute::Bf16x9)
    if (size_t version = context->library().version();
        version < kLeastBf16x9Version)
      return Status(StatusCode::Unavailable, where,
                    "needs cuBLASLt " + std::to_string(kLeastBf16x9Version) +
                        " or later for bf16x9, but version " +
                        std::to_string(version) +
                        " is installed; update it, or compile with float32 or "
                        "tf32");
  std::shared_ptr<CublasGemm> product(
      new CublasGemm(std::move(context), problem));
  product->slots = std::move(*slots);
  product->alignments.assign(alignments.begin(), alignments.end());
  product->alignments.resize(product->slots.size(), kBufferAlignment);
  if (Status status = product->describe(); !status.ok())
    return status;
  return product;
}

CublasGemm::~CublasGemm() {
  const Blas &blas = context->library();
  for (BlasHandle handle : {layoutA, layoutB, layoutC, layoutD})
    if (handle)
      blas.layoutDestroy(handle);
  if (desc)
    blas.descDestroy(desc);
}

//===----------------------------------------------------------------------===//
// Use
//===----------------------------------------------------------------------===//

size_t CublasGemm::alignmentOf(GemmProblem::Role role) const {
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i].role == role)
      return alignments[i];
  return 0;
}

std::string CublasGemm::alignmentText() const {
  std::string text;
  for (size_t alignment : alignments)
    text += " " + std::to_string(alignment);
  return text;
}

Status CublasGemm::setPreferences(BlasHandle preference) const {
  const char *call = "cublasLtMatmulPreferenceSetAttribute";
  const Blas &blas = context->library();
  size_t workspace = kWorkspaceBytes;
  if (Status status =
          check(blas.preferenceSet(preference, kBlasPreferenceWorkspace,
                                   &workspace, sizeof(workspace)),
                call);
      !status.ok())
    return status;
  // Without these the heuristics assume 256-byte alignment. cuBLASLt's a is our
  // b, and c is d without a residual.
  using Role = GemmProblem::Role;
  for (auto [attribute, role] :
       {std::pair(kBlasPreferenceAlignmentA, Role::B),
        {kBlasPreferenceAlignmentB, Role::A},
        {kBlasPreferenceAlignmentC,
         gemm.residual ? Role::Residual : Role::Result},
        {kBlasPreferenceAlignmentD, Role::Result}}) {
    auto alignment = static_cast<uint32_t>(alignmentOf(role));
    if (Status status = check(blas.preferenceSet(preference, attribute,
                                                 &alignment, sizeof(alignment)),
                              call);
        !status.ok())
      return status;
  }
  return {};
}

Result<std::vector<BlasCandidate>> CublasGemm::candidates(int most) const {
  const Blas &blas = context->library();
  BlasHandle preference = nullptr;
  if (Status status = check(blas.preferenceCreate(&preference),
                            "cublasLtMatmulPreferenceCreate");
      !status.ok())
    return status;
  Status status = setPreferences(preference);
  std::vector<BlasCandidate> found(static_cast<size_t>(std::max(most, 1)));
  int count = 0;
  if (status.ok()) {
    BlasResult result = blas.heuristic(context->handle(), desc, layoutB,
                                       layoutA, layoutC, layoutD, preference,
                                       int(found.size()), found.data(), &count);
    // Some versions return this status, others an empty list.
    if (result == kBlasNotSupported)
      count = 0;
    else
      status = check(result, "cublasLtMatmulAlgoGetHeuristic");
  }
  blas.preferenceDestroy(preference);
  if (!status.ok())
    return status;
  found.resize(static_cast<size_t>(count));
  std::erase_if(found,
                [](const BlasCandidate &candidate) { return candidate.state; });
  if (found.empty())
    return Status(
        StatusCode::Unavailable, gemm.toString(),
        "cuBLASLt has no algorithm for this GEMM; compile with --gemm=own");
  return found;
}

Status CublasGemm::enqueue(std::span<void *const> buffers,
                           const BlasCandidate &candidate, void *workspace,
                           void *stream) const {
  const void *a = nullptr, *b = nullptr, *c = nullptr;
  void *d = nullptr;
  for (size_t i = 0; i < slots.size(); ++i) {
    switch (slots[i].role) {
    case GemmProblem::Role::A:
      a = buffers[i];
      break;
    case GemmProblem::Role::B:
      b = buffers[i];
      break;
    case GemmProblem::Role::Residual:
      c = buffers[i];
      break;
    case GemmProblem::Role::Result:
      d = buffers[i];
      break;
    default:
      if (Status status = set(*pointerAttribute(slots[i].role), &buffers[i],
                              sizeof(void *));
          !status.ok())
        return status;
    }
  }
  // If their types differ the library refuses aliasing c and d.
  if (!c && !isFloat8(gemm.result))
    c = d;
  // Read by the host during the call, in the accumulator type.
  float one32 = 1, beta32 = gemm.residual ? 1 : 0;
  double one64 = 1, beta64 = beta32;
  bool wide = gemm.operandA == ElementType::F64;
  const void *alpha = wide ? static_cast<const void *>(&one64) : &one32;
  const void *beta = wide ? static_cast<const void *>(&beta64) : &beta32;
  const Blas &blas = context->library();
  return check(blas.matmul(context->handle(), desc, alpha, b, layoutB, a,
                           layoutA, beta, c, layoutC, d, layoutD,
                           &candidate.algorithm, workspace,
                           candidate.workspaceBytes, stream),
               "cublasLtMatmul");
}
