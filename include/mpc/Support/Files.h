//===- Files.h - file input and output --------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_SUPPORT_FILES_H
#define MPC_SUPPORT_FILES_H

#include "mpc/Runtime/Status.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

namespace mpc {

/// A regular file, read sequentially; closed by the destructor. Not
/// thread-safe.
class InputFile {
public:
  /// Fails if `path` cannot be opened or is not a regular file.
  static Result<InputFile> open(const std::string &path);
  /// Opens the file `name` of a model's folder, untrusted (openInside()).
  /// Follows the links of Hugging Face's download cache: `../../blobs/NAME` in
  /// a folder `snapshots/REVISION`.
  static Result<InputFile> openInside(const std::string &folder,
                                      const std::string &name);
  InputFile(InputFile &&other) noexcept;
  InputFile &operator=(InputFile &&other) = delete;
  ~InputFile();

  /// Size of the file when it was opened, in bytes.
  uint64_t size() const { return bytes; }
  /// Reads the next `count` bytes; fails with the message that the file ends
  /// before its last element if there are fewer.
  Status read(void *out, size_t count);
  /// Maps the whole file; pages are loaded on access. The mapping outlives this
  /// object. Truncating the file meanwhile makes access to the lost part fatal
  /// (SIGBUS).
  Result<std::shared_ptr<const std::byte>> map() const;
  /// Returns device, inode, size and times, which identify the contents; empty
  /// if the file was modified within the last seconds and may change again
  /// within the clock's resolution.
  std::string identity() const;

private:
  InputFile(std::string path, int descriptor, uint64_t bytes)
      : path(std::move(path)), descriptor(descriptor), bytes(bytes) {}

  std::string path;
  int descriptor;
  uint64_t bytes;
};

/// The same for an open file.
std::string fileIdentity(int descriptor);

/// Maps the `bytes` bytes of an open file, at least one, as InputFile::map()
/// does; null with errno on failure.
std::shared_ptr<const std::byte> mapFile(int descriptor, uint64_t bytes);

/// Size in bytes above which files are mapped, and identified by
/// fileIdentity(); smaller ones are copied and identified by their bytes. Times
/// are no proof: writes through a mapping may not change them.
inline constexpr int64_t kLargeFile = int64_t(64) << 20;

/// Reads a whole regular file of at most `mostBytes` bytes. The limit guards
/// against sparse files of arbitrary size.
Result<std::string> readWholeFile(const std::string &path,
                                  uint64_t mostBytes = uint64_t(256) << 20);

/// Writes the concatenation of `parts` atomically and durably, even if the
/// process or the machine stops in between: writes and flushes a temporary file
/// in the same folder and renames it. A device or a pipe is written directly.
Status writeWholeFile(const std::string &path,
                      std::initializer_list<std::string_view> parts);

/// Fails if a file at `path` could not be created: the folder is missing or not
/// writable, or `path` is a folder. Writes nothing.
Status checkWritable(const std::string &path);

/// Creates the folder `path` and its parents if they do not exist. Fails with
/// the path and the system's reason.
Status makeFolder(const std::string &path);

} // namespace mpc

#endif // MPC_SUPPORT_FILES_H
