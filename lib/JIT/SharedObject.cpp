//===- SharedObject.cpp - linking kernels into a shared object ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Backend.h"

#include "mpc/Support/ScopedTempFolder.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <dlfcn.h>

using namespace mlir;
using namespace mpc;

/// Returns the folder of the library or program that contains this code.
static std::string ownFolder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void *>(&ownFolder), &info) || !info.dli_fname)
    return "";
  return llvm::sys::path::parent_path(info.dli_fname).str();
}

/// Finds the linker: in LLVM's folder, then next to this library, then in PATH.
static Result<std::string> findLinker() {
  for (auto [name, folder] :
       {std::pair<const char *, std::string>("ld.lld", MPC_LLVM_TOOLS_DIR),
        {"ld.lld", ownFolder()},
        {"ld.lld-22", ""},
        {"ld.lld", ""}}) {
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
  std::vector<std::string> words = {*linker,       "-shared",
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
