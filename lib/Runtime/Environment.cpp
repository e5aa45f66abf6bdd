//===- Environment.cpp - environment variables ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Environment.h"

#include "LibraryFunctions.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

using namespace mpc;

/// Returns the variable's value; empty if unset.
static std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

std::string detail::cacheFolder() {
  if (std::getenv("MPC_CACHE_DIR"))
    return variable("MPC_CACHE_DIR");
  if (std::string folder = variable("XDG_CACHE_HOME"); !folder.empty())
    return folder + "/mpc";
  std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/mpc";
}

bool detail::isDumbTerminal() { return variable("TERM") == "dumb"; }

int64_t detail::machineMemory() {
  int64_t pages = sysconf(_SC_PHYS_PAGES), pageBytes = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && pageBytes > 0 ? pages * pageBytes : int64_t(1) << 36;
}

namespace {
/// A mounted hierarchy of control groups.
struct GroupMount {
  /// Control group at the mount point, and the mount point.
  std::string group, folder;
};
} // namespace

/// Decodes a path of /proc/self/mountinfo, where a backslash and three octal
/// digits stand for a space, tab, newline or backslash.
static std::string decodePath(const std::string &text) {
  std::string path;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(&text[i + 1], &text[i + 4], code, 8).ptr ==
            &text[i + 4]) {
      path += char(code);
      i += 3;
    } else {
      path += text[i];
    }
  }
  return path;
}

/// Returns where cgroup v2 is mounted, from /proc/self/mountinfo:
///   30 23 0:26 /group /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw
static std::vector<GroupMount> groupMounts(const std::string &root) {
  std::vector<GroupMount> mounts;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string skipped, group, folder;
    words >> skipped >> skipped >> skipped >> group >> folder;
    if (words && line.find(" - cgroup2 ") != std::string::npos)
      mounts.push_back({decodePath(group), decodePath(folder)});
  }
  return mounts;
}

/// Returns the control group of this process in cgroup v2, from
/// /proc/self/cgroup: "0::/group".
static std::string ownGroup(const std::string &root) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("0::"))
      return line.substr(3);
  return "";
}

/// Returns the quota of a cpu.max file in cores, rounded up: "150000 100000"
/// are 150 of 100 ms, thus 2; INT_MAX without a quota ("max 100000").
static int quotaIn(const std::filesystem::path &file) {
  int64_t quota = 0, period = 0;
  std::ifstream(file) >> quota >> period;
  if (quota <= 0 || period <= 0)
    return INT_MAX;
  return int(std::min<int64_t>((quota - 1) / period + 1, INT_MAX));
}

int detail::quotaCores(const std::string &root) {
  // The mount with most of the process's group and its parents: a bind mount
  // may show a part of them, or other groups alone. Inside a container without
  // its own cgroup namespace, a mount shows only the container's group.
  const std::filesystem::path own = ownGroup(root);
  std::optional<GroupMount> mount;
  std::filesystem::path below;
  for (const GroupMount &each : groupMounts(root)) {
    std::filesystem::path path = own.lexically_relative(each.group);
    // A group outside of the mount has a path with "..".
    if (path.empty() || *path.begin() == "..")
      path.clear();
    if (mount && std::distance(path.begin(), path.end()) <=
                     std::distance(below.begin(), below.end()))
      continue;
    mount = each;
    below = path;
  }
  if (!mount)
    return INT_MAX;
  const std::filesystem::path top = root + mount->folder;
  int cores = quotaIn(top / "cpu.max");
  std::filesystem::path folder = top;
  for (const std::filesystem::path &part : below) {
    folder /= part;
    cores = std::min(cores, quotaIn(folder / "cpu.max"));
  }
  return cores;
}

std::vector<cpu_set_t> detail::affinityOf(pid_t thread) {
  // The kernel refuses sets that are smaller than its own.
  for (int most = CPU_SETSIZE; most <= (1 << 20); most *= 2) {
    std::vector<cpu_set_t> set(CPU_ALLOC_SIZE(most) / sizeof(cpu_set_t));
    if (sched_getaffinity(thread, set.size() * sizeof(cpu_set_t), set.data()) ==
        0)
      return set;
    if (errno != EINVAL)
      break;
  }
  return {};
}

