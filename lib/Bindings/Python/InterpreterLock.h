//===- InterpreterLock.h - acquisition of the GIL ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Like nanobind's scopes, but safe during interpreter finalization: before 3.14
// Python terminates threads that request the GIL then, by unwinding, which
// terminates the process in C++ frames. Such threads sleep until the end
// instead.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_PYTHON_INTERPRETERLOCK_H
#define MPC_LIB_BINDINGS_PYTHON_INTERPRETERLOCK_H

#include <nanobind/nanobind.h>

namespace mpc::python {

/// Records the interpreter's main thread, also after a fork. Needs the GIL.
void rememberMainThread();

/// Returns true on the thread that handles signals. Needs no GIL.
bool isMainThread();

/// Called before and after waiting for the GIL. The first does not return if
/// the interpreter is finalizing in another thread.
void enterGilWait();
void leaveGilWait();

/// Lets threads that already wait for the GIL acquire it, and makes others wait
/// for the end, for at most a second, since finalization may still join them.
/// Called by the finalizing thread, with the GIL.
void blockThreadsAtExit();

/// Called before and after work without the GIL, to track threads for the
/// process's exit.
void enterGilFreeSection();
void leaveGilFreeSection();

/// RAII: releases the GIL.
class GilRelease {
public:
  GilRelease() : state(PyEval_SaveThread()) { enterGilFreeSection(); }
  GilRelease(const GilRelease &) = delete;
  GilRelease &operator=(const GilRelease &) = delete;
  ~GilRelease() {
    enterGilWait();
    PyEval_RestoreThread(state);
    leaveGilWait();
    leaveGilFreeSection();
  }

private:
  PyThreadState *state;
};

/// RAII: holds the GIL, on any thread.
class GilAcquire {
public:
  GilAcquire() {
    enterGilWait();
    state = PyGILState_Ensure();
    leaveGilWait();
  }
  GilAcquire(const GilAcquire &) = delete;
  GilAcquire &operator=(const GilAcquire &) = delete;
  ~GilAcquire() { PyGILState_Release(state); }

private:
  PyGILState_STATE state;
};

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_INTERPRETERLOCK_H
