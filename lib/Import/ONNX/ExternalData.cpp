//===- ExternalData.cpp - external tensor data ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models are untrusted: the name of a data file must not escape the model's
// folder (openInside()).
//
//===----------------------------------------------------------------------===//

#include "ExternalData.h"

#include "mpc/Support/Files.h"
#include "mpc/Support/FolderFiles.h"
#include "mpc/Support/Holes.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Support/LLVM.h"

#include <cerrno>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Limit on reads per file byte: tensors may share ranges (tied weights), but
/// not amplify a file without bound.
static constexpr int64_t kMaxReadsPerByte = 16;

ExternalFiles::~ExternalFiles() {
  for (auto &entry : files)
    if (entry.second.descriptor >= 0)
      ::close(entry.second.descriptor);
}

FailureOr<ExternalFiles::File *>
ExternalFiles::open(StringRef path, Location location, StringRef what) {
  auto known = files.find(path.str());
  if (known != files.end())
    return &known->second;
  auto refuse = [&](const Twine &reason) -> LogicalResult {
    return emitError(location)
           << what << ": external data file '" << path << "' " << reason;
  };
  if (!callback && folder.empty())
    return refuse("cannot be found: the model was read without a folder");
  if (Status status = checkNameInside(path); !status.ok())
    return refuse(status.text());
  if (callback) {
    llvm::Expected<ArrayRef<char>> bytes = callback(path);
    if (!bytes)
      return refuse("is not available: " + llvm::toString(bytes.takeError()));
    File file;
    file.bytes = *bytes;
    file.size = int64_t(bytes->size());
    return &files.emplace(path.str(), file).first->second;
  }
  Result<int> opened = openInside(folder, path);
  if (!opened.ok())
    return refuse(opened.status().text());
  File file;
  file.descriptor = *opened;
  struct stat status = {};
  ::fstat(file.descriptor, &status);
  file.size = status.st_size;
  if (trustsTimes && file.size > kLargeFile)
    file.identity = fileIdentity(file.descriptor);
  return &files.emplace(path.str(), file).first->second;
}

LogicalResult ExternalFiles::readInto(MutableArrayRef<char> out,
                                      const File &file, int64_t offset,
                                      Location location, StringRef path,
                                      StringRef what) {
  if (file.descriptor < 0) {
    llvm::copy(file.bytes.slice(size_t(offset), out.size()), out.begin());
    return success();
  }
  // A range beyond the end of a file that was truncated counts as a hole.
  if (isHole(file.descriptor, offset, int64_t(out.size()))) {
    llvm::fill(out, 0);
    return success();
  }
  int64_t got =
      readAt(file.descriptor, out.data(), int64_t(out.size()), offset);
  if (got == int64_t(out.size()))
    return success();
  return emitError(location)
         << what << ": cannot read '" << path << "': "
         << (got < 0 ? std::strerror(errno) : "the file became shorter");
}

bool ExternalFiles::mapRange(File &file, int64_t offset, int64_t size,
                             Data &data) {
  constexpr int64_t kLeast = int64_t(1) << 20;
  constexpr int64_t kAlignment = alignof(std::max_align_t);
  if (size < kLeast || offset % kAlignment != 0)
    return false;
  ArrayRef<char> bytes;
  if (file.descriptor < 0) {
    bytes = file.bytes.slice(size_t(offset), size_t(size));
  } else if (file.size > kLargeFile && !isHole(file.descriptor, offset, size)) {
    if (!file.mapped)
      file.mapped = mapFile(file.descriptor, uint64_t(file.size));
    if (file.mapped)
      bytes = {reinterpret_cast<const char *>(file.mapped.get()) + offset,
               size_t(size)};
  }
  if (bytes.empty() ||
      reinterpret_cast<uintptr_t>(bytes.data()) % kAlignment != 0)
    return false;
  if (!file.identity.empty())
    data.key = file.identity + " from " + std::to_string(offset);
  data.mapped.emplace(
      bytes, kAlignment, [owner = file.mapped](void *, size_t, size_t) {},
      /*dataIsMutable=*/false);
  return true;
}

FailureOr<ExternalFiles::File *>
ExternalFiles::openRange(const ExternalRange &range, int64_t size,
                         Location location, StringRef what) {
  FailureOr<File *> opened = open(range.location, location, what);
  if (failed(opened))
    return failure();
  File &file = **opened;
  int64_t end;
  if (__builtin_add_overflow(range.offset, size, &end) || end > file.size) {
    emitError(location) << what << " needs " << size << " bytes at offset "
                        << range.offset << " of '" << range.location
                        << "', which has " << file.size;
    return failure();
  }
  file.bytesRead += size;
  if (file.bytesRead / kMaxReadsPerByte > file.size) {
    emitError(location) << what << ": the tensors in '" << range.location
                        << "' overlap more than " << kMaxReadsPerByte
                        << " times";
    return failure();
  }
  return &file;
}

FailureOr<ExternalFiles::Data> ExternalFiles::map(const ExternalRange &range,
                                                  int64_t size, int64_t width,
                                                  Location location,
                                                  StringRef what) {
  FailureOr<File *> opened = openRange(range, size, location, what);
  if (failed(opened))
    return failure();
  Data data;
  if (mapRange(**opened, range.offset, size, data))
    return data;
  FailureOr<std::string> copied =
      read(range, **opened, size, width, location, what);
  if (failed(copied))
    return failure();
  data.copied = std::move(*copied);
  return data;
}

FailureOr<std::string> ExternalFiles::read(const ExternalRange &range,
                                           int64_t size, int64_t width,
                                           Location location, StringRef what) {
  FailureOr<File *> opened = openRange(range, size, location, what);
  if (failed(opened))
    return failure();
  return read(range, **opened, size, width, location, what);
}

FailureOr<std::string> ExternalFiles::read(const ExternalRange &range,
                                           File &file, int64_t size,
                                           int64_t width, Location location,
                                           StringRef what) {
  constexpr int64_t kWindow = int64_t(1) << 20;
  std::string bytes(size_t(std::min(size, kWindow)), '\0'), next;
  auto readTo = [&](char *out, int64_t count, int64_t offset) {
    return readInto({out, size_t(count)}, file, range.offset + offset, location,
                    range.location, what);
  };
  int64_t done = int64_t(bytes.size());
  if (failed(readTo(bytes.data(), done, 0)))
    return failure();
  if (done == size)
    return bytes;
  // Buffers only one window as long as all elements are equal.
  StringRef window = bytes;
  bool isUniform = width > 0 && window.drop_front(size_t(width)) ==
                                    window.drop_back(size_t(width));
  for (int64_t at = done; isUniform && at < size; at += kWindow) {
    next.resize(size_t(std::min(size - at, kWindow)));
    if (failed(readTo(next.data(), int64_t(next.size()), at)))
      return failure();
    isUniform = window.starts_with(next);
  }
  if (isUniform)
    return bytes.substr(0, size_t(width));
  bytes.resize(size_t(size));
  if (failed(readTo(bytes.data() + done, size - done, done)))
    return failure();
  return bytes;
}
