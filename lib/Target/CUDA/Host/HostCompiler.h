//===- HostCompiler.h - search for a host compiler --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_HOST_HOSTCOMPILER_H
#define MPC_LIB_TARGET_CUDA_HOST_HOSTCOMPILER_H

#include <string>
#include <vector>

namespace mpc::host {

/// Runs a program. Returns its exit status, or -1 if it could not be started.
/// `output`, if given, receives its standard output and standard error.
int runProgram(const std::vector<std::string> &words,
               std::string *output = nullptr);

/// Returns full paths of the compilers in `folders`, by preference: clang, g++,
/// c++; plain names before versioned ones, newer versions first.
std::vector<std::string> listCompilers(const std::vector<std::string> &folders);

/// Returns the default compiler for kernels: "clang++-22", the compiler of this
/// project, else the first of listCompilers() on the search path that compiles
/// the host prelude; empty if there is none. Searched once per process.
const std::string &hostCompiler();

} // namespace mpc::host

#endif // MPC_LIB_TARGET_CUDA_HOST_HOSTCOMPILER_H
