//===- FuzzPolicy.cpp - policy files --------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Policy/Policy.h"

#include <cstdint>
#include <cstdlib>

using namespace mpc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::Expected<Policy> policy =
      Policy::parse({reinterpret_cast<const char *>(data), size}, "fuzz.json");
  if (!policy) {
    if (llvm::toString(policy.takeError()).empty())
      abort();
    return 0;
  }
  llvm::consumeError(
      policy->policyOfLayer("encoder/layer.0/dense").takeError());
  return 0;
}
