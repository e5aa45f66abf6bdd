//===- Watch.h - compiles as the interpreter hears them ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_PYTHON_WATCH_H
#define MPC_LIB_BINDINGS_PYTHON_WATCH_H

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

/// What compiles that run without the interpreter's lock have for it: their
/// warnings, and Ctrl-C, which ends them. Several threads may compile under one
/// watch.
class CompileWatch {
public:
  /// Lets compiles with `options` report here. They keep the watch alive.
  static std::shared_ptr<CompileWatch> over(CompileOptions &options);

  /// The value. Throws what a handler of a signal raised meanwhile in this
  /// thread, else the failure.
  template <typename T> T valueOf(Result<T> result) {
    raiseInterrupt();
    return python::valueOf(std::move(result));
  }
  void check(const Status &status) {
    raiseInterrupt();
    if (!status.ok())
      throw StatusError(status);
  }

  /// Adds a warning to those that issue() issues. Without the interpreter's
  /// lock as well.
  void warn(std::string text);
  /// Issues the warnings as mpc.ModelWarning and forgets them. With the
  /// interpreter's lock; throws where a filter makes an error of one.
  void issue();

private:
  void add(const Diagnostic &message);
  /// Lets the interpreter handle signals, which it does in its main thread
  /// alone; true where a handler raised.
  bool interrupted();
  void raiseInterrupt();

  std::mutex lock;
  /// Guarded by `lock`.
  std::vector<std::string> texts;
  std::exception_ptr raised;
  std::thread::id raisedIn;
};

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_WATCH_H
