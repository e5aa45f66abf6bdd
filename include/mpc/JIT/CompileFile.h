//===- CompileFile.h - ahead-of-time compilation to .mpcx files -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles a model to an .mpcx file, which Runtime/ExecutableFile.h loads.
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

/// One compiled specialization: the program for one set of shapes.
struct CompiledSpecialisation {
  /// Symbolic dimensions that the options bound, by name.
  std::map<std::string, int64_t> dims;
  /// One entry per distinct target, in the order given.
  std::vector<StoredTarget> targets;
};

/// Contents of a written file.
struct CompiledFile {
  /// Compiled specializations, at least one.
  std::vector<CompiledSpecialisation> specialisations;
  /// Size of the file, in bytes.
  int64_t fileBytes = 0;
};

/// Compiles `model` (as Engine::compile does) for each of `targets`
/// ("cpu:avx2", "cpu:avx512", "cpu:native", "cuda:sm_80", "cuda:sm_90a") and
/// each set of `options.specialisations` into the file `output`.
/// Cross-compiles: a target need not be this machine's; "cpu:native" is the
/// best level that this machine has. Deterministic: equal input gives equal
/// bytes. The file is replaced atomically by a rename. `options.target` is
/// ignored. CPU targets need the ld.lld program, GPU targets need NVRTC but no
/// GPU.
Result<CompiledFile> compileToFile(const ModelSource &model,
                                   const std::string &output,
                                   const std::vector<std::string> &targets,
                                   const CompileOptions &options = {});

} // namespace mpc

#endif // MPC_JIT_COMPILEFILE_H
