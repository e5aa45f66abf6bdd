//===- Functions.h - list of math functions ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Single list of the functions in the other headers; from it the compiler's
// kernels, CUDA's scalar and vector versions and the tests are generated.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_MATH_FUNCTIONS_H
#define MPC_LIB_TARGET_MATH_FUNCTIONS_H

/// Functions of one and of two arguments.
#define MPC_MATH_1(apply)                                                      \
  apply(acos) apply(acosh) apply(asin) apply(asinh) apply(atan) apply(atanh)   \
      apply(cos) apply(cosh) apply(erf) apply(exp) apply(expm1) apply(gelu)    \
          apply(geluTanh) apply(log) apply(log1p) apply(sigmoid) apply(sin)    \
              apply(sinh) apply(softplus) apply(tan) apply(tanh)
#define MPC_MATH_2(apply) apply(atan2) apply(pow)

#endif // MPC_LIB_TARGET_MATH_FUNCTIONS_H
