//===- FuzzConfig.cpp - configurations of Hugging Face models -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Import/Checkpoint/HuggingFace.h"
#include "Import/Checkpoint/TransformerText.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"

#include <cstdlib>

using namespace mpc;
using namespace mpc::checkpoint;

namespace {

/// A store with every tensor, each of the shape that the last failure to write
/// the graph asked for.
class WillingStore final : public WeightStore {
public:
  const StoredTensor *find(llvm::StringRef name) const override {
    auto found = tensors.find(name);
    return found == tensors.end() ? nullptr : &found->second;
  }
  std::vector<std::string> names() const override { return {}; }
  Result<std::shared_ptr<const std::byte>>
  read(llvm::StringRef) const override {
    return Status(StatusCode::NotFound, "", "has no bytes");
  }
  /// Adds the tensor that a message names: "tensor 'NAME' is missing; the
  /// configuration needs it with the shape [2,3]". Returns false if it names
  /// none.
  bool add(llvm::StringRef text) {
    auto [before, shape] = text.split("' is missing; the configuration needs "
                                      "it with the shape [");
    if (shape.empty() || !before.consume_front("tensor '"))
      return false;
    StoredTensor tensor{{ElementType::BF16, {}}, before.str()};
    llvm::SmallVector<llvm::StringRef> extents;
    shape.drop_back().split(extents, ',');
    for (llvm::StringRef extent : extents)
      tensor.type.shape.push_back(std::atoll(extent.str().c_str()));
    if (!tensor.type.byteCount())
      abort();
    return tensors.try_emplace(before, tensor).second;
  }

private:
  llvm::StringMap<StoredTensor> tensors;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view text(reinterpret_cast<const char *>(data), size);
  WillingStore store;
  Result<ModelConfig> config =
      readHuggingFaceConfig(text, "config.json", store);
  if (!config.ok()) {
    if (config.status().text().empty())
      abort();
    return 0;
  }
  // The graph of each configuration can be written, with all its weights.
  constexpr int kMostTensors = 50;
  for (int i = 0; i < kMostTensors; ++i) {
    Result<std::string> graph =
        writeTransformer(*config, store, {2, 3, 5}, "config.json");
    if (graph.ok())
      return 0;
    if (!store.add(graph.status().text()) &&
        graph.status().text().find("positions") == std::string::npos)
      abort();
  }
  return 0;
}
