//===- MachineCode.h - machine code of compiled kernels ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TARGET_CPU_MACHINECODE_H
#define MPC_TEST_UNIT_TARGET_CPU_MACHINECODE_H

#include "mpc/Target/CPU/CpuTarget.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mpc {

/// The instructions of the kernels of `text` for `target`, a line each, on any
/// machine.
std::vector<std::string> machineCode(const std::string &text,
                                     const cpu::CpuTarget &target);

/// How many are called `name`.
int64_t count(const std::vector<std::string> &lines, const std::string &name);

} // namespace mpc

#endif // MPC_TEST_UNIT_TARGET_CPU_MACHINECODE_H
