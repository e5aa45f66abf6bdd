//===- AutotuneBuffers.cpp - operands for GEMM autotuning ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AutotuneBuffers.h"

#include <algorithm>
#include <cstring>

using namespace mpc;
using namespace mpc::detail;

static size_t alignedBytes(int64_t bytes) {
  return (static_cast<size_t>(bytes) + 255) / 256 * 256;
}

/// Truncates an f32 bit pattern to fewer exponent and mantissa bits. Subnormal
/// results become zero; the random values here do not overflow.
static uint32_t cut(uint32_t bits, int exponentBits, int mantissaBits) {
  uint32_t sign = bits >> 31 << (exponentBits + mantissaBits);
  int exponent =
      static_cast<int>(bits >> 23 & 255) - 127 + (1 << (exponentBits - 1)) - 1;
  uint32_t mantissa = (bits & 0x7fffff) >> (23 - mantissaBits);
  return exponent > 0
             ? sign | static_cast<uint32_t>(exponent) << mantissaBits | mantissa
             : sign;
}

/// Returns `bytes` of standard normal values in `type`; random bits of an
/// integer type.
static std::vector<std::byte> randomNumbers(ElementType type, size_t bytes,
                                            std::mt19937 &engine) {
  std::normal_distribution<float> normal;
  std::vector<std::byte> data(bytes);
  size_t size = static_cast<size_t>(elementBytes(type));
  for (size_t at = 0; at + size <= bytes; at += size) {
    if (!isFloat(type)) {
      data[at] = static_cast<std::byte>(engine());
      continue;
    }
    float value = normal(engine);
    if (type == ElementType::F64) {
      double wide = value;
      std::memcpy(&data[at], &wide, size);
      continue;
    }
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    if (type == ElementType::BF16)
      bits = cut(bits, 8, 7);
    else if (type == ElementType::F16)
      bits = cut(bits, 5, 10);
    else if (type == ElementType::F8E4M3FN)
      bits = cut(bits, 4, 3);
    else if (type == ElementType::F8E5M2)
      bits = cut(bits, 5, 2);
    std::memcpy(&data[at], &bits, size);
  }
  return data;
}

/// Generates the first numbers on the host and replicates them on the device,
/// through the buffer and its copies.
CuResult AutotuneBuffers::fill(const GemmProblem::Slot &slot, size_t index,
                               std::mt19937 &engine, CuHandle stream) {
  auto bytes = static_cast<size_t>(slot.bytes);
  size_t done =
      std::min(bytes, kDrawn * static_cast<size_t>(elementBytes(slot.type)));
  std::vector<std::byte> drawn = randomNumbers(slot.type, done, engine);
  CuAddress first = address(0, index);
  CuResult error = driver.memcpyHtoDAsync(first, drawn.data(), done, stream);
  for (; !error && done < bytes; done *= 2)
    error = driver.memcpyDtoDAsync(first + done, first,
                                   std::min(done, bytes - done), stream);
  for (size_t copy = 1; !error && copy < copies; ++copy)
    error = driver.memcpyDtoDAsync(address(copy, index), first, bytes, stream);
  // `drawn` must outlive the copy.
  CuResult ended = driver.streamSynchronize(stream);
  return error ? error : ended;
}

Status AutotuneBuffers::prepare(const GemmProblem &problem, int64_t l2Bytes,
                                CuHandle stream) {
  std::optional<std::vector<GemmProblem::Slot>> slots = problem.slots();
  if (!slots)
    return Status(StatusCode::InvalidArgument, problem.toString(),
                  "has no size that fits in memory");
  for (const GemmProblem::Slot &slot : *slots) {
    offsets.push_back(stride);
    stride += alignedBytes(slot.bytes);
  }
  copies = std::clamp<size_t>(
      (2 * static_cast<size_t>(std::max<int64_t>(l2Bytes, 0)) + stride - 1) /
          stride,
      1, 64);
  if (CuResult error = driver.memAlloc(&base, CublasGemm::kWorkspaceBytes +
                                                  copies * stride)) {
    base = 0;
    return toStatus(driver, error, "cuMemAlloc", problem.toString());
  }
  // Fixed seed: power, and therefore speed, depends on the data.
  std::mt19937 engine(1);
  for (size_t i = 0; i < slots->size(); ++i)
    if (!(*slots)[i].written)
      if (CuResult error = fill((*slots)[i], i, engine, stream))
        return toStatus(driver, error, "filling memory", problem.toString());
  return {};
}

std::vector<void *> AutotuneBuffers::buffers(size_t number) const {
  std::vector<void *> result;
  for (size_t slot = 0; slot < offsets.size(); ++slot)
    result.push_back(reinterpret_cast<void *>(address(number % copies, slot)));
  return result;
}
