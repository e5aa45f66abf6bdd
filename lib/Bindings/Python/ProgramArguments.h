//===- ProgramArguments.h - what a run is given -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arguments of a program from those of a call: their order, the state of a loss
// scale, which no caller has, and copies of what a result takes the place of.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_PYTHON_PROGRAMARGUMENTS_H
#define MPC_LIB_BINDINGS_PYTHON_PROGRAMARGUMENTS_H

#include "Function.h"

#include <set>
#include <string>
#include <vector>

namespace mpc::python {

/// Whether `program` keeps a loss scale that is not among `arguments`.
bool hasState(const Program &program, const NamedBuffers &arguments);

/// The arguments of `executable` in its order. Those of `state` are written;
/// what it lacks it gets, on a GPU in its memory.
Result<std::vector<Buffer>> order(const Executable &executable,
                                  const NamedBuffers &arguments,
                                  NamedBuffers &state, const Gpu *gpu);

/// Whether result `i` replaces an argument that a run must not write: no call
/// writes into an array of the caller's that he did not donate.
bool needsCopy(const Program &program, size_t i, const NamedBuffers &arguments,
               const std::set<std::string> &donated);

/// Whether result `i` is state, which no caller gets.
bool isKept(const Program &program, size_t i, const NamedBuffers &arguments);

/// order(), with copies in host memory of what must not be written.
Result<std::vector<Buffer>>
orderWithCopies(const Executable &executable, const NamedBuffers &arguments,
                NamedBuffers &state, const std::set<std::string> &donated = {},
                const Gpu *gpu = nullptr);

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_PROGRAMARGUMENTS_H
