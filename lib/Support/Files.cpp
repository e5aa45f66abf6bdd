//===- Files.cpp - file input and output ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Support/Files.h"

#include "mpc/Support/FolderFiles.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

using namespace mpc;

/// Returns the folder of a file.
static std::string folderOf(const std::string &path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

Result<InputFile> InputFile::open(const std::string &path) {
  // O_NONBLOCK: opening a pipe would wait for its writer.
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    return Status(StatusCode::NotFound, path,
                  std::string("cannot be opened: ") + strerror(errno));
  InputFile file(path, descriptor, 0);
  struct stat facts;
  if (::fstat(descriptor, &facts) != 0 || !S_ISREG(facts.st_mode))
    return Status(StatusCode::InvalidArgument, path, "is not a regular file");
  file.bytes = uint64_t(facts.st_size);
  return file;
}

/// Returns NAME if the file is a link to `../../blobs/NAME`.
static std::optional<std::string> blobOf(const std::string &path) {
  constexpr std::string_view kBlobs = "../../blobs/";
  std::error_code error;
  std::string target = std::filesystem::read_symlink(path, error).string();
  if (error || !target.starts_with(kBlobs))
    return std::nullopt;
  target.erase(0, kBlobs.size());
  if (target.find('/') != std::string::npos)
    return std::nullopt;
  return target;
}

Result<InputFile> InputFile::openInside(const std::string &folder,
                                        const std::string &name) {
  std::string path = folder + "/" + name;
  Result<int> descriptor = mpc::openInside(folder, name);
  if (!descriptor.ok() && checkNameInside(name).ok())
    if (std::optional<std::string> blob = blobOf(path))
      descriptor = mpc::openInside(folder + "/../../blobs", *blob);
  if (!descriptor.ok())
    return Status(descriptor.status().code(), path, descriptor.status().text());
  InputFile file(path, *descriptor, 0);
  struct stat facts = {};
  ::fstat(*descriptor, &facts);
  file.bytes = uint64_t(facts.st_size);
  return file;
}

InputFile::InputFile(InputFile &&other) noexcept
    : path(std::move(other.path)),
      descriptor(std::exchange(other.descriptor, -1)), bytes(other.bytes) {}

InputFile::~InputFile() {
  if (descriptor >= 0)
    ::close(descriptor);
}

Status InputFile::read(void *out, size_t count) {
  auto *at = static_cast<char *>(out);
  while (count > 0) {
    ssize_t got = ::read(descriptor, at, count);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return Status(StatusCode::InvalidArgument, path,
                    "ends before its last element");
    at += got;
    count -= size_t(got);
  }
  return {};
}

Result<std::shared_ptr<const std::byte>> InputFile::map() const {
  // A mapping has at least one byte.
  if (bytes == 0)
    return Status(StatusCode::InvalidArgument, path, "is empty");
  std::shared_ptr<const std::byte> mapped = mapFile(descriptor, bytes);
  if (!mapped)
    return Status(StatusCode::ResourceExhausted, path,
                  std::string("cannot be mapped: ") + strerror(errno));
  return mapped;
}

std::shared_ptr<const std::byte> mpc::mapFile(int descriptor, uint64_t bytes) {
  void *start =
      ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, descriptor, /*offset=*/0);
  if (start == MAP_FAILED)
    return nullptr;
  return {static_cast<const std::byte *>(start),
          [start, bytes](const std::byte *) { ::munmap(start, bytes); }};
}

std::string InputFile::identity() const { return fileIdentity(descriptor); }

std::string mpc::fileIdentity(int descriptor) {
  constexpr int64_t kSettled = 2;
  struct stat facts;
  struct timespec now;
  if (::fstat(descriptor, &facts) != 0 ||
      ::clock_gettime(CLOCK_REALTIME, &now) != 0 ||
      now.tv_sec - std::max(facts.st_mtim.tv_sec, facts.st_ctim.tv_sec) <=
          kSettled)
    return {};
  std::string text = "file";
  for (int64_t number :
       {int64_t(facts.st_dev), int64_t(facts.st_ino), int64_t(facts.st_size),
        int64_t(facts.st_mtim.tv_sec), int64_t(facts.st_mtim.tv_nsec),
        int64_t(facts.st_ctim.tv_sec), int64_t(facts.st_ctim.tv_nsec)})
    text += " " + std::to_string(number);
  return text;
}

