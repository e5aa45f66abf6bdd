//===- TokenFile.cpp - token files ----------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TokenFile.h"

#include "mpc/Support/Files.h"
#include "mpc/Support/Npy.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>

using namespace mpc;
namespace fs = std::filesystem;

std::string training::findTokens(const std::string &path,
                                 const std::string &part) {
  std::error_code ignored;
  fs::path given(path);
  if (!fs::is_directory(given, ignored)) {
    bool tokens = given.extension() == ".npy" || given.extension() == ".bin";
    return tokens && part == "train" ? path : std::string();
  }
  for (const char *name : {"", "val"}) {
    if (*name && part != "test")
      continue;
    for (const char *end : {".npy", ".bin"}) {
      fs::path file = given / ((*name ? name : part) + end);
      if (fs::is_regular_file(file, ignored))
        return file.string();
    }
  }
  return {};
}

/// Returns the header of a mapped file: of a .npy array or of raw tokens.
static Result<NpyHeader> headerOf(const std::string &path,
                                  std::string_view mapping) {
  auto bad = [&](const std::string &text) {
    return Status(StatusCode::InvalidArgument, path, text);
  };
  if (fs::path(path).extension() != ".npy") {
    if (mapping.size() % sizeof(uint16_t) != 0)
      return bad("has " + std::to_string(mapping.size()) +
                 " bytes, which is not a whole number of 16-bit tokens");
    NpyHeader header;
    header.type = {ElementType::UI16,
                   {int64_t(mapping.size() / sizeof(uint16_t))}};
    return header;
  }
  Result<NpyHeader> header =
      parseNpyHeader(mapping.substr(0, kMostNpyHeader), path);
  if (!header.ok())
    return header.status();
  const mpc::TensorType &type = header->type;
  if (type.shape.size() != 1 || isFloat(type.element) ||
      type.element == ElementType::I1)
    return bad("is " + type.toString() +
               ", but tokens must be integers in one dimension");
  std::optional<int64_t> bytes = type.byteCount();
  if (!bytes || uint64_t(*bytes) != mapping.size() - header->dataOffset)
    return bad("declares " + type.toString() + ", but has " +
               std::to_string(mapping.size() - header->dataOffset) +
               " bytes of elements");
  return header;
}

Result<Buffer> training::mapTokens(const std::string &path) {
  Result<InputFile> file = InputFile::open(path);
  if (!file.ok())
    return file.status();
  Result<std::shared_ptr<const std::byte>> mapping = file->map();
  if (!mapping.ok())
    return mapping.status();
  std::span<const std::byte> bytes(mapping->get(), file->size());
  Result<NpyHeader> header = headerOf(
      path, {reinterpret_cast<const char *>(bytes.data()), bytes.size()});
  if (!header.ok())
    return header.status();
  Result<Buffer> tokens =
      Buffer::fromHost(header->type, bytes.subspan(header->dataOffset),
                       HostMemory::Borrow, [kept = std::move(*mapping)] {});
  if (!tokens.ok())
    return Status(tokens.status().code(), path, tokens.status().text());
  return tokens;
}
