//===- StoredCuda.cpp - GPU kernels in .mpcx files ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Container.h"

using namespace mpc;
using namespace mpc::container;

StoredCuda::StoredCuda(const CudaCode &code)
    : prelude(std::as_bytes(std::span(code.prelude))) {
  for (const CudaCode::Kernel &kernel : code.kernels)
    kernels.push_back({kernel.name, std::as_bytes(std::span(kernel.source))});
  for (const CudaCode::Binary &binary : code.binaries)
    binaries.push_back({binary.architecture, binary.kernels, binary.cubin});
}

std::shared_ptr<const CudaCode> StoredCuda::copy() const {
  auto text = [](std::span<const std::byte> bytes) {
    return std::string(reinterpret_cast<const char *>(bytes.data()),
                       bytes.size());
  };
  auto code = std::make_shared<CudaCode>();
  code->prelude = text(prelude);
  for (const Kernel &kernel : kernels)
    code->kernels.push_back({kernel.name, text(kernel.source)});
  for (const Binary &binary : binaries)
    code->binaries.push_back({binary.architecture,
                              binary.kernels,
                              {binary.cubin.begin(), binary.cubin.end()}});
  return code;
}

int64_t StoredCuda::codeBytes() const {
  int64_t sum = 0;
  for (const Binary &binary : binaries)
    sum += int64_t(binary.cubin.size());
  return sum;
}
