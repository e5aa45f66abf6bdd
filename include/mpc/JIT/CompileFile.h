//===- CompileFile.h - compiling models into files --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Model in, .mpcx file out. Runtime/ExecutableFile.h reads what this writes.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_JIT_COMPILEFILE_H
#define MPC_JIT_COMPILEFILE_H

#include "mpc/JIT/ModelSource.h"
#include "mpc/JIT/Options.h"
#include "mpc/Runtime/ExecutableFile.h"

#include <map>
#include <string>
#include <vector>

namespace mpc {

/// What was written for one set of shapes.
struct CompiledSpecialisation {
  /// The symbolic dimensions that the options bound by name.
  std::map<std::string, int64_t> dims;
  /// One entry per distinct target, in the order given.
  std::vector<StoredTarget> targets;
};

/// What was written.
struct CompiledFile {
  /// At least one.
  std::vector<CompiledSpecialisation> specialisations;
  /// Bytes of the file.
  int64_t fileBytes = 0;
};

/// Compiles the model `model` (as Engine::compile does) for every one of
/// `targets` ("cpu:avx2", "cpu:avx512", "cpu:native", "cuda:sm_80",
/// "cuda:sm_90a"), and for each set of `options.specialisations`, into the file
/// `output`. A target need not be this machine's;
/// "cpu:native" stands for the best level that this machine has. Equal input
/// gives equal bytes. The file appears whole, by a rename, or not at all.
/// `options.target` is not read. A target for CPUs
/// needs LLVM's linker, ld.lld, which it starts as a process; one for GPUs
/// needs NVRTC, no GPU.
Result<CompiledFile> compileToFile(const ModelSource &model,
                                   const std::string &output,
                                   const std::vector<std::string> &targets,
                                   const CompileOptions &options = {});

} // namespace mpc

#endif // MPC_JIT_COMPILEFILE_H
