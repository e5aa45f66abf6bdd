//===- HostGemm.cpp - a library's products on the host --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostGemm.h"

#include <bit>
#include <cmath>
#include <vector>

using namespace mpc;

namespace {

/// A brain float: storage alone.
struct BrainFloat {
  uint16_t bits;
};

double widen(double value) { return value; }
double widen(BrainFloat value) {
  return std::bit_cast<float>(uint32_t(value.bits) << 16);
}

void narrow(double value, double &to) { to = value; }
void narrow(double value, float &to) { to = float(value); }
void narrow(double value, _Float16 &to) { to = _Float16(float(value)); }
void narrow(double value, BrainFloat &to) {
  auto bits = std::bit_cast<uint32_t>(float(value));
  if (std::isnan(value))
    to.bits = uint16_t(bits >> 16 | 0x40);
  else
    to.bits = uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// A float with 10 bits of mantissa, halves away from zero.
double roundToTf32(double value) {
  auto bits = std::bit_cast<uint32_t>(float(value));
  if (std::isfinite(value))
    bits = (bits + 0x1000) & ~uint32_t(0x1fff);
  return std::bit_cast<float>(bits);
}

double activate(GemmProblem::Activation activation, double x) {
  switch (activation) {
  case GemmProblem::Activation::None:
    return x;
  case GemmProblem::Activation::Relu:
    return x > 0 || std::isnan(x) ? x : 0;
  case GemmProblem::Activation::GeluTanh:
    return 0.5 * x *
           (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  return x;
}

template <typename Operand, typename Number>
void compute(const GemmProblem &p, std::span<void *const> buffers) {
  size_t next = 0;
  auto *a = static_cast<const Operand *>(buffers[next++]);
  auto *b = static_cast<const Operand *>(buffers[next++]);
  auto *bias = p.bias ? static_cast<const Number *>(buffers[next++]) : nullptr;
  auto *residual =
      p.residual ? static_cast<const Number *>(buffers[next++]) : nullptr;
  auto *d = static_cast<Number *>(buffers[next]);
  auto operand = [&](Operand value) {
    return p.tf32 ? roundToTf32(widen(value)) : widen(value);
  };
  // A result may lie where the residual does: each element is read before it
  // is written.
  for (int64_t batch = 0; batch < p.batch; ++batch) {
    const Operand *lhs = a + (p.sharedA ? 0 : batch * p.m * p.k);
    const Operand *rhs = b + (p.sharedB ? 0 : batch * p.k * p.n);
    for (int64_t m = 0; m < p.m; ++m)
      for (int64_t n = 0; n < p.n; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < p.k; ++k)
          sum += operand(lhs[p.transposeA ? k * p.m + m : m * p.k + k]) *
                 operand(rhs[p.transposeB ? n * p.k + k : k * p.n + n]);
        int64_t at = (batch * p.m + m) * p.n + n;
        if (bias)
          sum += widen(bias[n]);
        if (residual)
          sum += widen(residual[at]);
        narrow(activate(p.activation, sum), d[at]);
      }
  }
}

template <typename Operand>
Status computeInto(const GemmProblem &problem, std::span<void *const> buffers) {
  switch (problem.result) {
  case ElementType::F64:
    compute<Operand, double>(problem, buffers);
    return {};
  case ElementType::F32:
    compute<Operand, float>(problem, buffers);
    return {};
  case ElementType::F16:
    compute<Operand, _Float16>(problem, buffers);
    return {};
  case ElementType::BF16:
    compute<Operand, BrainFloat>(problem, buffers);
    return {};
  default:
    return Status(StatusCode::Unavailable, problem.toString(),
                  "has a result that is no float");
  }
}

} // namespace

Status host::runGemm(const GemmProblem &problem,
                     std::span<void *const> buffers) {
  switch (problem.operand) {
  case ElementType::F64:
    return computeInto<double>(problem, buffers);
  case ElementType::F32:
    return computeInto<float>(problem, buffers);
  case ElementType::F16:
    return computeInto<_Float16>(problem, buffers);
  case ElementType::BF16:
    return computeInto<BrainFloat>(problem, buffers);
  default:
    return Status(StatusCode::Unavailable, problem.toString(),
                  "has operands that are no floats");
  }
}
