//===- LibraryFunctions.h - functions of loaded libraries -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_LIBRARYFUNCTIONS_H
#define MPC_LIB_RUNTIME_LIBRARYFUNCTIONS_H

#include <dlfcn.h>

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

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_LIBRARYFUNCTIONS_H
