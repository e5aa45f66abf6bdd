//===- Environment.h - what the environment says ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Places that a user sets by environment variables, what a launcher of ranks
// says there, and the machine's memory. Nothing else in the libraries reads the
// environment.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_ENVIRONMENT_H
#define MPC_LIB_RUNTIME_ENVIRONMENT_H

#include <cstdint>
#include <string>
#include <vector>

namespace mpc::detail {

/// The folder for what is kept between processes: $MPC_CACHE_DIR, else mpc in
/// $XDG_CACHE_HOME, else .cache/mpc in $HOME. Empty where none is set or where
/// MPC_CACHE_DIR is set to nothing: keep nothing.
std::string cacheFolder();

/// The most bytes of finished compiles that are kept: $MPC_CACHE_SIZE, a number
/// that may end in K, M, G or T; 4 GiB where it is not set or is none.
uint64_t cacheBytes();

/// Roots of CUDA installations that the user names, in the order of the search:
/// $MPC_CUDA_DIR, $CUDA_HOME, $CUDA_PATH; only those that are set.
std::vector<std::string> cudaFolders();

/// The folders of $PATH in which programs are looked for.
std::vector<std::string> programFolders();

/// Bytes of this machine's memory; 64 GiB where the system does not say.
int64_t machineMemory();

/// How many ranks of MPI a launcher (mpirun, srun) started with this process;
/// 0 where none did.
int launchedRanks();

/// What to hand to dlopen, in order, for MPI: the launcher's kind first.
std::vector<std::string> mpiLibraries();

/// What to hand to dlopen, in order, for a library of CUDA's: in the user's
/// installations, by its `names` alone (the loader's own search), in the
/// usual place. Names are full ("libnvrtc.so.13"), newest first.
std::vector<std::string>
cudaLibraryPaths(const std::vector<std::string> &names);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_ENVIRONMENT_H
