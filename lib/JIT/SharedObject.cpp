//===- SharedObject.cpp - linking kernels into a shared object ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Backend.h"

#include "Runtime/LibraryFunctions.h"

#include "mpc/Support/ScopedTempFolder.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mpc;

/// Finds the linker: in LLVM's folder, then in PATH; or with MPC_STATIC_LLVM
/// the program mpc, which is the linker if called as ld.lld, next to this code
/// or in the folder bin next to it.
static Result<std::string> findLinker() {
#ifdef MPC_STATIC_LLVM
  const std::string own =
      llvm::sys::path::parent_path(
          mpc::detail::fileOfCode(reinterpret_cast<const void *>(&findLinker)))
          .str();
  const std::pair<const char *, std::string> places[] = {{"mpc", own},
                                                         {"mpc", own + "/bin"}};
#else
  const std::pair<const char *, std::string> places[] = {
      {"ld.lld", MPC_LLVM_TOOLS_DIR}, {"ld.lld-22", ""}, {"ld.lld", ""}};
#endif
  for (const auto &[name, folder] : places) {
    SmallVector<StringRef, 1> folders;
    if (!folder.empty())
      folders.push_back(folder);
    if (auto found = llvm::sys::findProgramByName(name, folders))
      return *found;
  }
  return Status(StatusCode::Unavailable, "ld.lld",
                "is needed to write executables and was not found; install "
                "lld-22");
}

bool mpc::hasLinker() { return findLinker().ok(); }

static Status ioFailure(StringRef path, const std::string &why) {
  return Status(StatusCode::NotFound, path.str(), "cannot be written: " + why);
}

static Status writeObject(StringRef path, const llvm::MemoryBuffer &object) {
  std::error_code error;
  llvm::raw_fd_ostream out(path, error);
  if (error)
    return ioFailure(path, error.message());
  out << object.getBuffer();
  out.close();
  if (!out.has_error())
    return {};
  std::string why = out.error().message();
  out.clear_error();
  return ioFailure(path, why);
}

Result<std::vector<std::byte>>
mpc::linkObjects(llvm::ArrayRef<std::unique_ptr<llvm::MemoryBuffer>> objects) {
  Result<std::string> linker = findLinker();
  if (!linker.ok())
    return linker.status();
  ScopedTempFolder folder("mpc-link");
  if (!folder.ok())
    return ioFailure("temporary folder", "none can be made");
  std::string output = folder.path("kernels.so"), log = folder.path("log");
  std::vector<std::string> words = {"ld.lld",      "-shared",
                                    "-Bsymbolic",  "--build-id=none",
                                    "--strip-all", "--hash-style=gnu",
                                    "-znow",       "-znoexecstack",
                                    "-o",          output};
  for (size_t i = 0; i < objects.size(); ++i) {
    words.push_back(folder.path(std::to_string(i) + ".o"));
    if (Status status = writeObject(words.back(), *objects[i]); !status.ok())
      return status;
  }
  SmallVector<StringRef> arguments(words.begin(), words.end());
  std::string message;
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(log),
                                          StringRef(log)};
  int code = llvm::sys::ExecuteAndWait(*linker, arguments, std::nullopt,
                                       redirects, /*SecondsToWait=*/300,
                                       /*MemoryLimit=*/0, &message);
  if (code != 0) {
    if (auto text = llvm::MemoryBuffer::getFile(log))
      message += (*text)->getBuffer().split('\n').first;
    return Status(StatusCode::Internal, *linker,
                  "failed with code " + std::to_string(code) + ": " + message);
  }
  auto linked = llvm::MemoryBuffer::getFile(output);
  if (!linked)
    return Status(StatusCode::NotFound, output,
                  "cannot be read: " + linked.getError().message());
  StringRef bytes = (*linked)->getBuffer();
  const auto *start = reinterpret_cast<const std::byte *>(bytes.data());
  return std::vector<std::byte>(start, start + bytes.size());
}
