//===- ProgramArguments.h - arguments of a run ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps the arguments of a call to those of a program: order, the loss-scale
// state, which callers do not pass, and copies of arguments that results alias.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_PYTHON_PROGRAMARGUMENTS_H
#define MPC_LIB_BINDINGS_PYTHON_PROGRAMARGUMENTS_H

#include "Function.h"

#include <set>
#include <string>
#include <vector>

namespace mpc::python {

/// Returns true if `program` has loss-scale state that is not among
/// `arguments`.
bool hasState(const Program &program, const NamedBuffers &arguments);

/// Returns the arguments of `executable` in its order. Entries of `state` are
/// overwritten by the run; missing ones are created, on a GPU in its memory.
Result<std::vector<Buffer>> order(const Executable &executable,
                                  const NamedBuffers &arguments,
                                  NamedBuffers &state, const Gpu *gpu);

/// Returns true if result `i` aliases an argument that must not be overwritten:
/// only donated arrays of the caller may be.
bool needsCopy(const Program &program, size_t i, const NamedBuffers &arguments,
               const std::set<std::string> &donated);

/// Returns true if result `i` is internal state.
bool isKept(const Program &program, size_t i, const NamedBuffers &arguments);

/// order(), with host copies of arguments that must not be overwritten.
Result<std::vector<Buffer>>
orderWithCopies(const Executable &executable, const NamedBuffers &arguments,
                NamedBuffers &state, const std::set<std::string> &donated = {},
                const Gpu *gpu = nullptr);

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_PROGRAMARGUMENTS_H
