//===- DiskCache.cpp - on-disk cache --------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An entry is a magic number, the SHA-256 of its bytes, and the bytes. A
// two-part entry has a header of 64 bytes (CacheEntryHeader), the body at the
// next multiple of 64, and then the head. An entry of pages starts with its
// bytes, so that a mapping can use huge pages, and ends with a PagesTrailer.
//
//===----------------------------------------------------------------------===//

#include "DiskCache.h"

#include "Sha256.h"

#include "mpc/Runtime/Buffer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

using namespace mpc;
using namespace mpc::detail;
namespace fs = std::filesystem;

namespace {

constexpr std::array<uint8_t, 8> kEntryMagic = {'M', 'P', 'C', 'K',
                                                'E', 'P', 'T', 1};
constexpr size_t kEntryHeaderBytes = kEntryMagic.size() + sizeof(Sha256Digest);

/// Header of a two-part entry.
struct CacheEntryHeader {
  std::array<uint8_t, 8> magic = {'M', 'P', 'C', 'K', 'E', 'P', 'T', 2};
  uint64_t bodyBytes = 0, headBytes = 0;
  uint64_t zero = 0;
  /// Digest of the fields above and the head.
  Sha256Digest digest = {};
};
constexpr CacheEntryHeader kPartsHeader = {};
static_assert(sizeof(CacheEntryHeader) == 64);

/// End of an entry of pages, at a multiple of 64.
struct PagesTrailer {
  std::array<uint8_t, 8> magic = {'M', 'P', 'C', 'K', 'E', 'P', 'T', 3};
  uint64_t bytes = 0;
  uint64_t checksum = 0;
  /// bootId() of the process that wrote or last verified the bytes: a crash of
  /// the machine may lose pages of a file that it had renamed.
  std::array<char, 40> boot = {};
};

/// RAII file descriptor.
struct File {
  int descriptor;
  explicit File(int descriptor) : descriptor(descriptor) {}
  File(File &&other) noexcept
      : descriptor(std::exchange(other.descriptor, -1)) {}
  File &operator=(File &&) = delete;
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

//===----------------------------------------------------------------------===//
// Permissions
//===----------------------------------------------------------------------===//

/// Returns true if only this user can have written the file or folder.
static bool isOwn(const struct stat &facts) {
  return facts.st_uid == ::geteuid() &&
         (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// Returns what is wrong with a folder, or empty. A folder that `holds` the
/// cache (its parent) may belong to root.
static std::string faultOf(const struct stat &facts, bool holds) {
  if (facts.st_uid != ::geteuid() && !(holds && facts.st_uid == 0))
    return "belongs to user " + std::to_string(facts.st_uid) +
           ", but this process runs as user " + std::to_string(::geteuid());
  bool isSticky = holds && (facts.st_mode & S_ISVTX);
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) && !isSticky) {
    char mode[8];
    std::snprintf(mode, sizeof(mode), "%03o", unsigned(facts.st_mode & 07777));
    return std::string("may be written by other users (mode ") + mode + ")";
  }
  return {};
}

/// Opens folder `name` in the folder `at`, whose path is `path`, and checks it;
/// the descriptor is negative if it is missing or refused.
static File openFolder(int at, const std::string &name, const std::string &path,
                       bool holds, std::optional<CacheRefusal> &refusal) {
  File opened{::openat(at, name.c_str(),
                       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  struct stat facts;
  std::string fault, cure = "; set its mode to 700 and empty it, or set "
                            "MPC_CACHE_DIR to a folder of this user";
  if (opened.descriptor < 0) {
    if (::fstatat(at, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISLNK(facts.st_mode)) {
      fault = "is a symbolic link";
      cure = "; set MPC_CACHE_DIR to its target";
    }
  } else if (::fstat(opened.descriptor, &facts) != 0) {
    fault = "cannot be examined";
  } else {
    fault = faultOf(facts, holds);
  }
  if (fault.empty())
    return opened;
  if (opened.descriptor >= 0 && facts.st_uid != ::geteuid())
    cure = "; set MPC_CACHE_DIR to a folder of this user";
  refusal = {path, fault + ": the cache is not used" + cure};
  return File{-1};
}

/// Creates `path` and its parents with mode 0700.
static void makeFolders(const fs::path &path) {
  if (path.has_parent_path() && path.parent_path() != path)
    makeFolders(path.parent_path());
  ::mkdir(path.c_str(), 0700);
}

/// Opens the cache's folder, creating it first if `make`.
static File openCache(const std::string &folder, bool make,
                      std::optional<CacheRefusal> &refusal) {
  if (folder.empty())
    return File{-1};
  fs::path path(folder), above = path.parent_path();
  if (make)
    makeFolders(above);
  std::string holderPath = above.empty() ? "." : above.string();
  File holder =
      openFolder(AT_FDCWD, holderPath, holderPath, /*holds=*/true, refusal);
  if (holder.descriptor < 0)
    return holder;
  std::string name = path.filename().string();
  if (make)
    ::mkdirat(holder.descriptor, name.c_str(), 0700);
  return openFolder(holder.descriptor, name, folder, /*holds=*/false, refusal);
}

/// Returns true once per folder, so that a user is warned once.
static bool isFirstReport(const std::string &folder) {
  static std::mutex mutex;
  static std::set<std::string> reported;
  std::lock_guard lock(mutex);
  return reported.insert(folder).second;
}

std::optional<CacheRefusal> DiskCache::newRefusal() const {
  std::optional<CacheRefusal> refusal;
  File opened = openCache(folder, /*make=*/false, refusal);
  if (refusal && !isFirstReport(refusal->folder))
    return std::nullopt;
  return refusal;
}

std::optional<CacheRefusal> DiskCache::newWriteFailure() const {
  std::optional<CacheRefusal> refusal;
  File opened = openCache(folder, /*make=*/true, refusal);
  std::string fault;
  if (opened.descriptor < 0)
    fault = errno == ENOENT ? "cannot be created" : std::strerror(errno);
  else if (::faccessat(opened.descriptor, ".", W_OK | X_OK, AT_EACCESS) != 0)
    fault = std::strerror(errno);
  // newRefusal() reports refusals.
  if (refusal || fault.empty() || !isFirstReport(folder))
    return std::nullopt;
  return CacheRefusal{folder, fault + ": compiled programs are not cached; set "
                                      "MPC_CACHE_DIR to a folder that can be "
                                      "written, or to nothing"};
}

/// Opens an entry that only this user can have written.
static File openEntry(const File &folder, const std::string &key,
                      struct stat &facts) {
  File entry{folder.descriptor < 0
                 ? -1
                 : ::openat(folder.descriptor, key.c_str(),
                            O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW)};
  if (entry.descriptor < 0 || ::fstat(entry.descriptor, &facts) != 0 ||
      !S_ISREG(facts.st_mode) || !isOwn(facts))
    return File{-1};
  return entry;
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

std::string DiskCache::pathOf(const std::string &key) const {
  return folder + "/" + key;
}

bool detail::readAll(int descriptor, void *to, size_t size) {
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
  std::optional<CacheRefusal> refusal;
  struct stat facts;
  File file = openEntry(openCache(folder, /*make=*/false, refusal), key, facts);
  if (file.descriptor < 0)
    return std::nullopt;
  std::array<uint8_t, kEntryHeaderBytes> header;
  std::vector<std::byte> bytes;
  // Larger than any kernel; a sparse file has an arbitrary size.
  constexpr size_t kMost = size_t(256) << 20;
  if (size_t(facts.st_size) >= kEntryHeaderBytes &&
      size_t(facts.st_size) <= kMost) {
    bytes.resize(size_t(facts.st_size) - kEntryHeaderBytes);
    if (readAll(file.descriptor, header.data(), header.size()) &&
        std::memcmp(header.data(), kEntryMagic.data(), kEntryMagic.size()) ==
            0 &&
        readAll(file.descriptor, bytes.data(), bytes.size())) {
      Sha256Digest digest = sha256(bytes);
      if (std::memcmp(header.data() + kEntryMagic.size(), digest.data(),
                      digest.size()) == 0)
        return bytes;
    }
  }
  return std::nullopt;
}

bool DiskCache::store(const std::string &key,
                      std::span<const std::byte> bytes) const {
  Sha256Digest digest = sha256(bytes);
  std::array<std::span<const std::byte>, 3> parts = {
      std::as_bytes(std::span(kEntryMagic)), std::as_bytes(std::span(digest)),
      bytes};
  return write(key, parts);
}

/// Returns a name for an unfinished entry of `key` that no one else uses.
static std::string temporaryName(const std::string &key) {
  static std::atomic<unsigned> count{0};
  return key + "." + std::to_string(::getpid()) + "." + std::to_string(count++);
}

bool DiskCache::write(const std::string &key,
                      std::span<const std::span<const std::byte>> parts) const {
  uint64_t size = 0;
  for (std::span<const std::byte> part : parts)
    size += part.size();
  if (size > mostBytes)
    return false;
  std::optional<CacheRefusal> refusal;
  File opened = openCache(folder, /*make=*/true, refusal);
  if (opened.descriptor < 0)
    return false;
  std::string own = temporaryName(key);
  bool written = false;
  {
    File file{::openat(opened.descriptor, own.c_str(),
                       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                       0600)};
    written = file.descriptor >= 0;
    for (std::span<const std::byte> part : parts)
      written = written && writeAll(file.descriptor, part.data(), part.size());
  }
  if (written && ::renameat(opened.descriptor, own.c_str(), opened.descriptor,
                            key.c_str()) == 0) {
    evict(pathOf(key));
    return true;
  }
  ::unlinkat(opened.descriptor, own.c_str(), 0);
  return false;
}

//===----------------------------------------------------------------------===//
// Two parts
//===----------------------------------------------------------------------===//

static Sha256Digest digestOf(const CacheEntryHeader &header,
                             std::span<const std::byte> head) {
  std::array<std::span<const std::byte>, 2> parts = {
      std::as_bytes(std::span(&header, 1))
          .first(offsetof(CacheEntryHeader, digest)),
      head};
  return sha256OfParts(parts);
}

/// Returns how many bytes of the mapping at `start` are on huge pages, from
/// /proc/self/smaps; nullopt if unknown.
static std::optional<size_t> bytesOnHugePages(const void *start) {
  std::ifstream account("/proc/self/smaps");
  char begin[2 * sizeof(void *) + 2];
  std::snprintf(begin, sizeof(begin), "%zx-", reinterpret_cast<size_t>(start));
  std::string line;
  while (std::getline(account, line) && !line.starts_with(begin)) {
  }
  constexpr std::string_view kField = "FilePmdMapped:";
  while (std::getline(account, line) && !line.starts_with(kField)) {
  }
  if (!account)
    return std::nullopt;
  return std::strtoull(line.c_str() + kField.size(), nullptr, 10) * 1024;
}

/// Copies a large mapping to huge pages unless most of it already uses them.
/// The page cache may hold a file in small pages, which slow a memory-bound
/// kernel by a third (TLB misses).
static std::shared_ptr<const void>
onHugePages(std::shared_ptr<const void> mapping, size_t size) {
  constexpr size_t kLarge = size_t(4) << 20;
  if (size < kLarge)
    return mapping;
  std::optional<size_t> huge = bytesOnHugePages(mapping.get());
  if (!huge || *huge > size / 8 * 7)
    return mapping;
  std::shared_ptr<void> copy = allocateAligned(size);
  if (!copy)
    return mapping;
  std::memcpy(copy.get(), mapping.get(), size);
  return copy;
}

std::optional<MappedEntry> DiskCache::map(const std::string &key) const {
  std::optional<CacheRefusal> refusal;
  struct stat facts;
  File file = openEntry(openCache(folder, /*make=*/false, refusal), key, facts);
  if (file.descriptor < 0)
    return std::nullopt;
  // Entries above the cache's size limit are never stored.
  CacheEntryHeader header;
  auto size = size_t(facts.st_size);
  if (size < sizeof(header) || size > mostBytes ||
      !readAll(file.descriptor, &header, sizeof(header)))
    return std::nullopt;
  size_t rest = size - sizeof(header);
  if (header.magic != kPartsHeader.magic || header.bodyBytes > rest ||
      header.headBytes != rest - header.bodyBytes)
    return std::nullopt;
  // All of it is about to be read.
  void *start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE,
                       file.descriptor, 0);
  if (start == MAP_FAILED)
    return std::nullopt;
  std::shared_ptr<const void> owner(
      start, [size](void *mapping) { ::munmap(mapping, size); });
  owner = onHugePages(std::move(owner), size);
  const std::byte *body =
      static_cast<const std::byte *>(owner.get()) + sizeof(header);
  MappedEntry entry{std::move(owner),
                    {body + header.bodyBytes, size_t(header.headBytes)},
                    {body, size_t(header.bodyBytes)}};
  if (digestOf(header, entry.head) != header.digest)
    return std::nullopt;
  // The modification time is the last use, for LRU eviction.
  ::futimens(file.descriptor, nullptr);
  return entry;
}

bool DiskCache::storeParts(const std::string &key,
                           std::span<const std::byte> head,
                           std::span<const std::byte> body) const {
  CacheEntryHeader header;
  header.bodyBytes = body.size();
  header.headBytes = head.size();
  header.digest = digestOf(header, head);
  std::array<std::span<const std::byte>, 3> parts = {
      std::as_bytes(std::span(&header, 1)), body, head};
  return write(key, parts);
}

//===----------------------------------------------------------------------===//
// Pages
//===----------------------------------------------------------------------===//

/// Identifies the time since the machine was started; empty if unknown.
static std::array<char, 40> bootId() {
  std::array<char, 40> id = {};
  std::ifstream("/proc/sys/kernel/random/boot_id").read(id.data(), 36);
  return id;
}

/// Returns a checksum that finds lost pages at the rate of the memory.
static uint64_t checksumOf(std::span<const std::byte> bytes) {
  constexpr size_t kLanes = 8;
  constexpr uint64_t kPrime = 0x9e3779b97f4a7c15;
  std::array<uint64_t, kLanes> sums;
  for (size_t lane = 0; lane < kLanes; ++lane)
    sums[lane] = lane + 1;
  std::array<uint64_t, kLanes> words;
  for (; !bytes.empty();
       bytes = bytes.subspan(std::min(sizeof(words), bytes.size()))) {
    words = {};
    std::memcpy(words.data(), bytes.data(),
                std::min(sizeof(words), bytes.size()));
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] = (sums[lane] ^ words[lane]) * kPrime;
      sums[lane] ^= sums[lane] >> 29;
    }
  }
  uint64_t all = 0;
  for (uint64_t sum : sums)
    all = (all ^ sum) * kPrime + (all >> 31);
  return all;
}

/// Returns the size of an entry of pages, without its trailer.
static size_t paddedSize(size_t size) {
  return (size + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

/// Maps the first `size` bytes of a file, large ones at a multiple of the size
/// of a huge page: file systems with large folios then map huge pages. Null on
/// failure.
static std::shared_ptr<void> mapFile(int descriptor, size_t size,
                                     bool writable) {
  constexpr size_t kHugePage = size_t(1) << 21;
  int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void *start = nullptr;
  int flags = MAP_SHARED;
  if (size >= kHugePage) {
    void *reserved = ::mmap(nullptr, size + kHugePage, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED)
      return nullptr;
    auto first = reinterpret_cast<uintptr_t>(reserved);
    size_t before = (kHugePage - first % kHugePage) % kHugePage;
    start = static_cast<char *>(reserved) + before;
    size_t page = size_t(::sysconf(_SC_PAGESIZE));
    size_t used = (size + page - 1) / page * page;
    if (before > 0)
      ::munmap(reserved, before);
    ::munmap(static_cast<char *>(start) + used,
             size + kHugePage - before - used);
    flags |= MAP_FIXED;
  }
  void *mapped = ::mmap(start, size, protection, flags, descriptor, 0);
  if (mapped == MAP_FAILED) {
    if (start)
      ::munmap(start, size);
    return nullptr;
  }
  if (size >= kHugePage)
    ::madvise(mapped, size, MADV_HUGEPAGE);
  return {mapped, [size](void *mapping) { ::munmap(mapping, size); }};
}

/// Records that the bytes of an entry of an earlier boot are complete.
static void markVerified(const File &folder, const std::string &key, size_t end,
                         PagesTrailer trailer) {
  trailer.boot = bootId();
  File entry{::openat(folder.descriptor, key.c_str(),
                      O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW)};
  if (entry.descriptor >= 0)
    (void)!::pwrite(entry.descriptor, &trailer, sizeof(trailer), off_t(end));
}

std::shared_ptr<const void>
DiskCache::mapPages(const std::string &key, size_t size, bool verifies) const {
  std::optional<CacheRefusal> refusal;
  struct stat facts;
  File opened = openCache(folder, /*make=*/false, refusal);
  File file = openEntry(opened, key, facts);
  PagesTrailer trailer, expected{.bytes = size};
  size_t end = paddedSize(size);
  if (file.descriptor < 0 || size == 0 ||
      size_t(facts.st_size) != end + sizeof(trailer) ||
      ::pread(file.descriptor, &trailer, sizeof(trailer), off_t(end)) !=
          ssize_t(sizeof(trailer)) ||
      trailer.magic != expected.magic || trailer.bytes != expected.bytes)
    return nullptr;
  std::shared_ptr<void> mapping =
      mapFile(file.descriptor, size, /*writable=*/false);
  if (!mapping)
    return nullptr;
  bool isOfThisBoot = trailer.boot == bootId() && trailer.boot[0] != 0;
  if (verifies || !isOfThisBoot) {
    if (checksumOf({static_cast<const std::byte *>(mapping.get()), size}) !=
        trailer.checksum)
      return nullptr;
    markVerified(opened, key, end, trailer);
  }
  ::futimens(file.descriptor, nullptr);
  return mapping;
}

/// Bytes written between two evictions.
static constexpr uint64_t kMostBetweenEvictions = uint64_t(256) << 20;

std::shared_ptr<const void> DiskCache::storePages(
    const std::string &key, size_t size,
    const std::function<bool(std::span<std::byte>)> &fill) const {
  PagesTrailer trailer{.bytes = size, .boot = bootId()};
  size_t end = paddedSize(size);
  if (size == 0 || end + sizeof(trailer) > mostBytes)
    return nullptr;
  std::optional<CacheRefusal> refusal;
  File opened = openCache(folder, /*make=*/true, refusal);
  if (opened.descriptor < 0)
    return nullptr;
  std::string own = temporaryName(key);
  File file{::openat(opened.descriptor, own.c_str(),
                     O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)};
  if (file.descriptor < 0)
    return nullptr;
  std::shared_ptr<void> mapping;
  // Writing to a page without space on the disk would raise SIGBUS.
  if (::posix_fallocate(file.descriptor, 0, off_t(end + sizeof(trailer))) == 0)
    mapping = mapFile(file.descriptor, size, /*writable=*/true);
  bool written =
      mapping && fill({static_cast<std::byte *>(mapping.get()), size});
  if (written)
    trailer.checksum =
        checksumOf({static_cast<const std::byte *>(mapping.get()), size});
  if (written && ::mprotect(mapping.get(), size, PROT_READ) == 0 &&
      ::pwrite(file.descriptor, &trailer, sizeof(trailer), off_t(end)) ==
          ssize_t(sizeof(trailer)) &&
      ::renameat(opened.descriptor, own.c_str(), opened.descriptor,
                 key.c_str()) == 0) {
    // Listing the folder takes longer than writing a small entry.
    // The first entry of a process evicts, too.
    static std::atomic<uint64_t> written{kMostBetweenEvictions};
    if ((written += size) >= std::min(kMostBetweenEvictions, mostBytes / 16)) {
      written = 0;
      evict(pathOf(key));
    }
    return mapping;
  }
  ::unlinkat(opened.descriptor, own.c_str(), 0);
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Eviction
//===----------------------------------------------------------------------===//

/// Age after which an unfinished temporary file is abandoned.
static constexpr std::chrono::hours kMostWriting{1};

/// Deletes entries until the folder fits the limit, but never `kept`.
/// Concurrent evictions agree on the oldest entry and ignore missing files.
void DiskCache::evict(const std::string &kept) const {
  struct Entry {
    fs::file_time_type used;
    uint64_t bytes;
    std::string path;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end;
       at.increment(failed)) {
    std::error_code gone;
    fs::file_time_type used = at->last_write_time(gone);
    if (gone || !at->is_regular_file(gone) || gone)
      continue;
    uint64_t bytes = at->file_size(gone);
    if (gone)
      continue;
    total += bytes;
    bool unfinished =
        at->path().filename().string().find('.') != std::string::npos;
    if (at->path() == kept ||
        (unfinished && fs::file_time_type::clock::now() - used < kMostWriting))
      continue;
    entries.push_back({used, bytes, at->path().string()});
  }
  if (total <= mostBytes)
    return;
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
    return std::tie(a.used, a.path) < std::tie(b.used, b.path);
  });
  for (const Entry &entry : entries) {
    if (total <= mostBytes)
      return;
    ::unlink(entry.path.c_str());
    total -= entry.bytes;
  }
}
