//===- FakeBlas.cpp - a cuBLASLt that computes on the host ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeBlas.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

using namespace mpc;
using namespace mpc::detail;
using namespace mpc::testing;

static FakeBlas *fake = nullptr;

namespace {
struct Layout {
  int type;
  uint64_t rows, columns;
  int64_t leading;
  int32_t batches = 1;
  int64_t stride = 0;
};
struct Desc {
  int compute, scale;
  int32_t transposeA = 0, transposeB = 0;
  uint32_t epilogue = kBlasEpilogueDefault;
  const void *bias = nullptr;
};
} // namespace

static constexpr int kFailure = 14; // CUBLAS_STATUS_INTERNAL_ERROR

static float fromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// The types that tests use: f32, f64 and bf16.
static double get(const void *base, int type, int64_t index) {
  if (type == kBlasF64)
    return static_cast<const double *>(base)[index];
  if (type == kBlasBf16)
    return fromBits(uint32_t(static_cast<const uint16_t *>(base)[index]) << 16);
  return static_cast<const float *>(base)[index];
}

static void put(void *base, int type, int64_t index, double value) {
  if (type == kBlasF64) {
    static_cast<double *>(base)[index] = value;
    return;
  }
  float narrow = static_cast<float>(value);
  if (type == kBlasF32) {
    static_cast<float *>(base)[index] = narrow;
    return;
  }
  uint32_t bits;
  std::memcpy(&bits, &narrow, sizeof(bits));
  static_cast<uint16_t *>(base)[index] =
      static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double scalar(const void *value, int type) {
  return type == kBlasF64 ? *static_cast<const double *>(value)
                          : *static_cast<const float *>(value);
}

static double activate(uint32_t epilogue, double x) {
  if (epilogue & kBlasEpilogueRelu)
    return x > 0 ? x : 0;
  if (epilogue & kBlasEpilogueGelu)
    return 0.5 * x *
           (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return x;
}

/// op(a) is m x k, op(b) k x n, c and d m x n, all column-major.
static BlasResult multiply(const Desc &desc, double alpha, const void *a,
                           const Layout &la, const void *b, const Layout &lb,
                           double beta, const void *c, const Layout &lc,
                           void *d, const Layout &ld) {
  int64_t m = int64_t(ld.rows), n = int64_t(ld.columns);
  int64_t k = int64_t(desc.transposeA ? la.rows : la.columns);
  bool fits = (desc.transposeA ? la.columns : la.rows) == ld.rows &&
              int64_t(desc.transposeB ? lb.columns : lb.rows) == k &&
              (desc.transposeB ? lb.rows : lb.columns) == ld.columns &&
              la.batches == ld.batches && lb.batches == ld.batches &&
              la.leading >= int64_t(la.rows) && lb.leading >= int64_t(lb.rows);
  if (!fits)
    return 7; // CUBLAS_STATUS_INVALID_VALUE
  auto at = [](const Layout &layout, int batch, int64_t row, int64_t column) {
    return batch * layout.stride + column * layout.leading + row;
  };
  for (int batch = 0; batch < ld.batches; ++batch)
    for (int64_t row = 0; row < m; ++row)
      for (int64_t column = 0; column < n; ++column) {
        double sum = 0;
        for (int64_t i = 0; i < k; ++i)
          sum += get(a, la.type,
                     desc.transposeA ? at(la, batch, i, row)
                                     : at(la, batch, row, i)) *
                 get(b, lb.type,
                     desc.transposeB ? at(lb, batch, column, i)
                                     : at(lb, batch, i, column));
        sum *= alpha;
        if (beta != 0)
          sum += beta * get(c, lc.type, at(lc, batch, row, column));
        if (desc.epilogue & kBlasEpilogueBias)
          sum += get(desc.bias, ld.type, row);
        put(d, ld.type, at(ld, batch, row, column),
            activate(desc.epilogue, sum));
      }
  return 0;
}

bool FakeBlas::fails(const char *name) {
  calls.push_back(name);
  return int(calls.size()) - 1 == failing;
}

#define MPC_FAKE_CALL(name)                                                    \
  if (fake->fails(name))                                                       \
  return kFailure

FakeBlas::FakeBlas() {
  fake = this;
  table.create = [](BlasHandle *handle) -> BlasResult {
    MPC_FAKE_CALL("cublasLtCreate");
    ++fake->alive;
    *handle = new int;
    return 0;
  };
  table.destroy = [](BlasHandle handle) -> BlasResult {
    --fake->alive;
    delete static_cast<int *>(handle);
    return 0;
  };
  table.statusName = [](BlasResult) { return "CUBLAS_STATUS_INTERNAL_ERROR"; };
  table.version = [] { return fake->version; };
  table.descCreate = [](BlasHandle *desc, int compute,
                        int scale) -> BlasResult {
    MPC_FAKE_CALL("cublasLtMatmulDescCreate");
    ++fake->alive;
    *desc = new Desc{compute, scale};
    return 0;
  };
  table.descDestroy = [](BlasHandle desc) -> BlasResult {
    --fake->alive;
    delete static_cast<Desc *>(desc);
    return 0;
  };
  table.descSet = [](BlasHandle handle, int attribute, const void *value,
                     size_t bytes) -> BlasResult {
    MPC_FAKE_CALL("cublasLtMatmulDescSetAttribute");
    Desc &desc = *static_cast<Desc *>(handle);
    const std::map<int, std::pair<void *, size_t>> fields = {
        {kBlasDescTransA, {&desc.transposeA, 4}},
        {kBlasDescTransB, {&desc.transposeB, 4}},
        {kBlasDescEpilogue, {&desc.epilogue, 4}},
        {kBlasDescBiasPointer, {&desc.bias, 8}}};
    auto field = fields.find(attribute);
    if (field == fields.end() || field->second.second != bytes)
      return 7;
    std::memcpy(field->second.first, value, bytes);
    return 0;
  };
  table.layoutCreate = [](BlasHandle *layout, int type, uint64_t rows,
                          uint64_t columns, int64_t leading) -> BlasResult {
    MPC_FAKE_CALL("cublasLtMatrixLayoutCreate");
    ++fake->alive;
    *layout = new Layout{type, rows, columns, leading};
    return 0;
  };
  table.layoutDestroy = [](BlasHandle layout) -> BlasResult {
    --fake->alive;
    delete static_cast<Layout *>(layout);
    return 0;
  };
  table.layoutSet = [](BlasHandle handle, int attribute, const void *value,
                       size_t bytes) -> BlasResult {
    MPC_FAKE_CALL("cublasLtMatrixLayoutSetAttribute");
    Layout &layout = *static_cast<Layout *>(handle);
    if (attribute == kBlasLayoutBatchCount && bytes == 4)
      std::memcpy(&layout.batches, value, 4);
    else if (attribute == kBlasLayoutBatchStride && bytes == 8)
      std::memcpy(&layout.stride, value, 8);
    else
      return 7;
    return 0;
  };
  table.preferenceCreate = [](BlasHandle *preference) -> BlasResult {
    MPC_FAKE_CALL("cublasLtMatmulPreferenceCreate");
    ++fake->alive;
    *preference = new size_t(0);
    return 0;
  };
  table.preferenceDestroy = [](BlasHandle preference) -> BlasResult {
    --fake->alive;
    delete static_cast<size_t *>(preference);
    return 0;
  };
  table.preferenceSet = [](BlasHandle preference, int attribute,
                           const void *value, size_t bytes) -> BlasResult {
    MPC_FAKE_CALL("cublasLtMatmulPreferenceSetAttribute");
    if (attribute != kBlasPreferenceWorkspace || bytes != sizeof(size_t))
      return 7;
    std::memcpy(preference, value, bytes);
    return 0;
  };
  table.heuristic = [](BlasHandle, BlasHandle, BlasHandle, BlasHandle,
                       BlasHandle, BlasHandle, BlasHandle, int wanted,
                       BlasCandidate *candidates, int *found) -> BlasResult {
    MPC_FAKE_CALL("cublasLtMatmulAlgoGetHeuristic");
    *found = std::min(wanted, fake->candidates);
    for (int i = 0; i < *found; ++i) {
      candidates[i].algorithm.data[0] = uint64_t(i);
      candidates[i].workspaceBytes = size_t(i) * 1024;
    }
    return 0;
  };
  table.matmul = [](BlasHandle, BlasHandle desc, const void *alpha,
                    const void *a, BlasHandle layoutA, const void *b,
                    BlasHandle layoutB, const void *beta, const void *c,
                    BlasHandle layoutC, void *d, BlasHandle layoutD,
                    const BlasAlgorithm *algorithm, void *workspace, size_t,
                    void *stream) -> BlasResult {
    MPC_FAKE_CALL("cublasLtMatmul");
    if (int(algorithm->data[0]) == fake->refused)
      return 15; // CUBLAS_STATUS_NOT_SUPPORTED
    fake->workspaces.push_back(workspace);
    fake->streams.push_back(stream);
    fake->algorithms.push_back(algorithm->data[0]);
    const Desc &self = *static_cast<Desc *>(desc);
    return multiply(
        self, scalar(alpha, self.scale), a, *static_cast<Layout *>(layoutA), b,
        *static_cast<Layout *>(layoutB), scalar(beta, self.scale), c,
        *static_cast<Layout *>(layoutC), d, *static_cast<Layout *>(layoutD));
  };
}

FakeBlas::~FakeBlas() { fake = nullptr; }
