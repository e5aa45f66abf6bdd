//===- GemmReference.cpp - reference for library GEMMs --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmReference.h"

// Use the conversions and activations of the emulated kernels.
#include "../Prelude/Prelude.h"

#include "Runtime/CPU/ThreadPool.h"

#include "mpc/Runtime/Device.h"

#include <algorithm>
#include <cmath>
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
  case ElementType::F8E4M3FN:
  case ElementType::F8E5M2:
    return narrowFloatOf(type).decode(
        static_cast<const uint8_t *>(buffer)[index]);
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
  case ElementType::F8E4M3FN:
  case ElementType::F8E5M2:
    static_cast<uint8_t *>(buffer)[index] =
        narrowFloatOf(type).encode(static_cast<float>(value));
    return;
  default:
    static_cast<float *>(buffer)[index] = static_cast<float>(value);
  }
}

namespace {

/// Computes one problem on its buffers.
class Computation {
public:
  Computation(const GemmProblem &problem,
              const std::vector<GemmProblem::Slot> &slots,
              std::span<void *const> buffers)
      : problem(problem), isWide(problem.operandA == ElementType::F64) {
    for (size_t i = 0; i < slots.size(); ++i)
      places[size_t(slots[i].role)] = buffers[i];
  }
  void run();

private:
  void *at(GemmProblem::Role role) const { return places[size_t(role)]; }
  /// Returns an f32 scale, or 1 if the problem has none.
  double scaleAt(GemmProblem::Role role) const {
    const void *place = at(role);
    return place ? *static_cast<const float *>(place) : 1;
  }
  /// Rounds to the accumulator type: f32, or f64 for f64 operands.
  double rounded(double value) const {
    return isWide ? value : static_cast<float>(value);
  }
  double finish(double sum, int64_t line, int64_t column) const;
  double activate(double value) const;
  double slopeAt(int64_t line, int64_t column) const;
  void keep(double value, int64_t line, int64_t column) const;
  void sumOperand() const;

  const GemmProblem &problem;
  const bool isWide;
  void *places[size_t(GemmProblem::Role::Amax) + 1] = {};
};

} // namespace

/// Converts an operand to f64, as [batches, lines, along] with `along`
/// contiguous, transposing if `isTurned`.
static std::vector<double> widen(const GemmProblem &problem, const void *buffer,
                                 ElementType type, int64_t batches,
                                 int64_t lines, int64_t along, bool isTurned) {
  std::vector<double> values(static_cast<size_t>(batches * lines * along));
  for (int64_t batch = 0; batch < batches; ++batch)
    for (int64_t line = 0; line < lines; ++line)
      for (int64_t i = 0; i < along; ++i) {
        int64_t within = isTurned ? i * lines + line : line * along + i;
        double value = loadNumber(buffer, type, batch * lines * along + within);
        if (problem.compute == GemmProblem::Compute::Tf32)
          value = floatOf(toTf32(static_cast<float>(value)));
        values[static_cast<size_t>((batch * lines + line) * along + i)] = value;
      }
  return values;
}

/// Derivative of GELU's tanh approximation.
static double geluTanhSlope(double x) {
  constexpr double kScale = 0.79788456080286535588, kCubic = 0.044715;
  double tanh = std::tanh(kScale * x * (1 + kCubic * x * x));
  return (1 + tanh) / 2 +
         x / 2 * (1 - tanh * tanh) * kScale * (1 + 3 * kCubic * x * x);
}

double Computation::activate(double value) const {
  if (problem.activation == GemmProblem::Activation::Relu)
    return value <= 0 ? 0 : value;
  if (problem.activation == GemmProblem::Activation::GeluTanh)
    return geluTanh(static_cast<float>(value));
  return value;
}

/// Derivative of the activation; `line` counts rows across batches.
double Computation::slopeAt(int64_t line, int64_t column) const {
  const void *kept = at(GemmProblem::Role::Auxiliary);
  int64_t index = line * problem.auxiliaryPitch() + column;
  if (problem.isRelu())
    return static_cast<const uint8_t *>(kept)[index / 8] >> index % 8 & 1;
  return rounded(geluTanhSlope(loadNumber(kept, problem.result, index)));
}

/// Stores the auxiliary value for the activation's gradient. Rows are
/// byte-aligned, so that threads can process different rows.
void Computation::keep(double value, int64_t line, int64_t column) const {
  void *kept = at(GemmProblem::Role::Auxiliary);
  int64_t index = line * problem.auxiliaryPitch() + column;
  if (!problem.isRelu())
    return storeNumber(kept, problem.result, index, value);
  uint8_t &byte = static_cast<uint8_t *>(kept)[index / 8];
  uint8_t bit = uint8_t(1 << index % 8);
  byte = value > 0 ? byte | bit : byte & ~bit;
}

