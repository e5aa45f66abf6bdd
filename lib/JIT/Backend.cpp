//===- Backend.cpp - code generation for planned kernels ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Backend.h"

#include "mpc/Support/Files.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"

using namespace mpc;

/// Registered back ends by target family; a new folder of lib/Target needs an
/// entry.
static llvm::StringMap<Backend::Create> &backends() {
  static llvm::StringMap<Backend::Create> all = {{"cpu", createCpuBackend},
                                                 {"cuda", createCudaBackend}};
  return all;
}

void Backend::add(llvm::StringRef family, Create create) {
  backends()[family] = create;
}

mlir::LogicalResult Backend::dump(mlir::ModuleOp kernels,
                                  llvm::StringRef name) const {
  if (options.dumpDir.empty())
    return mlir::success();
  std::string text;
  llvm::raw_string_ostream(text) << *kernels << "\n";
  std::string path = options.dumpDir + "/kernels." + name.str() + ".mlir";
  if (Status status = writeWholeFile(path, {text}); !status.ok())
    return kernels.emitError() << status.toString();
  return mlir::success();
}

/// Returns the targets of a family that have code generation: "cpu:avx2,
/// cpu:avx512".
static std::string generatedTargets(const TargetInfo &target) {
  llvm::SmallVector<llvm::StringRef> generated;
  for (llvm::StringRef name : TargetInfo::names())
    if (TargetInfo other = *TargetInfo::parse(name);
        other.family() == target.family() && other.facts().isGenerated)
      generated.push_back(name);
  // GPU architectures are too many to list.
  if (target.isGpu() && !generated.empty())
    return generated.front().str() + " and later";
  return llvm::join(generated, ", ");
}

Result<std::unique_ptr<Backend>> Backend::create(const TargetInfo &target,
                                                 BackendOptions options) {
  if (Create create = backends().lookup(target.family());
      create && target.facts().isGenerated)
    return create(target, std::move(options));
  return Status(
      StatusCode::Unavailable, "target '" + target.name() + "'",
      "has no code generation; supported targets are " +
          generatedTargets(target) +
          "; only explain, lint and dump up to stage plan are available");
}
