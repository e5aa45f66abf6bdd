//===- CompileFile.cpp - ahead-of-time compilation to .mpcx files ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/JIT/CompileFile.h"

#include "CompileCache.h"
#include "FileCompiler.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace mpc;

/// Writes `bytes` atomically. `file` is the decoded form of the bytes.
static Result<CompiledFile> writeFile(const ExecutableFile &file,
                                      llvm::ArrayRef<std::byte> bytes,
                                      const std::string &output) {
  auto unwritable = [&](const std::string &why) {
    return Status(StatusCode::NotFound, output, "cannot be written: " + why);
  };
  auto message = [](llvm::Error error) {
    return llvm::errorToErrorCode(std::move(error)).message();
  };
  llvm::Expected<llvm::sys::fs::TempFile> temporary =
      llvm::sys::fs::TempFile::create(output + ".%%%%%%%%",
                                      llvm::sys::fs::all_read |
                                          llvm::sys::fs::all_write);
  if (!temporary)
    return unwritable(message(temporary.takeError()));
  llvm::raw_fd_ostream out(temporary->FD, /*shouldClose=*/false);
  out.write(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  out.flush();
  if (out.has_error()) {
    std::string why = out.error().message();
    out.clear_error();
    llvm::consumeError(temporary->discard());
    return unwritable(why);
  }
  if (llvm::Error error = temporary->keep(output))
    return unwritable(message(std::move(error)));
  CompiledFile compiled;
  for (const ExecutableFile &part : file.specialisations())
    compiled.specialisations.push_back(
        {part.dims(), {part.targets().begin(), part.targets().end()}});
  compiled.fileBytes = int64_t(bytes.size());
  return compiled;
}

Result<CompiledFile> mpc::compileToFile(const ModelSource &model,
                                        const std::string &output,
                                        const std::vector<std::string> &targets,
                                        const CompileOptions &options) {
  std::vector<TargetInfo> infos;
  for (const std::string &target : targets) {
    if (target.empty())
      return Status(StatusCode::InvalidArgument, "target ''",
                    TargetInfo::describeUnknown(target));
    CompileOptions own = options;
    own.target = target;
    Result<TargetInfo> info = resolveTarget(own);
    if (!info.ok())
      return info.status();
    if (!llvm::is_contained(infos, *info))
      infos.push_back(*info);
  }
  if (infos.empty())
    return Status(StatusCode::InvalidArgument, output, "no target was given");
  CompileCache cache(model, infos, options);
  if (std::optional<CachedCompile> kept = cache.find())
    if (Result<std::vector<std::byte>> bytes = CompileCache::complete(*kept);
        bytes.ok())
      return writeFile(kept->file, *bytes, output);
  CompileOptions choices = options;
  std::vector<Diagnostic> messages;
  choices.onDiagnostic = recordInto(messages, options.onDiagnostic);
  FileCompiler compiler(model, choices, /*manyTargets=*/infos.size() > 1,
                        cache.weights());
  std::vector<std::map<std::string, int64_t>> sets = options.specialisations;
  if (sets.empty())
    sets.emplace_back();
  for (const auto &dims : sets) {
    compiler.specialise(dims);
    for (const TargetInfo &info : infos)
      if (Status status = compiler.add(info); !status.ok())
        return status;
  }
  if (!compiler.fixedInputs().empty())
    cache.fixInputs(compiler.fixedInputs());
  Result<std::vector<std::byte>> bytes = compiler.encode();
  if (!bytes.ok())
    return bytes.status();
  // Verify that the bytes decode.
  Result<ExecutableFile> file = ExecutableFile::fromBytes(*bytes, output);
  if (!file.ok())
    return Status(StatusCode::Internal, output,
                  "was written but cannot be loaded: " +
                      file.status().toString());
  Result<CompiledFile> written = writeFile(*file, *bytes, output);
  if (written.ok() && cache.keeps())
    if (Result<std::vector<std::byte>> entry =
            compiler.encode(/*refersToWeights=*/true);
        entry.ok())
      cache.store(*entry, messages);
  return written;
}
