//===- Communicators.h - ranks that train together --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_PYTHON_COMMUNICATORS_H
#define MPC_LIB_BINDINGS_PYTHON_COMMUNICATORS_H

#include <nanobind/nanobind.h>

namespace mpc::python {

/// Adds communicators to the extension: of MPI, of threads, and of an object
/// with methods in Python.
void addCommunicators(nanobind::module_ &module);

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_COMMUNICATORS_H
