//===- NativeMath.h - host build of CUDA's math functions -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_UNITTESTS_TARGET_CPU_NATIVEMATH_H
#define MPC_UNITTESTS_TARGET_CPU_NATIVEMATH_H

#include <vector>

namespace mpc {

/// A unary or binary function, built by the host compiler from the text of the
/// CUDA kernel prelude.
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
