//===- Errors.h - conversion of Status to exceptions ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Only the bindings throw: they convert a failed Status to an exception of
// mpc._errors, with its location and notes.
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

/// Exception that carries a failed Status to Python.
class StatusError : public std::exception {
public:
  explicit StatusError(Status status) : status(std::move(status)) {}
  const char *what() const noexcept override { return status.text().c_str(); }

  const Status status;
};

/// Returns the value, or throws the failure.
template <typename T> T valueOf(Result<T> result) {
  if (!result.ok())
    throw StatusError(result.status());
  return std::move(*result);
}

/// Converts `text`, which may contain names from files, to str, escaping
/// invalid UTF-8. Needs the GIL.
nanobind::object toStr(const std::string &text);

/// Registers the translation of StatusError.
void registerErrors();

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_ERRORS_H
