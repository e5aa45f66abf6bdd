//===- DecoderText.cpp - a text as samples of a decoder -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DecoderText.h"

#include "Inputs.h"
#include "TokenIds.h"

#include <algorithm>
#include <numeric>

using namespace mpc;
using namespace mpc::tool;

Result<DecoderText> DecoderText::read(const std::string &file, int64_t window,
                                      const ModelSource &model) {
  Result<std::vector<int64_t>> tokens = readTokens(file);
  if (!tokens.ok())
    return tokens.status();
  auto count = int64_t(tokens->size());
  if (count < window)
    return Status(StatusCode::InvalidArgument, file,
                  "has " + std::to_string(count) +
                      (count == 1 ? " token" : " tokens") +
                      ", fewer than a window of " + std::to_string(window) +
                      "; give a longer text, or a smaller --window");
  Result<std::vector<ModelInput>> inputs = readInputs(model);
  if (!inputs.ok())
    return inputs.status();
  Result<DecoderSignature> signature =
      DecoderSignature::find(*inputs, model.name());
  if (!signature.ok())
    return signature.status();
  DecoderText text;
  text.file = file;
  text.signature = std::move(*signature);
  for (int64_t at = 0; at + window <= count; at += window)
    text.parts.emplace_back(tokens->begin() + at,
                            tokens->begin() + at + window);
  return text;
}

/// Returns a buffer of an input of integers, or of a mask of another type.
static Result<Buffer> bufferOf(const ModelInput &input,
                               const std::vector<int64_t> &values) {
  mpc::TensorType type{*input.element, {1, int64_t(values.size())}};
  Result<Buffer> buffer = Buffer::allocate(type);
  if (!buffer.ok())
    return buffer;
  auto fill = [&](auto elements) {
    std::ranges::copy(values, elements.begin());
  };
  if (type.element == ElementType::I64)
    fill(buffer->as<int64_t>());
  else if (type.element == ElementType::I32)
    fill(buffer->as<int32_t>());
  else if (type.element == ElementType::F32)
    fill(buffer->as<float>());
  else
    fill(buffer->as<uint8_t>());
  return buffer;
}

Result<std::vector<NamedArray>>
DecoderText::inputsOf(const std::vector<int64_t> &window) const {
  std::vector<int64_t> positions(window.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<std::pair<const ModelInput *, std::vector<int64_t>>> rows = {
      {&signature.tokens, window},
      {&signature.mask, std::vector<int64_t>(window.size(), 1)}};
  if (signature.positions)
    rows.emplace_back(&*signature.positions, std::move(positions));
  std::vector<NamedArray> arrays;
  for (const auto &[input, values] : rows) {
    Result<Buffer> buffer = bufferOf(*input, values);
    if (!buffer.ok())
      return buffer.status();
    arrays.push_back({input->name, std::move(*buffer), file});
  }
  std::map<std::string, std::vector<int64_t>> shapes =
      signature.shapes(/*batch=*/1, int64_t(window.size()), /*past=*/0);
  for (const DecoderSignature::Cache &cache : signature.caches) {
    Result<Buffer> empty =
        Buffer::allocate({*cache.input.element, shapes.at(cache.input.name)});
    if (!empty.ok())
      return empty.status();
    arrays.push_back({cache.input.name, std::move(*empty), file});
  }
  return arrays;
}

Status DecoderText::checkVocabulary(const SampledModel &model,
                                    const std::string &name) const {
  ProgramValue logits = resultsOf(model.entry())[result];
  const std::vector<int64_t> &shape = logits.type.shape;
  if (!isFloat(logits.type.element) || shape.size() != 3 ||
      shape[1] != int64_t(parts.front().size()) || shape[2] < 2)
    return Status(StatusCode::InvalidArgument, name,
                  "output '" + logits.name + "' is " + logits.type.toString() +
                      ", but logits must be f32 [1, tokens, vocabulary]");
  for (size_t part = 0; part < parts.size(); ++part)
    for (size_t at = 0; at < parts[part].size(); ++at)
      if (int64_t token = parts[part][at]; token < 0 || token >= shape[2])
        return Status(StatusCode::InvalidArgument, file,
                      "token " + std::to_string(token) + " at index " +
                          std::to_string(part * parts.front().size() + at) +
                          " is outside the vocabulary of " +
                          std::to_string(shape[2]));
  return {};
}

std::vector<Status> DecoderText::load(SampledModel &model,
                                      const CommonOptions &common,
                                      const CompileOptions &options) {
  std::vector<SampleArrays> samples;
  for (const std::vector<int64_t> &part : parts) {
    Result<std::vector<NamedArray>> arrays = inputsOf(part);
    if (!arrays.ok())
      return {arrays.status()};
    samples.push_back(
        {"window " + std::to_string(samples.size() + 1) + " of " + file,
         std::move(*arrays)});
  }
  if (std::vector<Status> problems = model.load(common, samples, options);
      !problems.empty())
    return problems;
  std::vector<ProgramValue> results = resultsOf(model.entry());
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].name == "logits")
      result = i;
  if (Status status = checkVocabulary(model, common.model); !status.ok())
    return {status};
  return {};
}

CompileOptions DecoderText::stepOptions(const CompileOptions &options) const {
  CompileOptions step = options;
  step.inputShapes =
      signature.shapes(/*batch=*/1, /*count=*/1, int64_t(parts.front().size()));
  step.caches = signature.growing(/*batch=*/1);
  return step;
}
