//===- Container.h - format of .mpcx files ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A file is a header of 64 bytes, a table and sections, which start at
// multiples of 64. The table is the list of the sections' sizes (u64) and the
// Contents, in the encoding of Schema.h. The header, little-endian:
//
//    0  magic, 8 bytes
//    8  u32 format version
//   12  u32 zero
//   16  u64 bytes of the file
//   24  u64 bytes of the table, which starts at byte 64
//   32  SHA-256 of the file with these 32 bytes as zeros
//
// The format version stands for the kernels' signature too: code of another
// version is never called.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CONTAINER_CONTAINER_H
#define MPC_LIB_RUNTIME_CONTAINER_CONTAINER_H

#include "mpc/Runtime/ExecutableFile.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mpc::container {

inline constexpr uint32_t kFormatVersion = 15;
inline constexpr size_t kHeaderBytes = 64;
inline constexpr size_t kSectionAlignment = 64;
/// Limit of the table size, in bytes; real programs need some hundred bytes per
/// launch. In memory a table takes at most about twenty times its
/// size.
inline constexpr size_t kMostTableBytes = size_t(32) << 20;
/// Limit of the programs of a specialization: each is checked together with the
/// arguments and results.
inline constexpr size_t kMostPrograms = 64;
inline constexpr std::array<uint8_t, 8> kMagic = {0x7f, 'M',  'P',  'C',
                                                  'X',  '\r', '\n', 0x1a};

/// Offsets of the header's fields.
enum HeaderOffset : size_t {
  kVersionAt = 8,
  kReservedAt = 12,
  kFileBytesAt = 16,
  kTableBytesAt = 24,
  kDigestAt = 32,
};

using Digest = std::array<uint8_t, 32>;

/// Rounds an offset up to the start of a section.
constexpr uint64_t alignedToSection(uint64_t offset) {
  return (offset + kSectionAlignment - 1) / kSectionAlignment *
         kSectionAlignment;
}

/// CudaCode of a program in a file, with sections in place of strings.
struct StoredCuda {
  struct Kernel {
    std::string name;
    std::span<const std::byte> source;
  };
  struct Binary {
    std::string architecture;
    std::vector<std::string> kernels;
    std::span<const std::byte> cubin;
  };
  std::span<const std::byte> prelude;
  std::vector<Kernel> kernels;
  std::vector<Binary> binaries;

  StoredCuda() = default;
  /// Refers to the strings of `code`.
  explicit StoredCuda(const CudaCode &code);
  /// Size of the machine code, in bytes.
  int64_t codeBytes() const;
  std::shared_ptr<const CudaCode> copy() const;
};

/// A program and its code, for one target.
struct StoredProgram {
  /// `target` is "cpu:avx512" or "cuda:sm_90a"; functions are null. The name,
  /// arguments and results are in Contents and StoredSpecialisation. When
  /// writing, a GPU program contains its kernels; when reading, they are in
  /// `cuda`.
  Program program;
  /// For a CPU: a shared object that exports the kernels by name.
  std::span<const std::byte> code;
  /// Set by encode() and decode() for a GPU target.
  std::optional<StoredCuda> cuda = {};
};

/// The programs for one set of shapes, one per target.
struct StoredSpecialisation {
  /// Symbolic dimensions that were bound by name.
  std::map<std::string, int64_t> dims;
  int64_t longestReduction = 1;
  ElementType narrowest = ElementType::F32;
  int64_t longestChain = 1;
  std::vector<ProgramValue> arguments;
  std::vector<ProgramValue> results;
  std::vector<StoredProgram> programs;
};

/// Decoded contents of a file.
struct Contents {
  std::string name;
  std::string model;
  std::string policy;
  std::string compiler;
  std::vector<StoredSpecialisation> specialisations;
};

/// Computes the header's SHA-256 of a whole file. `file` includes the header.
Digest digestOf(std::span<const std::byte> file);

/// Encodes `contents`, deterministically. Constants shared by several programs
/// are stored once; with `refersToWeights` those that have a key not at all.
Result<std::vector<std::byte>> encode(Contents contents,
                                      bool refersToWeights = false);

/// Checks a file's header: magic, version, and that the sizes fit `fileBytes`.
/// `where` names the file.
Status checkHeader(std::span<const std::byte> header, uint64_t fileBytes,
                   const std::string &where);

/// Validates and decodes a file. Constants and code refer to `bytes`, which are
/// aligned to 64 and kept alive by `owner`, or to what `weights` returns.
Result<Contents> decode(const std::shared_ptr<const void> &owner,
                        std::span<const std::byte> bytes,
                        const std::string &where,
                        const WeightReader &weights = {});

} // namespace mpc::container

#endif // MPC_LIB_RUNTIME_CONTAINER_CONTAINER_H