Result<std::string> mpc::readWholeFile(const std::string &path,
                                       uint64_t mostBytes) {
  Result<InputFile> file = InputFile::open(path);
  if (!file.ok())
    return file.status();
  if (file->size() > mostBytes)
    return Status(StatusCode::ResourceExhausted, path,
                  "has " + std::to_string(file->size()) +
                      " bytes, but at most " + std::to_string(mostBytes) +
                      " are expected; name another file");
  std::string bytes(file->size(), '\0');
  if (Status status = file->read(bytes.data(), bytes.size()); !status.ok())
    return status;
  return bytes;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// Writes all of `bytes`; returns an errno, or 0.
static int writeAll(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t put = ::write(descriptor, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR)
      continue;
    if (put <= 0)
      return put < 0 ? errno : ENOSPC;
    bytes.remove_prefix(size_t(put));
  }
  return 0;
}

/// Writes the temporary file and renames it; returns an errno, or 0.
static int fillAndRename(int descriptor, const std::string &temporary,
                         const std::string &path,
                         std::initializer_list<std::string_view> parts) {
  for (std::string_view part : parts)
    if (int reason = writeAll(descriptor, part))
      return reason;
  // Flush first: the name must not reach the disk before the bytes.
  if (::fchmod(descriptor, 0644) != 0 || ::fsync(descriptor) != 0 ||
      ::rename(temporary.c_str(), path.c_str()) != 0)
    return errno;
  return 0;
}

/// Writes directly to `path`, which is not a regular file.
static Status writeInPlace(const std::string &path,
                           std::initializer_list<std::string_view> parts) {
  int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  int reason = descriptor < 0 ? errno : 0;
  for (std::string_view part : parts)
    if (reason == 0)
      reason = writeAll(descriptor, part);
  if (descriptor >= 0)
    ::close(descriptor);
  if (reason)
    return Status(StatusCode::NotFound, path,
                  std::string("cannot be written: ") + strerror(reason));
  return {};
}

Status mpc::writeWholeFile(const std::string &path,
                           std::initializer_list<std::string_view> parts) {
  if (Status status = checkWritable(path); !status.ok())
    return status;
  struct stat facts;
  if (::stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode))
    return writeInPlace(path, parts);
  std::string temporary = path + ".XXXXXX";
  int descriptor = ::mkostemp(temporary.data(), O_CLOEXEC);
  int reason = descriptor < 0
                   ? errno
                   : fillAndRename(descriptor, temporary, path, parts);
  if (descriptor >= 0) {
    ::close(descriptor);
    if (reason)
      ::unlink(temporary.c_str());
  }
  if (reason)
    return Status(StatusCode::NotFound, path,
                  std::string("cannot be written: ") + strerror(reason));
  // Flush the directory entry too; file systems that cannot flush a folder
  // order it themselves.
  int folder = ::open(folderOf(path).c_str(), O_RDONLY | O_CLOEXEC);
  if (folder >= 0) {
    (void)::fsync(folder);
    ::close(folder);
  }
  return {};
}

Status mpc::checkWritable(const std::string &path) {
  struct stat facts;
  if (::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode))
    return Status(StatusCode::InvalidArgument, path,
                  "is a folder; name a file");
  std::string folder = folderOf(path);
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return Status(StatusCode::NotFound, path,
                  "cannot be written, folder '" + folder +
                      "': " + strerror(errno));
  return {};
}

Status mpc::makeFolder(const std::string &path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    return Status(StatusCode::NotFound, path,
                  "cannot be created: " + error.message());
  return {};
}
