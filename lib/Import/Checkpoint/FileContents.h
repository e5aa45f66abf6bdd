//===- FileContents.h - contents of a checkpoint file -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_CHECKPOINT_FILECONTENTS_H
#define MPC_LIB_IMPORT_CHECKPOINT_FILECONTENTS_H

#include "WeightStore.h"

#include "mpc/Support/Files.h"

#include <string_view>

namespace mpc::checkpoint {

/// Contents of a file.
struct FileContents {
  std::shared_ptr<const std::byte> bytes;
  uint64_t size = 0;
  /// Digest of a small or just modified file, else InputFile::identity().
  std::string identity;

  std::string_view text() const {
    return {reinterpret_cast<const char *>(bytes.get()), size};
  }
  /// Returns the tensor of `type` at `offset`, which must be inside: a part of
  /// the contents, or a copy if the offset is not aligned to its elements.
  std::shared_ptr<const std::byte> tensor(const TensorType &type,
                                          uint64_t offset) const;
};

/// Reads a small file into memory: accessing a mapped page of a file that
/// another process truncated is fatal. Maps a large one.
Result<FileContents> readContents(InputFile &file, const std::string &path);

/// Returns StoredTensor::identity of a tensor of a file.
std::string tensorIdentity(std::string_view name, const TensorType &type,
                           const FileContents &file, uint64_t offset);

} // namespace mpc::checkpoint

#endif // MPC_LIB_IMPORT_CHECKPOINT_FILECONTENTS_H
