//===- main.cpp - Compares library products with their reference ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// usage: product-check [cuda|cuda-host]
// Runs a product of every kind on the first GPU, by cuBLASLt, and compares all
// outputs with the reference of the device cuda-host. Operands are small
// integers, whose sums are exact in any order and under any permitted rounding
// of the operands: results are bit-identical, except for GELU. Kinds that the
// library does not support on this GPU are listed and skipped. Exit status:
// 0 equal, 1 different or failed, 77 without a GPU.
//
//===----------------------------------------------------------------------===//

#include "Target/CUDA/Host/GemmReference.h"

#include "mpc/Runtime/Executable.h"
#include "mpc/Target/CUDA/Host/HostDevice.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>

using namespace mpc;

using Activation = GemmProblem::Activation;
using BiasGradient = GemmProblem::BiasGradient;
using Compute = GemmProblem::Compute;
using Role = GemmProblem::Role;

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

/// Writes a value that is exact in `type`.
static void store(std::byte *to, ElementType type, float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  double wide = value;
  switch (type) {
  case ElementType::F64:
    std::memcpy(to, &wide, sizeof(wide));
    return;
  case ElementType::F32:
    std::memcpy(to, &bits, sizeof(bits));
    return;
  case ElementType::BF16:
    bits >>= 16;
    break;
  case ElementType::F16:
    bits = std::bit_cast<uint16_t>(static_cast<_Float16>(value));
    break;
  default:
    bits = narrowFloatOf(type).encode(value);
  }
  std::memcpy(to, &bits, static_cast<size_t>(elementBytes(type)));
}

static double load(const std::byte *from, ElementType type) {
  if (type == ElementType::F64) {
    double wide;
    std::memcpy(&wide, from, sizeof(wide));
    return wide;
  }
  uint32_t bits = 0;
  std::memcpy(&bits, from, static_cast<size_t>(elementBytes(type)));
  if (type == ElementType::F32)
    return std::bit_cast<float>(bits);
  if (type == ElementType::BF16)
    return std::bit_cast<float>(bits << 16);
  if (type == ElementType::F16)
    return static_cast<float>(
        std::bit_cast<_Float16>(static_cast<uint16_t>(bits)));
  return isFloat8(type)
             ? float(narrowFloatOf(type).decode(static_cast<uint8_t>(bits)))
             : bits;
}

