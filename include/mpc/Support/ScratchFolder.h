//===- ScratchFolder.h - a private temporary folder -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_SUPPORT_SCRATCHFOLDER_H
#define MPC_SUPPORT_SCRATCHFOLDER_H

#include <string>

namespace mpc {

/// A folder of an unpredictable name in the system's folder for temporary
/// files, which only this user may enter (mode 0700, whatever the umask).
/// Deleted with all files when the object goes.
class ScratchFolder {
public:
  /// `prefix`: the start of the folder's name. Check ok() afterwards.
  explicit ScratchFolder(const std::string &prefix);
  ScratchFolder(const ScratchFolder &) = delete;
  ScratchFolder &operator=(const ScratchFolder &) = delete;
  ~ScratchFolder();

  bool ok() const { return !folder.empty(); }
  /// The folder; empty where none could be made.
  const std::string &path() const { return folder; }
  /// The path of a file of the folder.
  std::string path(const std::string &name) const {
    return folder + "/" + name;
  }

private:
  std::string folder;
};

} // namespace mpc

#endif // MPC_SUPPORT_SCRATCHFOLDER_H
