//===- FuzzArrays.cpp - .npy and .npz files -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Support/Npy.h"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

using namespace mpc;

/// All bytes, and as many as the type says.
static void readAll(const Buffer &buffer) {
  const unsigned char *bytes =
      static_cast<const unsigned char *>(buffer.data());
  unsigned sum = 0;
  for (size_t i = 0; i < buffer.size(); ++i)
    sum += bytes[i];
  volatile unsigned sink = sum;
  (void)sink;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // Both readers take paths; memory has one too.
  int file = memfd_create("fuzz", MFD_CLOEXEC);
  if (file < 0 || write(file, data, size) != ssize_t(size))
    abort();
  std::string path = "/proc/self/fd/" + std::to_string(file);
  if (Result<Buffer> array = readNpy(path); array.ok())
    readAll(*array);
  else if (array.status().text().empty())
    abort();
  if (Result<std::vector<NamedArray>> arrays = readNpz(path); arrays.ok()) {
    for (const NamedArray &array : *arrays)
      readAll(array.data);
  } else if (arrays.status().text().empty()) {
    abort();
  }
  close(file);
  return 0;
}
