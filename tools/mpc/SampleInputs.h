//===- SampleInputs.h - a model with sample inputs --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_SAMPLEINPUTS_H
#define MPC_TOOLS_MPC_SAMPLEINPUTS_H

#include "Commands.h"
#include "NamedArrays.h"

#include "JIT/Compiler.h"
#include "JIT/OpTrace.h"

#include "mpc/Reference/Interpreter.h"

#include <memory>
#include <string>
#include <vector>

namespace mpc::tool {

/// One set of inputs.
struct Sample {
  /// File of origin, with an index if stacked: "a.npz[3]".
  std::string name;
  std::vector<Buffer> buffers;
  std::vector<reference::Tensor> tensors;
};

/// Returns the tensors of a function's arguments.
std::vector<reference::Tensor> tensorsOf(mlir::func::FuncOp function,
                                         const std::vector<Buffer> &buffers);

/// Interprets the entry function of a module of `compiler` on `inputs`.
Result<std::vector<reference::Tensor>>
interpretGraph(Compiler &compiler, mlir::ModuleOp module,
               const std::vector<Buffer> &inputs, reference::Rounding rounding,
               OpObserver observer = {});

/// Fails if `output` cannot be written, or would overwrite the model, a sample
/// of `files`, or `text`, which replaces samples unless it is empty.
Status checkOutput(const std::string &output, const std::string &model,
                   const SampleFiles &files, const std::string &text = {});

/// The arrays of one sample, and the name of its origin.
struct SampleArrays {
  std::string name;
  std::vector<NamedArray> arrays;
};

/// A model after stage simplify, or a training step's part after stage
/// differentiate, with its compiler and samples.
class SampledModel {
public:
  /// Imports the model for the shapes of the first sample. Fails, with one
  /// error per sample, if there is none or one does not fit.
  std::vector<Status> load(const CommonOptions &common,
                           const SampleFiles &files,
                           const CompileOptions &options);
  /// The same for samples in memory.
  std::vector<Status> load(const CommonOptions &common,
                           const std::vector<SampleArrays> &samples,
                           const CompileOptions &options);
  /// Imports the model for the shapes in `options`, without samples.
  Status import(const CommonOptions &common, const CompileOptions &options);

  Compiler &compiler() const { return *owned; }
  mlir::ModuleOp module() const { return *graph; }
  mlir::func::FuncOp entry() const { return Compiler::entry(*graph); }
  const std::vector<Sample> &samples() const { return bound; }
  const CompileOptions &options() const { return compile; }

  /// For a training step: sets the initial cotangent to `scale`, a power of
  /// two, instead of 1, here and in compiles.
  void setLossScale(double scale);

  /// Interprets the model's graph in float64 on one sample.
  Result<std::vector<reference::Tensor>>
  interpret(const Sample &sample, OpObserver observer = {}) const;

private:
  std::vector<Status> add(const SampleArrays &sample,
                          const CommonOptions &common);

  CompileOptions compile;
  std::unique_ptr<Compiler> owned;
  Compiler::Module graph;
  std::vector<Sample> bound;
};

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_SAMPLEINPUTS_H
