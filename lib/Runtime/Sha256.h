//===- Sha256.h - SHA-256 ---------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_SHA256_H
#define MPC_LIB_RUNTIME_SHA256_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mpc::detail {

using Sha256Digest = std::array<uint8_t, 32>;

Sha256Digest sha256(std::span<const std::byte> bytes);

/// Returns the SHA-256 of the concatenation of all parts.
Sha256Digest sha256OfParts(std::span<const std::span<const std::byte>> parts);

/// Returns the digest as 64 lower-case hexadecimal digits.
std::string toHex(const Sha256Digest &digest);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_SHA256_H
