//===- Environment.h - environment variables --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Folders that a user sets by environment variables, the variables of MPI
// launchers, the machine's memory, cores and CPU quota. Nothing else in the
// libraries reads the environment.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_ENVIRONMENT_H
#define MPC_LIB_RUNTIME_ENVIRONMENT_H

#include <cstdint>
#include <string>
#include <vector>

#include <sched.h>

namespace mpc::detail {

/// Returns the cache folder: $MPC_CACHE_DIR, else mpc in $XDG_CACHE_HOME, else
/// .cache/mpc in $HOME. Empty (no cache) if none is set or MPC_CACHE_DIR is
/// empty.
std::string cacheFolder();

/// Returns the size limit of the compile cache in bytes: $MPC_CACHE_SIZE, a
/// number with an optional suffix K, M, G or T; if unset or invalid a tenth of
/// the file system, from 4 to 64 GiB.
uint64_t cacheBytes();

/// Returns the CUDA installations that the user names, in search order:
/// $MPC_CUDA_DIR, $CUDA_HOME, $CUDA_PATH; only those that are set.
std::vector<std::string> cudaFolders();

/// Returns the folders of $PATH.
std::vector<std::string> programFolders();

/// Returns true if the terminal cannot move its cursor: TERM=dumb.
bool isDumbTerminal();

/// Returns the size of this machine's memory in bytes; 64 GiB if unknown.
int64_t machineMemory();

/// Returns the cores that a thread may use (0: the calling one; a process: its
/// main thread); empty if unknown.
std::vector<cpu_set_t> affinityOf(pid_t thread);

/// Returns the CPU quota of this process in cores, rounded up: the minimum of
/// cpu.max of its control group (cgroup v2) and that group's parents; INT_MAX
/// without a quota. `root` is prepended to all paths, for tests.
int quotaCores(const std::string &root = "");

/// Returns how many MPI ranks a launcher (mpirun, srun) started with this
/// process; 0 without a launcher.
int launchedRanks();

/// Returns dlopen() candidates for MPI, in order: the launcher's kind first.
std::vector<std::string> mpiLibraries();

/// Returns the library folders of NVIDIA's PyPI packages in `sitePackages`
/// (nvidia/cu13/lib, nvidia/cublas/lib), sorted.
std::vector<std::string> cudaPackageFolders(const std::string &sitePackages);

/// Returns dlopen() candidates for a CUDA library, in order: in the user's
/// installations, by its `names` alone (the loader's search), in the default
/// location, in NVIDIA's PyPI packages next to the Python package. Names are
/// full ("libnvrtc.so.13"), newest first.
std::vector<std::string>
cudaLibraryPaths(const std::vector<std::string> &names);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_ENVIRONMENT_H
