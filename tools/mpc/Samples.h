//===- Samples.h - a model and data to look at it with ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_SAMPLES_H
#define MPC_TOOLS_MPC_SAMPLES_H

#include "Arrays.h"
#include "Options.h"

#include "JIT/Compiler.h"
#include "JIT/OpTrace.h"

#include "mpc/Reference/Interpreter.h"

#include <memory>
#include <string>
#include <vector>

namespace mpc::tool {

/// What a model is given once.
struct Sample {
  /// The file it came from.
  std::string name;
  std::vector<Buffer> buffers;
  std::vector<reference::Tensor> tensors;
};

/// The tensors of a function's arguments.
std::vector<reference::Tensor> tensorsOf(mlir::func::FuncOp function,
                                         const std::vector<Buffer> &buffers);

/// The entry function of a module of `compiler` on `inputs`.
Result<std::vector<reference::Tensor>>
interpretGraph(Compiler &compiler, mlir::ModuleOp module,
               const std::vector<Buffer> &inputs, reference::Rounding rounding,
               OpObserver observer = {});

/// A model behind stage simplify, in a compiler of its own, and samples of its
/// inputs.
class SampledModel {
public:
  /// Imports the model for the shapes of the first sample. `inputs` are .npz
  /// files, each of which is a sample, and folders, whose .npz files are.
  /// Fails where there is no sample or one does not fit the model, a problem
  /// each.
  std::vector<Status> load(const CommonOptions &common,
                           const std::vector<std::string> &inputs,
                           const CompileOptions &options);

  Compiler &compiler() const { return *owned; }
  mlir::ModuleOp module() const { return *graph; }
  mlir::func::FuncOp entry() const { return Compiler::entry(*graph); }
  const std::vector<Sample> &samples() const { return given; }
  const CompileOptions &options() const { return compile; }

  /// The model's graph in float64 on one sample.
  Result<std::vector<reference::Tensor>>
  interpret(const Sample &sample, OpObserver observer = {}) const;

private:
  CompileOptions compile;
  std::unique_ptr<Compiler> owned;
  Compiler::Module graph;
  std::vector<Sample> given;
};

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_SAMPLES_H
