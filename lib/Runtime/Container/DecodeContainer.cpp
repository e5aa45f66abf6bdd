//===- DecodeContainer.cpp - decoding .mpcx files -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files are untrusted. The reader proves that the table and its sections are
// inside of the file and that enumerators exist; the programs are validated as
// those of the JIT are. Nothing in a table is shared except sections, which are
// not copied, so time and memory are linear in the size of the table.
//
//===----------------------------------------------------------------------===//

#include "Schema.h"

#include "../Environment.h"

#include <algorithm>
#include <cstring>
#include <set>

using namespace mpc;
using namespace mpc::container;

/// Returns the error that a file is refused because of `text`. `where` names
/// the file or a part of it.
static Status refuse(const std::string &where, std::string text) {
  return Status(StatusCode::InvalidArgument, where, std::move(text));
}

template <typename T>
static T readAt(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

Status container::checkHeader(std::span<const std::byte> header,
                              uint64_t fileBytes, const std::string &where) {
  if (header.size() < kHeaderBytes ||
      std::memcmp(header.data(), kMagic.data(), kMagic.size()) != 0)
    return refuse(where, "is not an .mpcx file");
  auto version = readAt<uint32_t>(header, kVersionAt);
  if (version != kFormatVersion)
    return refuse(where, "has format version " + std::to_string(version) +
                             ", but this build supports version " +
                             std::to_string(kFormatVersion) +
                             "; compile the model again");
  auto declared = readAt<uint64_t>(header, kFileBytesAt);
  if (declared != fileBytes)
    return refuse(where, "declares " + std::to_string(declared) +
                             " bytes, but has " + std::to_string(fileBytes) +
                             ": it is damaged");
  auto table = readAt<uint64_t>(header, kTableBytesAt);
  if (table > kMostTableBytes || table > fileBytes - kHeaderBytes ||
      readAt<uint32_t>(header, kReservedAt) != 0)
    return refuse(where, "has an invalid header: it is damaged");
  return {};
}

//===----------------------------------------------------------------------===//
// Table
//===----------------------------------------------------------------------===//

namespace {

/// Decodes values as Schema.h describes. After the first failure values are
/// left as they are.
class Reader {
public:
  /// Reads the table of `file`, which `owner` keeps alive.
  Reader(const std::shared_ptr<const void> &owner,
         std::span<const std::byte> file, const std::string &where,
         const WeightReader &weights)
      : owner(owner), file(file), where(where), weights(weights),
        end(kHeaderBytes + readAt<uint64_t>(file, kTableBytesAt)) {}

  template <typename... Values> void operator()(Values &...values) {
    (read(values), ...);
  }
  /// Reads a section, which has `bytes` bytes.
  void section(std::shared_ptr<const void> &data, int64_t bytes) {
    std::span<const std::byte> section;
    read(section);
    if (int64_t(section.size()) != bytes)
      return fail("refers to a section of " + std::to_string(section.size()) +
                  " bytes for a value of " + std::to_string(bytes));
    data = std::shared_ptr<const void>(owner, section.data());
  }

  /// Reads a constant of `bytes` bytes: a section, or the weights of its key.
  void constant(std::string &key, std::shared_ptr<const void> &data,
                int64_t bytes) {
    read(key);
    if (key.empty())
      return section(data, bytes);
    if (!weights)
      return fail("refers to weights that are not in the file");
    if (status.ok() && bytes > 0)
      data = weights(key, size_t(bytes));
    if (!data)
      fail("refers to weights that do not exist");
  }

  /// Reads the whole table. Fails unless it and the sections fill the file.
  Status readAll(Contents &contents) {
    std::vector<uint64_t> sizes;
    read(sizes);
    uint64_t last = end;
    for (uint64_t size : sizes) {
      uint64_t first = alignedToSection(last);
      if (first > file.size() || size > file.size() - first) {
        fail("has a section of " + std::to_string(size) +
             " bytes that ends outside of the file");
        return status;
      }
      sections.push_back(file.subspan(first, size));
      last = first + size;
    }
    read(contents);
    if (at != end || last != file.size())
      fail("has bytes that belong to nothing");
    return status;
  }

private:
  template <typename T> void read(T &value) {
    if constexpr (std::is_enum_v<T> || std::is_same_v<T, bool>) {
      uint8_t number = 0;
      read(number);
      if (number > uint8_t(lastOf(T())))
        return fail("has an unknown enumerator");
      value = T(number);
    } else if constexpr (std::is_arithmetic_v<T>) {
      if (std::span bytes = take(sizeof(T)); !bytes.empty())
        std::memcpy(&value, bytes.data(), sizeof(T));
    } else {
      serialize(*this, value);
    }
  }
  void read(std::string &text) {
    std::span<const std::byte> bytes = take(readLength());
    text.assign(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  }
  template <typename T> void read(std::vector<T> &list) {
    for (uint32_t left = readLength(); left > 0 && status.ok(); --left)
      read(list.emplace_back());
  }
  template <typename T, size_t size> void read(std::array<T, size> &list) {
    for (T &element : list)
      read(element);
  }
  template <typename T> void read(std::map<std::string, T> &map) {
    for (uint32_t left = readLength(); left > 0 && status.ok(); --left) {
      std::string key;
      read(key);
      read(map[std::move(key)]);
    }
  }
  template <typename T> void read(std::optional<T> &value) {
    bool hasValue = false;
    read(hasValue);
    if (hasValue)
      read(value.emplace());
  }
  void read(std::span<const std::byte> &bytes) {
    uint32_t number = 0;
    read(number);
    if (number >= sections.size())
      return fail("refers to section " + std::to_string(number) +
                  ", which does not exist");
    bytes = sections[number];
  }
  uint32_t readLength() {
    uint32_t length = 0;
    read(length);
    return length;
  }

  /// Returns the next `size` bytes; none after a failure.
  std::span<const std::byte> take(size_t size) {
    start = at;
    if (size > end - at)
      fail("has a value that ends outside of the table");
    if (!status.ok())
      return {};
    at += size;
    return file.subspan(start, size);
  }
  /// Records the first failure, at the value that was read last.
  void fail(std::string text) {
    if (status.ok())
      status =
          refuse(where + ": byte " + std::to_string(start), std::move(text));
  }

  const std::shared_ptr<const void> &owner;
  std::span<const std::byte> file;
  const std::string &where;
  const WeightReader &weights;
  std::vector<std::span<const std::byte>> sections;
  /// Offsets of the last value, of the next one, and of the table's end.
  size_t start = kHeaderBytes, at = kHeaderBytes, end;
  Status status;
};

} // namespace

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// Fails if a GPU launch or binary has no kernel, or if the kernels refer to
/// more code than the file holds.
static Status checkKernels(const Program &program, const StoredCuda &cuda,
                           size_t fileBytes, const std::string &place) {
  std::set<std::string_view> names;
  size_t bytes = cuda.prelude.size();
  for (const StoredCuda::Kernel &kernel : cuda.kernels) {
    names.insert(kernel.name);
    bytes += kernel.source.size();
  }
  for (const StoredCuda::Binary &binary : cuda.binaries) {
    bytes += binary.cubin.size();
    for (const std::string &kernel : binary.kernels)
      if (!names.count(kernel))
        return refuse(place, "has code for a kernel that does not exist");
  }
  if (bytes > fileBytes)
    return refuse(place, "refers to more code than the file contains");
  for (const Launch &launch : program.launches)
    if (!launch.gemm && !launch.collective && !names.count(launch.kernel))
      return refuse(place, "lacks kernel '" + launch.kernel + "'");
  return {};
}

/// Fails if one run needs more memory than this machine has.
static Status checkMemory(const Program &program, const std::string &place) {
  int64_t most = detail::machineMemory();
  int64_t needed = program.arenaBytes, scratch = 0;
  bool fits = true;
  for (const auto *list : {&program.arguments, &program.results})
    for (const ProgramValue &value : *list)
      fits &= !__builtin_add_overflow(needed, *value.type.byteCount(), &needed);
  for (const Launch &launch : program.launches)
    for (int64_t bytes : {launch.scratchBytes, launch.sharedBytes})
      scratch = std::max(scratch, bytes);
  fits &= !__builtin_add_overflow(needed, scratch, &needed);
  if (fits && needed <= most)
    return {};
  return Status(StatusCode::ResourceExhausted, place,
                "needs more memory for one run than the " +
                    std::to_string(most) + " bytes of this machine");
}

static Status checkProgram(const StoredProgram &stored, size_t fileBytes,
                           const std::string &place) {
  bool forGpu = stored.program.target.starts_with("cuda:");
  if (forGpu != stored.cuda.has_value())
    return refuse(place,
                  forGpu ? "contains no GPU kernels"
                         : "contains GPU kernels but its target is not a GPU");
  if (forGpu)
    if (Status status =
            checkKernels(stored.program, *stored.cuda, fileBytes, place);
        !status.ok())
      return status;
  if (Status status = validate(stored.program, /*needsCode=*/false);
      !status.ok())
    return refuse(place + ": " + status.where(), status.text());
  return checkMemory(stored.program, place);
}

static Status checkSpecialisation(Contents &contents,
                                  StoredSpecialisation &specialisation,
                                  size_t fileBytes, const std::string &where) {
  if (!isFloat(specialisation.narrowest) ||
      specialisation.longestReduction < 1 || specialisation.longestChain < 0)
    return refuse(where, "has an invalid description of its rounding");
  std::vector<StoredProgram> &programs = specialisation.programs;
  if (programs.empty())
    return refuse(where, "contains code for no target");
  if (programs.size() > kMostPrograms)
    return refuse(where, "holds code for " + std::to_string(programs.size()) +
                             " targets, more than " +
                             std::to_string(kMostPrograms));
  for (size_t i = 0; i < programs.size(); ++i) {
    Program &program = programs[i].program;
    // Move what the programs share in and out again, without a copy.
    auto swapShared = [&] {
      program.name.swap(contents.name);
      program.arguments.swap(specialisation.arguments);
      program.results.swap(specialisation.results);
    };
    swapShared();
    Status status = checkProgram(programs[i], fileBytes,
                                 where + ": target " + std::to_string(i));
    swapShared();
    if (!status.ok())
      return status;
  }
  return {};
}

Result<Contents> container::decode(const std::shared_ptr<const void> &owner,
                                   std::span<const std::byte> bytes,
                                   const std::string &where,
                                   const WeightReader &weights) {
  if (bytes.size() < kHeaderBytes)
    return refuse(where, "is not an .mpcx file");
  if (Status status = checkHeader(bytes, bytes.size(), where); !status.ok())
    return status;
  if (digestOf(bytes) != readAt<Digest>(bytes, kDigestAt))
    return refuse(where, "does not match its SHA-256: it is damaged");
  Contents contents;
  if (Status status = Reader(owner, bytes, where, weights).readAll(contents);
      !status.ok())
    return status;
  if (contents.specialisations.empty())
    return refuse(where, "contains no program");
  for (StoredSpecialisation &specialisation : contents.specialisations)
    if (Status status =
            checkSpecialisation(contents, specialisation, bytes.size(), where);
        !status.ok())
      return status;
  return contents;
}
