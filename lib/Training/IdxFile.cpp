//===- IdxFile.cpp - MNIST idx files --------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IdxFile.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <sys/stat.h>

using namespace mpc;

/// Maximum expansion of deflate; larger claims are refused before allocation.
static constexpr int64_t kMostExpansion = 1032;

static std::optional<ElementType> elementOf(unsigned char code) {
  switch (code) {
  case 0x08:
    return ElementType::UI8;
  case 0x09:
    return ElementType::I8;
  case 0x0b:
    return ElementType::I16;
  case 0x0c:
    return ElementType::I32;
  case 0x0d:
    return ElementType::F32;
  case 0x0e:
    return ElementType::F64;
  default:
    return std::nullopt;
  }
}

/// Reads exactly `bytes`; false on end of file or a corrupt stream.
static bool readAll(gzFile file, void *out, size_t bytes) {
  auto *at = static_cast<char *>(out);
  while (bytes > 0) {
    unsigned wanted = unsigned(std::min<size_t>(bytes, 1u << 30));
    int got = gzread(file, at, wanted);
    if (got <= 0)
      return false;
    at += got;
    bytes -= size_t(got);
  }
  return true;
}

Result<Buffer> training::readIdx(const std::string &path) {
  auto bad = [&](std::string text) {
    return Status(StatusCode::InvalidArgument, path, std::move(text));
  };
  struct stat facts;
  if (::stat(path.c_str(), &facts) != 0)
    return Status(StatusCode::NotFound, path,
                  std::string("cannot be opened: ") + strerror(errno));
  if (!S_ISREG(facts.st_mode))
    return bad("is not a regular file");
  // zlib reads uncompressed files unchanged.
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rbe"),
                                                  gzclose);
  if (!file)
    return Status(StatusCode::NotFound, path, "cannot be opened");
  std::array<unsigned char, 4> mark;
  if (!readAll(file.get(), mark.data(), mark.size()))
    return bad("ends inside the idx header");
  std::optional<ElementType> element = elementOf(mark[2]);
  if (mark[0] != 0 || mark[1] != 0 || !element)
    return bad("is not an idx file: it does not start with two zero bytes and "
               "a type code");
  if (mark[3] < 1 || mark[3] > 8)
    return bad("has " + std::to_string(mark[3]) +
               " dimensions; 1 to 8 are supported");
  mpc::TensorType type{*element, {}};
  for (int i = 0; i < mark[3]; ++i) {
    std::array<unsigned char, 4> extent;
    if (!readAll(file.get(), extent.data(), extent.size()))
      return bad("ends inside the idx header");
    type.shape.push_back(int64_t(extent[0]) << 24 | extent[1] << 16 |
                         extent[2] << 8 | extent[3]);
  }
  std::optional<int64_t> bytes = type.byteCount();
  if (!bytes || *bytes / kMostExpansion > facts.st_size)
    return bad("declares " + type.toString() + ", which " +
               std::to_string(facts.st_size) + " bytes cannot contain");
  Result<Buffer> data = Buffer::allocate(type);
  if (!data.ok())
    return Status(data.status().code(), path, data.status().text());
  auto *begin = static_cast<unsigned char *>(data->data());
  if (!readAll(file.get(), begin, data->size()))
    return bad("declares " + type.toString() +
               ", but ends before its last element or is damaged");
  // zlib verifies the checksum at the end of the stream.
  unsigned char extra;
  if (gzread(file.get(), &extra, 1) != 0 || !gzeof(file.get()))
    return bad("is damaged or has data after its last element");
  size_t width = size_t(elementBytes(*element));
  for (size_t i = 0; width > 1 && i < data->size(); i += width)
    std::reverse(begin + i, begin + i + width);
  return data;
}
