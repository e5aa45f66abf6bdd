//===- Files.h - reading and writing whole files ----------------*- C++ -*-===//
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

/// A regular file that is read from its beginning; closed at the end of its
/// life. For one thread.
class InputFile {
public:
  /// Fails where `path` cannot be opened or is no regular file.
  static Result<InputFile> open(const std::string &path);
  InputFile(InputFile &&other) noexcept;
  InputFile &operator=(InputFile &&other) = delete;
  ~InputFile();

  /// Bytes of the file when it was opened.
  uint64_t size() const { return bytes; }
  /// Reads the next `count` bytes; fails, saying that the file ends before its
  /// last element, where there are fewer.
  Status read(void *out, size_t count);
  /// The bytes of the whole file, which come into memory as they are touched.
  /// They outlive this object; whoever shortens the file meanwhile ends the
  /// process at the next touch of what is gone.
  Result<std::shared_ptr<const std::byte>> map() const;

private:
  InputFile(std::string path, int descriptor, uint64_t bytes)
      : path(std::move(path)), descriptor(descriptor), bytes(bytes) {}

  std::string path;
  int descriptor;
  uint64_t bytes;
};

/// Reads a whole regular file of at most `mostBytes`: of a sparse file the size
/// is its writer's choice.
Result<std::string> readWholeFile(const std::string &path,
                                  uint64_t mostBytes = uint64_t(256) << 20);

/// Writes `parts`, one behind the other, as a file that is there whole, under
/// its name, or not at all, even where the process or the machine stops in
/// between: a temporary file beside it is written, flushed to the disk and
/// renamed. A device or a pipe is written to as it is.
Status writeWholeFile(const std::string &path,
                      std::initializer_list<std::string_view> parts);

/// Fails where a file at `path` could not be made: the folder is missing or not
/// writable, or `path` is a folder. Writes nothing.
Status checkWritable(const std::string &path);

/// Makes the folder `path` and those above it, where they are not there. Fails
/// naming the path and the system's reason.
Status makeFolder(const std::string &path);

} // namespace mpc

#endif // MPC_SUPPORT_FILES_H
