//===- NativeMath.h - the functions as kernels in CUDA have them *- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_UNITTESTS_TARGET_CPU_NATIVEMATH_H
#define MPC_UNITTESTS_TARGET_CPU_NATIVEMATH_H

#include <vector>

namespace mpc {

/// A function of one number, or of two, compiled by the host's compiler from
/// the text that stands in front of CUDA's kernels.
struct NativeFunction {
  const char *name;
  float (*single)(float);
  double (*wide)(double);
};
struct NativeFunction2 {
  const char *name;
  float (*single)(float, float);
  double (*wide)(double, double);
};
std::vector<NativeFunction> nativeFunctions();
std::vector<NativeFunction2> nativeFunctions2();

} // namespace mpc

#endif // MPC_UNITTESTS_TARGET_CPU_NATIVEMATH_H
