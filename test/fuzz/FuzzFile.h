//===- FuzzFile.h - in-memory files for array readers -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_FUZZ_FUZZFILE_H
#define MPC_TEST_FUZZ_FUZZFILE_H

#include "mpc/Runtime/Buffer.h"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace mpc::fuzz {

/// A file in memory, for readers that take a path.
class File {
public:
  File(const uint8_t *data, size_t size)
      : descriptor(memfd_create("fuzz", MFD_CLOEXEC)) {
    if (descriptor < 0 || write(descriptor, data, size) != ssize_t(size))
      abort();
  }
  File(const File &) = delete;
  File &operator=(const File &) = delete;
  ~File() { close(descriptor); }

  std::string path() const {
    return "/proc/self/fd/" + std::to_string(descriptor);
  }

private:
  int descriptor;
};

/// Reads all bytes of an array, according to its type.
inline void readAll(const Buffer &buffer) {
  const auto *bytes = static_cast<const unsigned char *>(buffer.data());
  unsigned sum = 0;
  for (size_t i = 0; i < buffer.size(); ++i)
    sum += bytes[i];
  volatile unsigned sink = sum;
  (void)sink;
}

} // namespace mpc::fuzz

#endif // MPC_TEST_FUZZ_FUZZFILE_H
