//===- BlasTuner.cpp - the fastest way to a product -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BlasTuner.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

using namespace mpc;
using namespace mpc::detail;

namespace {
/// Device memory for timing: some copies of all buffers of a product, and the
/// workspace. Freed with the object.
class TuningMemory {
public:
  TuningMemory(const CudaDriver &driver) : driver(driver) {}
  ~TuningMemory() {
    for (CuHandle event : events)
      driver.eventDestroy(event);
    if (base)
      driver.memFree(base);
  }
  TuningMemory(const TuningMemory &) = delete;
  TuningMemory &operator=(const TuningMemory &) = delete;

  Status allocate(const GemmProblem &problem, int64_t l2Bytes, CuHandle stream);
  /// The buffers of copy `number % copies`, in the problem's order.
  std::vector<void *> buffers(size_t number) const;
  void *workspace() const { return reinterpret_cast<void *>(base); }
  CuHandle event(size_t index) const { return events[index]; }

private:
  static size_t aligned(int64_t bytes) {
    return (static_cast<size_t>(bytes) + 255) / 256 * 256;
  }

  const CudaDriver &driver;
  CuAddress base = 0;
  std::vector<size_t> offsets;
  size_t stride = 0, copies = 1;
  std::vector<CuHandle> events;
};
} // namespace

/// The f32 number of these bits cut to fewer of them. What would be no normal
/// number becomes zero; nothing that is drawn here is too large.
static uint32_t cut(uint32_t bits, int exponentBits, int mantissaBits) {
  uint32_t sign = bits >> 31 << (exponentBits + mantissaBits);
  int exponent =
      static_cast<int>(bits >> 23 & 255) - 127 + (1 << (exponentBits - 1)) - 1;
  uint32_t mantissa = (bits & 0x7fffff) >> (23 - mantissaBits);
  return exponent > 0
             ? sign | static_cast<uint32_t>(exponent) << mantissaBits | mantissa
             : sign;
}

