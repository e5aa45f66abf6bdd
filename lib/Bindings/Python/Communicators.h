//===- Communicators.h - bindings of Communicator ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_PYTHON_COMMUNICATORS_H
#define MPC_LIB_BINDINGS_PYTHON_COMMUNICATORS_H

#include <nanobind/nanobind.h>

namespace mpc::python {

/// Adds communicators to the extension: by MPI, by threads, and by a Python
/// object.
void addCommunicators(nanobind::module_ &module);

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_COMMUNICATORS_H
