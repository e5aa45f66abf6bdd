//===- FileContents.cpp - contents of a checkpoint file -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FileContents.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"

#include <cstring>

using namespace mpc;
using namespace mpc::checkpoint;

std::shared_ptr<const std::byte> FileContents::tensor(const TensorType &type,
                                                      uint64_t offset) const {
  const std::byte *start = bytes.get() + offset;
  if (reinterpret_cast<uintptr_t>(start) % elementBytes(type.element) == 0)
    return {bytes, start};
  auto size = size_t(*type.byteCount());
  std::shared_ptr<std::byte[]> copy(new std::byte[size]);
  std::memcpy(copy.get(), start, size);
  return {copy, copy.get()};
}

Result<FileContents> mpc::checkpoint::readContents(InputFile &file,
                                                   const std::string &path) {
  FileContents contents;
  contents.size = file.size();
  if (contents.size == 0)
    return Status(StatusCode::InvalidArgument, path, "is empty");
  bool isSmall = contents.size <= uint64_t(kLargeFile);
  if (isSmall) {
    std::shared_ptr<std::byte[]> copy(new std::byte[contents.size]);
    if (Status status = file.read(copy.get(), contents.size); !status.ok())
      return status;
    contents.bytes = {copy, copy.get()};
  } else {
    Result<std::shared_ptr<const std::byte>> mapped = file.map();
    if (!mapped.ok())
      return mapped.status();
    contents.bytes = *mapped;
    contents.identity = file.identity();
  }
  if (contents.identity.empty()) {
    llvm::BLAKE3 hash;
    hash.update(llvm::StringRef(contents.text()));
    contents.identity =
        std::to_string(contents.size) + " " + llvm::toHex(hash.final<32>());
  }
  return contents;
}

std::string mpc::checkpoint::tensorIdentity(std::string_view name,
                                            const TensorType &type,
                                            const FileContents &file,
                                            uint64_t offset) {
  std::string identity;
  for (char c : name)
    identity += c < ' ' || c > '~' || c == '"' || c == '\\' ? '_' : c;
  return identity + " " + type.toString() + " at " + std::to_string(offset) +
         " of " + file.identity;
}
