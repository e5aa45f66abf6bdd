//===- FolderFiles.cpp - files inside a model's folder --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernel checks the complete path (openat2) if it can; otherwise each
// component is opened with O_NOFOLLOW.
//
//===----------------------------------------------------------------------===//

#include "mpc/Support/FolderFiles.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

using namespace mpc;

/// Splits a path at slashes, without empty components.
static std::vector<std::string> componentsOf(std::string_view path) {
  std::vector<std::string> components;
  while (!path.empty()) {
    std::string_view component = path.substr(0, path.find('/'));
    if (!component.empty())
      components.emplace_back(component);
    path.remove_prefix(std::min(path.size(), component.size() + 1));
  }
  return components;
}

static Status refusal(StatusCode code, std::string text) {
  return Status(code, "", std::move(text));
}

Status mpc::checkNameInside(std::string_view name) {
  if (name.empty() || name.find('\0') != std::string_view::npos)
    return refusal(StatusCode::InvalidArgument, "has no valid name");
  std::vector<std::string> components = componentsOf(name);
  if (name.starts_with('/') || name.find('\\') != std::string_view::npos ||
      components.empty() ||
      std::find(components.begin(), components.end(), "..") != components.end())
    return refusal(StatusCode::InvalidArgument,
                   "is not inside the model's folder");
  return {};
}

/// Opens `name` below the directory `folder` without following links, for
/// kernels without openat2.
static int openByComponents(int folder, std::string_view name) {
  int current = ::dup(folder);
  std::vector<std::string> components = componentsOf(name);
  for (size_t i = 0; i < components.size(); ++i) {
    bool last = i + 1 == components.size();
    int flags =
        O_RDONLY | O_CLOEXEC | O_NOFOLLOW | (last ? O_NONBLOCK : O_DIRECTORY);
    int next = ::openat(current, components[i].c_str(), flags);
    int error = errno;
    ::close(current);
    if (next < 0) {
      errno = error;
      return -1;
    }
    current = next;
  }
  return current;
}

static int openBeneath(int folder, std::string_view name) {
  struct open_how how = {};
  how.flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  int file = int(::syscall(SYS_openat2, folder, std::string(name).c_str(), &how,
                           sizeof(how)));
  if (file >= 0 || (errno != ENOSYS && errno != EPERM))
    return file;
  return openByComponents(folder, name);
}

Result<int> mpc::openInside(const std::string &folder, std::string_view name) {
  if (Status status = checkNameInside(name); !status.ok())
    return status;
  int directory = ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0)
    return refusal(StatusCode::NotFound, "cannot be opened: folder '" + folder +
                                             "': " + std::strerror(errno));
  int file = openBeneath(directory, name);
  int error = errno;
  ::close(directory);
  if (file < 0) {
    if (error == ELOOP || error == EXDEV)
      return refusal(StatusCode::InvalidArgument,
                     "is a symbolic link or outside of the model's folder");
    return refusal(StatusCode::NotFound,
                   std::string("cannot be opened: ") + std::strerror(error));
  }
  const char *reason = nullptr;
  struct stat facts;
  if (::fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode))
    reason = "is not a regular file";
  else if (facts.st_nlink > 1)
    reason = "has several hard links; copy it so that it belongs to the model "
             "alone";
  if (!reason)
    return file;
  ::close(file);
  return refusal(StatusCode::InvalidArgument, reason);
}
