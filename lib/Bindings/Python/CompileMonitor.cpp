//===- CompileMonitor.cpp - warnings and Ctrl-C during compiles -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompileMonitor.h"

#include "Errors.h"
#include "InterpreterLock.h"

#include <utility>

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

std::shared_ptr<CompileMonitor> CompileMonitor::over(CompileOptions &options) {
  auto watch = std::make_shared<CompileMonitor>();
  options.onDiagnostic = [watch](const Diagnostic &message) {
    watch->add(message);
  };
  options.shouldStop = [watch] { return watch->interrupted(); };
  return watch;
}

void CompileMonitor::add(const Diagnostic &message) {
  if (message.severity != Diagnostic::Severity::Warning)
    return;
  warn(message.where + ": " + message.text);
}

void CompileMonitor::warn(std::string text) {
  std::lock_guard guard(lock);
  texts.push_back(std::move(text));
}

void CompileMonitor::issue() {
  std::vector<std::string> heard;
  {
    std::lock_guard guard(lock);
    heard.swap(texts);
  }
  if (heard.empty())
    return;
  nb::module_ errors = nb::module_::import_("mpc._errors");
  nb::object category = errors.attr("ModelWarning");
  nb::object message = errors.attr("message");
  for (const std::string &text : heard)
    if (PyErr_WarnFormat(category.ptr(), 1, "%U", message(toStr(text)).ptr()) <
        0)
      throw nb::python_error();
}

bool CompileMonitor::interrupted() {
  if (!isMainThread())
    return false;
  GilAcquire interpreter;
  if (PyErr_CheckSignals() == 0)
    return false;
  std::lock_guard guard(lock);
  raised = std::make_exception_ptr(nb::python_error());
  raisedIn = std::this_thread::get_id();
  return true;
}

void CompileMonitor::raiseInterrupt() {
  std::exception_ptr error;
  {
    std::lock_guard guard(lock);
    // A thread that waited for another thread's compile was not interrupted.
    if (!raised || raisedIn != std::this_thread::get_id())
      return;
    error = std::exchange(raised, nullptr);
  }
  GilAcquire interpreter;
  std::rethrow_exception(error);
}
