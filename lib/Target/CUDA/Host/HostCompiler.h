//===- HostCompiler.h - the compiler of kernels on the host -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_HOST_HOSTCOMPILER_H
#define MPC_LIB_TARGET_CUDA_HOST_HOSTCOMPILER_H

#include <string>
#include <vector>

namespace mpc::host {

/// Runs a program; its exit status, or -1 where it could not be started.
/// `output`, where it is given, receives what it wrote to standard output and
/// standard error.
int runProgram(const std::vector<std::string> &words,
               std::string *output = nullptr);

/// Compilers in `folders`, best first: clang before g++ before c++, a plain
/// name before those with a version, newer versions first. Full paths.
std::vector<std::string> listCompilers(const std::vector<std::string> &folders);

/// The compiler that kernels are compiled with where the caller names none:
/// clang++-22, which this project is built with, by its name; else the first of
/// listCompilers() on the search path that takes the host's prelude. Empty
/// where there is none. Searched once per process.
const std::string &hostCompiler();

} // namespace mpc::host

#endif // MPC_LIB_TARGET_CUDA_HOST_HOSTCOMPILER_H
