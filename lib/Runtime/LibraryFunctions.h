//===- LibraryFunctions.h - functions of loaded libraries -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_LIBRARYFUNCTIONS_H
#define MPC_LIB_RUNTIME_LIBRARYFUNCTIONS_H

#include <climits>
#include <cstdlib>
#include <dlfcn.h>
#include <link.h>

#include <string>
#include <type_traits>

namespace mpc::detail {

/// Looks up functions of a library that dlopen() opened.
class LibraryFunctions {
public:
  explicit LibraryFunctions(void *library) : library(library) {}

  /// Sets `function` to the function of that name, or null.
  template <typename Function> void find(Function &function, const char *name) {
    void *address = dlsym(library, name);
    if (!address && firstMissing.empty())
      firstMissing = name;
    function = reinterpret_cast<std::remove_reference_t<Function>>(address);
  }

  /// First name that was not found; empty if all were.
  const std::string &missing() const { return firstMissing; }

private:
  void *library;
  std::string firstMissing;
};

/// Returns the path of the program or library that contains the code at
/// `address`, without symbolic links; empty if unknown.
inline std::string fileOfCode(const void *address) {
  Dl_info info;
  link_map *map = nullptr;
  if (!dladdr1(address, &info, reinterpret_cast<void **>(&map),
               RTLD_DL_LINKMAP) ||
      !map)
    return "";
  // The main program has no name here, and argv[0] may be a script's.
  char path[PATH_MAX];
  return ::realpath(*map->l_name ? map->l_name : "/proc/self/exe", path) ? path
                                                                         : "";
}

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_LIBRARYFUNCTIONS_H
