//===- DecoderSignature.cpp - inputs of a decoder model -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names follow Hugging Face's Optimum (https://huggingface.co/docs/optimum,
// ONNX configurations with past key values).
//
//===----------------------------------------------------------------------===//

#include "DecoderSignature.h"

using namespace mpc;

static Status malformed(const std::string &where, std::string text) {
  return Status(StatusCode::InvalidArgument, where, std::move(text));
}

/// "present.0.key" for "past_key_values.0.key"; empty if the prefix differs.
static std::string presentOf(const std::string &name) {
  for (const char *prefix : {"past_key_values", "past"})
    if (name.starts_with(prefix))
      return "present" + name.substr(std::string(prefix).size());
  return {};
}

/// Formats a shape: "shape [1,-1]".
static std::string describeShape(const ModelInput &input) {
  return input.shape.empty() ? "no declared shape"
                             : "shape " + shapeToString(input.shape);
}

/// Returns true if the input's type can hold token ids and positions.
static bool isInteger(const ModelInput &input) {
  return input.element == ElementType::I64 || input.element == ElementType::I32;
}

static bool mayBeMask(const ModelInput &input) {
  return isInteger(input) || input.element == ElementType::I1 ||
         input.element == ElementType::F32;
}

/// Returns true if the extent is dynamic or 1.
static bool mayBeOne(int64_t extent) { return extent == -1 || extent == 1; }

/// Returns the only dynamic dimension besides the batch (the first).
static Result<int64_t> rowsOf(const ModelInput &input,
                              const std::string &where) {
  std::optional<int64_t> axis;
  bool isUnique = true;
  for (size_t i = 1; i < input.shape.size(); ++i)
    if (input.shape[i] == -1) {
      isUnique &= !axis;
      axis = i;
    }
  if (!axis || !isUnique || !mayBeOne(input.shape.front()))
    return malformed(where, "input '" + input.name + "' of " +
                                describeShape(input) +
                                " is not a KV cache: exactly one extent after "
                                "the batch of 1 must be dynamic");
  if (!input.element || !isFloat(*input.element))
    return malformed(where, "input '" + input.name +
                                "' is not a KV cache: its " +
                                "elements must be floats");
  return *axis;
}

Result<DecoderSignature>
DecoderSignature::find(std::span<const ModelInput> inputs,
                       const std::string &where, bool countsPositions) {
  DecoderSignature found;
  found.countsPositions = countsPositions;
  for (const ModelInput &input : inputs) {
    if (std::string result = presentOf(input.name); !result.empty()) {
      Result<int64_t> axis = rowsOf(input, where);
      if (!axis.ok())
        return axis.status();
      found.caches.push_back({input, std::move(result), *axis});
      continue;
    }
    bool isMask = input.name == "attention_mask";
    if (!isMask && input.name != "input_ids" && input.name != kPositions)
      return malformed(
          where, "input '" + input.name +
                     "' is not an input of a decoder; the inputs must be "
                     "input_ids, attention_mask, position_ids and past...");
    if (input.shape.size() != 2 || !mayBeOne(input.shape[0]) ||
        input.shape[1] != -1 || !(isMask ? mayBeMask(input) : isInteger(input)))
      return malformed(
          where, "input '" + input.name + "' of " +
                     std::string(input.element ? elementTypeName(*input.element)
                                               : "another type") +
                     " and " + describeShape(input) + " must be i64 or i32" +
                     (isMask ? ", i1 or f32" : "") +
                     " [1, N] with a dynamic N");
    if (input.name == "input_ids")
      found.tokens = input;
    else if (isMask)
      found.mask = input;
    else
      found.positions = input;
  }
  if (found.tokens.name.empty())
    return malformed(where, "has no input 'input_ids' for the tokens");
  if (found.caches.empty())
    return malformed(where, "has no input whose name starts with 'past': "
                            "without a KV cache, a decoder recomputes all "
                            "tokens for each new one; export it with a cache");
  if (found.mask.name.empty())
    return malformed(
        where,
        "has no input 'attention_mask' to mask unfilled rows of the KV cache");
  return found;
}

Status DecoderSignature::checkBatch(const std::string &where) const {
  std::vector<const ModelInput *> inputs = {&tokens, &mask};
  if (positions)
    inputs.push_back(&*positions);
  for (const Cache &cache : caches)
    inputs.push_back(&cache.input);
  for (const ModelInput *input : inputs)
    if (input->shape[0] != -1)
      return malformed(
          where, "input '" + input->name + "' of " + describeShape(*input) +
                     " has a batch of 1, but several slots need a batch of "
                     "sequences; export the model with a dynamic batch");
  return {};
}

std::map<std::string, std::vector<int64_t>>
DecoderSignature::shapes(int64_t batch, int64_t count, int64_t past) const {
  std::map<std::string, std::vector<int64_t>> result = {
      {tokens.name, {batch, count}}, {mask.name, {batch, past + count}}};
  if (positions)
    result[positions->name] = {batch, count};
  for (const Cache &cache : caches) {
    std::vector<int64_t> &shape = result[cache.input.name] = cache.input.shape;
    shape[0] = batch;
    shape[cache.axis] = past;
  }
  return result;
}

PaddedDecoder DecoderSignature::padded(int64_t batch, int64_t count,
                                       int64_t past, bool endless) const {
  PaddedDecoder result{mask.name, kPositions, positions.has_value(), batch,
                       count,     past,       countsPositions,       {}};
  auto add = [&](int64_t length, int64_t tokens) {
    result.lengths.try_emplace(length, shapes(batch, tokens, length));
  };
  // The shortest and the longest sequence that leave a row unfilled.
  add(std::min<int64_t>(2, past - 1), count);
  add(past - 1, count);
  // Chunks with one padding token, and with two tokens of which the second is
  // also the first one of the longest sequence.
  if (count > 1)
    add(past, count - 1);
  if (count > 3)
    add(past - 2, /*tokens=*/2);
  if (endless)
    add(2 * past, count);
  return result;
}

std::vector<GrowingCache> DecoderSignature::growing(int64_t batch) const {
  std::vector<GrowingCache> result;
  result.reserve(caches.size());
  for (const Cache &cache : caches)
    result.push_back({cache.input.name, cache.result, cache.axis,
                      /*element=*/std::nullopt, /*apart=*/batch > 1});
  return result;
}