/// Fills an operand. Scales are powers of two.
static void fill(Buffer &buffer, const GemmProblem::Slot &slot, int seed) {
  auto *bytes = static_cast<std::byte *>(buffer.data());
  size_t size = static_cast<size_t>(elementBytes(slot.type));
  for (size_t i = 0; i < buffer.size() / size; ++i) {
    int number = static_cast<int>((i * 7 + i / 11 + seed) % 9) - 4;
    if (slot.type == ElementType::UI8)
      bytes[i] = static_cast<std::byte>(i * 37 + i / 5);
    else if (slot.role == Role::ScaleA || slot.role == Role::ScaleB)
      store(bytes, slot.type, slot.role == Role::ScaleA ? 0.5f : 0.25f);
    else if (slot.role == Role::ResultScale)
      store(bytes, slot.type, 4);
    else
      store(bytes + i * size, slot.type, static_cast<float>(number));
  }
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

namespace {
/// One product as a program: operands are arguments, outputs are results.
struct PreparedModel {
  explicit PreparedModel(const GemmProblem &problem) : slots(*problem.slots()) {
    program->name = "main";
    program->target = "cuda:sm_80";
    program->cuda = std::make_shared<CudaCode>();
    Launch launch;
    launch.kernel = "product";
    launch.kind = "library";
    launch.gemm = problem;
    for (const GemmProblem::Slot &slot : slots) {
      TensorType type{slot.type, {slot.bytes / elementBytes(slot.type)}};
      auto &values = slot.written ? program->results : program->arguments;
      launch.buffers.push_back(
          {slot.written ? BufferRef::Kind::Result : BufferRef::Kind::Argument,
           static_cast<int64_t>(values.size()), 0, slot.bytes, slot.written});
      values.push_back({"buffer" + std::to_string(slots.size()), type});
    }
    program->launches = {launch};
  }

  std::vector<GemmProblem::Slot> slots;
  std::shared_ptr<Program> program = std::make_shared<Program>();
};
} // namespace

/// Error bound per result element: 0 except for GELU, whose tanh may be the
/// hardware approximation with an error of 2^-11. That is multiplied by half
/// the input or, in the derivative at inputs up to 4, by 10 and the sum.
static std::vector<double> marginsOf(const GemmProblem &problem,
                                     const std::vector<void *> &places) {
  std::vector<double> margins(
      static_cast<size_t>(problem.batch * problem.m * problem.n));
  bool isForward = problem.activation == Activation::GeluTanh;
  if (!isForward && problem.activation != Activation::GeluTanhGradient)
    return margins;
  // The sums, from which all else is computed.
  GemmProblem linear = problem;
  linear.activation = Activation::None;
  linear.auxiliary = false;
  linear.biasGradient = BiasGradient::None;
  linear.result = problem.bias ? problem.result : ElementType::F32;
  std::vector<std::byte> sums(margins.size() * sizeof(float));
  std::vector<void *> buffers = {places[0], places[1]};
  if (problem.bias)
    buffers.push_back(places[2]);
  buffers.push_back(sums.data());
  (void)computeGemm(linear, buffers);
  size_t size = static_cast<size_t>(elementBytes(linear.result));
  for (size_t i = 0; i < margins.size(); ++i)
    margins[i] = std::abs(load(&sums[i * size], linear.result)) *
                 (isForward ? 0x1p-11 : 10 * 0x1p-11);
  return margins;
}

/// Describes the first mismatch in a buffer; "" if there is none.
static std::string difference(const GemmProblem &problem,
                              const GemmProblem::Slot &slot,
                              const std::byte *actual,
                              const std::byte *expected,
                              const std::vector<double> &margins) {
  bool isMask = slot.type == ElementType::UI8;
  bool isGelu = problem.activation == Activation::GeluTanh ||
                problem.activation == Activation::GeluTanhGradient;
  size_t size = static_cast<size_t>(elementBytes(slot.type));
  int64_t lineBytes = problem.auxiliaryPitch() / 8;
  for (int64_t i = 0; i < slot.bytes / static_cast<int64_t>(size); ++i) {
    double is = load(actual + static_cast<size_t>(i) * size, slot.type),
           should = load(expected + static_cast<size_t>(i) * size, slot.type);
    double margin = 0;
    if (isMask) {
      // Bits past the end of a line are unspecified.
      int64_t left = problem.n - i % lineBytes * 8;
      unsigned bits = left <= 0 ? 0 : left >= 8 ? 255u : (1u << left) - 1;
      is = static_cast<unsigned>(is) & bits;
      should = static_cast<unsigned>(should) & bits;
    } else if (isGelu && slot.role == Role::Result) {
      margin = margins[static_cast<size_t>(i)];
    } else if (isGelu && slot.role == Role::BiasGradient) {
      for (int64_t m = 0; m < problem.m; ++m)
        margin += margins[static_cast<size_t>(m * problem.n + i)];
    }
    // An inexact value may round to a neighbour.
    if (margin > 0)
      margin += std::abs(should) * (slot.type == ElementType::F32    ? 0x1p-22
                                    : slot.type == ElementType::BF16 ? 0x1p-7
                                                                     : 0x1p-10);
    if (std::abs(is - should) <= margin)
      continue;
    return "buffer of role " + std::to_string(static_cast<int>(slot.role)) +
           ", element " + std::to_string(i) + ": " + std::to_string(is) +
           ", not " + std::to_string(should);
  }
  return "";
}

/// Returns whether the product is correct, or not supported by the library.
static bool check(const Device &device, const GemmProblem &problem) {
  std::string name = problem.toString();
  PreparedModel subject(problem);
  Result<Executable> executable = Executable::create(device, subject.program);
  if (!executable.ok()) {
    bool isMissing = executable.status().code() == StatusCode::Unavailable;
    std::printf("%s %s: %s\n", isMissing ? "passed over" : "FAILED",
                name.c_str(), executable.status().toString().c_str());
    return isMissing;
  }
  std::vector<Buffer> inputs, outputs;
  std::vector<void *> places;
  for (const GemmProblem::Slot &slot : subject.slots) {
    TensorType type{slot.type, {slot.bytes / elementBytes(slot.type)}};
    Buffer buffer = *Buffer::allocate(type);
    if (!slot.written)
      fill(buffer, slot, static_cast<int>(slot.role));
    places.push_back(buffer.data());
    (slot.written ? outputs : inputs).push_back(std::move(buffer));
  }
  Result<std::vector<Buffer>> results = executable->run(inputs);
  Status status =
      results.ok() ? computeGemm(problem, places) : results.status();
  if (!status.ok()) {
    std::printf("FAILED %s: %s\n", name.c_str(), status.toString().c_str());
    return false;
  }
  std::vector<double> margins = marginsOf(problem, places);
  size_t next = 0;
  for (size_t i = 0; i < subject.slots.size(); ++i) {
    if (!subject.slots[i].written)
      continue;
    std::string wrong =
        difference(problem, subject.slots[i],
                   static_cast<const std::byte *>((*results)[next++].data()),
                   static_cast<const std::byte *>(places[i]), margins);
    if (wrong.empty())
      continue;
    std::printf("DIFFERENT %s: %s\n", name.c_str(), wrong.c_str());
    return false;
  }
  std::printf("equal %s\n", name.c_str());
  return true;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Every epilogue, in the types used in training.
static std::vector<GemmProblem> epilogues() {
  std::vector<GemmProblem> problems;
  for (auto [operand, result] : {std::pair(ElementType::F32, ElementType::F32),
                                 {ElementType::BF16, ElementType::BF16},
                                 {ElementType::F16, ElementType::F16},
                                 {ElementType::BF16, ElementType::F32}})
    for (int64_t n : {48, 136}) {
      GemmProblem plain;
      plain.m = 32;
      plain.n = n;
      plain.k = 64;
      plain.operandA = plain.operandB = operand;
      plain.result = result;
      auto add = [&](auto change) {
        GemmProblem problem = plain;
        change(problem);
        problems.push_back(problem);
      };
      add([](GemmProblem &p) { p.bias = p.residual = true; });
      for (Activation activation : {Activation::Relu, Activation::GeluTanh})
        for (bool bias : {false, true})
          add([&](GemmProblem &p) {
            p.activation = activation;
            p.auxiliary = true;
            p.bias = bias;
          });
      for (Activation activation :
           {Activation::ReluGradient, Activation::GeluTanhGradient})
        for (BiasGradient sum : {BiasGradient::None, BiasGradient::Result})
          add([&](GemmProblem &p) {
            p.activation = activation;
            p.biasGradient = sum;
            p.transposeB = true;
          });
      for (BiasGradient sum : {BiasGradient::A, BiasGradient::B})
        for (bool transpose : {false, true})
          add([&](GemmProblem &p) {
            p.biasGradient = sum;
            p.transposeA = transpose;
          });
      add([](GemmProblem &p) {
        p.batch = 3;
        p.activation = Activation::Relu;
        p.auxiliary = true;
      });
    }
  return problems;
}

/// Compute types, and 8-bit operands.
static std::vector<GemmProblem> computes() {
  std::vector<GemmProblem> problems;
  GemmProblem plain;
  plain.m = 32;
  plain.n = plain.k = 64;
  for (Compute compute : {Compute::Native, Compute::Tf32, Compute::Bf16x9}) {
    plain.compute = compute;
    problems.push_back(plain);
  }
  const ElementType e4m3 = ElementType::F8E4M3FN, e5m2 = ElementType::F8E5M2;
  for (auto [a, b] : {std::pair(e4m3, e4m3), {e4m3, e5m2}, {e5m2, e4m3}})
    for (ElementType result :
         {ElementType::F32, ElementType::BF16, ElementType::F16, e4m3, e5m2}) {
      GemmProblem problem;
      problem.m = 32;
      problem.n = problem.k = 64;
      problem.transposeB = true;
      problem.operandA = a;
      problem.operandB = b;
      problem.result = result;
      if (a == b && result == e5m2)
        continue;
      problems.push_back(problem);
      problem.scales = problem.bias = true;
      problem.resultScale = problem.amax = isFloat8(result);
      problems.push_back(problem);
    }
  return problems;
}

int main(int count, char **arguments) {
  bool onHost = count > 1 && std::strcmp(arguments[1], "cuda-host") == 0;
  Result<Device> device =
      onHost ? Result<Device>(cudaHostDevice()) : Device::cuda();
  if (!device.ok()) {
    std::printf("skipped: %s\n", device.status().toString().c_str());
    return 77;
  }
  bool right = true;
  for (const auto &problems : {epilogues(), computes()})
    for (const GemmProblem &problem : problems)
      right &= check(*device, problem);
  return right ? 0 : 1;
}
