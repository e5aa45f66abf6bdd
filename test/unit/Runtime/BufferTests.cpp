//===- BufferTests.cpp - tests of types and buffers -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Buffer.h"

#include <gtest/gtest.h>

#include <array>

using namespace mpc;

TEST(TensorType, NamesRoundTrip) {
  for (int i = 0; i <= static_cast<int>(ElementType::F64); ++i) {
    auto type = static_cast<ElementType>(i);
    EXPECT_EQ(parseElementType(elementTypeName(type)), type);
    EXPECT_GE(elementBytes(type), 1);
  }
  EXPECT_EQ(parseElementType("f8"), std::nullopt);
  EXPECT_TRUE(isFloat(ElementType::BF16));
  EXPECT_FALSE(isFloat(ElementType::UI64));
}

TEST(TensorType, CountsElementsAndBytes) {
  TensorType type{ElementType::BF16, {3, 5}};
  EXPECT_EQ(type.elementCount(), 15);
  EXPECT_EQ(type.byteCount(), 30);
  EXPECT_EQ(type.toString(), "bf16[3,5]");
  EXPECT_EQ((TensorType{ElementType::F64, {}}).byteCount(), 8);
  EXPECT_EQ((TensorType{ElementType::F64, {0, 9}}).byteCount(), 0);
}

TEST(TensorType, OverflowHasNoSize) {
  int64_t big = int64_t(1) << 40;
  EXPECT_EQ((TensorType{ElementType::I8, {big, big}}).elementCount(),
            std::nullopt);
  // The count fits, the bytes do not.
  TensorType type{ElementType::F64, {int64_t(1) << 61}};
  EXPECT_TRUE(type.elementCount().has_value());
  EXPECT_EQ(type.byteCount(), std::nullopt);
  EXPECT_EQ((TensorType{ElementType::F32, {-1}}).elementCount(), std::nullopt);
}

TEST(Buffer, AllocatesAlignedZeros) {
  Result<Buffer> buffer = Buffer::allocate({ElementType::F32, {7}});
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % kBufferAlignment, 0u);
  for (float value : buffer->as<float>())
    EXPECT_EQ(value, 0);
}

TEST(Buffer, CopiesShareBytes) {
  Buffer first = *Buffer::allocate({ElementType::I32, {2}});
  Buffer second = first;
  first.as<int32_t>()[1] = 5;
  EXPECT_EQ(second.as<int32_t>()[1], 5);
  EXPECT_FALSE(Buffer());
}

TEST(Buffer, CopySemanticsDetach) {
  std::array<float, 2> values = {1, 2};
  Buffer buffer = *Buffer::fromValues<float>({ElementType::F32, {2}}, values);
  values[0] = 9;
  EXPECT_EQ(buffer.as<float>()[0], 1);
}

TEST(Buffer, BorrowedMemoryIsReleasedOnce) {
  alignas(64) std::array<float, 2> values = {1, 2};
  int released = 0;
  {
    Buffer buffer = *Buffer::fromHost({ElementType::F32, {2}},
                                      std::as_bytes(std::span(values)),
                                      HostMemory::Borrow, [&] { ++released; });
    Buffer copy = buffer;
    values[0] = 9;
    EXPECT_EQ(copy.as<float>()[0], 9);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

TEST(Buffer, RefusesWrongSizeAndAlignment) {
  alignas(8) std::array<std::byte, 16> bytes = {};
  Result<Buffer> wrong = Buffer::fromHost({ElementType::F32, {3}}, bytes);
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.status().text(), "f32[3] takes 12 bytes, but 16 were given");
  Result<Buffer> skewed =
      Buffer::fromHost({ElementType::F32, {3}}, std::span(bytes).subspan(1, 12),
                       HostMemory::Borrow);
  EXPECT_FALSE(skewed.ok());
  EXPECT_FALSE(Buffer::allocate({ElementType::F32, {-2}}).ok());
}

TEST(Buffer, EmptyTensorIsNoNullBuffer) {
  EXPECT_TRUE(bool(*Buffer::allocate({ElementType::F32, {0}})));
  int released = 0;
  Buffer borrowed = *Buffer::fromHost({ElementType::F32, {0}}, {},
                                      HostMemory::Borrow, [&] { ++released; });
  EXPECT_TRUE(bool(borrowed));
}
