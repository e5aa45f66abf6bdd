//===- FakeBlas.h - a cuBLASLt that computes on the host --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Behaves as the library's documentation specifies, column-major layout
// included, on host addresses. Counts live objects, and fails on demand.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_RUNTIME_CUDA_FAKEBLAS_H
#define MPC_TEST_UNIT_RUNTIME_CUDA_FAKEBLAS_H

#include "CUDA/CublasHandle.h"

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace mpc::testing {

/// Descriptor of a GEMM, with the names of the attributes.
struct FakeDesc {
  int compute = 0, scale = 0;
  int32_t transposeA = 0, transposeB = 0;
  uint32_t epilogue = detail::kBlasEpilogueDefault;
  int32_t biasType = -1;
  int64_t auxLeading = 0, auxBatchStride = 0;
  void *bias = nullptr, *aux = nullptr;
  const float *scaleA = nullptr, *scaleB = nullptr, *scaleD = nullptr;
  float *amaxD = nullptr;
};

/// One fake at a time: the table's functions find it here.
class FakeBlas {
public:
  FakeBlas();
  ~FakeBlas();
  FakeBlas(const FakeBlas &) = delete;
  FakeBlas &operator=(const FakeBlas &) = delete;

  detail::Blas table;
  /// Names of the calls, in order.
  std::vector<std::string> calls;
  /// Handles, descriptions, layouts and preferences that were not destroyed.
  int alive = 0;
  /// The call with this number, from 0, fails; -1: none does.
  int failing = -1;
  /// Candidates that the heuristic returns, and those that cannot run.
  int candidates = 3, refused = -1;
  /// Status of the heuristic.
  detail::BlasResult heuristicResult = 0;
  /// Workspaces and streams of executed GEMMs.
  std::vector<void *> workspaces, streams;
  /// Descriptors of heuristic queries and of executed GEMMs, and the
  /// types of c and d of the last GEMM.
  std::vector<FakeDesc> asked, ran;
  int typeC = -1, typeD = -1;
  /// Algorithms of executed GEMMs.
  std::vector<uint64_t> algorithms;
  /// Alignments of a, b, c and d in the last heuristic query, in bytes; 256 is
  /// the library's default.
  std::array<uint32_t, 4> alignments = {};
  /// Whether GEMMs are computed; may inspect the operands instead.
  bool computes = true;
  std::function<void(const void *a, const void *b, const void *d)> onProduct;
  /// Called when the handle is destroyed.
  std::function<void()> onDestroy;
  size_t version = 130100;

  /// Notes a call; whether it has to fail.
  bool fails(const char *name);
};

} // namespace mpc::testing

#endif // MPC_TEST_UNIT_RUNTIME_CUDA_FAKEBLAS_H
