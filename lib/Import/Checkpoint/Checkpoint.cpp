//===- Checkpoint.cpp - transformers of checkpoint files ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Import/Checkpoint.h"

#include "GgufConfig.h"
#include "GgufWeights.h"
#include "HuggingFace.h"
#include "SafetensorsStore.h"
#include "TransformerText.h"

#include "mpc/Support/EscapedText.h"
#include "mpc/Support/Files.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::checkpoint;

/// Maximum extent of an input; products with sizes of a model fit into 63 bits.
static constexpr int64_t kMostExtent = int64_t(1) << 24;

namespace {

class TransformerCheckpoint final : public Checkpoint {
public:
  TransformerCheckpoint(std::string where, ModelConfig config,
                        std::unique_ptr<WeightStore> weights)
      : where(std::move(where)), config(std::move(config)),
        weights(std::move(weights)) {}

  /// Checks that the weights are those of the configuration.
  Status check();

  const std::vector<Input> &inputs() const override { return declared; }
  Result<std::string> text(
      const std::map<std::string, std::vector<int64_t>> &shapes) const override;
  Result<Bytes> external(const std::string &identity) const override;
  const std::vector<int64_t> &endIds() const override { return config.endIds; }

private:
  std::string where;
  ModelConfig config;
  std::unique_ptr<WeightStore> weights;
  std::vector<Input> declared;
  /// Names of tensors by identity.
  llvm::StringMap<std::string> tensors;
};

} // namespace

/// Returns true if `name` matches a pattern with at most one "*" at each end.
static bool matches(llvm::StringRef name, llvm::StringRef pattern) {
  bool front = pattern.consume_front("*"), back = pattern.consume_back("*");
  if (front && back)
    return name.contains(pattern);
  return front  ? name.ends_with(pattern)
         : back ? name.starts_with(pattern)
                : name == pattern;
}

Status TransformerCheckpoint::check() {
  std::set<std::string> used;
  Result<std::string> text =
      writeTransformer(config, *weights, {1, 1, 0}, where, &used);
  if (!text.ok())
    return text.status();
  for (const std::string &name : weights->names()) {
    if (used.contains(name)) {
      tensors[weights->find(name)->identity] = name;
      continue;
    }
    if (std::none_of(
            config.ignored.begin(), config.ignored.end(),
            [&](const std::string &pattern) { return matches(name, pattern); }))
      return Status(StatusCode::InvalidArgument, where,
                    "tensor '" + printable(name) + "' is not part of a " +
                        config.architecture +
                        " with this configuration, so that the model might "
                        "compute something else");
  }
  // Symbols of the inputs, by two sets of extents that are all different.
  bool isDecoder = config.head == HeadKind::CausalLm;
  Extents marks{2, 3, isDecoder ? 7 : 0};
  for (TransformerInput &input : transformerInputs(config, marks)) {
    Input made{input.name, input.type, {}, /*isOptional=*/false};
    for (int64_t i = 0; i < int64_t(input.type.shape.size()); ++i) {
      int64_t &extent = made.type.shape[i];
      bool isCache = input.type.shape.size() == 4;
      const char *symbol = i == 0                   ? kBatchDim
                           : isCache                ? (i == 2 ? kPastDim : "")
                           : extent == marks.tokens ? kTokensDim
                                                    : kTotalDim;
      made.symbols.push_back(symbol);
      if (*symbol)
        extent = -1;
    }
    made.isOptional = input.type.shape.size() == 4;
    declared.push_back(std::move(made));
  }
  return {};
}

Result<std::string> TransformerCheckpoint::text(
    const std::map<std::string, std::vector<int64_t>> &shapes) const {
  auto shapeOf = [&](const std::string &name) {
    auto found = shapes.find(name);
    return found == shapes.end() ? std::vector<int64_t>() : found->second;
  };
  std::vector<int64_t> ids = shapeOf("input_ids"),
                       mask = shapeOf("attention_mask");
  Extents extents;
  auto fits = [](int64_t extent, int64_t least) {
    return extent >= least && extent <= kMostExtent;
  };
  if (ids.size() != 2 || mask.size() != 2 || !fits(ids[0], 1) ||
      !fits(ids[1], 1) || !fits(mask[1], 1))
    return Status(StatusCode::InvalidArgument, where,
                  "input 'input_ids' has the shape " + shapeToString(ids) +
                      " and 'attention_mask' " + shapeToString(mask) +
                      "; give [batch, tokens] of at least one token");
  extents = {ids[0], ids[1], mask[1] - ids[1]};
  if (extents.past < 0 || (config.head != HeadKind::CausalLm && extents.past))
    return Status(StatusCode::InvalidArgument, where,
                  "input 'attention_mask' has the shape " +
                      shapeToString(mask) + ", but 'input_ids' has " +
                      shapeToString(ids));
  std::vector<TransformerInput> wanted = transformerInputs(config, extents);
  for (const Input &input : declared) {
    std::vector<int64_t> given = shapeOf(input.name);
    auto found =
        std::find_if(wanted.begin(), wanted.end(),
                     [&](const auto &each) { return each.name == input.name; });
    std::vector<int64_t> needed;
    if (found != wanted.end())
      needed = found->type.shape;
    else
      needed = {extents.batch, config.kvHeads, 0, config.headSize};
    if (given != needed)
      return Status(StatusCode::InvalidArgument, where,
                    "input '" + input.name + "' has the shape " +
                        shapeToString(given) +
                        ", but by the shapes of "
                        "'input_ids' and 'attention_mask' it is " +
                        shapeToString(needed));
  }
  return writeTransformer(config, *weights, extents, where);
}

