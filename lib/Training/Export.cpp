//===- Export.cpp - ONNX export of trained models -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TensorFile.h"
#include "TrainerImpl.h"

#include "mpc/Import/OnnxWeights.h"
#include "mpc/Support/Files.h"

#include <filesystem>

using namespace mpc;

Result<std::string> Trainer::encodeOnnx(const std::string &path) const {
  const std::string &name = impl->model.name();
  if (!std::string_view(name).ends_with(".onnx"))
    return Status(StatusCode::InvalidArgument, path,
                  "cannot be made from " + name +
                      ": only a model that came as .onnx is exported as one");
  Result<std::vector<NamedTensor>> trained = weights();
  // Reading sharded weights is collective, so all ranks get here.
  if (!trained.ok() || impl->ranks.rank() != 0)
    return trained.ok() ? Result<std::string>(std::string()) : trained.status();
  std::vector<OnnxWeight> values;
  for (const auto &[tensorName, data] : *trained) {
    OnnxWeight weight{tensorName, data.type().shape, data.as<float>()};
    if (data.type().element == ElementType::F64)
      weight.values = data.as<double>();
    values.push_back(std::move(weight));
  }
  Result<SourceBytes> bytes = impl->model.read();
  if (!bytes.ok())
    return bytes.status();
  std::string folder = std::filesystem::path(path).parent_path().string();
  auto made = replaceOnnxWeights(name, bytes->bytes, values, folder);
  if (const auto *failure = std::get_if<OnnxWeightsFailure>(&made))
    return Status(StatusCode::InvalidArgument, failure->where, failure->text);
  return std::move(std::get<std::string>(made));
}

Status Trainer::checkExport(const std::string &path) const {
  Result<std::string> bytes = encodeOnnx(path);
  return bytes.ok() ? Status() : bytes.status();
}

Status Trainer::exportOnnx(const std::string &path) const {
  Result<std::string> bytes = encodeOnnx(path);
  if (!bytes.ok() || impl->ranks.rank() != 0)
    return bytes.status();
  return writeWholeFile(path, {*bytes});
}
