//===- RecordedCode.h - which kernels machine code holds --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_RUNTIME_CUDA_RECORDEDCODE_H
#define MPC_TEST_UNIT_RUNTIME_CUDA_RECORDEDCODE_H

#include <map>
#include <string>

namespace mpc::recording {

/// The kernels in an image, with the number of their parameters, which are all
/// addresses: of a cubin from NVRTC, or of machineCode(). None for any other
/// image.
std::map<std::string, int> kernelsOf(const void *image);

} // namespace mpc::recording

#endif // MPC_TEST_UNIT_RUNTIME_CUDA_RECORDEDCODE_H
