//===- Samples.cpp - a model and data to look at it with ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Samples.h"

#include "Inputs.h"

#include <algorithm>
#include <filesystem>

using namespace mpc;
using namespace mpc::tool;
using mpc::reference::Tensor;
namespace fs = std::filesystem;

/// The files of samples that `inputs` name, a folder's by name.
static Result<std::vector<std::string>>
sampleFiles(const std::vector<std::string> &inputs) {
  std::vector<std::string> files;
  for (const std::string &input : inputs) {
    std::error_code error;
    if (!fs::is_directory(input, error)) {
      if (fs::path(input).extension() != ".npz")
        return Status(StatusCode::InvalidArgument, input,
                      "is no sample; give .npz files, or a folder of them");
      files.push_back(input);
      continue;
    }
    size_t first = files.size();
    for (fs::directory_iterator at(input, error), end; !error && at != end;
         at.increment(error))
      if (at->path().extension() == ".npz")
        files.push_back(at->path().string());
    if (error)
      return Status(StatusCode::InvalidArgument, input,
                    "cannot be read: " + error.message());
    if (files.size() == first)
      return Status(StatusCode::InvalidArgument, input, "holds no .npz file");
    std::sort(files.begin() + first, files.end());
  }
  if (files.empty())
    return Status(StatusCode::InvalidArgument, "--inputs",
                  "names no sample; give .npz files, or a folder of them");
  return files;
}

std::vector<Status> SampledModel::load(const CommonOptions &common,
                                       const std::vector<std::string> &inputs,
                                       const CompileOptions &options) {
  Result<std::vector<std::string>> files = sampleFiles(inputs);
  if (!files.ok())
    return {files.status()};
  compile = options;
  std::vector<Status> problems;
  for (const std::string &file : *files) {
    Result<std::vector<NamedArray>> arrays =
        loadArrays({file}, common.maxMemory);
    if (!arrays.ok()) {
      problems.push_back(arrays.status());
      continue;
    }
    if (!owned) {
      offerInputs(*arrays, compile);
      Result<std::unique_ptr<Compiler>> made = Compiler::create(compile);
      if (!made.ok())
        return {made.status()};
      owned = std::move(*made);
      Result<Compiler::Module> imported = owned->import(common.model);
      if (!imported.ok())
        return {imported.status()};
      graph = std::move(*imported);
      if (Status status = owned->runStages(*graph, "import", "simplify");
          !status.ok())
        return {status};
    }
    Sample sample{file, {}, {}};
    std::vector<Status> wrong =
        bindArrays(*arrays, argumentsOf(entry()), "arg", sample.buffers);
    for (const Status &status : wrong)
      problems.emplace_back(status.code(), status.where(),
                            status.text() + " (sample " + file + ")");
    if (!wrong.empty())
      continue;
    sample.tensors = tensorsOf(entry(), sample.buffers);
    given.push_back(std::move(sample));
  }
  return problems;
}

Result<std::vector<Tensor>> SampledModel::interpret(const Sample &sample,
                                                    OpObserver observer) const {
  return interpretGraph(*owned, *graph, sample.buffers,
                        reference::Rounding::Float64, std::move(observer));
}

std::vector<Tensor> tool::tensorsOf(mlir::func::FuncOp function,
                                    const std::vector<Buffer> &buffers) {
  std::vector<Tensor> tensors;
  for (auto [argument, buffer] :
       llvm::zip_equal(function.getArguments(), buffers))
    tensors.push_back(Tensor::fromBytes(
        mlir::cast<mlir::RankedTensorType>(argument.getType()), buffer.data()));
  return tensors;
}

Result<std::vector<Tensor>>
tool::interpretGraph(Compiler &compiler, mlir::ModuleOp module,
                     const std::vector<Buffer> &inputs,
                     reference::Rounding rounding, OpObserver observer) {
  size_t before = compiler.diagnostics().size();
  mlir::func::FuncOp entry = Compiler::entry(module);
  reference::InterpretOptions options;
  options.rounding = rounding;
  options.observer = std::move(observer);
  mlir::FailureOr<llvm::SmallVector<Tensor>> values =
      reference::interpret(entry, tensorsOf(entry, inputs), options);
  if (mlir::failed(values))
    return compiler.failure(before);
  return std::vector<Tensor>(std::make_move_iterator(values->begin()),
                             std::make_move_iterator(values->end()));
}
