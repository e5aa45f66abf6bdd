//===- Errors.h - failures as exceptions ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The bindings are the one place that throws: a Status leaves C++ as an
// exception of mpc._errors, with its place and its notes.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_PYTHON_ERRORS_H
#define MPC_LIB_BINDINGS_PYTHON_ERRORS_H

#include "mpc/Runtime/Status.h"

#include <nanobind/nanobind.h>

#include <exception>
#include <string>
#include <utility>

namespace mpc::python {

/// A failed Status on its way to Python.
class StatusError : public std::exception {
public:
  explicit StatusError(Status status) : status(std::move(status)) {}
  const char *what() const noexcept override { return status.text().c_str(); }

  const Status status;
};

/// The value, or throws the failure.
template <typename T> T valueOf(Result<T> result) {
  if (!result.ok())
    throw StatusError(result.status());
  return std::move(*result);
}

/// `text`, which may hold names from files, as str; bytes that are no UTF-8 as
/// escapes. Needs the interpreter's lock.
nanobind::object toStr(const std::string &text);

/// Translates StatusError from now on.
void registerErrors();

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_ERRORS_H
