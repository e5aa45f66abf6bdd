//===- FuzzGguf.cpp - GGUF files ------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FuzzFile.h"

#include "Import/Checkpoint/GgufConfig.h"
#include "Import/Checkpoint/GgufWeights.h"
#include "Import/Checkpoint/TransformerText.h"

#include <cstdlib>
#include <vector>

using namespace mpc;
using namespace mpc::checkpoint;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Result<GgufFile> file = GgufFile::parse({data, size}, "fuzz.gguf");
  if (!file.ok()) {
    if (file.status().text().empty())
      abort();
    return 0;
  }
  Result<ModelConfig> config = readGgufConfig(*file, "fuzz.gguf");
  if (!config.ok() && config.status().text().empty())
    abort();
  if (config.ok()) {
    Result<std::unique_ptr<GgufWeights>> weights =
        GgufWeights::open(fuzz::File(data, size).path());
    if (!weights.ok())
      abort();
    (void)writeTransformer(*config, **weights, {2, 3, 5}, "fuzz.gguf");
  }
  unsigned sum = 0;
  for (const auto &[key, value] : file->metadata) {
    sum += value.integer().value_or(0) + value.flag().value_or(false);
    sum += value.number().has_value() + value.text().value_or("").size();
    if (std::optional<std::vector<double>> numbers = value.numbers())
      sum += numbers->size();
  }
  for (const auto &[name, tensor] : file->tensors) {
    for (uint8_t byte : tensor.bytes)
      sum += byte;
    if (!tensor.format->isQuantized())
      continue;
    std::vector<float> numbers(tensor.bytes.size() / tensor.format->bytes *
                               tensor.format->elements);
    dequantize(*tensor.format, tensor.bytes, numbers);
  }
  volatile unsigned sink = sum;
  (void)sink;
  return 0;
}
