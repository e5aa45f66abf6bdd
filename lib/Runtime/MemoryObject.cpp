//===- MemoryObject.cpp - loading shared objects from memory --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MemoryObject.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

using namespace mpc;
using namespace mpc::detail;

MemoryObject::~MemoryObject() {
  if (handle)
    dlclose(handle);
  if (descriptor >= 0)
    ::close(descriptor);
}

Result<std::shared_ptr<MemoryObject>>
MemoryObject::load(std::span<const std::byte> code, const std::string &where) {
  auto unavailable = [&](const std::string &what, const char *why) {
    return Status(StatusCode::Unavailable, where,
                  what + (why ? std::string(": ") + why : std::string()));
  };
  std::shared_ptr<MemoryObject> object(new MemoryObject());
  int file = object->descriptor =
      memfd_create("mpc-kernels", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0)
    return unavailable("no memory file for its code", strerror(errno));
  for (size_t done = 0; done < code.size();) {
    ssize_t wrote = ::write(file, code.data() + done, code.size() - done);
    if (wrote < 0 && errno == EINTR)
      continue;
    if (wrote <= 0)
      return unavailable("its code cannot be copied", strerror(errno));
    done += size_t(wrote);
  }
  if (::fcntl(file, F_ADD_SEALS,
              F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return unavailable("its code cannot be sealed", strerror(errno));
  std::string path = "/proc/self/fd/" + std::to_string(file);
  object->handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!object->handle)
    return unavailable("its code cannot be loaded", dlerror());
  return object;
}

void *MemoryObject::find(const std::string &symbol) const {
  return dlsym(handle, symbol.c_str());
}

std::string MemoryObject::path() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" +
         std::to_string(descriptor);
}
