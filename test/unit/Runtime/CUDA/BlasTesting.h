//===- BlasTesting.h - GEMMs of the fake library ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_RUNTIME_CUDA_BLASTESTING_H
#define MPC_TEST_UNIT_RUNTIME_CUDA_BLASTESTING_H

#include "FakeBlas.h"

#include "mpc/Runtime/Gemm.h"

namespace mpc::testing {

/// Computes the problem by the fake library and by the reference of the device
/// cuda-host, each on separate buffers with equal contents, and compares all
/// results. Returns the descriptor that the library received; differences are
/// test failures.
FakeDesc expectEqual(const GemmProblem &problem);

} // namespace mpc::testing

#endif // MPC_TEST_UNIT_RUNTIME_CUDA_BLASTESTING_H
