//===- FolderFiles.h - files inside a model's folder ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_SUPPORT_FOLDERFILES_H
#define MPC_SUPPORT_FOLDERFILES_H

#include "mpc/Runtime/Status.h"

#include <string>
#include <string_view>

namespace mpc {

/// Fails, with no location, if the untrusted file name `name` is empty,
/// absolute, or has a component "..", a backslash or a zero byte.
Status checkNameInside(std::string_view name);

/// Opens the regular file `name`, relative to `folder` and untrusted, for
/// reading. Refuses, with no location, what checkNameInside() refuses, symbolic
/// links at any level, files with several hard links and devices. The caller
/// closes the descriptor.
Result<int> openInside(const std::string &folder, std::string_view name);

} // namespace mpc

#endif // MPC_SUPPORT_FOLDERFILES_H