/// Applies the epilogue to an accumulator, up to the result's scale.
double Computation::finish(double sum, int64_t line, int64_t column) const {
  double value = rounded(sum);
  if (const void *bias = at(GemmProblem::Role::Bias))
    value = rounded(value + loadNumber(bias, problem.biasType(), column));
  if (const void *residual = at(GemmProblem::Role::Residual))
    value = rounded(value + loadNumber(residual, problem.result,
                                       line * problem.n + column));
  if (problem.auxiliary)
    keep(value, line, column);
  return problem.isGradient() ? rounded(value * slopeAt(line, column))
                              : activate(value);
}

/// Computes the bias gradient of an operand.
void Computation::sumOperand() const {
  bool ofA = problem.biasGradient == GemmProblem::BiasGradient::A;
  const void *operand = at(ofA ? GemmProblem::Role::A : GemmProblem::Role::B);
  ElementType type = ofA ? problem.operandA : problem.operandB;
  int64_t lines = ofA ? problem.m : problem.n;
  bool depthFirst = ofA ? problem.transposeA : !problem.transposeB;
  for (int64_t line = 0; line < lines; ++line) {
    double sum = 0;
    for (int64_t i = 0; i < problem.k; ++i)
      sum += loadNumber(operand, type,
                        depthFirst ? i * lines + line : line * problem.k + i);
    storeNumber(at(GemmProblem::Role::BiasGradient), problem.result, line,
                rounded(sum));
  }
}

void Computation::run() {
  int64_t m = problem.m, n = problem.n, k = problem.k;
  // Both operands with k contiguous.
  std::vector<double> a =
      widen(problem, at(GemmProblem::Role::A), problem.operandA,
            problem.sharedA ? 1 : problem.batch, m, k, problem.transposeA);
  std::vector<double> b =
      widen(problem, at(GemmProblem::Role::B), problem.operandB,
            problem.sharedB ? 1 : problem.batch, n, k, !problem.transposeB);
  double scale =
      scaleAt(GemmProblem::Role::ScaleA) * scaleAt(GemmProblem::Role::ScaleB);
  double resultScale = scaleAt(GemmProblem::Role::ResultScale);
  int64_t lines = problem.batch * m;
  std::vector<double> values(static_cast<size_t>(lines * n));
  auto computeLine = [&](int64_t line) {
    const double *left =
        &a[static_cast<size_t>((problem.sharedA ? line % m : line) * k)];
    for (int64_t column = 0; column < n; ++column) {
      const double *right = &b[static_cast<size_t>(
          ((problem.sharedB ? 0 : line / m * n) + column) * k)];
      double sum = 0;
      for (int64_t i = 0; i < k; ++i)
        sum += left[i] * right[i];
      values[static_cast<size_t>(line * n + column)] =
          finish(scale * sum, line, column);
    }
  };
  int64_t tasks = std::min<int64_t>(availableCores(), lines);
  detail::ThreadPool::shared()->run(tasks, [&](int64_t task) {
    for (int64_t line = task; line < lines; line += tasks)
      computeLine(line);
  });
  for (int64_t i = 0; i < lines * n; ++i)
    storeNumber(at(GemmProblem::Role::Result), problem.result, i,
                rounded(resultScale * values[static_cast<size_t>(i)]));

  if (problem.biasGradient == GemmProblem::BiasGradient::Result)
    for (int64_t column = 0; column < n; ++column) {
      double sum = 0;
      for (int64_t line = 0; line < lines; ++line)
        sum += values[static_cast<size_t>(line * n + column)];
      storeNumber(at(GemmProblem::Role::BiasGradient), problem.result, column,
                  rounded(sum));
    }
  else if (problem.biasGradient != GemmProblem::BiasGradient::None)
    sumOperand();
  if (problem.amax) {
    double largest = 0;
    for (double value : values)
      largest = std::max(largest, std::fabs(value));
    storeNumber(at(GemmProblem::Role::Amax), ElementType::F32, 0, largest);
  }
}

Status mpc::computeGemm(const GemmProblem &problem,
                        std::span<void *const> buffers) {
  std::string text = problem.obstacle();
  std::optional<std::vector<GemmProblem::Slot>> slots = problem.slots();
  if (text.empty() && !slots)
    text = "has no size that fits in memory";
  if (text.empty() && slots->size() != buffers.size())
    text = "has " + std::to_string(slots->size()) + " buffers, but got " +
           std::to_string(buffers.size());
  if (!text.empty())
    return Status(StatusCode::InvalidArgument, problem.toString(), text);
  Computation(problem, *slots, buffers).run();
  return {};
}
