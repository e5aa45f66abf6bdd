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
struct Preference {
  size_t workspace = 0;
  std::array<uint32_t, 4> alignments = {256, 256, 256, 256};
};
} // namespace

static constexpr int kFailure = 14; // CUBLAS_STATUS_INTERNAL_ERROR

static float fromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// A sign, an exponent and a mantissa in eight bits; finite numbers only.
static double from8Bits(int type, uint8_t bits) {
  int mantissaBits = type == kBlasF8E4M3 ? 3 : 2;
  int bias = type == kBlasF8E4M3 ? 7 : 15;
  int exponent = (bits & 127) >> mantissaBits;
  double fraction =
      (bits & ((1 << mantissaBits) - 1)) / std::exp2(mantissaBits);
  double magnitude = exponent ? std::exp2(exponent - bias) * (1 + fraction)
                              : std::exp2(1 - bias) * fraction;
  return bits & 128 ? -magnitude : magnitude;
}

/// The bits of the nearest finite number, the even one of two.
static uint8_t to8Bits(int type, double value) {
  int most = type == kBlasF8E4M3 ? 0x7e : 0x7b, best = 0;
  double least = INFINITY;
  for (int bits = 0; bits < 256; ++bits) {
    double distance = std::abs(from8Bits(type, uint8_t(bits)) - value);
    bool signs = (bits >= 128) == std::signbit(value);
    if ((bits & 127) <= most && signs &&
        (distance < least || (distance == least && bits % 2 == 0))) {
      least = distance;
      best = bits;
    }
  }
  return uint8_t(best);
}

static bool is8Bits(int type) {
  return type == kBlasF8E4M3 || type == kBlasF8E5M2;
}

/// The types that tests use: f32, f64, bf16 and those of 8 bits.
static double get(const void *base, int type, int64_t index) {
  if (is8Bits(type))
    return from8Bits(type, static_cast<const uint8_t *>(base)[index]);
  if (type == kBlasF64)
    return static_cast<const double *>(base)[index];
  if (type == kBlasBf16)
    return fromBits(uint32_t(static_cast<const uint16_t *>(base)[index]) << 16);
  return static_cast<const float *>(base)[index];
}

