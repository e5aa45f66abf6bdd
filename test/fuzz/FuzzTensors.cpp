//===- FuzzTensors.cpp - safetensors files --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FuzzFile.h"

#include "Training/TensorFile.h"

using namespace mpc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char *>(data), size);
  // Without a digest, which would stop every mutant.
  Result<training::TensorFile> file =
      training::decodeTensorFile(bytes, "fuzz.safetensors", false);
  if (!file.ok()) {
    if (file.status().text().empty())
      abort();
    return 0;
  }
  for (const NamedTensor &tensor : file->tensors)
    fuzz::readAll(tensor.data);
  // Any parsed file can be written, and is read back equal.
  file->metadata.erase("sha256");
  Result<std::string> again = training::encodeTensorFile(*file);
  if (!again.ok())
    abort();
  Result<training::TensorFile> second =
      training::decodeTensorFile(*again, "again.safetensors", true);
  if (!second.ok() || second->tensors.size() != file->tensors.size())
    abort();
  return 0;
}
