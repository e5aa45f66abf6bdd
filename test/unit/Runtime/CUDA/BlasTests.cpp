//===- BlasTests.cpp - GEMMs by cuBLASLt ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BlasTesting.h"

#include "CUDA/CublasGemm.h"
#include "CUDA/CublasLibrary.h"
#include "RecordingDriver.h"

#include "gtest/gtest.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#define MPC_HAS_BLAS_HEADER 1
#endif

using namespace mpc;
using namespace mpc::detail;
using namespace mpc::testing;

namespace {

// CublasHandle.h repeats the enumerators of the library's interface;
// they are compared with the header where it is installed.
TEST(Blas, HasTheNumbersOfTheHeader) {
#ifdef MPC_HAS_BLAS_HEADER
  EXPECT_EQ(int(kBlasF32), CUDA_R_32F);
  EXPECT_EQ(int(kBlasF64), CUDA_R_64F);
  EXPECT_EQ(int(kBlasF16), CUDA_R_16F);
  EXPECT_EQ(int(kBlasBf16), CUDA_R_16BF);
  EXPECT_EQ(int(kBlasF8E4M3), CUDA_R_8F_E4M3);
  EXPECT_EQ(int(kBlasF8E5M2), CUDA_R_8F_E5M2);
  EXPECT_EQ(int(kBlasCompute32F), CUBLAS_COMPUTE_32F);
  EXPECT_EQ(int(kBlasCompute64F), CUBLAS_COMPUTE_64F);
  EXPECT_EQ(int(kBlasCompute32FFastTf32), CUBLAS_COMPUTE_32F_FAST_TF32);
  EXPECT_EQ(int(kBlasLayoutBatchCount), CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  EXPECT_EQ(int(kBlasLayoutBatchStride),
            CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  EXPECT_EQ(int(kBlasDescTransA), CUBLASLT_MATMUL_DESC_TRANSA);
  EXPECT_EQ(int(kBlasDescTransB), CUBLASLT_MATMUL_DESC_TRANSB);
  EXPECT_EQ(int(kBlasDescEpilogue), CUBLASLT_MATMUL_DESC_EPILOGUE);
  EXPECT_EQ(int(kBlasDescBiasPointer), CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  EXPECT_EQ(int(kBlasDescAuxPointer),
            CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
  EXPECT_EQ(int(kBlasDescAuxLeading), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
  EXPECT_EQ(int(kBlasDescAuxBatchStride),
            CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE);
  EXPECT_EQ(int(kBlasDescScaleAPointer), CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
  EXPECT_EQ(int(kBlasDescScaleBPointer), CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
  EXPECT_EQ(int(kBlasDescScaleDPointer), CUBLASLT_MATMUL_DESC_D_SCALE_POINTER);
  EXPECT_EQ(int(kBlasDescAmaxDPointer), CUBLASLT_MATMUL_DESC_AMAX_D_POINTER);
  EXPECT_EQ(int(kBlasDescBiasType), CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
  EXPECT_EQ(int(kBlasPreferenceWorkspace),
            CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  EXPECT_EQ(int(kBlasPreferenceAlignmentA),
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  EXPECT_EQ(int(kBlasPreferenceAlignmentB),
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
  EXPECT_EQ(int(kBlasPreferenceAlignmentC),
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
  EXPECT_EQ(int(kBlasPreferenceAlignmentD),
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
  EXPECT_EQ(int(kBlasEpilogueDefault), CUBLASLT_EPILOGUE_DEFAULT);
  EXPECT_EQ(int(kBlasEpilogueRelu | kBlasEpilogueBias),
            CUBLASLT_EPILOGUE_RELU_BIAS);
  EXPECT_EQ(int(kBlasEpilogueGelu), CUBLASLT_EPILOGUE_GELU);
  EXPECT_EQ(int(kBlasEpilogueRelu | kBlasEpilogueAux),
            CUBLASLT_EPILOGUE_RELU_AUX);
  EXPECT_EQ(int(kBlasEpilogueGelu | kBlasEpilogueAux | kBlasEpilogueBias),
            CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
  EXPECT_EQ(int(kBlasEpilogueReluGradient | kBlasEpilogueAux),
            CUBLASLT_EPILOGUE_DRELU);
  EXPECT_EQ(int(kBlasEpilogueGeluGradient | kBlasEpilogueAux),
            CUBLASLT_EPILOGUE_DGELU);
  EXPECT_EQ(int(kBlasEpilogueGeluGradient | kBlasEpilogueAux |
                kBlasEpilogueBiasGradient),
            CUBLASLT_EPILOGUE_DGELU_BGRAD);
  EXPECT_EQ(int(kBlasEpilogueBiasGradientA), CUBLASLT_EPILOGUE_BGRADA);
  EXPECT_EQ(int(kBlasEpilogueBiasGradientB), CUBLASLT_EPILOGUE_BGRADB);
#if CUBLAS_VERSION >= 120900
  EXPECT_EQ(int(kBlasCompute32FEmulated16BFX9),
            CUBLAS_COMPUTE_32F_EMULATED_16BFX9);
#endif
  EXPECT_EQ(int(kBlasTransposed), CUBLAS_OP_T);
  EXPECT_EQ(int(kBlasNotSupported), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(sizeof(BlasAlgorithm), sizeof(cublasLtMatmulAlgo_t));
  EXPECT_EQ(sizeof(BlasCandidate), sizeof(cublasLtMatmulHeuristicResult_t));
#else
  GTEST_SKIP() << "cublasLt.h is not installed";
#endif
}

// Without a GPU the library itself still loads and reports its version.
TEST(Blas, LoadsWhatIsInstalled) {
  Result<const Blas *> blas = installedBlas();
  if (!blas.ok()) {
    EXPECT_EQ(blas.status().code(), StatusCode::Unavailable);
    EXPECT_NE(blas.status().text().find("--gemm=own"), std::string::npos);
    GTEST_SKIP() << blas.status().toString();
  }
  EXPECT_GE((*blas)->version(), kLeastBlasVersion);
}

TEST(Blas, SaysWhatALibraryLacks) {
  EXPECT_EQ(loadBlas("/no/such/library.so").status().code(),
            StatusCode::Unavailable);
  Result<Blas> other = loadBlas("libc.so.6");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.status().text(), "libc.so.6 lacks cublasLtCreate");
}

// The library is column-major: every layout must be correct.
TEST(CublasGemm, ComputesWhatTheProblemSays) {
  for (bool transposeA : {false, true})
    for (bool transposeB : {false, true})
      for (int64_t batch : {1, 3}) {
        GemmProblem problem;
        problem.m = 5;
        problem.n = 7;
        problem.k = 11;
        problem.batch = batch;
        problem.transposeA = transposeA;
        problem.transposeB = transposeB;
        expectEqual(problem);
        problem.sharedA = batch > 1;
        expectEqual(problem);
        problem.sharedB = problem.sharedA;
        problem.sharedA = false;
        problem.operandA = problem.operandB = problem.result = ElementType::F64;
        expectEqual(problem);
      }
}

TEST(CublasGemm, HasTheEpilogues) {
  GemmProblem problem;
  problem.m = 6;
  problem.n = 4;
  problem.k = 9;
  problem.operandA = problem.operandB = ElementType::BF16;
  for (ElementType result : {ElementType::BF16, ElementType::F32})
    for (bool bias : {false, true})
      for (auto activation :
           {GemmProblem::Activation::None, GemmProblem::Activation::Relu,
            GemmProblem::Activation::GeluTanh}) {
        problem.result = result;
        problem.bias = bias;
        problem.residual = activation == GemmProblem::Activation::None;
        problem.activation = activation;
        expectEqual(problem);
      }
}

// An activation stores its auxiliary data for the gradient; rows of the ReLU
// bit mask start at multiples of 128 bits, for shorter and longer rows.
TEST(CublasGemm, KeepsWhatGradientsNeed) {
  GemmProblem problem;
  problem.m = 6;
  problem.k = 9;
  problem.operandA = problem.operandB = ElementType::BF16;
  for (ElementType result : {ElementType::BF16, ElementType::F32})
    for (int64_t n : {8, 136})
      for (int64_t batch : {1, 3}) {
        problem.result = result;
        problem.n = n;
        problem.batch = batch;
        problem.auxiliary = true;
        problem.bias = n == 8;
        problem.activation = GemmProblem::Activation::Relu;
        FakeDesc desc = expectEqual(problem);
        EXPECT_EQ(desc.epilogue, problem.bias ? 134u : 130u);
        EXPECT_EQ(desc.auxLeading, n == 8 ? 128 : 256);
        EXPECT_EQ(desc.auxBatchStride, batch > 1 ? 6 * desc.auxLeading : 0);
        problem.activation = GemmProblem::Activation::GeluTanh;
        desc = expectEqual(problem);
        EXPECT_EQ(desc.epilogue, problem.bias ? 164u : 160u);
        EXPECT_EQ(desc.auxLeading, n);
        EXPECT_EQ(desc.auxBatchStride, batch > 1 ? 6 * n : 0);

        problem.auxiliary = problem.bias = false;
        problem.activation = GemmProblem::Activation::ReluGradient;
        EXPECT_EQ(expectEqual(problem).epilogue, 136u);
        problem.activation = GemmProblem::Activation::GeluTanhGradient;
        EXPECT_EQ(expectEqual(problem).epilogue, 192u);
      }
}

// The library's a is our b.
TEST(CublasGemm, SumsBiasGradients) {
  for (bool transposeA : {false, true})
    for (bool transposeB : {false, true}) {
      GemmProblem problem;
      problem.m = 5;
      problem.n = 8;
      problem.k = 11;
      problem.transposeA = transposeA;
      problem.transposeB = transposeB;
      problem.biasGradient = GemmProblem::BiasGradient::A;
      EXPECT_EQ(expectEqual(problem).epilogue, 512u);
      problem.biasGradient = GemmProblem::BiasGradient::B;
      EXPECT_EQ(expectEqual(problem).epilogue, 256u);
      problem.biasGradient = GemmProblem::BiasGradient::Result;
      problem.activation = GemmProblem::Activation::ReluGradient;
      EXPECT_EQ(expectEqual(problem).epilogue, 152u);
      problem.activation = GemmProblem::Activation::GeluTanhGradient;
      problem.result = ElementType::BF16;
      EXPECT_EQ(expectEqual(problem).epilogue, 208u);
    }
}

TEST(CublasGemm, ScalesEightBits) {
  GemmProblem problem;
  problem.m = 16;
  problem.n = 32;
  problem.k = 48;
  problem.transposeB = true;
  const ElementType e4m3 = ElementType::F8E4M3FN, e5m2 = ElementType::F8E5M2;
  for (auto [a, b] : {std::pair(e4m3, e4m3), {e4m3, e5m2}, {e5m2, e4m3}})
    for (ElementType result : {ElementType::F32, ElementType::BF16, e4m3, e5m2})
      for (bool scales : {false, true}) {
        if (a == b && result == e5m2)
          continue;
        problem.operandA = a;
        problem.operandB = b;
        problem.result = result;
        problem.scales = scales;
        problem.bias = scales;
        problem.resultScale = problem.amax = scales && isFloat8(result);
        problem.activation = scales ? GemmProblem::Activation::GeluTanh
                                    : GemmProblem::Activation::None;
        FakeDesc desc = expectEqual(problem);
        EXPECT_EQ(desc.compute, int(kBlasCompute32F));
        EXPECT_EQ(desc.scale, int(kBlasF32));
        EXPECT_EQ(desc.scaleA != nullptr, scales);
        EXPECT_EQ(desc.scaleB != nullptr, scales);
        EXPECT_EQ(desc.scaleD != nullptr, problem.resultScale);
        EXPECT_EQ(desc.amaxD != nullptr, problem.amax);
        // A bias of the result's type needs no mention.
        bool isBf16 = problem.biasType() == ElementType::BF16;
        EXPECT_TRUE(isBf16);
        EXPECT_EQ(desc.biasType,
                  scales && result != ElementType::BF16 ? int(kBlasBf16) : -1);
      }
  // A bias before an f16 result is f16; the fake does not support this type.
  problem.operandA = problem.operandB = e4m3;
  problem.result = ElementType::F16;
  EXPECT_EQ(problem.biasType(), ElementType::F16);
}

TEST(CublasGemm, PermitsOtherWaysToMultiply) {
  GemmProblem problem;
  problem.m = problem.n = problem.k = 16;
  EXPECT_EQ(expectEqual(problem).compute, int(kBlasCompute32F));
  problem.compute = GemmProblem::Compute::Bf16x9;
  EXPECT_EQ(expectEqual(problem).compute, int(kBlasCompute32FEmulated16BFX9));

  FakeBlas blas;
  blas.version = kLeastBf16x9Version - 1;
  auto context = BlasContext::create(blas.table);
  Status status = CublasGemm::create(*context, problem).status();
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_EQ(status.text(),
            "needs cuBLASLt 120900 or later for bf16x9, but version 120899 is "
            "installed; update it, or compile with float32 or tf32");
  problem.compute = GemmProblem::Compute::Tf32;
  EXPECT_TRUE(CublasGemm::create(*context, problem).ok());
  blas.version = kLeastBf16x9Version;
  problem.compute = GemmProblem::Compute::Bf16x9;
  EXPECT_TRUE(CublasGemm::create(*context, problem).ok());
}

// Invalid problems never reach the library.
TEST(CublasGemm, RefusesObstacles) {
  FakeBlas blas;
  auto context = BlasContext::create(blas.table);
  size_t before = blas.calls.size();
  GemmProblem problem;
  problem.residual = true;
  problem.activation = GemmProblem::Activation::Relu;
  Status status = CublasGemm::create(*context, problem).status();
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(status.text(), "has both a residual and the activation relu");
  problem = {};
  problem.m = int64_t(1) << 62;
  status = CublasGemm::create(*context, problem).status();
  EXPECT_EQ(status.text(), "has no size that fits in memory");
  EXPECT_EQ(blas.calls.size(), before);
}

TEST(BlasLibrary, NeedsAGpuThatMultipliesEightBits) {
  GemmProblem problem;
  problem.m = problem.n = problem.k = 16;
  problem.transposeB = true;
  problem.operandA = problem.operandB = ElementType::F8E4M3FN;
  for (auto [major, minor] : {std::pair(8, 6), {8, 9}, {9, 0}, {12, 0}}) {
    recording::restart();
    recording::machine().major = major;
    recording::machine().minor = minor;
    CudaDriver driver = recording::driver();
    std::shared_ptr<CudaContext> gpu = *CudaContext::create(driver, 0);
    CudaScope scope(*gpu);
    FakeBlas blas;
    // No memory to time in: nothing runs on addresses of the recording driver.
    recording::machine().failingCalls["cuMemAlloc"] = kCuOutOfMemory;
    auto library = openBlasLibrary(blas.table, gpu, /*cacheFolder=*/"");
    ASSERT_TRUE(library.ok()) << library.status().toString();
    Status status = (*library)->prepare(problem, {}, "launch 3").status();
    EXPECT_EQ(status.ok(), major * 10 + minor >= 89) << status.toString();
    if (status.ok())
      continue;
    EXPECT_EQ(status.code(), StatusCode::Unavailable);
    EXPECT_EQ(status.text(), "needs a GPU of sm_89 or later, but " +
                                 gpu->gpu().name + " is sm_86");
    EXPECT_EQ(status.notes().back(), "in launch 3");
  }
}

// The library frees memory of the device with its handle.
TEST(BlasLibrary, EndsItsHandleInItsContext) {
  recording::restart();
  std::shared_ptr<CudaContext> gpu =
      *CudaContext::create(recording::driver(), 0);
  FakeBlas blas;
  std::vector<size_t> depths;
  blas.onDestroy = [&] { depths.push_back(recording::contextDepth()); };
  {
    CudaScope scope(*gpu);
    ASSERT_TRUE(openBlasLibrary(blas.table, gpu, /*cacheFolder=*/"").ok());
  }
  EXPECT_EQ(depths, (std::vector<size_t>{2}));
  Result<std::shared_ptr<GemmLibrary>> library = [&] {
    CudaScope scope(*gpu);
    return openBlasLibrary(blas.table, gpu, /*cacheFolder=*/"");
  }();
  ASSERT_TRUE(library.ok());
  library = Status(StatusCode::Unavailable, "test", "is over");
  EXPECT_EQ(depths, (std::vector<size_t>{2, 1}));
  EXPECT_EQ(recording::contextDepth(), 0u);
}

// The heuristic is queried with the alignment of each buffer.
TEST(CublasGemm, ReportsTheAlignmentOfItsBuffers) {
  FakeBlas blas;
  auto context = BlasContext::create(blas.table);
  GemmProblem problem;
  problem.m = problem.n = problem.k = 16;
  problem.bias = true;
  auto ask = [&](std::vector<size_t> alignments) {
    auto product = CublasGemm::create(*context, problem, alignments);
    ASSERT_TRUE(product.ok());
    ASSERT_TRUE((*product)->candidates(1).ok());
  };
  using Four = std::array<uint32_t, 4>;
  // a, b, bias and result; the library's a is our b.
  ask({16, 64, 32, 256});
  EXPECT_EQ(blas.alignments, (Four{64, 16, 256, 256}));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(blas.asked.back().bias), 32u);
  problem.residual = true;
  ask({16, 64, 32, 128, 256});
  EXPECT_EQ(blas.alignments, (Four{64, 16, 128, 256}));
  ask({});
  EXPECT_EQ(blas.alignments, (Four{64, 64, 64, 64}));
}

/// Everything that a description may hold.
std::vector<GemmProblem> describedProblems() {
  GemmProblem bias;
  bias.m = bias.n = bias.k = 16;
  bias.batch = 2;
  bias.bias = true;
  GemmProblem kept = bias;
  kept.activation = GemmProblem::Activation::Relu;
  kept.auxiliary = true;
  GemmProblem scaled = bias;
  scaled.batch = 1;
  scaled.transposeB = true;
  scaled.operandA = scaled.operandB = scaled.result = ElementType::F8E4M3FN;
  scaled.scales = scaled.resultScale = scaled.amax = true;
  return {bias, kept, scaled};
}

// Any failing call is reported, and no resource leaks.
TEST(CublasGemm, FailsCleanly) {
  for (const GemmProblem &problem : describedProblems()) {
    SCOPED_TRACE(problem.toString());
    std::vector<GemmProblem::Slot> slots = *problem.slots();
    std::vector<std::vector<std::byte>> storage;
    for (const GemmProblem::Slot &slot : slots)
      storage.emplace_back(static_cast<size_t>(slot.bytes));
    std::vector<void *> buffers;
    for (std::vector<std::byte> &buffer : storage)
      buffers.push_back(buffer.data());
    auto runAll = [&](FakeBlas &blas) -> Status {
      auto context = BlasContext::create(blas.table);
      if (!context.ok())
        return context.status();
      auto product = CublasGemm::create(*context, problem);
      if (!product.ok())
        return product.status();
      auto candidates = (*product)->candidates(2);
      if (!candidates.ok())
        return candidates.status();
      return (*product)->enqueue(buffers, candidates->front(), nullptr,
                                 nullptr);
    };
    int calls = 0;
    {
      FakeBlas blas;
      ASSERT_TRUE(runAll(blas).ok());
      calls = int(blas.calls.size());
    }
    ASSERT_GT(calls, 15);
    for (int failing = 0; failing < calls; ++failing) {
      FakeBlas blas;
      blas.failing = failing;
      Status status = runAll(blas);
      EXPECT_FALSE(status.ok()) << blas.calls[size_t(failing)];
      EXPECT_NE(status.text().find("CUBLAS_STATUS_INTERNAL_ERROR"),
                std::string::npos)
          << status.toString();
      EXPECT_EQ(blas.alive, 0) << blas.calls[size_t(failing)];
    }
    // The library has no such GEMM, and reports this in one of two ways.
    FakeBlas blas;
    blas.candidates = 0;
    Status status = runAll(blas);
    EXPECT_EQ(status.code(), StatusCode::Unavailable);
    EXPECT_NE(status.text().find("--gemm=own"), std::string::npos);
    blas.heuristicResult = kBlasNotSupported;
    EXPECT_EQ(runAll(blas).toString(), status.toString());
    EXPECT_EQ(blas.alive, 0);
  }
}

} // namespace