static void put(void *base, int type, int64_t index, double value) {
  if (is8Bits(type)) {
    static_cast<uint8_t *>(base)[index] = to8Bits(type, value);
    return;
  }
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

/// One element of the epilogue. `at` is the element's place in the auxiliary
/// buffer, in bits for ReLU.
static double finish(const FakeDesc &desc, int type, double x, int64_t at) {
  auto *mask = static_cast<uint8_t *>(desc.aux);
  constexpr double kScale = 0.7978845608028654, kCubic = 0.044715;
  auto tanhOf = [&](double y) {
    return std::tanh(kScale * (y + kCubic * y * y * y));
  };
  switch (desc.epilogue &
          ~uint32_t(kBlasEpilogueDefault | kBlasEpilogueBias |
                    kBlasEpilogueBiasGradient | kBlasEpilogueBiasGradientA |
                    kBlasEpilogueBiasGradientB)) {
  case kBlasEpilogueRelu | kBlasEpilogueAux:
    mask[at / 8] =
        uint8_t((mask[at / 8] & ~(1 << at % 8)) | (x > 0 ? 1 << at % 8 : 0));
    [[fallthrough]];
  case kBlasEpilogueRelu:
    return x > 0 ? x : 0;
  case kBlasEpilogueGelu | kBlasEpilogueAux:
    put(desc.aux, type, at, x);
    [[fallthrough]];
  case kBlasEpilogueGelu:
    return 0.5 * x * (1 + tanhOf(x));
  case kBlasEpilogueReluGradient | kBlasEpilogueAux:
    return mask[at / 8] >> at % 8 & 1 ? x : 0;
  case kBlasEpilogueGeluGradient | kBlasEpilogueAux: {
    double y = get(desc.aux, type, at), tanh = tanhOf(y);
    return x * (0.5 * (1 + tanh) + 0.5 * y * (1 - tanh * tanh) * kScale *
                                       (1 + 3 * kCubic * y * y));
  }
  }
  return x;
}

/// op(a) is m x k, op(b) k x n, c and d m x n, all column-major.
static BlasResult multiply(const FakeDesc &desc, double alpha, const void *a,
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
  bool reduced = is8Bits(la.type) || is8Bits(lb.type);
  // According to the library's documentation.
  if (reduced &&
      (!desc.transposeA || desc.transposeB || m % 16 || n % 16 || k % 16 ||
       !is8Bits(la.type) || !is8Bits(lb.type) || is8Bits(lc.type)))
    fits = false;
  // As observed with the library of one GPU.
  if (c == d && lc.type != ld.type)
    fits = false;
  bool isRelu = desc.epilogue & (kBlasEpilogueRelu | kBlasEpilogueReluGradient);
  if (desc.epilogue & kBlasEpilogueAux)
    fits &= desc.aux && desc.auxLeading >= m &&
            desc.auxLeading % (isRelu ? 128 : 8) == 0 &&
            (ld.batches == 1 || desc.auxBatchStride % (isRelu ? 128 : 8) == 0);
  if (!fits)
    return 7; // CUBLAS_STATUS_INVALID_VALUE
  auto at = [](const Layout &layout, int batch, int64_t row, int64_t column) {
    return batch * layout.stride + column * layout.leading + row;
  };
  auto ofA = [&](int batch, int64_t row, int64_t i) {
    return get(a, la.type,
               desc.transposeA ? at(la, batch, i, row) : at(la, batch, row, i));
  };
  auto ofB = [&](int batch, int64_t i, int64_t column) {
    return get(b, lb.type,
               desc.transposeB ? at(lb, batch, column, i)
                               : at(lb, batch, i, column));
  };
  int biasType = desc.biasType < 0 ? ld.type : desc.biasType;
  std::vector<double> sums(size_t(std::max(m, n)));
  double largest = 0;
  if (desc.scaleA)
    alpha *= *desc.scaleA;
  if (desc.scaleB)
    alpha *= *desc.scaleB;
  for (int batch = 0; batch < ld.batches; ++batch)
    for (int64_t row = 0; row < m; ++row)
      for (int64_t column = 0; column < n; ++column) {
        double sum = 0;
        for (int64_t i = 0; i < k; ++i)
          sum += ofA(batch, row, i) * ofB(batch, i, column);
        sum *= alpha;
        if (beta != 0)
          sum += beta * get(c, lc.type, at(lc, batch, row, column));
        if (desc.epilogue & kBlasEpilogueBias)
          sum += get(desc.bias, biasType, row);
        double value = finish(desc, ld.type, sum,
                              batch * desc.auxBatchStride +
                                  column * desc.auxLeading + row);
        if (desc.epilogue & kBlasEpilogueBiasGradient)
          sums[size_t(row)] += value;
        largest = std::max(largest, std::abs(value));
        put(d, ld.type, at(ld, batch, row, column),
            value * (desc.scaleD ? *desc.scaleD : 1));
      }
  if (desc.epilogue & kBlasEpilogueBiasGradientA)
    for (int64_t row = 0; row < m; ++row)
      for (int64_t i = 0; i < k; ++i)
        sums[size_t(row)] += ofA(0, row, i);
  if (desc.epilogue & kBlasEpilogueBiasGradientB)
    for (int64_t column = 0; column < n; ++column)
      for (int64_t i = 0; i < k; ++i)
        sums[size_t(column)] += ofB(0, i, column);
  if (desc.epilogue & (kBlasEpilogueBiasGradient | kBlasEpilogueBiasGradientA |
                       kBlasEpilogueBiasGradientB)) {
    int64_t count = desc.epilogue & kBlasEpilogueBiasGradientB ? n : m;
    for (int64_t i = 0; i < count; ++i)
      put(desc.bias, biasType, i, sums[size_t(i)]);
  }
  if (desc.amaxD)
    *desc.amaxD = static_cast<float>(largest);
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
    if (fake->onDestroy)
      fake->onDestroy();
    delete static_cast<int *>(handle);
    return 0;
  };
  table.statusName = [](BlasResult) { return "CUBLAS_STATUS_INTERNAL_ERROR"; };
  table.version = [] { return fake->version; };
  table.descCreate = [](BlasHandle *desc, int compute,
                        int scale) -> BlasResult {
    MPC_FAKE_CALL("cublasLtMatmulDescCreate");
    ++fake->alive;
    *desc = new FakeDesc{compute, scale};
    return 0;
  };
  table.descDestroy = [](BlasHandle desc) -> BlasResult {
    --fake->alive;
    delete static_cast<FakeDesc *>(desc);
    return 0;
  };
  table.descSet = [](BlasHandle handle, int attribute, const void *value,
                     size_t bytes) -> BlasResult {
    MPC_FAKE_CALL("cublasLtMatmulDescSetAttribute");
    FakeDesc &desc = *static_cast<FakeDesc *>(handle);
    const std::map<int, std::pair<void *, size_t>> fields = {
        {kBlasDescTransA, {&desc.transposeA, 4}},
        {kBlasDescTransB, {&desc.transposeB, 4}},
        {kBlasDescEpilogue, {&desc.epilogue, 4}},
        {kBlasDescBiasPointer, {&desc.bias, 8}},
        {kBlasDescBiasType, {&desc.biasType, 4}},
        {kBlasDescAuxPointer, {&desc.aux, 8}},
        {kBlasDescAuxLeading, {&desc.auxLeading, 8}},
        {kBlasDescAuxBatchStride, {&desc.auxBatchStride, 8}},
        {kBlasDescScaleAPointer, {&desc.scaleA, 8}},
        {kBlasDescScaleBPointer, {&desc.scaleB, 8}},
        {kBlasDescScaleDPointer, {&desc.scaleD, 8}},
        {kBlasDescAmaxDPointer, {&desc.amaxD, 8}}};
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
    *preference = new Preference;
    return 0;
  };
  table.preferenceDestroy = [](BlasHandle preference) -> BlasResult {
    --fake->alive;
    delete static_cast<Preference *>(preference);
    return 0;
  };
  table.preferenceSet = [](BlasHandle preference, int attribute,
                           const void *value, size_t bytes) -> BlasResult {
    MPC_FAKE_CALL("cublasLtMatmulPreferenceSetAttribute");
    auto &self = *static_cast<Preference *>(preference);
    int matrix = attribute - kBlasPreferenceAlignmentA;
    if (attribute == kBlasPreferenceWorkspace && bytes == sizeof(size_t))
      std::memcpy(&self.workspace, value, bytes);
    else if (matrix >= 0 && matrix < 4 && bytes == sizeof(uint32_t))
      std::memcpy(&self.alignments[size_t(matrix)], value, bytes);
    else
      return 7;
    return 0;
  };
  table.heuristic = [](BlasHandle, BlasHandle desc, BlasHandle, BlasHandle,
                       BlasHandle, BlasHandle, BlasHandle preference,
                       int wanted, BlasCandidate *candidates,
                       int *found) -> BlasResult {
    MPC_FAKE_CALL("cublasLtMatmulAlgoGetHeuristic");
    fake->asked.push_back(*static_cast<FakeDesc *>(desc));
    fake->alignments = static_cast<Preference *>(preference)->alignments;
    if (fake->heuristicResult)
      return fake->heuristicResult;
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
      return kBlasNotSupported;
    fake->workspaces.push_back(workspace);
    fake->streams.push_back(stream);
    fake->algorithms.push_back(algorithm->data[0]);
    const FakeDesc &self = *static_cast<FakeDesc *>(desc);
    fake->ran.push_back(self);
    fake->typeC = static_cast<Layout *>(layoutC)->type;
    fake->typeD = static_cast<Layout *>(layoutD)->type;
    if (fake->onProduct)
      fake->onProduct(a, b, d);
    if (!fake->computes)
      return 0;
    return multiply(
        self, scalar(alpha, self.scale), a, *static_cast<Layout *>(layoutA), b,
        *static_cast<Layout *>(layoutB), scalar(beta, self.scale), c,
        *static_cast<Layout *>(layoutC), d, *static_cast<Layout *>(layoutD));
  };
}

FakeBlas::~FakeBlas() { fake = nullptr; }
