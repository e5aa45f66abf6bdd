//===- Functions.h - the names of the functions here ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A function joins this list and one of the other headers; from it the
// compiler's kernels, CUDA's scalars and vectors and the tests have it.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_MATH_FUNCTIONS_H
#define MPC_LIB_TARGET_MATH_FUNCTIONS_H

/// The functions of one number, and of two.
#define MPC_MATH_1(apply)                                                      \
  apply(acos) apply(acosh) apply(asin) apply(asinh) apply(atan) apply(atanh)   \
      apply(cos) apply(cosh) apply(erf) apply(exp) apply(expm1) apply(gelu)    \
          apply(geluTanh) apply(log) apply(log1p) apply(sigmoid) apply(sin)    \
              apply(sinh) apply(softplus) apply(tan) apply(tanh)
#define MPC_MATH_2(apply) apply(atan2) apply(pow)

#endif // MPC_LIB_TARGET_MATH_FUNCTIONS_H
