//===- Errors.cpp - conversion of Status to exceptions --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Errors.h"

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

nb::object python::toStr(const std::string &text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()),
                                        "backslashreplace"));
}

void python::registerErrors() {
  nb::register_exception_translator([](const std::exception_ptr &pending,
                                       void *) {
    try {
      std::rethrow_exception(pending);
    } catch (const StatusError &error) {
      const Status &status = error.status;
      nb::list notes;
      for (const std::string &note : status.notes())
        notes.append(toStr(note));
      nb::object made =
          nb::module_::import_("mpc._errors")
              .attr("make")(statusCodeName(status.code()),
                            toStr(status.where()), toStr(status.text()), notes);
      PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(made.ptr())),
                      made.ptr());
    }
  });
}
