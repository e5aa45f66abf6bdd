//===- InterpreterLock.cpp - acquisition of the GIL -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InterpreterLock.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

static std::atomic<unsigned long> mainThread;
/// Number of threads waiting for the GIL, and whether further ones wait for the
/// interpreter's end first.
static std::atomic<int> asking;
static std::atomic<bool> closing;
/// Number of threads other than the main one that work without the GIL.
static std::atomic<int> working;

void python::rememberMainThread() {
  nb::object thread = nb::module_::import_("threading").attr("main_thread")();
  mainThread = nb::cast<unsigned long>(thread.attr("ident"));
  // In a forked process the forking thread is the main one.
  pthread_atfork(nullptr, nullptr, [] {
    mainThread = PyThread_get_thread_ident();
    working = 0;
  });
}

bool python::isMainThread() {
  return PyThread_get_thread_ident() == mainThread;
}

/// A function of the interpreter that is not in the stable ABI of Python 3.12.
using Predicate = int (*)();
static Predicate findPredicate(const char *name) {
  return reinterpret_cast<Predicate>(dlsym(RTLD_DEFAULT, name));
}

static bool isEnding() {
  // Public since Python 3.13.
  static const Predicate isPublic = findPredicate("Py_IsFinalizing"),
                         isPrivate = findPredicate("_Py_IsFinalizing");
  const Predicate isFinalizing = isPublic ? isPublic : isPrivate;
  return isFinalizing && isFinalizing() != 0;
}

static bool hasLock() {
  static const Predicate check = findPredicate("PyGILState_Check");
  return check && check() != 0;
}

void python::enterGilWait() {
  using Clock = std::chrono::steady_clock;
  ++asking;
  // The finalizing thread needs the GIL as well, to free objects.
  if (isMainThread() || hasLock())
    return;
  Clock::time_point late = Clock::now() + std::chrono::seconds(1);
  while (closing && !isEnding() && Clock::now() < late) {
    --asking;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++asking;
  }
  if (!isEnding())
    return;
  --asking;
  for (;;)
    pause();
}

void python::leaveGilWait() { --asking; }

void python::enterGilFreeSection() { working += !isMainThread(); }
void python::leaveGilFreeSection() { working -= !isMainThread(); }

/// Exits without running destructors if threads still use what these would
/// free.
static void endBeforeDestructors(int status, void *) {
  if (working == 0)
    return;
  fflush(nullptr);
  _exit(status);
}

void python::blockThreadsAtExit() {
  closing = true;
  // Registered late, so that it runs before destructors of objects created on
  // first use.
  on_exit(endBeforeDestructors, nullptr);
  for (int i = 0; i < 1000 && asking > 0; ++i) {
    PyThreadState *state = PyEval_SaveThread();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    PyEval_RestoreThread(state);
  }
}
