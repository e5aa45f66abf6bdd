//===- CompileMonitor.h - warnings and Ctrl-C during compiles ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_PYTHON_COMPILEMONITOR_H
#define MPC_LIB_BINDINGS_PYTHON_COMPILEMONITOR_H

#include "Errors.h"

#include "mpc/JIT/Options.h"

#include <nanobind/nanobind.h>

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace mpc::python {

/// Connects compiles without the GIL to the interpreter: collects their
/// warnings, and cancels them on Ctrl-C. Several threads may compile under one
/// watch.
class CompileMonitor {
public:
  /// Makes compiles with `options` report here. They keep the watch alive.
  static std::shared_ptr<CompileMonitor> over(CompileOptions &options);

  /// Returns the value. Throws an exception that a signal handler raised
  /// meanwhile in this thread, else the failure.
  template <typename T> T valueOf(Result<T> result) {
    raiseInterrupt();
    return python::valueOf(std::move(result));
  }
  void check(const Status &status) {
    raiseInterrupt();
    if (!status.ok())
      throw StatusError(status);
  }

  /// Adds a warning for issue(). May be called without the GIL.
  void warn(std::string text);
  /// Issues and clears the warnings as mpc.ModelWarning. Needs the GIL; throws
  /// if a filter turns one into an error.
  void issue();

private:
  void add(const Diagnostic &message);
  /// Runs pending signal handlers, which the interpreter does on its main
  /// thread only; returns true if one raised.
  bool interrupted();
  void raiseInterrupt();

  std::mutex lock;
  /// Guarded by `lock`.
  std::vector<std::string> texts;
  std::exception_ptr raised;
  std::thread::id raisedIn;
};

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_COMPILEMONITOR_H
