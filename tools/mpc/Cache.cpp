//===- Cache.cpp - mpc cache ----------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RunCommands.h"

#include "Runtime/Environment.h"

#include <filesystem>

using namespace mpc;
using namespace mpc::tool;
namespace fs = std::filesystem;

/// Folders of the cache. Schedules of tune-kernels and measured networks are
/// not among them: clearing keeps what took long to measure.
static constexpr std::pair<const char *, const char *> kFolders[] = {
    {"compiles", "compiled programs"},
    {"weights", "their weights"},
    {"kernels", "machine code for GPUs"},
    {"host-kernels", "GPU kernels compiled for the CPU"},
    {"gemm", "algorithms of the GEMM library"}};

/// Lists the regular files of a folder; none if it is a link, which could lead
/// elsewhere.
static std::vector<fs::path> filesOf(const fs::path &folder) {
  std::vector<fs::path> files;
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(folder, error)))
    return files;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    if (fs::is_regular_file(at->symlink_status(error)))
      files.push_back(at->path());
  return files;
}

int tool::cacheCommand(const CacheArguments &arguments) {
  Reporter reporter(arguments.common.json, arguments.common.quiet);
  const std::string root = detail::cacheFolder();
  const bool clears = arguments.clears && !root.empty();
  reporter.line(root.empty() ? "the cache is disabled: MPC_CACHE_DIR is empty, "
                               "or neither it, XDG_CACHE_HOME nor HOME is set"
                             : root);
  uint64_t all = 0;
  Json parts = Json::array();
  for (auto [name, what] : kFolders) {
    uint64_t bytes = 0;
    std::vector<fs::path> files;
    if (!root.empty())
      files = filesOf(fs::path(root) / name);
    for (const fs::path &file : files) {
      std::error_code error;
      uint64_t size = fs::file_size(file, error);
      bytes += error ? 0 : size;
      if (clears && !fs::remove(file, error) && error)
        return reporter.fail(Status(StatusCode::Unavailable, file.string(),
                                    "cannot be deleted: " + error.message()));
    }
    all += bytes;
    parts.push_back(
        {{"name", name}, {"files", files.size()}, {"bytes", bytes}});
    if (!files.empty())
      reporter.line("  " + std::string(what) + ": " +
                    std::to_string(files.size()) + " files, " +
                    shortBytes(double(bytes)));
  }
  if (!root.empty())
    reporter.line(clears ? shortBytes(double(all)) + " deleted"
                         : shortBytes(double(all)) + " of at most " +
                               shortBytes(double(detail::cacheBytes())) +
                               " (MPC_CACHE_SIZE)");
  reporter.document({{"folder", root},
                     {"bytes", all},
                     {"limit_bytes", detail::cacheBytes()},
                     {"parts", parts},
                     {"cleared", clears}});
  return reporter.finish(kDone);
}
