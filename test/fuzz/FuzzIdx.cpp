//===- FuzzIdx.cpp - array files of MNIST ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FuzzFile.h"

#include "Training/IdxFile.h"

using namespace mpc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::File file(data, size);
  Result<Buffer> array = training::readIdx(file.path());
  if (array.ok())
    fuzz::readAll(*array);
  else if (array.status().text().empty())
    abort();
  return 0;
}
