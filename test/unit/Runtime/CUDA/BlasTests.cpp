//===- BlasTests.cpp - matrix products by cuBLASLt ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeBlas.h"

#include "CUDA/BlasProduct.h"
#include "Target/CUDA/Host/GemmReference.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <random>

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#define MPC_HAS_BLAS_HEADER 1
#endif

using namespace mpc;
using namespace mpc::detail;
using namespace mpc::testing;

namespace {

// The numbers of the library's interface are written down in Blas.h; the header
// is asked where it is installed.
TEST(Blas, HasTheNumbersOfTheHeader) {
#ifdef MPC_HAS_BLAS_HEADER
  EXPECT_EQ(int(kBlasF32), CUDA_R_32F);
  EXPECT_EQ(int(kBlasF64), CUDA_R_64F);
  EXPECT_EQ(int(kBlasF16), CUDA_R_16F);
  EXPECT_EQ(int(kBlasBf16), CUDA_R_16BF);
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
  EXPECT_EQ(int(kBlasPreferenceWorkspace),
            CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  EXPECT_EQ(int(kBlasEpilogueDefault), CUBLASLT_EPILOGUE_DEFAULT);
  EXPECT_EQ(int(kBlasEpilogueRelu | kBlasEpilogueBias),
            CUBLASLT_EPILOGUE_RELU_BIAS);
  EXPECT_EQ(int(kBlasEpilogueGelu), CUBLASLT_EPILOGUE_GELU);
  EXPECT_EQ(int(kBlasTransposed), CUBLAS_OP_T);
  EXPECT_EQ(sizeof(BlasAlgorithm), sizeof(cublasLtMatmulAlgo_t));
  EXPECT_EQ(sizeof(BlasCandidate), sizeof(cublasLtMatmulHeuristicResult_t));
#else
  GTEST_SKIP() << "cublasLt.h is not installed";
#endif
}

// Without a GPU the library itself still loads and tells its version.
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

/// A buffer of standard normal numbers of a type that the fake knows.
std::vector<std::byte> draw(ElementType type, int64_t bytes,
                            std::mt19937 &engine) {
  std::normal_distribution<float> normal;
  std::vector<std::byte> data(static_cast<size_t>(bytes));
  size_t size = static_cast<size_t>(elementBytes(type));
  for (size_t at = 0; at < data.size(); at += size) {
    float value = normal(engine);
    double wide = value;
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    uint16_t upper = static_cast<uint16_t>(bits >> 16);
    std::memcpy(&data[at],
                type == ElementType::F64    ? static_cast<void *>(&wide)
                : type == ElementType::BF16 ? static_cast<void *>(&upper)
                                            : &value,
                size);
  }
  return data;
}

/// The problem by the library and by the reference, in one buffer set each.
void expectEqual(const GemmProblem &problem) {
  SCOPED_TRACE(problem.toString());
  FakeBlas blas;
  {
    auto context = BlasContext::create(blas.table);
    ASSERT_TRUE(context.ok());
    auto product = BlasProduct::create(*context, problem);
    ASSERT_TRUE(product.ok()) << product.status().toString();
    auto candidates = (*product)->candidates(8);
    ASSERT_TRUE(candidates.ok());
    ASSERT_EQ(candidates->size(), 3u);

    std::mt19937 engine(7);
    std::vector<int64_t> bytes = *problem.bufferBytes();
    std::vector<std::vector<std::byte>> storage;
    for (size_t i = 0; i < bytes.size(); ++i)
      storage.push_back(
          draw(i < 2 ? problem.operand : problem.result, bytes[i], engine));
    std::vector<std::byte> expected = storage.back();
    std::vector<void *> buffers, reference;
    for (std::vector<std::byte> &buffer : storage)
      buffers.push_back(buffer.data());
    reference = buffers;
    reference.back() = expected.data();
    int stream = 0;
    Status status =
        (*product)->enqueue(buffers, candidates->at(1), &engine, &stream);
    ASSERT_TRUE(status.ok()) << status.toString();
    EXPECT_EQ(blas.streams.back(), &stream);
    EXPECT_EQ(blas.workspaces.back(), &engine);
    EXPECT_EQ(blas.algorithms.back(), 1u);
    ASSERT_TRUE(computeGemm(problem, reference).ok());

    // Both sum in f64; the fake rounds once, the reference to f32 before the
    // epilogue as well: one unit of the result's type apart at most.
    auto number = [&](const std::vector<std::byte> &from, size_t i) {
      if (problem.result == ElementType::F64) {
        double value;
        std::memcpy(&value, &from[i * 8], 8);
        return value;
      }
      uint32_t bits = 0;
      if (problem.result == ElementType::BF16) {
        std::memcpy(reinterpret_cast<char *>(&bits) + 2, &from[i * 2], 2);
      } else {
        std::memcpy(&bits, &from[i * 4], 4);
      }
      float value;
      std::memcpy(&value, &bits, 4);
      return static_cast<double>(value);
    };
    double unit = problem.result == ElementType::BF16  ? 0x1p-7
                  : problem.result == ElementType::F32 ? 0x1p-21
                                                       : 0x1p-50;
    size_t count =
        expected.size() / static_cast<size_t>(elementBytes(problem.result));
    for (size_t i = 0; i < count; ++i) {
      double want = number(expected, i);
      // Terms of a sum may cancel: the unit is of their size, at least 1.
      ASSERT_NEAR(number(storage.back(), i), want,
                  unit * std::max(std::abs(want), 1.0))
          << "element " << i;
    }
  }
  EXPECT_EQ(blas.alive, 0);
}

// The library is column-major: every way to lie must come out right.
TEST(BlasProduct, ComputesWhatTheProblemSays) {
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
        problem.operand = problem.result = ElementType::F64;
        expectEqual(problem);
      }
}

TEST(BlasProduct, HasTheEpilogues) {
  GemmProblem problem;
  problem.m = 6;
  problem.n = 4;
  problem.k = 9;
  problem.operand = ElementType::BF16;
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

// Whatever call fails, the failure is reported and nothing stays behind.
TEST(BlasProduct, FailsCleanly) {
  GemmProblem problem;
  problem.m = problem.n = problem.k = 4;
  problem.batch = 2;
  problem.bias = true;
  std::vector<std::vector<std::byte>> storage;
  std::vector<int64_t> sizes = *problem.bufferBytes();
  for (int64_t bytes : sizes)
    storage.emplace_back(static_cast<size_t>(bytes));
  std::vector<void *> buffers;
  for (std::vector<std::byte> &buffer : storage)
    buffers.push_back(buffer.data());
  auto runAll = [&](FakeBlas &blas) -> Status {
    auto context = BlasContext::create(blas.table);
    if (!context.ok())
      return context.status();
    auto product = BlasProduct::create(*context, problem);
    if (!product.ok())
      return product.status();
    auto candidates = (*product)->candidates(2);
    if (!candidates.ok())
      return candidates.status();
    return (*product)->enqueue(buffers, candidates->front(), nullptr, nullptr);
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
  FakeBlas blas;
  blas.candidates = 0;
  Status status = runAll(blas);
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_NE(status.text().find("--gemm=own"), std::string::npos);
}

} // namespace
