//===- ScopedTempFolder.h - a private temporary folder ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_SUPPORT_SCOPEDTEMPFOLDER_H
#define MPC_SUPPORT_SCOPEDTEMPFOLDER_H

#include <string>

namespace mpc {

/// A folder with an unpredictable name in the system's temporary folder,
/// accessible only to this user (mode 0700, regardless of the umask). Deleted
/// recursively by the destructor.
class ScopedTempFolder {
public:
  /// `prefix`: start of the folder's name. Check ok() afterwards.
  explicit ScopedTempFolder(const std::string &prefix);
  ScopedTempFolder(const ScopedTempFolder &) = delete;
  ScopedTempFolder &operator=(const ScopedTempFolder &) = delete;
  ~ScopedTempFolder();

  bool ok() const { return !folder.empty(); }
  /// The folder; empty if creation failed.
  const std::string &path() const { return folder; }
  /// Returns the path of a file in the folder.
  std::string path(const std::string &name) const {
    return folder + "/" + name;
  }

private:
  std::string folder;
};

} // namespace mpc

#endif // MPC_SUPPORT_SCOPEDTEMPFOLDER_H
