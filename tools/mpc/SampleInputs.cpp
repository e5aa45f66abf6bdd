//===- SampleInputs.cpp - a model with sample inputs ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SampleInputs.h"

#include "Inputs.h"

#include "mpc/Analysis/BackwardOps.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"

#include "mpc/Support/Files.h"

#include "mlir/IR/Builders.h"

#include <algorithm>
#include <filesystem>
#include <set>

using namespace mpc;
using namespace mpc::tool;
using mpc::reference::Tensor;
namespace fs = std::filesystem;

/// Lists the sample files of `inputs`, those of a folder by name.
static Result<std::vector<std::string>>
sampleFiles(const std::vector<std::string> &inputs) {
  std::vector<std::string> files;
  for (const std::string &input : inputs) {
    std::error_code error;
    if (!fs::is_directory(input, error)) {
      if (fs::path(input).extension() != ".npz")
        return Status(StatusCode::InvalidArgument, input,
                      "is not a sample; give .npz files, or a folder of them");
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
  std::set<fs::path> known;
  for (const std::string &file : files) {
    std::error_code error;
    if (!known.insert(fs::weakly_canonical(file, error)).second)
      return Status(StatusCode::InvalidArgument, file,
                    "is given twice; a search and its validation need "
                    "different samples");
  }
  if (files.empty())
    return Status(StatusCode::InvalidArgument, "--inputs",
                  "names no sample; give .npz files, or a folder of them");
  return files;
}

Status tool::checkOutput(const std::string &output, const std::string &model,
                         const SampleFiles &files, const std::string &text) {
  if (Status status = checkWritable(output); !status.ok())
    return status;
  Result<std::vector<std::string>> samples =
      text.empty() ? sampleFiles(files.inputs) : std::vector{text};
  if (!samples.ok())
    return samples.status();
  std::error_code error;
  if (fs::equivalent(output, model, error))
    return Status(
        StatusCode::InvalidArgument, output,
        "is the model, which would be overwritten; name another file");
  for (const std::string &sample : *samples)
    if (fs::equivalent(output, sample, error))
      return Status(
          StatusCode::InvalidArgument, output,
          (text.empty() ? "is a sample" : "is the text") +
              std::string(", which would be overwritten; name another file"));
  return {};
}

/// Splits stacked arrays along their first dimension into samples.
static Result<std::vector<std::vector<NamedArray>>>
unstack(const std::string &file, const std::vector<NamedArray> &arrays) {
  std::vector<std::vector<NamedArray>> samples;
  for (const NamedArray &array : arrays) {
    const TensorType &type = array.data.type();
    if (type.shape.empty() || type.shape.front() == 0)
      return Status(StatusCode::InvalidArgument, file,
                    "array '" + array.name +
                        "' is a scalar or empty, so it has no samples along "
                        "its first dimension; drop --stacked");
    size_t count = type.shape.front();
    if (!samples.empty() && samples.size() != count)
      return Status(StatusCode::InvalidArgument, file,
                    "array '" + array.name + "' holds " +
                        std::to_string(count) + " samples, array '" +
                        arrays.front().name + "' " +
                        std::to_string(samples.size()));
    samples.resize(count);
    TensorType part{type.element, {type.shape.begin() + 1, type.shape.end()}};
    size_t bytes = array.data.size() / count;
    const auto *data = static_cast<const std::byte *>(array.data.data());
    for (auto [number, sample] : llvm::enumerate(samples)) {
      Result<Buffer> buffer =
          Buffer::fromHost(part, {data + number * bytes, bytes});
      if (!buffer.ok())
        return buffer.status();
      sample.push_back({array.name, std::move(*buffer), array.where});
    }
  }
  return samples;
}

/// Returns the function's arguments with roles and initial values.
static std::vector<ProgramValue> valuesOf(mlir::func::FuncOp function) {
  std::vector<ProgramValue> values = argumentsOf(function);
  StepFunction step(function);
  for (auto [index, value] : llvm::enumerate(values)) {
    if (RoleAttr role = step.argumentRole(index))
      value.role = stringifyRoleKind(role.getKind()).str();
    auto initial = function.getArgAttrOfType<mlir::ElementsAttr>(
        index, MpcDialect::kInitialAttr);
    if (!initial)
      continue;
    if (mlir::FailureOr<ConstantBytes> bytes = ConstantBytes::get(initial);
        mlir::succeeded(bytes)) {
      auto kept = std::make_shared<ConstantBytes>(std::move(*bytes));
      value.initial = std::shared_ptr<const void>(kept, kept->bytes().data());
    }
  }
  return values;
}

Status SampledModel::import(const CommonOptions &common,
                            const CompileOptions &options) {
  compile = options;
  Result<std::unique_ptr<Compiler>> made = Compiler::create(compile);
  if (!made.ok())
    return made.status();
  owned = std::move(*made);
  Result<Compiler::Module> imported = owned->import(common.model);
  if (!imported.ok())
    return imported.status();
  if (Status status =
          owned->runStages(**imported, "import",
                           compile.training ? "differentiate" : "simplify");
      !status.ok())
    return status;
  graph = std::move(*imported);
  return {};
}

std::vector<Status> SampledModel::add(const SampleArrays &given,
                                      const CommonOptions &common) {
  if (!owned) {
    passInputShapes(given.arrays, compile);
    if (Status status = import(common, compile); !status.ok())
      return {status};
  }
  Sample sample{given.name, {}, {}};
  std::vector<Status> problems =
      bindArrays(given.arrays, valuesOf(entry()), "arg", sample.buffers);
  for (Status &problem : problems)
    problem = Status(problem.code(), problem.where(),
                     problem.text() + " (sample " + given.name + ")");
  if (problems.empty()) {
    sample.tensors = tensorsOf(entry(), sample.buffers);
    bound.push_back(std::move(sample));
  }
  return problems;
}

std::vector<Status> SampledModel::load(const CommonOptions &common,
                                       const std::vector<SampleArrays> &samples,
                                       const CompileOptions &options) {
  compile = options;
  for (const SampleArrays &sample : samples)
    if (std::vector<Status> problems = add(sample, common); !problems.empty())
      return problems;
  return {};
}

std::vector<Status> SampledModel::load(const CommonOptions &common,
                                       const SampleFiles &where,
                                       const CompileOptions &options) {
  Result<std::vector<std::string>> files = sampleFiles(where.inputs);
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
    std::vector<std::vector<NamedArray>> samples;
    if (where.areStacked) {
      Result<std::vector<std::vector<NamedArray>>> parts =
          unstack(file, *arrays);
      if (!parts.ok()) {
        problems.push_back(parts.status());
        continue;
      }
      samples = std::move(*parts);
    } else {
      samples.push_back(std::move(*arrays));
    }
    for (auto [number, sample] : llvm::enumerate(samples)) {
      std::string name = file;
      if (where.areStacked)
        name += "[" + std::to_string(number) + "]";
      std::vector<Status> found = add({name, std::move(sample)}, common);
      llvm::append_range(problems, found);
      // Without a graph there are no further errors.
      if (!graph)
        return problems;
      // An error in one sample of a stacked file occurs in all.
      if (!found.empty())
        break;
    }
  }
  return problems;
}

void SampledModel::setLossScale(double scale) {
  mlir::func::FuncOp function = entry();
  for (auto seed : llvm::make_early_inc_range(
           function.getBody().front().getOps<GradientSeedOp>())) {
    mlir::OpBuilder builder(seed);
    auto type = mlir::cast<mlir::RankedTensorType>(seed.getType());
    auto constant = mpc::ConstantOp::create(
        builder, seed.getLoc(), type,
        mlir::DenseElementsAttr::get(type, float(scale)));
    constant->setDiscardableAttr(kSeedAttr, builder.getUnitAttr());
    seed.getResult().replaceAllUsesWith(constant.getResult());
    seed.erase();
  }
  compile.training->lossScale = "static=" + std::to_string(int64_t(scale));
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
