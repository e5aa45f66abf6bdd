//===- MpiLibrary.cpp - entry points of MPI -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MpiLibrary.h"

#include "../LibraryFunctions.h"

using namespace mpc;
using namespace mpc::detail;

// Constants of mpi.h in the MPICH ABI (mpich.org/abi).
static constexpr int kMpichWorld = 0x44000000;
static constexpr int kMpichByte = 0x4c00010d;
static constexpr int kMpichErrorsReturn = 0x54000001;

/// Loads the functions. Returns the name of a missing one, or "".
template <typename Handle>
static std::string findCalls(void *library, MpiCalls<Handle> &calls) {
  LibraryFunctions functions(library);
  auto find = [&](auto &function, const char *name) {
    functions.find(function, name);
  };
  find(calls.initialized, "MPI_Initialized");
  find(calls.initThread, "MPI_Init_thread");
  find(calls.queryThread, "MPI_Query_thread");
  find(calls.finalized, "MPI_Finalized");
  find(calls.finalize, "MPI_Finalize");
  find(calls.abort, "MPI_Abort");
  find(calls.commDup, "MPI_Comm_dup");
  find(calls.commRank, "MPI_Comm_rank");
  find(calls.commSize, "MPI_Comm_size");
  find(calls.setErrorHandler, "MPI_Comm_set_errhandler");
  find(calls.errorString, "MPI_Error_string");
  find(calls.allGather, "MPI_Iallgather");
  find(calls.allToAll, "MPI_Ialltoall");
  find(calls.broadcast, "MPI_Ibcast");
  find(calls.test, "MPI_Test");
  return functions.missing();
}

Status detail::mpiUnavailable(const std::string &text) {
  return Status(StatusCode::Unavailable, "mpi", text);
}

static Result<MpiLibrary> identify(void *handle, const std::string &path) {
  MpiLibrary library;
  library.path = path;
  library.openMpi.world = dlsym(handle, "ompi_mpi_comm_world");
  library.isOpenMpi = library.openMpi.world != nullptr;
  std::string missing;
  if (library.isOpenMpi) {
    MpiCalls<void *> &calls = library.openMpi;
    missing = findCalls(handle, calls);
    calls.byte = dlsym(handle, "ompi_mpi_byte");
    calls.errorsReturn = dlsym(handle, "ompi_mpi_errors_return");
    if (!calls.byte || !calls.errorsReturn)
      missing = "ompi_mpi_byte";
  } else {
    MpiCalls<int> &calls = library.mpich;
    missing = findCalls(handle, calls);
    calls.world = kMpichWorld;
    calls.byte = kMpichByte;
    calls.errorsReturn = kMpichErrorsReturn;
  }
  if (!missing.empty())
    return mpiUnavailable(path + " lacks " + missing +
                          "; it is not an MPI library or is older than MPI 3");
  return library;
}

Result<MpiLibrary>
detail::openMpiLibrary(const std::vector<std::string> &names) {
  std::string list;
  for (const std::string &name : names) {
    if (void *handle = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL))
      return identify(handle, name);
    list += (list.empty() ? "" : ", ") + name;
  }
  return mpiUnavailable("no MPI library was found (" + list +
                        "); install Open MPI or MPICH");
}
