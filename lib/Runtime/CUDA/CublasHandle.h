//===- CublasHandle.h - entry points of cuBLASLt ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The library is loaded at run time; only tests use its header, to compare the
// constants below.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_CUBLASHANDLE_H
#define MPC_LIB_RUNTIME_CUDA_CUBLASHANDLE_H

#include "mpc/Runtime/Status.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mpc::detail {

/// A cublasStatus_t; 0 is success.
using BlasResult = int;
/// CUBLAS_STATUS_NOT_SUPPORTED: the library does not support the problem.
inline constexpr BlasResult kBlasNotSupported = 15;
/// A cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t or
/// cublasLtMatmulPreference_t.
using BlasHandle = void *;

/// cudaDataType_t and cublasComputeType_t.
enum BlasType : int {
  kBlasF32 = 0,
  kBlasF64 = 1,
  kBlasF16 = 2,
  kBlasBf16 = 14,
  kBlasF8E4M3 = 28,
  kBlasF8E5M2 = 29,
};
enum BlasCompute : int {
  kBlasCompute32F = 68,
  kBlasCompute64F = 70,
  kBlasCompute32FFastTf32 = 77,
  kBlasCompute32FEmulated16BFX9 = 78,
};
/// cublasLtMatrixLayoutAttribute_t.
enum BlasLayoutAttribute : int {
  kBlasLayoutBatchCount = 5,
  kBlasLayoutBatchStride = 6,
};
/// cublasLtMatmulDescAttributes_t.
enum BlasDescAttribute : int {
  kBlasDescTransA = 3,
  kBlasDescTransB = 4,
  kBlasDescEpilogue = 7,
  kBlasDescBiasPointer = 8,
  kBlasDescAuxPointer = 11,
  kBlasDescAuxLeading = 12,
  kBlasDescAuxBatchStride = 13,
  kBlasDescScaleAPointer = 17,
  kBlasDescScaleBPointer = 18,
  kBlasDescScaleDPointer = 20,
  kBlasDescAmaxDPointer = 21,
  kBlasDescBiasType = 26,
};
/// cublasLtMatmulPreferenceAttributes_t.
enum BlasPreferenceAttribute : int {
  kBlasPreferenceWorkspace = 1,
  kBlasPreferenceAlignmentA = 5,
  kBlasPreferenceAlignmentB = 6,
  kBlasPreferenceAlignmentC = 7,
  kBlasPreferenceAlignmentD = 8,
};
/// cublasLtEpilogue_t, as bits that combine to its values. A gradient is
/// combined with kBlasEpilogueAux.
enum BlasEpilogue : uint32_t {
  kBlasEpilogueDefault = 1,
  kBlasEpilogueRelu = 2,
  kBlasEpilogueBias = 4,
  kBlasEpilogueReluGradient = 8,
  kBlasEpilogueBiasGradient = 16,
  kBlasEpilogueGelu = 32,
  kBlasEpilogueGeluGradient = 64,
  kBlasEpilogueAux = 128,
  kBlasEpilogueBiasGradientA = 256,
  kBlasEpilogueBiasGradientB = 512,
};
/// cublasOperation_t.
enum BlasOperation : int { kBlasPlain = 0, kBlasTransposed = 1 };

/// cublasLtMatmulAlgo_t: opaque, valid for one problem, device and version.
struct BlasAlgorithm {
  uint64_t data[8] = {};
};
/// cublasLtMatmulHeuristicResult_t.
struct BlasCandidate {
  BlasAlgorithm algorithm;
  size_t workspaceBytes = 0;
  BlasResult state = 0;
  float waves = 0;
  int reserved[4] = {};
};

