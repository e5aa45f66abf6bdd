//===- Nccl.cpp - entry points of NCCL ------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Nccl.h"

#include "../Environment.h"
#include "../LibraryFunctions.h"

#include <dlfcn.h>

using namespace mpc;
using namespace mpc::detail;

static Status ncclUnavailable(const std::string &text) {
  return Status(StatusCode::Unavailable, "nccl", text);
}

Result<Nccl> detail::loadNccl(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return ncclUnavailable(dlerror());
  Nccl nccl;
  LibraryFunctions functions(library);
  visitNcclEntryPoints(nccl, [&](const char *name, auto &function) {
    functions.find(function, name);
  });
  Status status;
  int version = 0;
  if (!functions.missing().empty())
    status = ncclUnavailable(path + " lacks " + functions.missing());
  else if (nccl.version(&version) != 0 || version < kLeastNcclVersion)
    status = ncclUnavailable(path + " is version " + std::to_string(version) +
                             ", but " + std::to_string(kLeastNcclVersion) +
                             " or later is needed");
  if (status.ok())
    return nccl;
  dlclose(library);
  return status;
}

Result<const Nccl *> detail::installedNccl() {
  static const Result<Nccl> found = []() -> Result<Nccl> {
    Status first;
    for (const std::string &path : cudaLibraryPaths({"libnccl.so.2"})) {
      Result<Nccl> nccl = loadNccl(path);
      if (nccl.ok())
        return nccl;
      if (first.ok())
        first = nccl.status();
    }
    return ncclUnavailable(
        "no usable NCCL was found (" + first.text() +
        "); install libnccl2, or train on one GPU or on CPUs");
  }();
  if (!found.ok())
    return found.status();
  return &*found;
}

std::string detail::describeNcclError(const Nccl &nccl, NcclResult error) {
  const char *text = nccl.errorString ? nccl.errorString(error) : nullptr;
  return text ? text : "error " + std::to_string(error);
}
