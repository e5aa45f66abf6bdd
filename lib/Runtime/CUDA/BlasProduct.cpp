//===- BlasProduct.cpp - matrix products by cuBLASLt ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BlasProduct.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::detail;

Result<std::shared_ptr<BlasContext>> BlasContext::create(const Blas &blas) {
  BlasHandle handle = nullptr;
  if (BlasResult error = blas.create(&handle))
    return Status(StatusCode::Unavailable, "cublasLt",
                  "cublasLtCreate failed with " +
                      describeBlasError(blas, error));
  return std::shared_ptr<BlasContext>(new BlasContext(blas, handle));
}

BlasContext::~BlasContext() { blas.destroy(raw); }

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
  default:
    return kBlasF32;
  }
}

static uint32_t epilogueOf(const GemmProblem &problem) {
  uint32_t epilogue = problem.bias ? kBlasEpilogueBias : 0;
  if (problem.activation == GemmProblem::Activation::Relu)
    epilogue |= kBlasEpilogueRelu;
  if (problem.activation == GemmProblem::Activation::GeluTanh)
    epilogue |= kBlasEpilogueGelu;
  return epilogue ? epilogue : uint32_t(kBlasEpilogueDefault);
}

Status BlasProduct::check(BlasResult result, const char *call) const {
  if (result == 0)
    return {};
  return Status(StatusCode::Internal, gemm.toString(),
                std::string(call) + " failed with " +
                    describeBlasError(context->library(), result) +
                    "; compile with --gemm=own to do without the library");
}

Status BlasProduct::layout(BlasHandle &handle, ElementType type, int64_t rows,
                           int64_t columns, bool shared) {
  const Blas &blas = context->library();
  // Rows of a row-major matrix are columns of the library's.
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

Status BlasProduct::describe() {
  const Blas &blas = context->library();
  bool wide = gemm.operand == ElementType::F64;
  int compute = wide        ? kBlasCompute64F
                : gemm.tf32 ? kBlasCompute32FFastTf32
                            : kBlasCompute32F;
  if (Status status =
          check(blas.descCreate(&desc, compute, wide ? kBlasF64 : kBlasF32),
                "cublasLtMatmulDescCreate");
      !status.ok())
    return status;
  // The library's a is our b.
  int32_t transposeA = gemm.transposeB ? kBlasTransposed : kBlasPlain;
  int32_t transposeB = gemm.transposeA ? kBlasTransposed : kBlasPlain;
  uint32_t epilogue = epilogueOf(gemm);
  auto set = [&](int attribute, const void *value) {
    return check(blas.descSet(desc, attribute, value, 4),
                 "cublasLtMatmulDescSetAttribute");
  };
  if (Status status = set(kBlasDescTransA, &transposeA); !status.ok())
    return status;
  if (Status status = set(kBlasDescTransB, &transposeB); !status.ok())
    return status;
  if (Status status = set(kBlasDescEpilogue, &epilogue); !status.ok())
    return status;

  int64_t rowsA = gemm.transposeA ? gemm.k : gemm.m,
          columnsA = gemm.transposeA ? gemm.m : gemm.k,
          rowsB = gemm.transposeB ? gemm.n : gemm.k,
          columnsB = gemm.transposeB ? gemm.k : gemm.n;
  if (Status status =
          layout(layoutA, gemm.operand, rowsA, columnsA, gemm.sharedA);
      !status.ok())
    return status;
  if (Status status =
          layout(layoutB, gemm.operand, rowsB, columnsB, gemm.sharedB);
      !status.ok())
    return status;
  return layout(layoutD, gemm.result, gemm.m, gemm.n, /*shared=*/false);
}

Result<std::shared_ptr<BlasProduct>>
BlasProduct::create(std::shared_ptr<BlasContext> context,
                    const GemmProblem &problem) {
  std::shared_ptr<BlasProduct> product(
      new BlasProduct(std::move(context), problem));
  if (Status status = product->describe(); !status.ok())
    return status;
  return product;
}

BlasProduct::~BlasProduct() {
  const Blas &blas = context->library();
  for (BlasHandle handle : {layoutA, layoutB, layoutD})
    if (handle)
      blas.layoutDestroy(handle);
  if (desc)
    blas.descDestroy(desc);
}

//===----------------------------------------------------------------------===//
// Use
//===----------------------------------------------------------------------===//

Result<std::vector<BlasCandidate>> BlasProduct::candidates(int most) const {
  const Blas &blas = context->library();
  BlasHandle preference = nullptr;
  if (Status status = check(blas.preferenceCreate(&preference),
                            "cublasLtMatmulPreferenceCreate");
      !status.ok())
    return status;
  size_t workspace = kWorkspaceBytes;
  Status status = check(blas.preferenceSet(preference, kBlasPreferenceWorkspace,
                                           &workspace, sizeof(workspace)),
                        "cublasLtMatmulPreferenceSetAttribute");
  std::vector<BlasCandidate> found(static_cast<size_t>(std::max(most, 1)));
  int count = 0;
  if (status.ok())
    status = check(blas.heuristic(context->handle(), desc, layoutB, layoutA,
                                  layoutD, layoutD, preference,
                                  int(found.size()), found.data(), &count),
                   "cublasLtMatmulAlgoGetHeuristic");
  blas.preferenceDestroy(preference);
  if (!status.ok())
    return status;
  found.resize(static_cast<size_t>(count));
  std::erase_if(found,
                [](const BlasCandidate &candidate) { return candidate.state; });
  if (found.empty())
    return Status(StatusCode::Unavailable, gemm.toString(),
                  "cuBLASLt has no algorithm for this product; compile with "
                  "--gemm=own");
  return found;
}

Status BlasProduct::enqueue(std::span<void *const> buffers,
                            const BlasCandidate &candidate, void *workspace,
                            void *stream) const {
  const Blas &blas = context->library();
  size_t next = 2;
  const void *a = buffers[0], *b = buffers[1];
  if (gemm.bias)
    if (Status status = check(blas.descSet(desc, kBlasDescBiasPointer,
                                           &buffers[next++], sizeof(void *)),
                              "cublasLtMatmulDescSetAttribute");
        !status.ok())
      return status;
  void *d = buffers.back();
  const void *c = gemm.residual ? buffers[next] : d;
  // Read by the host during the call, in the type of the sums.
  float one32 = 1, beta32 = gemm.residual ? 1 : 0;
  double one64 = 1, beta64 = beta32;
  bool wide = gemm.operand == ElementType::F64;
  const void *alpha = wide ? static_cast<const void *>(&one64) : &one32;
  const void *beta = wide ? static_cast<const void *>(&beta64) : &beta32;
  return check(blas.matmul(context->handle(), desc, alpha, b, layoutB, a,
                           layoutA, beta, c, layoutD, d, layoutD,
                           &candidate.algorithm, workspace,
                           candidate.workspaceBytes, stream),
               "cublasLtMatmul");
}
