//===- MpiLibrary.h - entry points of MPI -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loaded at run time. There are two ABIs with the same functions: Open MPI's
// handles are addresses of objects in its library; those of MPICH and
// compatible libraries (Intel's, MVAPICH, Cray's) are integers.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_COMMUNICATION_MPILIBRARY_H
#define MPC_LIB_RUNTIME_COMMUNICATION_MPILIBRARY_H

#include "mpc/Runtime/Status.h"

#include <string>
#include <vector>

namespace mpc::detail {

/// Returns the status of a missing or unusable MPI.
Status mpiUnavailable(const std::string &text);

/// Function table for one ABI: `Handle` is `void *` or `int`.
template <typename Handle> struct MpiCalls {
  Handle world = {}, byte = {}, errorsReturn = {};

  int (*initialized)(int *) = nullptr;
  int (*initThread)(int *, char ***, int required, int *provided) = nullptr;
  int (*queryThread)(int *) = nullptr;
  int (*finalized)(int *) = nullptr;
  int (*finalize)() = nullptr;
  int (*abort)(Handle group, int code) = nullptr;
  int (*commDup)(Handle group, Handle *copy) = nullptr;
  int (*commRank)(Handle group, int *) = nullptr;
  int (*commSize)(Handle group, int *) = nullptr;
  int (*setErrorHandler)(Handle group, Handle handler) = nullptr;
  int (*errorString)(int code, char *text, int *length) = nullptr;
  int (*allGather)(const void *send, int sent, Handle, void *receive,
                   int received, Handle, Handle group,
                   Handle *request) = nullptr;
  int (*allToAll)(const void *send, int sent, Handle, void *receive,
                  int received, Handle, Handle group,
                  Handle *request) = nullptr;
  int (*broadcast)(void *data, int count, Handle, int root, Handle group,
                   Handle *request) = nullptr;
  int (*test)(Handle *request, int *done, void *status) = nullptr;
};

/// MPI_THREAD_SERIALIZED, the longest error text and an upper bound of
/// sizeof(MPI_Status), in bytes: equal in both ABIs.
inline constexpr int kMpiThreadSerialized = 2;
inline constexpr int kMpiMostErrorBytes = 1024;
inline constexpr int kMpiMostStatusBytes = 256;

/// A loaded library; one of the two tables is filled.
struct MpiLibrary {
  std::string path;
  bool isOpenMpi = false;
  MpiCalls<void *> openMpi;
  MpiCalls<int> mpich;
};

/// Loads the first existing library of `names`. Its symbols are global, since
/// Open MPI's plugins need them; it stays loaded.
Result<MpiLibrary> openMpiLibrary(const std::vector<std::string> &names);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_COMMUNICATION_MPILIBRARY_H
