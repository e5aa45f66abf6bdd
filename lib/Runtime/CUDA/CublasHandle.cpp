//===- CublasHandle.cpp - entry points of cuBLASLt ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CublasHandle.h"

#include "../Environment.h"
#include "../LibraryFunctions.h"

#include <dlfcn.h>

using namespace mpc;
using namespace mpc::detail;

static Status cublasUnavailable(const std::string &text) {
  return Status(StatusCode::Unavailable, "cublasLt", text);
}

Result<Blas> detail::loadBlas(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return cublasUnavailable(dlerror());
  Blas blas;
  LibraryFunctions functions(library);
  visitBlasEntryPoints(blas, [&](const char *name, auto &function) {
    functions.find(function, name);
  });
  Status status;
  if (!functions.missing().empty())
    status = cublasUnavailable(path + " lacks " + functions.missing());
  else if (size_t version = blas.version(); version < kLeastBlasVersion)
    status = cublasUnavailable(path + " is version " + std::to_string(version) +
                               ", but " + std::to_string(kLeastBlasVersion) +
                               " or later is needed");
  if (status.ok())
    return blas;
  dlclose(library);
  return status;
}

Result<const Blas *> detail::installedBlas() {
  static const Result<Blas> found = []() -> Result<Blas> {
    Status first;
    for (const std::string &path :
         cudaLibraryPaths({"libcublasLt.so.13", "libcublasLt.so.12"})) {
      Result<Blas> blas = loadBlas(path);
      if (blas.ok())
        return blas;
      if (first.ok())
        first = blas.status();
    }
    return cublasUnavailable(
        "no usable cuBLASLt was found (" + first.text() +
        "); install the CUDA toolkit or mpc-compiler[cuda] from "
        "PyPI, or compile with --gemm=own");
  }();
  if (!found.ok())
    return found.status();
  return &*found;
}

std::string detail::describeBlasError(const Blas &blas, BlasResult error) {
  const char *name = blas.statusName ? blas.statusName(error) : nullptr;
  return name ? name : "error " + std::to_string(error);
}