Result<Checkpoint::Bytes>
TransformerCheckpoint::external(const std::string &identity) const {
  auto found = tensors.find(identity);
  if (found == tensors.end())
    return Status(StatusCode::NotFound, where,
                  "has no tensor '" + printable(identity) + "'");
  const std::string &name = found->second;
  auto size = size_t(*weights->find(name)->type.byteCount());
  if (weights->isComputed(name))
    return Bytes{nullptr, size, [this, name](std::span<std::byte> target) {
                   weights->compute(name,
                                    {reinterpret_cast<char *>(target.data()),
                                     target.size()});
                 }};
  Result<std::shared_ptr<const std::byte>> data = weights->read(name);
  if (!data.ok())
    return data.status();
  return Bytes{*data, size};
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

/// Reads a small text file of a model's folder.
static Result<std::string> readText(const std::string &folder,
                                    const std::string &name) {
  constexpr uint64_t kMostText = uint64_t(4) << 20;
  Result<InputFile> file = InputFile::openInside(folder, name);
  if (!file.ok())
    return file.status();
  if (file->size() > kMostText)
    return Status(StatusCode::InvalidArgument, folder + "/" + name,
                  "has " + std::to_string(file->size()) + " bytes; at most " +
                      std::to_string(kMostText) + " are supported");
  std::string text(file->size(), '\0');
  if (Status status = file->read(text.data(), text.size()); !status.ok())
    return status;
  return text;
}

/// Opens a Hugging Face folder.
static Result<std::shared_ptr<const Checkpoint>>
openFolder(const std::string &folder) {
  static constexpr const char *kConfig = "config.json",
                              *kGeneration = "generation_config.json";
  std::string where = folder + "/" + kConfig;
  if (!llvm::sys::fs::exists(where))
    return Status(StatusCode::NotFound, folder,
                  "is a folder without config.json; give a model file or the "
                  "folder of a Hugging Face model");
  Result<std::string> text = readText(folder, kConfig);
  if (!text.ok())
    return text.status();
  Result<std::unique_ptr<WeightStore>> weights = openSafetensors(folder);
  if (!weights.ok())
    return weights.status();
  Result<ModelConfig> config = readHuggingFaceConfig(*text, where, **weights);
  if (!config.ok())
    return config.status();
  if (llvm::sys::fs::exists(folder + "/" + kGeneration)) {
    Result<std::string> generation = readText(folder, kGeneration);
    if (!generation.ok())
      return generation.status();
    Result<std::vector<int64_t>> ends =
        readEndIds(*generation, folder + "/" + kGeneration);
    if (!ends.ok())
      return ends.status();
    if (!ends->empty())
      config->endIds = *ends;
  }
  auto model = std::make_shared<TransformerCheckpoint>(
      folder, std::move(*config), std::move(*weights));
  if (Status status = model->check(); !status.ok())
    return status;
  return std::shared_ptr<const Checkpoint>(std::move(model));
}

/// Opens a GGUF file.
static Result<std::shared_ptr<const Checkpoint>>
openGguf(const std::string &path) {
  Result<std::unique_ptr<GgufWeights>> weights = GgufWeights::open(path);
  if (!weights.ok())
    return weights.status();
  Result<ModelConfig> config = readGgufConfig((*weights)->getFile(), path);
  if (!config.ok())
    return config.status();
  auto model = std::make_shared<TransformerCheckpoint>(path, std::move(*config),
                                                       std::move(*weights));
  if (Status status = model->check(); !status.ok())
    return status;
  return std::shared_ptr<const Checkpoint>(std::move(model));
}

static bool hasGgufName(llvm::StringRef path) {
  return path.ends_with(".gguf");
}

bool Checkpoint::isCheckpoint(const std::string &path) {
  return hasGgufName(path) || llvm::sys::fs::is_directory(path);
}

Result<std::shared_ptr<const Checkpoint>>
Checkpoint::open(const std::string &path) {
  if (hasGgufName(path) && !llvm::sys::fs::is_directory(path))
    return openGguf(path);
  std::string folder = path;
  while (folder.size() > 1 && folder.ends_with('/'))
    folder.pop_back();
  return openFolder(folder);
}