/// Returns a tenth of the file system that holds the cache, from 4 GiB to 64
/// GiB: the weights of a large model take tens of gigabytes.
static uint64_t defaultCacheBytes() {
  constexpr uint64_t kLeast = uint64_t(4) << 30, kMost = uint64_t(64) << 30;
  // The folder may not exist yet.
  for (std::filesystem::path folder = detail::cacheFolder(); !folder.empty();
       folder = folder.parent_path()) {
    std::error_code error;
    std::filesystem::space_info space = std::filesystem::space(folder, error);
    if (!error)
      return std::clamp(uint64_t(space.capacity) / 10, kLeast, kMost);
    if (folder == folder.parent_path())
      break;
  }
  return kLeast;
}

uint64_t detail::cacheBytes() {
  std::string text = variable("MPC_CACHE_SIZE");
  unsigned shift = 0;
  if (size_t unit = std::string("KMGT").find(text.empty() ? 0 : text.back());
      unit != std::string::npos) {
    shift = 10 * (unsigned(unit) + 1);
    text.pop_back();
  }
  uint64_t number = 0;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc() || stop != end ||
      number > uint64_t(INT64_MAX) >> shift)
    return defaultCacheBytes();
  return number << shift;
}

std::vector<std::string> detail::cudaFolders() {
  std::vector<std::string> folders;
  for (const char *name : {"MPC_CUDA_DIR", "CUDA_HOME", "CUDA_PATH"})
    if (std::string folder = variable(name); !folder.empty())
      folders.push_back(folder);
  return folders;
}

std::vector<std::string> detail::programFolders() {
  std::vector<std::string> folders;
  std::istringstream path(variable("PATH"));
  for (std::string folder; std::getline(path, folder, ':');)
    if (!folder.empty())
      folders.push_back(folder);
  return folders;
}

/// Returns the variable's value as a number; 0 if it is none.
static int number(const char *name) {
  std::string text = variable(name);
  int value = 0;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? value : 0;
}

int detail::launchedRanks() {
  for (const char *name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (int ranks = number(name); ranks > 0)
      return ranks;
  // Slurm sets task counts in batch scripts too, which are not ranks.
  if (variable("PMIX_RANK").empty() && variable("PMI_RANK").empty())
    return 0;
  for (const char *name : {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"})
    if (int ranks = number(name); ranks > 0)
      return ranks;
  return 0;
}

std::vector<std::string> detail::mpiLibraries() {
  // libmpich.so.12 is Debian's name of the usual libmpi.so.12.
  std::vector<std::string> names = {"libmpi.so.40", "libmpi.so.12",
                                    "libmpich.so.12", "libmpi.so"};
  bool isOpenMpi = number("OMPI_COMM_WORLD_SIZE") > 0;
  if (!isOpenMpi && number("PMI_SIZE") > 0)
    std::rotate(names.begin(), names.begin() + 1, names.begin() + 3);
  return names;
}

std::vector<std::string>
detail::cudaPackageFolders(const std::string &sitePackages) {
  namespace fs = std::filesystem;
  std::vector<std::string> folders;
  std::error_code error;
  for (fs::directory_iterator at(sitePackages + "/nvidia", error), end;
       !error && at != end; at.increment(error))
    if (fs::path folder = at->path() / "lib"; fs::is_directory(folder, error))
      folders.push_back(folder.string());
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::vector<std::string>
detail::cudaLibraryPaths(const std::vector<std::string> &names) {
  std::vector<std::string> paths;
  auto addFolder = [&](const std::string &root) {
    for (const char *folder : {"/lib64/", "/lib/"})
      for (const std::string &name : names)
        paths.push_back(root + folder + name);
  };
  for (const std::string &root : cudaFolders())
    addFolder(root);
  paths.insert(paths.end(), names.begin(), names.end());
  addFolder("/usr/local/cuda");
  // This library is in site-packages/mpc.
  const std::filesystem::path own =
      fileOfCode(reinterpret_cast<const void *>(&cudaPackageFolders));
  for (const std::string &folder :
       cudaPackageFolders(own.parent_path().parent_path().string()))
    for (const std::string &name : names)
      paths.push_back(folder + "/" + name);
  return paths;
}
