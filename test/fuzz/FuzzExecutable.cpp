//===- FuzzExecutable.cpp - compiled models -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fixes the size and the digest before the file is opened, because they would
// reject every mutant. None of its code is run.
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Device.h"
#include "mpc/Runtime/ExecutableFile.h"

#include "Runtime/Container/Container.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

using namespace mpc;

/// A rejected file has a diagnostic.
static void expectWords(const Status &status) {
  if (!status.ok() && status.text().empty())
    abort();
}

static void putRight(std::vector<std::byte> &bytes) {
  if (bytes.size() < container::kHeaderBytes)
    return;
  uint64_t size = bytes.size();
  memcpy(&bytes[container::kFileBytesAt], &size, sizeof(size));

  container::Digest digest = container::digestOf(bytes);
  memcpy(&bytes[container::kDigestAt], digest.data(), digest.size());
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::vector<std::byte> bytes(size);
  if (size)
    memcpy(bytes.data(), data, size);
  putRight(bytes);
  Result<ExecutableFile> file = ExecutableFile::fromBytes(bytes, "fuzz.mpcx");
  if (!file.ok()) {
    expectWords(file.status());
    return 0;
  }
  for (const ExecutableFile &one : file->specialisations()) {
    // Runs nothing, so it trusts any file.
    Result<Executable> loaded = one.load(Device::null());
    if (!loaded.ok())
      expectWords(loaded.status());
  }
  return 0;
}
