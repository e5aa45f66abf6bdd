//===- CodeObject.h - machine code from memory ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CONTAINER_CODEOBJECT_H
#define MPC_LIB_RUNTIME_CONTAINER_CODEOBJECT_H

#include "mpc/Runtime/Program.h"
#include "mpc/Runtime/Status.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace mpc::detail {

/// Maps the shared object `code` into the process, gives every launch of
/// `program` its function and makes `program.code` keep the mapping. Runs what
/// the object's initialisers say: only for code that is trusted. `where` names
/// the file.
Status loadCode(std::span<const std::byte> code, const std::string &where,
                Program &program);

/// Levels of code for the CPU ("avx512", "avx2"), best first, that this machine
/// can run.
std::span<const std::string_view> cpuLevels();

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CONTAINER_CODEOBJECT_H
