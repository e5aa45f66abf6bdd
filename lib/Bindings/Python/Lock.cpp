//===- Lock.cpp - the interpreter's lock ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lock.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <pthread.h>
#include <unistd.h>

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

static std::atomic<unsigned long> mainThread;
/// How many threads wait for the lock, and whether further ones wait for the
/// end first.
static std::atomic<int> asking;
static std::atomic<bool> closing;
/// How many threads but the main one work without the lock.
static std::atomic<int> working;

void python::rememberMainThread() {
  nb::object thread = nb::module_::import_("threading").attr("main_thread")();
  mainThread = nb::cast<unsigned long>(thread.attr("ident"));
  // In a forked process the thread that forked is the main one.
  pthread_atfork(nullptr, nullptr, [] {
    mainThread = PyThread_get_thread_ident();
    working = 0;
  });
}

bool python::isMainThread() {
  return PyThread_get_thread_ident() == mainThread;
}

static bool isEnding() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

void python::beginToAsk() {
  using Clock = std::chrono::steady_clock;
  ++asking;
  // Who ends it asks for the lock as well, for what it frees.
  if (isMainThread() || PyGILState_Check())
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

void python::endToAsk() { --asking; }

void python::beginToWork() { working += !isMainThread(); }
void python::endToWork() { working -= !isMainThread(); }

/// Ends the process where threads still use what its libraries' destructors
/// would free next.
static void endBeforeDestructors(int status, void *) {
  if (working == 0)
    return;
  fflush(nullptr);
  _exit(status);
}

void python::letOthersWaitForTheEnd() {
  closing = true;
  // Late, so that it comes before what was made on first use.
  on_exit(endBeforeDestructors, nullptr);
  for (int i = 0; i < 1000 && asking > 0; ++i) {
    PyThreadState *state = PyEval_SaveThread();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    PyEval_RestoreThread(state);
  }
}