/// Standard normal numbers in `type`, `bytes` of them; random bits of an
/// integer type.
static std::vector<std::byte> randomNumbers(ElementType type, size_t bytes) {
  // Seeded alike on every machine: power, and so speed, depends on the data.
  std::mt19937 engine(1);
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

Status TuningMemory::allocate(const GemmProblem &problem, int64_t l2Bytes,
                              CuHandle stream) {
  std::optional<std::vector<GemmProblem::Slot>> slots = problem.slots();
  if (!slots)
    return Status(StatusCode::InvalidArgument, problem.toString(),
                  "has no size that fits in memory");
  for (const GemmProblem::Slot &slot : *slots) {
    offsets.push_back(stride);
    stride += aligned(slot.bytes);
  }
  copies = std::clamp<size_t>(
      (2 * static_cast<size_t>(std::max<int64_t>(l2Bytes, 0)) + stride - 1) /
          stride,
      1, 64);
  size_t workspace = BlasProduct::kWorkspaceBytes;
  if (CuResult error = driver.memAlloc(&base, workspace + copies * stride)) {
    base = 0;
    return toStatus(driver, error, "cuMemAlloc", problem.toString());
  }
  // One copy of each operand is drawn; all copies hold the same numbers.
  for (size_t i = 0; i < slots->size(); ++i) {
    std::vector<std::byte> data =
        randomNumbers((*slots)[i].type, static_cast<size_t>((*slots)[i].bytes));
    for (size_t copy = 0; copy < copies; ++copy)
      if (CuResult error = driver.memcpyHtoDAsync(
              base + workspace + copy * stride + offsets[i], data.data(),
              data.size(), stream))
        return toStatus(driver, error, "cuMemcpyHtoDAsync", problem.toString());
    // `data` goes away.
    if (CuResult error = driver.streamSynchronize(stream))
      return toStatus(driver, error, "cuStreamSynchronize", problem.toString());
  }
  for (int i = 0; i < 2; ++i) {
    CuHandle event = nullptr;
    if (CuResult error = driver.eventCreate(&event, kCuEventDefault))
      return toStatus(driver, error, "cuEventCreate", problem.toString());
    events.push_back(event);
  }
  return {};
}

std::vector<void *> TuningMemory::buffers(size_t number) const {
  std::vector<void *> result;
  CuAddress first =
      base + BlasProduct::kWorkspaceBytes + number % copies * stride;
  for (size_t offset : offsets)
    result.push_back(reinterpret_cast<void *>(first + offset));
  return result;
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

std::optional<BlasCandidate> BlasTuner::find(const std::string &key,
                                             const BlasProduct &product) const {
  std::optional<std::vector<std::byte>> bytes = cache.find(key);
  BlasCandidate candidate;
  if (!bytes || bytes->size() != sizeof(candidate.algorithm) + sizeof(uint64_t))
    return std::nullopt;
  uint64_t workspace = 0;
  std::memcpy(&candidate.algorithm, bytes->data(), sizeof(candidate.algorithm));
  std::memcpy(&workspace, bytes->data() + sizeof(candidate.algorithm),
              sizeof(workspace));
  if (workspace > BlasProduct::kWorkspaceBytes)
    return std::nullopt;
  candidate.workspaceBytes = workspace;
  return candidate;
}

Result<BlasCandidate> BlasTuner::time(const BlasProduct &product,
                                      std::span<const BlasCandidate> candidates,
                                      CuHandle stream) {
  TuningMemory memory(driver);
  if (!memory.allocate(product.problem(), l2Bytes, stream).ok())
    return candidates.front();
  std::string where = product.problem().toString();
  const BlasCandidate *best = nullptr;
  float least = std::numeric_limits<float>::infinity();
  Status last;
  size_t number = 0;
  for (const BlasCandidate &candidate : candidates) {
    // A candidate that cannot be run is no failure while another can.
    auto run = [&](int times) {
      Status status;
      for (int i = 0; i < times && status.ok(); ++i)
        status = product.enqueue(memory.buffers(number++), candidate,
                                 memory.workspace(), stream);
      return status;
    };
    last = run(2);
    if (!last.ok())
      continue;
    CuResult error = driver.eventRecord(memory.event(0), stream);
    last = run(kRuns);
    if (!error)
      error = driver.eventRecord(memory.event(1), stream);
    if (!error)
      error = driver.eventSynchronize(memory.event(1));
    float milliseconds = 0;
    if (!error)
      error = driver.eventElapsedTime(&milliseconds, memory.event(0),
                                      memory.event(1));
    if (error)
      return toStatus(driver, error, "timing", where);
    if (last.ok() && milliseconds < least) {
      least = milliseconds;
      best = &candidate;
    }
  }
  if (!best)
    return last;
  return *best;
}

Result<BlasCandidate> BlasTuner::choose(const BlasProduct &product,
                                        CuHandle stream) {
  std::string problem = product.problem().toString();
  std::string version = std::to_string(product.library().version());
  std::string_view parts[] = {"cublasLt algorithm", problem, deviceName,
                              version};
  std::string key = contentKey(parts);
  if (std::optional<BlasCandidate> known = find(key, product))
    return *known;
  Result<std::vector<BlasCandidate>> candidates =
      product.candidates(kCandidates);
  if (!candidates.ok())
    return candidates.status();
  Result<BlasCandidate> best = time(product, *candidates, stream);
  if (!best.ok())
    return best.status();
  std::vector<std::byte> bytes(sizeof(best->algorithm) + sizeof(uint64_t));
  uint64_t workspace = best->workspaceBytes;
  std::memcpy(bytes.data(), &best->algorithm, sizeof(best->algorithm));
  std::memcpy(bytes.data() + sizeof(best->algorithm), &workspace,
              sizeof(workspace));
  (void)cache.store(key, bytes);
  return *best;
}
