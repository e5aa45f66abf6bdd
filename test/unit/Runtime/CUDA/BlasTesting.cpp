//===- BlasTesting.cpp - GEMMs of the fake library ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BlasTesting.h"

#include "CUDA/CublasGemm.h"
#include "Target/CUDA/Host/GemmReference.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

using namespace mpc;
using namespace mpc::detail;
using namespace mpc::testing;

/// A buffer of standard normal numbers of a type that the fake supports, or of
/// random bits for integers.
static std::vector<std::byte> draw(ElementType type, int64_t bytes,
                                   std::mt19937 &engine) {
  std::normal_distribution<float> normal;
  std::vector<std::byte> data(static_cast<size_t>(bytes));
  size_t size = static_cast<size_t>(elementBytes(type));
  for (size_t at = 0; at < data.size(); at += size) {
    float value = normal(engine);
    double wide = value;
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    if (isFloat8(type))
      bits = narrowFloatOf(type).encode(value);
    else if (type == ElementType::BF16)
      bits >>= 16;
    else if (!isFloat(type))
      bits = engine();
    std::memcpy(&data[at],
                type == ElementType::F64 ? static_cast<void *>(&wide) : &bits,
                size);
  }
  return data;
}

/// Number `i` of a buffer.
static double numberAt(const std::vector<std::byte> &from, ElementType type,
                       size_t i) {
  size_t size = static_cast<size_t>(elementBytes(type));
  double wide;
  uint32_t bits = 0;
  std::memcpy(type == ElementType::F64 ? static_cast<void *>(&wide) : &bits,
              &from[i * size], size);
  if (type == ElementType::F64)
    return wide;
  if (isFloat8(type))
    return float(narrowFloatOf(type).decode(uint8_t(bits)));
  if (!isFloat(type))
    return bits;
  if (type == ElementType::BF16)
    bits <<= 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// Both sum in f64; the fake rounds once, the reference to f32 before the
/// epilogue as well: one unit of the type apart at most.
static double unitOf(ElementType type) {
  switch (type) {
  case ElementType::F8E4M3FN:
    return 0x1p-3;
  case ElementType::F8E5M2:
    return 0x1p-2;
  case ElementType::BF16:
    return 0x1p-7;
  case ElementType::F32:
    return 0x1p-21;
  case ElementType::F64:
    return 0x1p-50;
  default:
    return 0;
  }
}

FakeDesc mpc::testing::expectEqual(const GemmProblem &problem) {
  SCOPED_TRACE(problem.toString());
  FakeBlas blas;
  auto compare = [&] {
    auto context = BlasContext::create(blas.table);
    ASSERT_TRUE(context.ok());
    auto product = CublasGemm::create(*context, problem);
    ASSERT_TRUE(product.ok()) << product.status().toString();
    auto candidates = (*product)->candidates(8);
    ASSERT_TRUE(candidates.ok());
    ASSERT_EQ(candidates->size(), 3u);

    std::mt19937 engine(7);
    std::vector<GemmProblem::Slot> slots = *problem.slots();
    std::vector<std::vector<std::byte>> storage;
    for (const GemmProblem::Slot &slot : slots)
      storage.push_back(draw(slot.type, slot.bytes, engine));
    std::vector<std::vector<std::byte>> expected = storage;
    std::vector<void *> buffers, reference;
    for (size_t i = 0; i < slots.size(); ++i) {
      buffers.push_back(storage[i].data());
      reference.push_back(expected[i].data());
    }
    int stream = 0;
    Status status =
        (*product)->enqueue(buffers, candidates->at(1), &engine, &stream);
    ASSERT_TRUE(status.ok()) << status.toString();
    EXPECT_EQ(blas.streams.back(), &stream);
    EXPECT_EQ(blas.workspaces.back(), &engine);
    EXPECT_EQ(blas.algorithms.back(), 1u);
    status = computeGemm(problem, reference);
    ASSERT_TRUE(status.ok()) << status.toString();

    for (size_t slot = 0; slot < slots.size(); ++slot) {
      if (!slots[slot].written) {
        EXPECT_EQ(storage[slot], expected[slot]) << "buffer " << slot;
        continue;
      }
      ElementType type = slots[slot].type;
      size_t count =
          expected[slot].size() / static_cast<size_t>(elementBytes(type));
      for (size_t i = 0; i < count; ++i) {
        double want = numberAt(expected[slot], type, i);
        // Summands may cancel: the unit is relative to their size, at least 1.
        ASSERT_NEAR(numberAt(storage[slot], type, i), want,
                    unitOf(type) * std::max(std::abs(want), 1.0))
            << "buffer " << slot << ", element " << i;
      }
    }
  };
  compare();
  EXPECT_EQ(blas.alive, 0);
  if (blas.asked.empty() || blas.ran.empty())
    return {};
  // The heuristic is queried with the alignment of every buffer, which is that
  // of all buffers.
  const FakeDesc &asked = blas.asked.back(), &ran = blas.ran.back();
  for (auto [hint, address] :
       {std::pair<const void *, const void *>(asked.bias, ran.bias),
        {asked.aux, ran.aux},
        {asked.scaleA, ran.scaleA},
        {asked.scaleB, ran.scaleB},
        {asked.scaleD, ran.scaleD},
        {asked.amaxD, ran.amaxD}}) {
    EXPECT_EQ(hint != nullptr, address != nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(hint) % 64, 0u);
  }
  EXPECT_EQ(blas.typeD, problem.result == ElementType::F8E4M3FN ? 28
                        : problem.result == ElementType::F8E5M2 ? 29
                                                                : blas.typeC);
  return ran;
}
