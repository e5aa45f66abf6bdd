//===- Lock.h - the interpreter's lock --------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// As nanobind's scopes, but for threads that the end of the interpreter
// overtakes: before 3.14 Python ends these where they ask for the lock, by
// unwinding, which frames of C++ answer with the end of the process. They wait
// for that end instead.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_PYTHON_LOCK_H
#define MPC_LIB_BINDINGS_PYTHON_LOCK_H

#include <nanobind/nanobind.h>

namespace mpc::python {

/// Remembers the interpreter's main thread, also in processes that are forked
/// from now on. With the interpreter's lock.
void rememberMainThread();

/// Whether this is the thread that handles signals. Without any lock.
bool isMainThread();

/// Before and behind a wait for the lock. The first does not return where the
/// interpreter ends in another thread.
void beginToAsk();
void endToAsk();

/// Lets threads that ask for the lock now have it, and lets others wait for the
/// end, for a second at most: who ends the interpreter may still wait for them.
/// For the thread that ends it. With the lock.
void letOthersWaitForTheEnd();

/// Before and behind work without the lock, for what a process that ends needs
/// to know of other threads.
void beginToWork();
void endToWork();

/// Gives the lock away.
class Unlocked {
public:
  Unlocked() : state(PyEval_SaveThread()) { beginToWork(); }
  Unlocked(const Unlocked &) = delete;
  Unlocked &operator=(const Unlocked &) = delete;
  ~Unlocked() {
    beginToAsk();
    PyEval_RestoreThread(state);
    endToAsk();
    endToWork();
  }

private:
  PyThreadState *state;
};

/// Holds the lock, in any thread.
class Locked {
public:
  Locked() {
    beginToAsk();
    state = PyGILState_Ensure();
    endToAsk();
  }
  Locked(const Locked &) = delete;
  Locked &operator=(const Locked &) = delete;
  ~Locked() { PyGILState_Release(state); }

private:
  PyGILState_STATE state;
};

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_LOCK_H
