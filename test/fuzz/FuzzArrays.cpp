//===- FuzzArrays.cpp - .npy and .npz files -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FuzzFile.h"

#include "mpc/Support/Npy.h"

using namespace mpc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::File file(data, size);
  if (Result<Buffer> array = readNpy(file.path()); array.ok())
    fuzz::readAll(*array);
  else if (array.status().text().empty())
    abort();
  if (Result<std::vector<NamedArray>> arrays = readNpz(file.path());
      arrays.ok()) {
    for (const NamedArray &array : *arrays)
      fuzz::readAll(array.data);
  } else if (arrays.status().text().empty()) {
    abort();
  }
  return 0;
}
