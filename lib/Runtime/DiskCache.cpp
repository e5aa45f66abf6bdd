//===- DiskCache.cpp - results kept between processes ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An entry is a magic, the SHA-256 of its bytes, and the bytes.
//
//===----------------------------------------------------------------------===//

#include "DiskCache.h"

#include "Sha256.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>

using namespace mpc::detail;
namespace fs = std::filesystem;

namespace {

constexpr std::array<uint8_t, 8> kMagic = {'M', 'P', 'C', 'K',
                                           'E', 'P', 'T', 1};
constexpr size_t kHeaderBytes = kMagic.size() + sizeof(Sha256Digest);

/// A descriptor that is closed when it goes.
struct File {
  int descriptor;
  ~File() {
    if (descriptor >= 0)
      ::close(descriptor);
  }
};

} // namespace

std::string mpc::detail::contentKey(std::span<const std::string_view> parts) {
  std::vector<uint64_t> lengths;
  for (std::string_view part : parts)
    lengths.push_back(part.size());
  std::vector<std::span<const std::byte>> bytes;
  for (size_t i = 0; i < parts.size(); ++i) {
    bytes.push_back(std::as_bytes(std::span(&lengths[i], 1)));
    bytes.push_back(std::as_bytes(std::span(parts[i])));
  }
  return toHex(sha256OfParts(bytes));
}

std::string DiskCache::pathOf(const std::string &key) const {
  return folder + "/" + key;
}

/// Reads `size` bytes; false at an early end or an error.
static bool readAll(int descriptor, void *to, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t got =
        ::read(descriptor, static_cast<char *>(to) + done, size - done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return false;
    done += size_t(got);
  }
  return true;
}

static bool writeAll(int descriptor, const void *from, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t wrote = ::write(descriptor, static_cast<const char *>(from) + done,
                            size - done);
    if (wrote < 0 && errno == EINTR)
      continue;
    if (wrote <= 0)
      return false;
    done += size_t(wrote);
  }
  return true;
}

std::optional<std::vector<std::byte>>
DiskCache::find(const std::string &key) const {
  if (folder.empty())
    return std::nullopt;
  std::string path = pathOf(key);
  File file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat facts;
  if (file.descriptor < 0 || ::fstat(file.descriptor, &facts) != 0 ||
      !S_ISREG(facts.st_mode))
    return std::nullopt;
  std::array<uint8_t, kHeaderBytes> header;
  std::vector<std::byte> bytes;
  if (size_t(facts.st_size) >= kHeaderBytes) {
    bytes.resize(size_t(facts.st_size) - kHeaderBytes);
    if (readAll(file.descriptor, header.data(), header.size()) &&
        std::memcmp(header.data(), kMagic.data(), kMagic.size()) == 0 &&
        readAll(file.descriptor, bytes.data(), bytes.size())) {
      Sha256Digest digest = sha256(bytes);
      if (std::memcmp(header.data() + kMagic.size(), digest.data(),
                      digest.size()) == 0)
        return bytes;
    }
  }
  return std::nullopt;
}

bool DiskCache::store(const std::string &key,
                      std::span<const std::byte> bytes) const {
  if (folder.empty())
    return false;
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed)
    return false;
  static std::atomic<unsigned> count{0};
  std::string path = pathOf(key), own = path + "." +
                                        std::to_string(::getpid()) + "." +
                                        std::to_string(count++);
  bool written = false;
  {
    File file{
        ::open(own.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)};
    Sha256Digest digest = sha256(bytes);
    written = file.descriptor >= 0 &&
              writeAll(file.descriptor, kMagic.data(), kMagic.size()) &&
              writeAll(file.descriptor, digest.data(), digest.size()) &&
              writeAll(file.descriptor, bytes.data(), bytes.size());
  }
  if (written && ::rename(own.c_str(), path.c_str()) == 0)
    return true;
  ::unlink(own.c_str());
  return false;
}
