//===- GgufTests.cpp - reader of GGUF files -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GgufBytes.h"

#include "llvm/Support/MemoryBuffer.h"
#include "gtest/gtest.h"

#include <bit>
#include <cmath>
#include <cstring>

using namespace mpc;
using namespace mpc::checkpoint;
using test::Bytes;

namespace {

constexpr uint32_t kF32 = 0, kF16 = 1, kQ4_0 = 2, kQ8_0 = 8;

TEST(Gguf, ReadsMetadata) {
  Bytes file;
  file.header(0, 8, /*version=*/2);
  file.value("u8", GgufType::UInt8).number<uint8_t>(200);
  file.value("i64", GgufType::Int64).number<int64_t>(-5);
  file.value("u64", GgufType::UInt64).number<uint64_t>(~uint64_t(0));
  file.value("f32", GgufType::Float32).number(0.5f);
  file.value("flag", GgufType::Bool).number<uint8_t>(1);
  file.value("text", GgufType::String).text("llama");
  file.value("list", GgufType::Array).array(GgufType::Int16, 3);
  file.number<int16_t>(1).number<int16_t>(-2).number<int16_t>(3);
  file.value("nested", GgufType::Array).array(GgufType::Array, 2);
  file.array(GgufType::String, 1).text("a").array(GgufType::Bool, 0);
  Result<GgufFile> parsed = file.parse();
  ASSERT_TRUE(parsed.ok()) << parsed.status().toString();
  EXPECT_EQ(parsed->find("u8")->integer(), 200);
  EXPECT_EQ(parsed->find("u8")->number(), 200.0);
  EXPECT_EQ(parsed->find("u8")->text(), std::nullopt);
  EXPECT_EQ(parsed->find("i64")->integer(), -5);
  EXPECT_EQ(parsed->find("u64")->integer(), std::nullopt);
  EXPECT_EQ(parsed->find("f32")->number(), 0.5);
  EXPECT_EQ(parsed->find("f32")->integer(), std::nullopt);
  EXPECT_EQ(parsed->find("flag")->flag(), true);
  EXPECT_EQ(parsed->find("text")->text(), "llama");
  EXPECT_EQ(parsed->find("list")->numbers(), (std::vector<double>{1, -2, 3}));
  EXPECT_EQ(parsed->find("nested")->numbers(), std::nullopt);
  EXPECT_EQ(parsed->find("nested")->count, 2u);
  EXPECT_EQ(parsed->find("none"), nullptr);
}

TEST(Gguf, LocatesTensors) {
  Bytes file;
  file.header(3, 1);
  file.value("general.alignment", GgufType::UInt32).number<uint32_t>(64);
  file.tensor("b", {32, 2}, kQ8_0, 64).tensor("a", {3}, kF16, 0);
  file.tensor("scalar", {}, kF32, 192).data(196, 64);
  Result<GgufFile> parsed = file.parse();
  ASSERT_TRUE(parsed.ok()) << parsed.status().toString();
  size_t start = file.bytes.size() - 196;
  const GgufTensor &tensor = parsed->tensors.at("b");
  EXPECT_EQ(tensor.shape, (std::vector<int64_t>{2, 32}));
  EXPECT_EQ(tensor.format->name, "Q8_0");
  EXPECT_EQ(tensor.offset, start + 64);
  EXPECT_EQ(tensor.bytes.size(), 68u);
  EXPECT_EQ(tensor.bytes.data(), file.bytes.data() + start + 64);
  EXPECT_EQ(parsed->tensors.at("a").bytes.size(), 6u);
  EXPECT_EQ(parsed->tensors.at("scalar").bytes.size(), 4u);
}

// Every prefix of a file is refused, never read past its end.
TEST(Gguf, RefusesTruncatedFiles) {
  Bytes file;
  file.header(1, 3);
  file.value("text", GgufType::String).text("llama");
  file.value("list", GgufType::Array).array(GgufType::Array, 1);
  file.array(GgufType::String, 2).text("a").text("b");
  file.value("number", GgufType::Float64).number(1.0);
  file.tensor("w", {32}, kQ4_0, 0).data(18);
  ASSERT_TRUE(file.parse().ok());
  for (size_t size = 0; size < file.bytes.size(); ++size) {
    // A copy, so that a sanitizer sees reads past its end.
    std::vector<uint8_t> prefix(file.bytes.begin(), file.bytes.begin() + size);
    Result<GgufFile> parsed = GgufFile::parse(prefix, "m.gguf");
    ASSERT_FALSE(parsed.ok()) << size;
    EXPECT_EQ(parsed.status().where(), "m.gguf");
  }
  Bytes cut = file;
  cut.bytes.pop_back();
  EXPECT_EQ(cut.failure(),
            "m.gguf: tensor 'w' has 18 bytes at offset 0 of the tensor data, "
            "which has 17 bytes; the file is truncated or corrupt");
  EXPECT_EQ(Bytes().header(0, 0, 1).failure(),
            "m.gguf: has GGUF version 1; versions 2 and 3 are supported");
  EXPECT_EQ(Bytes().header(0, 0, 0x03000000).failure(),
            "m.gguf: is a big-endian GGUF file; only little-endian files are "
            "supported");
}

TEST(Gguf, RefusesCountsBeyondTheFile) {
  constexpr uint64_t kHuge = uint64_t(1) << 61;
  EXPECT_EQ(Bytes().header(0, kHuge).failure(),
            "m.gguf: has 2305843009213693952 metadata values, more than its "
            "24 bytes can hold");
  EXPECT_EQ(Bytes().header(kHuge, 0).failure(),
            "m.gguf: has 2305843009213693952 tensors, more than its 24 bytes "
            "can hold");
  Bytes list;
  list.header(0, 1)
      .value("list", GgufType::Array)
      .array(GgufType::UInt64, kHuge);
  EXPECT_EQ(list.failure(), "m.gguf: ends within the array 'list' at byte 52 "
                            "of 52; the file is truncated or corrupt");
  Bytes text;
  text.header(0, 1).value("text", GgufType::String).number(~uint64_t(0));
  EXPECT_EQ(text.failure(), "m.gguf: ends within the string 'text' at byte 40 "
                            "of 48; the file is truncated or corrupt");
  Bytes deep;
  deep.header(0, 1).value("deep", GgufType::Array);
  for (int i = 0; i < 100; ++i)
    deep.array(GgufType::Array, 1);
  EXPECT_EQ(deep.failure(), "m.gguf: array 'deep' nests deeper than 8 levels");
}

TEST(Gguf, RefusesUnknownTypesAndDuplicates) {
  Bytes type;
  type.header(0, 1).value("key", GgufType(13)).number(0);
  EXPECT_EQ(type.failure(),
            "m.gguf: value 'key' has type 13, which GGUF does not have");
  Bytes element;
  element.header(0, 1).value("key", GgufType::Array).array(GgufType(99), 0);
  EXPECT_EQ(element.failure(), "m.gguf: array 'key' has elements of type 99, "
                               "which GGUF does not have");
  Bytes twice;
  twice.header(0, 2);
  twice.value("key", GgufType::Bool).number<uint8_t>(1);
  twice.value("key", GgufType::Bool).number<uint8_t>(1);
  EXPECT_EQ(twice.failure(), "m.gguf: has two metadata values 'key'");
  Bytes tensors;
  tensors.header(2, 0).tensor("w", {8}, kF32, 0).tensor("w", {8}, kF32, 32);
  EXPECT_EQ(tensors.data(64).failure(), "m.gguf: has two tensors 'w'");
}

/// The failure of a file with one tensor and 64 bytes of data.
std::string tensorFailure(std::vector<uint64_t> extents, uint32_t type,
                          uint64_t offset) {
  Bytes file;
  file.header(1, 0).tensor("w\n", std::move(extents), type, offset);
  return file.data(64).failure();
}

TEST(Gguf, RefusesImpossibleTensors) {
  EXPECT_EQ(tensorFailure({1, 1, 1, 1, 1}, kF32, 0),
            "m.gguf: tensor 'w\\x0a' has 5 dimensions; GGUF has at most 4");
  EXPECT_EQ(tensorFailure({uint64_t(1) << 62, 4}, kF32, 0),
            "m.gguf: tensor 'w\\x0a' has more elements than a 64-bit number "
            "counts");
  EXPECT_EQ(tensorFailure({uint64_t(1) << 61}, kF32, 0),
            "m.gguf: tensor 'w\\x0a' has 2305843009213693952 elements of type "
            "F32, more than the file's 128 bytes hold");
  EXPECT_EQ(tensorFailure({31}, kQ8_0, 0),
            "m.gguf: tensor 'w\\x0a' has rows of 31 elements, but Q8_0 has "
            "blocks of 32");
  EXPECT_EQ(tensorFailure({32}, 16, 0),
            "m.gguf: tensor 'w\\x0a' has ggml type 16; supported are " +
                blockFormatNames());
  EXPECT_EQ(tensorFailure({4}, kF32, 8),
            "m.gguf: tensor 'w\\x0a' has the offset 8, which is not a multiple "
            "of the alignment 32");
  EXPECT_EQ(tensorFailure({16}, kF32, 32),
            "m.gguf: tensor 'w\\x0a' has 64 bytes at offset 32 of the tensor "
            "data, which has 64 bytes; the file is truncated or corrupt");
  EXPECT_EQ(tensorFailure({16}, kF32, ~uint64_t(31)),
            "m.gguf: tensor 'w\\x0a' has 64 bytes at offset "
            "18446744073709551584 of the tensor data, which has 64 bytes; the "
            "file is truncated or corrupt");
  EXPECT_EQ(tensorFailure({0, uint64_t(1) << 62}, kF32, 0), "accepted");
  Bytes overlap;
  overlap.header(2, 0).tensor("a", {9}, kF32, 0).tensor("b", {8}, kF32, 32);
  size_t start = overlap.bytes.size();
  EXPECT_EQ(overlap.data(64).failure(),
            "m.gguf: tensors 'a' and 'b' overlap at byte " +
                std::to_string((start + 31) / 32 * 32 + 32));
  for (uint32_t alignment : {0u, 1u, 24u}) {
    Bytes file;
    file.header(0, 1).value("general.alignment", GgufType::UInt32);
    EXPECT_EQ(file.number(alignment).failure(),
              "m.gguf: 'general.alignment' must be a power of two from 8 on");
  }
}

/// A file of the PyPI package gguf (test/Inputs/gguf/make.py): blocks of every
/// quantized format and what the package dequantizes them to.
TEST(GgufBlocks, DequantizeLikeThePackage) {
  auto buffer =
      llvm::MemoryBuffer::getFile(MPC_TEST_INPUTS "/gguf/blocks.gguf");
  ASSERT_TRUE(bool(buffer));
  Result<GgufFile> file = GgufFile::parse(
      llvm::arrayRefFromStringRef((*buffer)->getBuffer()), "blocks.gguf");
  ASSERT_TRUE(file.ok()) << file.status().toString();
  unsigned formats = 0;
  for (const auto &[name, tensor] : file->tensors) {
    if (!tensor.format->isQuantized())
      continue;
    ++formats;
    EXPECT_EQ(tensor.format->name, name);
    const GgufTensor &expected = file->tensors.at(name + ".expected");
    std::vector<float> want(expected.bytes.size() / sizeof(float)),
        numbers(want.size());
    std::memcpy(want.data(), expected.bytes.data(), expected.bytes.size());
    dequantize(*tensor.format, tensor.bytes, numbers);
    for (size_t i = 0; i < want.size(); ++i) {
      if (std::isnan(want[i]))
        EXPECT_TRUE(std::isnan(numbers[i])) << name << " " << i;
      else
        EXPECT_EQ(std::bit_cast<uint32_t>(numbers[i]),
                  std::bit_cast<uint32_t>(want[i]))
            << name << " " << i << ": " << numbers[i] << ", " << want[i];
    }
  }
  EXPECT_EQ(formats, 10u);
}

} // namespace
