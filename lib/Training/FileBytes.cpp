//===- FileBytes.cpp - whole files ----------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TensorFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

using namespace mpc;
namespace fs = std::filesystem;

namespace {

/// Closes a file descriptor at the end of a scope.
struct FileHandle {
  int descriptor = -1;
  ~FileHandle() {
    if (descriptor >= 0)
      ::close(descriptor);
  }
};

} // namespace

Result<std::string> training::readFileBytes(const std::string &path) {
  FileHandle file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.descriptor < 0)
    return Status(StatusCode::NotFound, path,
                  std::string("cannot be opened: ") + strerror(errno));
  struct stat facts;
  if (::fstat(file.descriptor, &facts) != 0 || !S_ISREG(facts.st_mode))
    return Status(StatusCode::InvalidArgument, path, "is no regular file");
  std::string bytes(size_t(facts.st_size), '\0');
  for (size_t at = 0; at < bytes.size();) {
    ssize_t got = ::read(file.descriptor, bytes.data() + at, bytes.size() - at);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return Status(StatusCode::NotFound, path, "cannot be read to its end");
    at += size_t(got);
  }
  return bytes;
}

Status training::writeFileWhole(const std::string &path,
                                std::string_view bytes) {
  std::string temporary = path + ".XXXXXX";
  FileHandle file{::mkostemp(temporary.data(), O_CLOEXEC)};
  auto failed = [&](int reason) {
    if (file.descriptor >= 0)
      ::unlink(temporary.c_str());
    return Status(StatusCode::NotFound, path,
                  std::string("cannot be written: ") + strerror(reason));
  };
  if (file.descriptor < 0)
    return failed(errno);
  for (size_t at = 0; at < bytes.size();) {
    ssize_t put =
        ::write(file.descriptor, bytes.data() + at, bytes.size() - at);
    if (put < 0 && errno == EINTR)
      continue;
    if (put <= 0)
      return failed(put < 0 ? errno : ENOSPC);
    at += size_t(put);
  }
  // The name must not reach the disk before the bytes.
  if (::fchmod(file.descriptor, 0644) != 0 || ::fsync(file.descriptor) != 0 ||
      ::rename(temporary.c_str(), path.c_str()) != 0)
    return failed(errno);
  std::string folder = fs::path(path).parent_path().string();
  FileHandle above{
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC)};
  if (above.descriptor >= 0)
    (void)::fsync(above.descriptor);
  return {};
}
