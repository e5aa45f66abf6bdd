//===- Errors.cpp - failures as exceptions --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Errors.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

void python::registerErrors() {
  nb::register_exception_translator(
      [](const std::exception_ptr &pending, void *) {
        try {
          std::rethrow_exception(pending);
        } catch (const StatusError &error) {
          const Status &status = error.status;
          nb::object made =
              nb::module_::import_("mpc._errors")
                  .attr("make")(statusCodeName(status.code()), status.where(),
                                status.text(), status.notes());
          PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(made.ptr())),
                          made.ptr());
        }
      });
}
