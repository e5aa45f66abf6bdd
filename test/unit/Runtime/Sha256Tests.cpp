//===- Sha256Tests.cpp - digests of bytes ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Runtime/Sha256.h"

#include "gtest/gtest.h"

#include <string_view>
#include <vector>

using namespace mpc::detail;

namespace {

std::span<const std::byte> bytesOf(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// The examples of FIPS 180-4, of one block and of two.
TEST(Sha256, OfTheStandardsExamples) {
  EXPECT_EQ(toHex(sha256({})), "e3b0c44298fc1c149afbf4c8996fb924"
                               "27ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(toHex(sha256(bytesOf("abc"))), "ba7816bf8f01cfea414140de5dae2223"
                                           "b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(toHex(sha256(bytesOf(
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, PartsRunTogether) {
  std::vector<std::span<const std::byte>> parts = {
      bytesOf("a"), {}, bytesOf("bc")};
  EXPECT_EQ(sha256OfParts(parts), sha256(bytesOf("abc")));
  parts.back() = bytesOf("cb");
  EXPECT_NE(sha256OfParts(parts), sha256(bytesOf("abc")));
}

} // namespace
