//===- Samples.h - a model and data to look at it with ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_SAMPLES_H
#define MPC_TOOLS_MPC_SAMPLES_H

#include "Arrays.h"
#include "Commands.h"

#include "JIT/Compiler.h"
#include "JIT/OpTrace.h"

#include "mpc/Reference/Interpreter.h"

#include <memory>
#include <string>
#include <vector>

namespace mpc::tool {

/// What a model is given once.
struct Sample {
  /// The file it came from, and its number there where it holds many:
  /// "a.npz[3]".
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

/// Fails where `output` cannot be written, or is the model or a sample of
/// `files`, which it would replace.
Status checkOutput(const std::string &output, const std::string &model,
                   const SampleFiles &files);

/// A model behind stage simplify, or a training step's part behind stage
/// differentiate, in a compiler of its own, and samples of its inputs.
class SampledModel {
public:
  /// Imports the model for the shapes of the first sample. Fails where there is
  /// no sample or one does not fit the model, a problem each.
  std::vector<Status> load(const CommonOptions &common,
                           const SampleFiles &files,
                           const CompileOptions &options);

  Compiler &compiler() const { return *owned; }
  mlir::ModuleOp module() const { return *graph; }
  mlir::func::FuncOp entry() const { return Compiler::entry(*graph); }
  const std::vector<Sample> &samples() const { return given; }
  const CompileOptions &options() const { return compile; }

  /// Of a training step: gradients begin with `scale`, a power of two, instead
  /// of 1, here and in what is compiled.
  void setLossScale(double scale);

  /// The model's graph in float64 on one sample.
  Result<std::vector<reference::Tensor>>
  interpret(const Sample &sample, OpObserver observer = {}) const;

private:
  std::vector<Status> add(const std::string &name,
                          const std::vector<NamedArray> &arrays,
                          const CommonOptions &common);

  CompileOptions compile;
  std::unique_ptr<Compiler> owned;
  Compiler::Module graph;
  std::vector<Sample> given;
};

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_SAMPLES_H
