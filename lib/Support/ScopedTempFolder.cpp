//===- ScopedTempFolder.cpp - a private temporary folder ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Support/ScopedTempFolder.h"

#include <cstdlib>
#include <filesystem>

using namespace mpc;
namespace fs = std::filesystem;

ScopedTempFolder::ScopedTempFolder(const std::string &prefix) {
  std::error_code failed;
  std::string pattern =
      (fs::temp_directory_path(failed) / (prefix + "-XXXXXX")).string();
  if (!failed && ::mkdtemp(pattern.data()))
    folder = pattern;
}

ScopedTempFolder::~ScopedTempFolder() {
  std::error_code ignored;
  if (ok())
    fs::remove_all(folder, ignored);
}
