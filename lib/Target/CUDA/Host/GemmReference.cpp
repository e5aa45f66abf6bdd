//===- GemmReference.cpp - library products on the host -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmReference.h"

// Conversions and the activation are those of the kernels on the host.
#include "../Prelude/Prelude.h"

#include <vector>

using namespace mpc;

static double loadNumber(const void *buffer, ElementType type, int64_t index) {
  switch (type) {
  case ElementType::F64:
    return static_cast<const double *>(buffer)[index];
  case ElementType::F16:
    return toFloat(static_cast<const half *>(buffer)[index]);
  case ElementType::BF16:
    return toFloat(static_cast<const bfloat16 *>(buffer)[index]);
  default:
    return static_cast<const float *>(buffer)[index];
  }
}

static void storeNumber(void *buffer, ElementType type, int64_t index,
                        double value) {
  switch (type) {
  case ElementType::F64:
    static_cast<double *>(buffer)[index] = value;
    return;
  case ElementType::F16:
    static_cast<half *>(buffer)[index] = toHalf(static_cast<float>(value));
    return;
  case ElementType::BF16:
    static_cast<bfloat16 *>(buffer)[index] =
        toBfloat16(static_cast<float>(value));
    return;
  default:
    static_cast<float *>(buffer)[index] = static_cast<float>(value);
  }
}

/// A whole operand in f64, as [batches, rows, columns] with rows of `along`
/// contiguous: transposed where it lies the other way round.
static std::vector<double> widen(const GemmProblem &problem, const void *buffer,
                                 int64_t batches, int64_t lines, int64_t along,
                                 bool isTurned) {
  std::vector<double> values(static_cast<size_t>(batches * lines * along));
  for (int64_t batch = 0; batch < batches; ++batch)
    for (int64_t line = 0; line < lines; ++line)
      for (int64_t i = 0; i < along; ++i) {
        int64_t within = isTurned ? i * lines + line : line * along + i;
        double value =
            loadNumber(buffer, problem.operand, batch * lines * along + within);
        if (problem.tf32)
          value = floatOf(toTf32(static_cast<float>(value)));
        values[static_cast<size_t>((batch * lines + line) * along + i)] = value;
      }
  return values;
}

/// One sum in f32 through the epilogue; f64 stays f64.
template <typename Number>
static double finish(const GemmProblem &problem, Number sum, const void *bias,
                     const void *residual, int64_t column, int64_t index) {
  if (bias)
    sum += static_cast<Number>(loadNumber(bias, problem.result, column));
  if (residual)
    sum += static_cast<Number>(loadNumber(residual, problem.result, index));
  if (problem.activation == GemmProblem::Activation::Relu)
    return sum <= 0 ? 0 : sum;
  if (problem.activation == GemmProblem::Activation::GeluTanh)
    return geluTanh(static_cast<float>(sum));
  return sum;
}

Status mpc::computeGemm(const GemmProblem &problem,
                        std::span<void *const> buffers) {
  if (!isFloat(problem.operand) || !isFloat(problem.result))
    return Status(StatusCode::Unavailable, problem.toString(),
                  "has operands or a result that are no floats");
  int64_t m = problem.m, n = problem.n, k = problem.k;
  // Both with k contiguous.
  std::vector<double> a =
      widen(problem, buffers[0], problem.sharedA ? 1 : problem.batch, m, k,
            problem.transposeA);
  std::vector<double> b =
      widen(problem, buffers[1], problem.sharedB ? 1 : problem.batch, n, k,
            !problem.transposeB);
  size_t next = 2;
  const void *bias = problem.bias ? buffers[next++] : nullptr;
  const void *residual = problem.residual ? buffers[next] : nullptr;
  void *d = buffers.back();
#pragma omp parallel for
  for (int64_t row = 0; row < problem.batch * m; ++row) {
    const double *left =
        &a[static_cast<size_t>((problem.sharedA ? row % m : row) * k)];
    for (int64_t column = 0; column < n; ++column) {
      const double *right = &b[static_cast<size_t>(
          ((problem.sharedB ? 0 : row / m * n) + column) * k)];
      double sum = 0;
      for (int64_t i = 0; i < k; ++i)
        sum += left[i] * right[i];
      int64_t index = row * n + column;
      double value = problem.operand == ElementType::F64
                         ? finish(problem, sum, bias, residual, column, index)
                         : finish(problem, static_cast<float>(sum), bias,
                                  residual, column, index);
      storeNumber(d, problem.result, index, value);
    }
  }
  return {};
}
