//===- HostCompiler.cpp - search for a host compiler ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostCompiler.h"

#include "mpc/Target/CUDA/Host/HostKernel.h"

#include "Runtime/Environment.h"
#include "mpc/Support/ScopedTempFolder.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <tuple>
#include <unistd.h>

using namespace mpc;
using namespace mpc::host;
namespace fs = std::filesystem;

/// Returns the content of a file.
static std::string contentOf(int file) {
  std::string text;
  char part[4096];
  for (off_t at = 0;;) {
    ssize_t got = ::pread(file, part, sizeof(part), at);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return text;
    text.append(part, size_t(got));
    at += got;
  }
}

int host::runProgram(const std::vector<std::string> &words,
                     std::string *output) {
  std::vector<char *> arguments;
  for (const std::string &word : words)
    arguments.push_back(const_cast<char *>(word.c_str()));
  arguments.push_back(nullptr);
  // Anonymous file, inaccessible to other processes.
  int said = output ? memfd_create("mpc-output", MFD_CLOEXEC) : -1;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
                                   O_RDONLY, 0);
  if (said >= 0)
    posix_spawn_file_actions_adddup2(&actions, said, STDOUT_FILENO);
  else
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null",
                                     O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t process;
  int failed = posix_spawnp(&process, arguments[0], &actions, nullptr,
                            arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = -1;
  bool ended =
      !failed && waitpid(process, &status, 0) == process && WIFEXITED(status);
  if (said >= 0) {
    *output = contentOf(said);
    ::close(said);
  }
  return ended ? WEXITSTATUS(status) : -1;
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

namespace {

/// A program with a compiler's name, ordered by preference.
struct Named {
  int kind = 0, version = 0;
  size_t folder = 0;
  std::string path;

  auto key() const { return std::tuple(kind, version, folder); }
};

} // namespace

/// Returns the version suffix of `name` after `family`, 0 if there is none, -1
/// for another program ("clang++-cl").
static int versionOf(const std::string &name, const std::string &family) {
  if (name == family)
    return 0;
  if (name.rfind(family + "-", 0) != 0)
    return -1;
  std::string number = name.substr(family.size() + 1);
  bool digits = !number.empty() && number.size() < 5 &&
                number.find_first_not_of("0123456789") == std::string::npos;
  return digits ? std::atoi(number.c_str()) : -1;
}

std::vector<std::string>
host::listCompilers(const std::vector<std::string> &folders) {
  const char *families[] = {"clang++", "g++", "c++"};
  std::vector<Named> found;
  for (size_t folder = 0; folder < folders.size(); ++folder) {
    std::error_code failed;
    fs::directory_iterator entries(folders[folder], failed);
    for (; !failed && entries != fs::directory_iterator();
         entries.increment(failed)) {
      std::string name = entries->path().filename().string();
      for (int kind = 0; kind < 3; ++kind)
        if (int version = versionOf(name, families[kind]);
            version >= 0 && access(entries->path().c_str(), X_OK) == 0)
          // Plain names first, then the newest version.
          found.push_back({kind, version ? 10000 - version : 0, folder,
                           entries->path().string()});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Named &a, const Named &b) { return a.key() < b.key(); });
  std::vector<std::string> paths;
  for (Named &named : found)
    paths.push_back(std::move(named.path));
  return paths;
}

/// Returns true if `compiler` compiles the host prelude.
static bool takesPrelude(const std::string &compiler, const std::string &text) {
  return runProgram({compiler, "-x", "c++", "-std=c++20", "-w", "-fsyntax-only",
                     text}) == 0;
}

static std::string findCompiler() {
  const std::string preferred = "clang++-22";
  std::vector<std::string> folders = detail::programFolders();
  for (const std::string &folder : folders)
    if (access((folder + "/" + preferred).c_str(), X_OK) == 0)
      return preferred;
  ScopedTempFolder folder("mpc-prelude");
  std::string text = folder.path("prelude.cpp");
  if (!folder.ok())
    return "";
  std::ofstream(text, std::ios::binary) << preludeText(PreludeSide::Host);
  for (const std::string &compiler : listCompilers(folders))
    if (takesPrelude(compiler, text))
      return compiler;
  return "";
}

const std::string &host::hostCompiler() {
  static const std::string found = findCompiler();
  return found;
}