/// Function table of the library, by its API names. A table, so that tests can
/// substitute a fake library.
struct Blas {
  BlasResult (*create)(BlasHandle *handle) = nullptr;
  BlasResult (*destroy)(BlasHandle handle) = nullptr;
  const char *(*statusName)(BlasResult status) = nullptr;
  size_t (*version)() = nullptr;
  BlasResult (*descCreate)(BlasHandle *desc, int compute, int scale) = nullptr;
  BlasResult (*descDestroy)(BlasHandle desc) = nullptr;
  BlasResult (*descSet)(BlasHandle desc, int attribute, const void *value,
                        size_t bytes) = nullptr;
  BlasResult (*layoutCreate)(BlasHandle *layout, int type, uint64_t rows,
                             uint64_t columns, int64_t leading) = nullptr;
  BlasResult (*layoutDestroy)(BlasHandle layout) = nullptr;
  BlasResult (*layoutSet)(BlasHandle layout, int attribute, const void *value,
                          size_t bytes) = nullptr;
  BlasResult (*preferenceCreate)(BlasHandle *preference) = nullptr;
  BlasResult (*preferenceDestroy)(BlasHandle preference) = nullptr;
  BlasResult (*preferenceSet)(BlasHandle preference, int attribute,
                              const void *value, size_t bytes) = nullptr;
  BlasResult (*heuristic)(BlasHandle handle, BlasHandle desc, BlasHandle a,
                          BlasHandle b, BlasHandle c, BlasHandle d,
                          BlasHandle preference, int wanted,
                          BlasCandidate *candidates, int *found) = nullptr;
  BlasResult (*matmul)(BlasHandle handle, BlasHandle desc, const void *alpha,
                       const void *a, BlasHandle layoutA, const void *b,
                       BlasHandle layoutB, const void *beta, const void *c,
                       BlasHandle layoutC, void *d, BlasHandle layoutD,
                       const BlasAlgorithm *algorithm, void *workspace,
                       size_t workspaceBytes, void *stream) = nullptr;
};

/// Calls `visit(name, function)` for every function of `blas`, a Blas.
template <typename Table, typename Visit>
void visitBlasEntryPoints(Table &blas, Visit &&visit) {
  visit("cublasLtCreate", blas.create);
  visit("cublasLtDestroy", blas.destroy);
  visit("cublasLtGetStatusName", blas.statusName);
  visit("cublasLtGetVersion", blas.version);
  visit("cublasLtMatmulDescCreate", blas.descCreate);
  visit("cublasLtMatmulDescDestroy", blas.descDestroy);
  visit("cublasLtMatmulDescSetAttribute", blas.descSet);
  visit("cublasLtMatrixLayoutCreate", blas.layoutCreate);
  visit("cublasLtMatrixLayoutDestroy", blas.layoutDestroy);
  visit("cublasLtMatrixLayoutSetAttribute", blas.layoutSet);
  visit("cublasLtMatmulPreferenceCreate", blas.preferenceCreate);
  visit("cublasLtMatmulPreferenceDestroy", blas.preferenceDestroy);
  visit("cublasLtMatmulPreferenceSetAttribute", blas.preferenceSet);
  visit("cublasLtMatmulAlgoGetHeuristic", blas.heuristic);
  visit("cublasLtMatmul", blas.matmul);
}

/// Oldest supported version, in the library's encoding (12.0).
inline constexpr size_t kLeastBlasVersion = 120000;
/// Oldest version with bf16x9 emulation of f32 (12.9).
inline constexpr size_t kLeastBf16x9Version = 120900;

/// Loads the library `path`, which stays loaded. Unavailable, with the reason,
/// if it is missing, another library, or older than kLeastBlasVersion.
Result<Blas> loadBlas(const std::string &path);

/// Returns this machine's library, searched once per process in Environment.h's
/// paths for libcublasLt.so.13 and libcublasLt.so.12. The failure names an
/// alternative.
Result<const Blas *> installedBlas();

/// "CUBLAS_STATUS_NOT_SUPPORTED".
std::string describeBlasError(const Blas &blas, BlasResult error);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_CUBLASHANDLE_H
