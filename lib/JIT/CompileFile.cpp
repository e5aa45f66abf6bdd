//===- CompileFile.cpp - compiling models into files ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/JIT/CompileFile.h"

#include "CompileCache.h"
#include "Compiler.h"

#include "Runtime/Container/Container.h"

#include "mpc/Analysis/IndexBounds.h"
#include "mpc/Dialect/Mpc/IR/MpcOps.h"
#include "mpc/Reference/Compare.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace mlir;
using namespace mpc;

/// Notes how the graph after Precision rounds.
static void describeRounding(func::FuncOp entry,
                             container::Contents &contents) {
  llvm::DenseMap<Value, int64_t> depth;
  entry.walk([&](Operation *op) {
    int64_t longest = 0;
    for (Value operand : op->getOperands())
      longest = std::max(longest, depth.lookup(operand));
    for (Value result : op->getResults()) {
      auto type = dyn_cast<RankedTensorType>(result.getType());
      if (!type)
        continue;
      depth[result] = isa<ConstantOp>(op) ? 0 : longest + 1;
      mpc::TensorType stored = runtimeType(type);
      if (isFloat(stored.element) &&
          elementBytes(stored.element) <= elementBytes(contents.narrowest)) {
        // Of two types of one size the one with fewer digits counts.
        bool coarser =
            stored.element == ElementType::BF16 ||
            elementBytes(stored.element) < elementBytes(contents.narrowest);
        if (coarser)
          contents.narrowest = stored.element;
      }
    }
    contents.longestChain = std::max(contents.longestChain, longest);
  });
}

/// The arguments or results of the planned program as the file has them.
static std::vector<StoredValue>
storedValues(const std::vector<ProgramValue> &values,
             llvm::ArrayRef<int64_t> bounds) {
  std::vector<StoredValue> stored;
  for (auto [i, value] : llvm::enumerate(values))
    stored.push_back({value.name, value.type, value.role,
                      i < bounds.size() ? bounds[i] : 0, value.field,
                      value.alias, value.initial, value.labels});
  return stored;
}

namespace {

/// The steps of one compile into a file.
class FileCompiler {
public:
  FileCompiler(const std::string &model, const CompileOptions &options,
               bool manyTargets)
      : model(model), options(options), dumpDir(options.dumpDir),
        manyTargets(manyTargets) {
    contents.model = llvm::sys::path::filename(model).str();
    contents.policy = llvm::sys::path::filename(options.policy).str();
    contents.compiler = "mpc " MPC_VERSION ", LLVM " LLVM_VERSION_STRING;
  }

  Status add(const TargetInfo &target);
  Result<std::vector<std::byte>> encode();

private:
  const std::string &model;
  CompileOptions options;
  const std::string dumpDir;
  /// Whether every target dumps into a folder of its own.
  bool manyTargets;
  container::Contents contents;
  /// What the contents' spans refer to.
  std::vector<std::vector<std::byte>> code;
};

} // namespace

Status FileCompiler::add(const TargetInfo &target) {
  options.target = target.name();
  if (manyTargets && !dumpDir.empty())
    options.dumpDir = dumpDir + "/" + target.member().str();
  Result<std::unique_ptr<Compiler>> compiler = Compiler::create(options);
  if (!compiler.ok())
    return compiler.status();
  Result<Compiler::Module> module = (*compiler)->import(model);
  if (!module.ok())
    return module.status();
  llvm::SmallVector<int64_t> bounds;
  auto describeSums = [&] {
    func::FuncOp entry = Compiler::entry(**module);
    for (BlockArgument argument : entry.getArguments())
      bounds.push_back(indexBound(argument).value_or(0));
    contents.longestReduction =
        std::max(contents.longestReduction, reference::longestReduction(entry));
  };
  if (!options.training)
    describeSums();
  if (Status status = (*compiler)->runStages(**module, "import", "precision");
      !status.ok())
    return status;
  // Labels and gradients are not in the model.
  if (options.training)
    describeSums();
  describeRounding(Compiler::entry(**module), contents);
  if (Status status = (*compiler)->runStages(**module, "precision", "plan");
      !status.ok())
    return status;
  Result<std::shared_ptr<Program>> program =
      (*compiler)->generate(**module, /*withCode=*/false);
  if (!program.ok())
    return program.status();
  Result<std::vector<std::byte>> object =
      (*compiler)->generateFile(**module, **program);
  if (!object.ok())
    return object.status();

  contents.name = (*program)->name;
  contents.arguments = storedValues((*program)->arguments, bounds);
  contents.results = storedValues((*program)->results, {});
  (*program)->target = target.name();
  code.push_back(std::move(*object));
  contents.programs.push_back({std::move(**program), {}});
  return {};
}

Result<std::vector<std::byte>> FileCompiler::encode() {
  for (auto [stored, object] : llvm::zip(contents.programs, code))
    stored.code = object;
  return container::encode(contents);
}

/// Writes a file whole or not at all.
static Result<CompiledFile> writeFile(llvm::ArrayRef<std::byte> bytes,
                                      const std::string &output) {
  // What is written is what would be read.
  Result<ExecutableFile> file = ExecutableFile::fromBytes(bytes, output);
  if (!file.ok())
    return Status(StatusCode::Internal, output,
                  "was made in a form that does not load: " +
                      file.status().toString());

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
  compiled.targets.assign(file->targets().begin(), file->targets().end());
  compiled.fileBytes = int64_t(bytes.size());
  return compiled;
}

Result<CompiledFile> mpc::compileToFile(const std::string &model,
                                        const std::string &output,
                                        const std::vector<std::string> &targets,
                                        const CompileOptions &options) {
  std::vector<TargetInfo> infos;
  for (const std::string &target : targets) {
    if (target.empty())
      return Status(StatusCode::InvalidArgument, "target ''",
                    TargetInfo::describeUnknown(target));
    Result<TargetInfo> info = resolveTarget(target);
    if (!info.ok())
      return info.status();
    if (!llvm::is_contained(infos, *info))
      infos.push_back(*info);
  }
  if (infos.empty())
    return Status(StatusCode::InvalidArgument, output, "no target was given");
  CompileCache cache(model, infos, options);
  if (std::optional<KeptCompile> kept = cache.find()) {
    if (options.onDiagnostic)
      for (const Diagnostic &message : kept->messages)
        options.onDiagnostic(message);
    return writeFile(kept->file, output);
  }
  KeptCompile made;
  CompileOptions choices = options;
  choices.onDiagnostic = [&](const Diagnostic &message) {
    made.messages.push_back(message);
    if (options.onDiagnostic)
      options.onDiagnostic(message);
  };
  FileCompiler compiler(model, choices, /*manyTargets=*/infos.size() > 1);
  for (const TargetInfo &info : infos)
    if (Status status = compiler.add(info); !status.ok())
      return status;
  Result<std::vector<std::byte>> bytes = compiler.encode();
  if (!bytes.ok())
    return bytes.status();
  made.file = std::move(*bytes);
  Result<CompiledFile> written = writeFile(made.file, output);
  if (written.ok())
    cache.store(made);
  return written;
}
