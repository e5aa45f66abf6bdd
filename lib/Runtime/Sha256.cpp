//===- Sha256.cpp - SHA-256 -----------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Sha256.h"

#include <nettle/sha2.h>

using namespace mpc::detail;

static_assert(sizeof(Sha256Digest) == SHA256_DIGEST_SIZE);

Sha256Digest mpc::detail::sha256(std::span<const std::byte> bytes) {
  return sha256OfParts({&bytes, 1});
}

Sha256Digest
mpc::detail::sha256OfParts(std::span<const std::span<const std::byte>> parts) {
  sha256_ctx state;
  sha256_init(&state);
  for (std::span<const std::byte> part : parts)
    sha256_update(&state, part.size(),
                  reinterpret_cast<const uint8_t *>(part.data()));
  Sha256Digest digest;
  sha256_digest(&state, digest.size(), digest.data());
  return digest;
}

std::string mpc::detail::toHex(const Sha256Digest &digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}
