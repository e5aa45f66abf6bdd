//===- FileIdentity.h - identity of large files -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_SUPPORT_FILEIDENTITY_H
#define MPC_SUPPORT_FILEIDENTITY_H

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <string>
#include <sys/stat.h>

namespace mpc {

/// Size in bytes above which files are identified by metadata, not contents.
inline constexpr int64_t kLargeFile = int64_t(64) << 20;

/// Returns device, inode, size and times of a large file in place of its
/// contents; empty for a smaller file, and for a file modified within the last
/// two seconds, which may change again within the clock's resolution.
inline std::string fileIdentity(const struct stat &status) {
  constexpr int64_t kSettled = 2;
  if (status.st_size <= kLargeFile)
    return {};
  struct timespec now;
  if (::clock_gettime(CLOCK_REALTIME, &now) != 0 ||
      now.tv_sec - std::max(status.st_mtim.tv_sec, status.st_ctim.tv_sec) <=
          kSettled)
    return {};
  std::string text = "file";
  for (int64_t number :
       {int64_t(status.st_dev), int64_t(status.st_ino), int64_t(status.st_size),
        int64_t(status.st_mtim.tv_sec), int64_t(status.st_mtim.tv_nsec),
        int64_t(status.st_ctim.tv_sec), int64_t(status.st_ctim.tv_nsec)})
    text += " " + std::to_string(number);
  return text;
}

} // namespace mpc

#endif // MPC_SUPPORT_FILEIDENTITY_H
