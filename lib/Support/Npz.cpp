//===- Npz.cpp - zip archives of arrays -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Support/Files.h"
#include "mpc/Support/Npy.h"

#include <zip.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

using namespace mpc;

/// Maximum number of entries.
static constexpr zip_int64_t kMostEntries = 65536;
/// Maximum expansion of deflate; larger claims are zip bombs, refused before
/// allocation.
static constexpr uint64_t kMostExpansion = 1032;

static Status badZip(const std::string &where, std::string text) {
  return Status(StatusCode::InvalidArgument, where, std::move(text));
}

/// Returns libzip's message for an error code of zip_open.
static std::string openError(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

static Result<NamedArray> readEntry(zip_t *archive, zip_uint64_t index,
                                    const std::string &path,
                                    uint64_t mostBytes) {
  zip_stat_t facts;
  if (zip_stat_index(archive, index, 0, &facts) != 0)
    return badZip(path, std::string("entry cannot be read: ") +
                            zip_strerror(archive));
  constexpr zip_uint64_t kNeeded =
      ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE;
  if ((facts.valid & kNeeded) != kNeeded)
    return badZip(path,
                  "entry " + std::to_string(index) + " has no name or size");
  std::string name = facts.name;
  if (name.size() > 4 && name.compare(name.size() - 4, 4, ".npy") == 0)
    name.resize(name.size() - 4);
  std::string where = path + ": array '" + name.substr(0, 200) + "'";
  if ((facts.valid & ZIP_STAT_ENCRYPTION_METHOD) &&
      facts.encryption_method != ZIP_EM_NONE)
    return badZip(where, "is encrypted");
  if (facts.comp_size < facts.size / kMostExpansion)
    return badZip(where, "claims " + std::to_string(facts.size) + " bytes in " +
                             std::to_string(facts.comp_size) +
                             " compressed ones");
  std::unique_ptr<zip_file_t, int (*)(zip_file_t *)> file(
      zip_fopen_index(archive, index, 0), zip_fclose);
  if (!file)
    return badZip(where,
                  std::string("cannot be read: ") + zip_strerror(archive));
  auto source = [&](void *out, size_t bytes) -> Status {
    auto *at = static_cast<char *>(out);
    while (bytes > 0) {
      zip_int64_t got = zip_fread(file.get(), at, bytes);
      if (got < 0)
        return badZip(where, std::string("cannot be read: ") +
                                 zip_file_strerror(file.get()));
      if (got == 0)
        return badZip(where, "ends before its last element");
      at += got;
      bytes -= size_t(got);
    }
    return {};
  };
  Result<Buffer> data = readNpyFrom(source, facts.size, where, mostBytes);
  if (!data.ok())
    return data.status();
  // libzip verifies the checksum at the end of the entry.
  char extra;
  if (zip_fread(file.get(), &extra, 1) != 0)
    return badZip(where,
                  std::string("is damaged: ") + zip_file_strerror(file.get()));
  return NamedArray{std::move(name), std::move(*data), std::move(where)};
}

Result<std::vector<NamedArray>> mpc::readNpz(const std::string &path,
                                             uint64_t mostBytes) {
  struct stat file;
  if (::stat(path.c_str(), &file) != 0)
    return Status(StatusCode::NotFound, path,
                  std::string("cannot be opened: ") + strerror(errno));
  if (!S_ISREG(file.st_mode))
    return badZip(path, "is not a regular file");
  int error = 0;
  std::unique_ptr<zip_t, void (*)(zip_t *)> archive(
      zip_open(path.c_str(), ZIP_RDONLY, &error), zip_discard);
  if (!archive)
    return badZip(path, "is not an .npz (zip) file: " + openError(error));
  zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  if (count > kMostEntries)
    return badZip(path, "holds " + std::to_string(count) + " arrays; at most " +
                            std::to_string(kMostEntries) + " are supported");
  std::vector<NamedArray> arrays;
  std::set<std::string> names;
  for (zip_int64_t i = 0; i < count; ++i) {
    Result<NamedArray> array =
        readEntry(archive.get(), zip_uint64_t(i), path, mostBytes);
    if (!array.ok())
      return array.status();
    mostBytes -= array->data.size();
    if (!names.insert(array->name).second)
      return badZip(array->where, "occurs twice in the file");
    arrays.push_back(std::move(*array));
  }
  return arrays;
}

Status mpc::writeNpz(const std::string &path,
                     const std::vector<NamedArray> &arrays) {
  if (Status status = checkWritable(path); !status.ok())
    return status;
  struct stat facts;
  if (::stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode))
    return Status(
        StatusCode::InvalidArgument, path,
        "is a device or a pipe, which cannot contain an archive; name a file");
  // Reserve the name with an empty file, which cannot be replaced by a link.
  std::string temporary = path + ".XXXXXX";
  int holder = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (holder < 0)
    return Status(StatusCode::NotFound, path,
                  std::string("cannot be written: ") + strerror(errno));
  ::fchmod(holder, 0644);
  ::close(holder);
  int error = 0;
  zip_t *archive =
      zip_open(temporary.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  if (!archive) {
    ::unlink(temporary.c_str());
    return Status(StatusCode::NotFound, path,
                  "cannot be written: " + openError(error));
  }
  // libzip reads the bytes when the archive is closed.
  std::vector<std::string> payloads;
  payloads.reserve(arrays.size());
  for (const NamedArray &array : arrays) {
    std::string &payload =
        payloads.emplace_back(makeNpyHeader(array.data.type()));
    payload.append(static_cast<const char *>(array.data.data()),
                   array.data.size());
    zip_source_t *source =
        zip_source_buffer(archive, payload.data(), payload.size(), 0);
    zip_int64_t index =
        source ? zip_file_add(archive, (array.name + ".npy").c_str(), source,
                              ZIP_FL_ENC_UTF_8 | ZIP_FL_OVERWRITE)
               : -1;
    // 1980-01-01, zip's epoch: equal arrays give equal files.
    bool added =
        index >= 0 &&
        zip_set_file_compression(archive, zip_uint64_t(index), ZIP_CM_STORE,
                                 0) == 0 &&
        zip_file_set_dostime(archive, zip_uint64_t(index), 0, 0x21, 0) == 0;
    if (!added) {
      std::string why = zip_strerror(archive);
      if (source && index < 0)
        zip_source_free(source);
      zip_discard(archive);
      ::unlink(temporary.c_str());
      return Status(StatusCode::NotFound, path,
                    "array '" + array.name + "': " + why);
    }
  }
  if (arrays.empty()) {
    zip_discard(archive);
    ::unlink(temporary.c_str());
    return Status(StatusCode::InvalidArgument, path,
                  "there is no array to write");
  }
  if (zip_close(archive) != 0) {
    std::string why = zip_strerror(archive);
    zip_discard(archive);
    ::unlink(temporary.c_str());
    return Status(StatusCode::NotFound, path, "cannot be written: " + why);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    std::string why = strerror(errno);
    ::unlink(temporary.c_str());
    return Status(StatusCode::NotFound, path, "cannot be written: " + why);
  }
  return {};
}
