//===- CudaTarget.cpp - what kernels need to know of a GPU ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Target/CUDA/CudaTarget.h"

using namespace mpc;

std::optional<CudaTarget> CudaTarget::parse(llvm::StringRef text) {
  text.consume_front("cuda:");
  CudaTarget target;
  if (!text.consume_front("sm_"))
    return std::nullopt;
  target.archSpecific = text.consume_back("a");
  if (text.getAsInteger(10, target.computeCapability) ||
      target.computeCapability < 75 || target.computeCapability > 999)
    return std::nullopt;
  return target;
}

std::string CudaTarget::name() const {
  return "sm_" + std::to_string(computeCapability) + (archSpecific ? "a" : "");
}

int64_t CudaTarget::sharedBytesPerBlock() const {
  switch (computeCapability) {
  case 75:
    return 64 * 1024;
  case 80:
  case 87:
    return 163 * 1024;
  case 90:
  case 100:
  case 103:
  case 110:
    return 227 * 1024;
  default:
    return 99 * 1024;
  }
}

int64_t CudaTarget::multiprocessors() const {
  switch (computeCapability) {
  case 75:
    return 72;
  case 80:
    return 108;
  case 90:
    return 132;
  case 100:
  case 103:
    return 148;
  default:
    return 84;
  }
}
