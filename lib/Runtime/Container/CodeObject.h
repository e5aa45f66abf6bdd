//===- CodeObject.h - loading machine code for the CPU ----------*- C++ -*-===//
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

/// Maps the shared object `code` into the process, sets the function of every
/// launch of `program`, and makes `program.code` own the mapping. Runs the
/// object's initializers: for trusted code only. `where` names the file.
Status loadCode(std::span<const std::byte> code, const std::string &where,
                Program &program);

/// Returns the instruction-set levels ("avx512", "avx2") that this machine
/// supports, best first.
std::span<const std::string_view> cpuLevels();

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CONTAINER_CODEOBJECT_H
